"""Nothing decides on prose: no field that holds words is searched, cut or taken apart."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"hint", "limit", "evidence", "note", "notes", "means", "what", "remedy", "assumes", "said"}
WORDS |= {"answer", "confirm", "usual_source", "words", "hints", "remedies"}
WORDS |= {"part", "assumptions", "left_out"}
"""Fields that hold sentences, or held some."""
OURS = {"reason", "message", "text"}
"""Fields that hold words of ours, but in providers and logs those of a cloud, Slurm or a log."""
FOLDERS = ("cluster", "benchmarks", "launchers")
THEIRS = ("cluster/providers", "cluster/logs")
CUTS = {"startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "find"}
CUTS |= {"partition", "rpartition", "index"}
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "sub", "split"}


def is_words(node: ast.expr, words: AbstractSet[str] = WORDS | OURS) -> bool:
    """Tell whether an expression is a field that holds words: `v.hint`, not `hint`."""
    return isinstance(node, ast.Attribute) and node.attr in words


def cuts(tree: ast.AST, words: AbstractSet[str] = WORDS | OURS) -> list[str]:
    """Find where a module searches or cuts a field that holds words."""
    return [ast.unparse(node) for node in ast.walk(tree) if _cuts(node, words)]


def _cuts(node: ast.AST, fields: AbstractSet[str]) -> bool:
    is_ours = partial(is_words, words=fields)
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, [node.left, *node.comparators][:-1], node.comparators, strict=True)
        return any(
            isinstance(op, ast.In | ast.NotIn)
            and is_ours(right)
            and (isinstance(left, ast.Constant | ast.JoinedStr) or is_ours(left) or _named(left))
            for op, left, right in pairs
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of = node.func.value
    if isinstance(of, ast.Name) and of.id == "re" and node.func.attr in PATTERNS:
        return any(map(is_ours, node.args))
    return node.func.attr in CUTS and is_ours(of)


def _named(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id.isupper()


@pytest.mark.parametrize(
    ("line", "decides"),
    [
        ('v.hint.startswith("too small")', True),
        ('"EFA" in summary.limit', True),
        ('re.search("x", error.what)', True),
        ('one.part.partition(":")', True),
        ("LEFT_OUT in note.text", True),
        ('part.partition(":")', False),
        ("verdict.reason == TooSmall(1)", False),
        ('word in ("a", "b")', False),
    ],
)
def test_the_check_sees_a_decision_on_prose(line: str, decides: bool) -> None:  # noqa: FBT001
    assert bool(cuts(ast.parse(line))) is decides


def test_nothing_decides_on_prose() -> None:
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    found = {
        name: here
        for name in sorted(str(path.relative_to(ROOT)) for path in paths)
        if (here := cuts(ast.parse((ROOT / name).read_text()), _fields(name)))
    }

    assert not found, "decide on a value, and word it in cluster/reports/words"


def _fields(name: str) -> AbstractSet[str]:
    return WORDS if name.startswith(THEIRS) else WORDS | OURS


FACTS = ("cluster/analysis", "cluster/fleet")
SENTENCE = 4  # words


def sentences(tree: ast.AST) -> list[str]:
    """Find texts of four words or more that are no docstring, pattern or error."""
    apart = [node for node in ast.walk(tree) if _is_apart(node)]
    calls = [c for node in apart for c in ast.walk(node) if isinstance(c, ast.Call)]
    helpers = {ast.unparse(call.func) for call in calls}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    apart += [node for node in nodes if node.name in helpers]
    inside = [value for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for value in n.values]
    skipped = {id(part) for node in apart for part in ast.walk(node)} | set(map(id, inside))
    texts = [_text(node) for node in ast.walk(tree) if id(node) not in skipped]
    return [text for text in texts if _words(text) >= SENTENCE]


def _is_apart(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "re.compile"
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _text(node: ast.AST) -> str:
    """Return a string, without the values in it; empty if the node is none."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "{}" for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _words(text: str) -> int:
    return sum(any(map(str.isalpha, word)) for word in text.split())


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("yield f'rank {rank} waits for the others'", 1),
        ("def f():\n    'The time of all ranks.'", 0),
        ("raise ParseError('the log has no rows')", 0),
        ("P = re.compile('bandwidth of all the ranks')", 0),
        ("kind = 'no_payload'", 0),
    ],
)
def test_the_check_sees_a_sentence(line: str, count: int) -> None:
    assert len(sentences(ast.parse(line))) == count


def test_what_is_found_is_a_value_and_words_are_in_reports() -> None:
    files = [file for folder in FACTS for file in (ROOT / folder).rglob("*.py")]
    wordy = {str(f.relative_to(ROOT)) for f in files if sentences(ast.parse(f.read_text()))}

    assert wordy == set()
