"""Messages, help and pages are in the words of the field: the glossary's, and no private ones."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_house import ALL, trees

BANNED = {  # a pattern: what to write instead
    r"\bnobody (we know|says?|said|knows?|else knows?|told)\b": "no reference data; is not known",
    r"\b(come|comes|came|coming|are|is) home\b": "is downloaded",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bcells?\b(?!.*\bmatrix)(?! of the test's matrix)": "data point",
    r"does not matter": "within 3%, the practical threshold",
    r"\bstanding (machine|cluster|host)": "running",
    r"\b(that|it) gives up\b": "upper limit; is stopped",
    r"\banew\b": "again",
    r"\btold\b": "given, reported, known",
    r"\b(heard|hears|hear)\b": "received, answered",
    r"\bwhoever\b|\bwhom\b": "the user who ...",
    r"\blets? (us|you|it) in\b": "accepts the login",
    r"\bstands? (for|around|in|at|behind|before|beside)\b": "means, is",
    r"\b[Ss]ay --": "use --",
    r"\bthing\(s\)": "resource(s)",
    r"\b(take|takes|took|taken|taking) (it |them |what \w+ )?(away|anew)\b": "delete, end",
    r"\b(serves?|served) (it|them|nothing)\b": "works with",
    r"\bunlike itself\b|\bput right\b": "differs; fixed",
}
NO_NAMES = frozenset(
    (
        *("told", "said", "asked", "found", "left", "known", "wanted", "shown", "gone", "heard"),
        *("given", "taken", "held", "got", "meant", "made", "kept", "one", "ones", "others"),
        *("seen", "tried", "of", "on", "me", "us", "mine", "ours", "theirs"),
        *("besides", "beside", "alike", "apart", "same", "who", "whose", "whom", "done"),
        *("at", "where", "each", "both", "either", "behind", "across", "through", "without"),
        *("until", "into", "with", "but", "then", "also", "even", "still", "some", "per"),
        *("has", "have", "had", "was", "does", "did", "using", "beyond", "among", "during"),
    )
)
IRREGULAR = frozenset(
    (
        *("begun", "borne", "bought", "broken", "brought", "built", "caught", "chosen", "dealt"),
        *("driven", "fed", "lent", "lost", "met", "paid", "sent", "sold", "spent", "spoken"),
        *("stolen", "stuck", "swept", "taught", "thought", "thrown", "torn", "won", "written"),
    )
)
NOUNS = {"expected", "hundred", "need", "seed", "speed"}
# events of a `Listener` and of a job, keywords of the public API, rules named by their codes
PUBLIC = {"directed", "ended", "measured", "named", "oversubscribed", "printed", "simulated"}
PUBLIC |= {"started", "unconnected"}
# `cluster.runs(where=...)`, the tests' own `until(...)`, and the left of an expression
EXCEPT = {("runs", "__init__.py"), ("runs", "catalog.py"), ("tests", "conftest.py")}
EXCEPT |= {("tests", "test_prose.py")}
SHIPPED = {"cluster", "benchmarks", "launchers"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
CELLS = re.compile(r"\bcells?\b")  # tables have them, and parsers speak of tables
PATTERNS = {re.compile(pattern): instead for pattern, instead in BANNED.items()}
PAGES = sorted((*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"))


def found_in(text: str) -> list[str]:
    return [f"{match[0]!r}: {to}" for p, to in PATTERNS.items() if (match := p.search(text))]


def shown_strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that a user may see: all but docstrings.

    What defines a metric is left out: its id, which files hold, changes with every word.
    """
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            hidden.add(node.value)
        if (
            isinstance(node, ast.Call)
            and {k.arg for k in node.keywords} & {"clock", "what"}
            and ({"metric", "unit", "better", "warm_up"} & {k.arg for k in node.keywords})
        ):
            hidden |= set(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in hidden and " " in str(node.value):
            yield node.lineno, str(node.value)  # without a space it is a name or a key


def bound_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """List the names that a module gives to functions, parameters, variables, own attributes.

    Fields of values are left out: they are keys of JSON, of a run's files, or the public API.
    """
    fields = {
        node.target
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()) if name.startswith("_"):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) if node not in fields:
                yield node.lineno, name


def is_participle(name: str) -> bool:
    """Tell whether a name is one word, and a participle; classes of events are named so."""
    is_regular = name.endswith("ed") and len(name) > len("need") and name.isalpha()
    return name in IRREGULAR or (is_regular and name.islower() and name not in NOUNS)


def test_messages_and_help_are_in_plain_words() -> None:
    hits = [
        f"{path.relative_to(ROOT)}:{line} {word} in {text[:90]!r}"
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] in SHIPPED
        for line, text in shown_strings(tree)
        for word in found_in(" ".join(text.split()))
    ]

    hits += [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sorted((ROOT / "cluster" / "providers").rglob("*.toml"))
        for word in found_in(path.read_text())
    ]

    assert hits == [], "\n".join(hits)


def test_docstrings_are_in_plain_words() -> None:
    hits = [
        f"{path.relative_to(ROOT)}:{node.lineno if hasattr(node, 'lineno') else 1} {word}"
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] in SHIPPED
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node))
        for word in found_in(CELLS.sub("", " ".join(text.split())))
    ]

    assert hits == [], "\n".join(hits)


def test_docstrings_of_functions_return_and_yield() -> None:
    """*Give* may mean to return, to yield, to assign or to send."""
    hits = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (ast.get_docstring(node) or "").startswith("Give")
    ]

    assert hits == []


def test_no_name_is_a_word_that_says_nothing() -> None:
    """Pronouns, and the participles of a list; keys of files stay what they are."""
    hits = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees(ALL).items()
        for line, name in bound_names(tree)
        if name.strip("_") in NO_NAMES and path.relative_to(ROOT).parts[-2:] not in EXCEPT
    ]

    assert hits == [], "\n".join(hits)


def test_no_name_is_a_participle() -> None:
    """`failures` says what it is, `is_failed` that it is a boolean; `failed` says neither."""
    hits = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] in SHIPPED
        for line, name in bound_names(tree)
        if is_participle(name.strip("_")) and name.strip("_") not in PUBLIC
    ]

    assert hits == [], "\n".join(hits)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_in_plain_words(page: Path) -> None:
    text = page.read_text()
    prose = re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    hits = [word for line in prose.split("\n\n") for word in found_in(" ".join(line.split()))]

    assert hits == []


def test_the_patterns_find_what_they_are_for() -> None:
    """The issue's own examples, and words that only look like them."""
    assert found_in("PLAUSIBLE: nothing is faster; nobody we know says what is usual.")
    assert found_in("inconclusive in all 108 cells")
    assert found_in("what mends what is missing")
    assert found_in("each JSON document comes home to raw/")
    assert not found_in("apt-get --no-install-recommends, at home, excellent, cancelled")
    assert not found_in("one cell of the test's matrix, median of its samples")
