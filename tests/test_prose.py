"""Nothing decides on prose: no field that holds words is searched, cut or taken apart."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"hint", "limit", "evidence", "note", "notes", "means", "what", "remedy", "assumes", "said"}
WORDS |= {"answer", "confirm", "usual_source", "words", "hints", "remedies"}
"""Fields that hold sentences, or held some."""
CUTS = {"startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "find"}
CUTS |= {"partition", "rpartition", "index", "splitlines"}
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "sub", "split"}
TODAY = Counter({"cluster/analysis/verdict/evidence.py": 1, "cluster/reports/words/fleet.py": 1})
"""How often a file does so today; a number may only become smaller, and a file is never added."""


def is_words(node: ast.expr) -> bool:
    """Tell whether an expression is a field that holds words: `v.hint`, not `hint`."""
    return isinstance(node, ast.Attribute) and node.attr in WORDS


def cuts(tree: ast.AST) -> int:
    """Count where a module searches or cuts a field that holds words."""
    return sum(_cuts(node) for node in ast.walk(tree))


def _cuts(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, [node.left, *node.comparators][:-1], node.comparators, strict=True)
        return any(
            isinstance(op, ast.In | ast.NotIn)
            and is_words(right)
            and (isinstance(left, ast.Constant | ast.JoinedStr) or is_words(left))
            for op, left, right in pairs
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of = node.func.value
    if isinstance(of, ast.Name) and of.id == "re" and node.func.attr in PATTERNS:
        return any(map(is_words, node.args))
    return node.func.attr in CUTS and is_words(of)


@pytest.mark.parametrize(
    ("line", "decides"),
    [
        ('v.hint.startswith("too small")', True),
        ('"EFA" in summary.limit', True),
        ('re.search("x", error.what)', True),
        ('part.partition(":")', False),
        ("verdict.reason == TooSmall(1)", False),
        ('word in ("a", "b")', False),
    ],
)
def test_the_check_sees_a_decision_on_prose(line: str, decides: bool) -> None:  # noqa: FBT001
    assert bool(cuts(ast.parse(line))) is decides


def test_nothing_decides_on_prose() -> None:
    found = Counter(
        {
            str(path.relative_to(ROOT)): count
            for folder in ("cluster", "benchmarks", "launchers")
            for path in sorted((ROOT / folder).rglob("*.py"))
            if not path.is_relative_to(ROOT / "cluster" / "benchmarks")
            if (count := cuts(ast.parse(path.read_text())))
        }
    )

    assert found - TODAY == Counter(), "decide on a value, and word it in cluster/reports/words"
    assert TODAY - found == Counter(), "it became less: shorten the list"
