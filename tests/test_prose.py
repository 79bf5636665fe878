"""Nothing decides on prose: no field that holds words is searched, cut or taken apart."""

import ast
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from cluster.core import errors
from cluster.core.model.results.records import NoteKind
from cluster.reports.words.notes import WORDS as WORDS_OF_NOTES

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"hint", "limit", "evidence", "note", "notes", "means", "what", "remedy", "assumes", "said"}
WORDS |= {"answer", "confirm", "usual_source", "words", "hints", "remedies", "help"}
WORDS |= {"part", "assumptions", "left_out"}
"""Fields that hold sentences, or held some."""
OURS = {"reason", "message", "text"}
"""Fields that hold words of ours, but in providers and logs those of a cloud, Slurm or a log."""
FOLDERS = ("cluster", "benchmarks", "launchers", "scripts", "examples")
THEIRS = ("cluster/providers", "cluster/logs", "cluster/runs/import_", "scripts")
CUTS = {"startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "find"}
CUTS |= {"partition", "rpartition", "index", "rindex", "rfind", "count"}
CUTS |= {"replace", "__contains__"}
SEVERAL = {"evidence", "left_out", "answer", "notes", "words", "hints", "remedies", "assumptions"}
PARAMETERS = {"hint", "evidence", "note", "means", "remedy", "assumes", "assumption", "noun"}
SHAPES = {"lower", "upper", "casefold", "strip", "lstrip", "rstrip", "replace", "title"}
ERRORS = {name for name in vars(errors) if isinstance(getattr(errors, name), type)} | {
    "in_use_error"
}
CODE = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer", "sub", "split"}
PATTERNS |= {"contains", "fnmatch", "fnmatchcase"}


def cuts(tree: ast.AST, words: AbstractSet[str] = WORDS | OURS) -> list[str]:
    """Find where a module searches, cuts or compares a field that holds words, or a name of it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    constants = {name for node in ast.walk(tree) for name in _sentence_names(node)}
    hits = [
        ast.unparse(node)
        for scope in (tree, *functions)
        for aliases in [constants | (_aliases(scope, words) if scope is not tree else set())]
        for node in ast.walk(scope)
        if _cuts(node, partial(_is_words, fields=words, aliases=aliases))
    ]
    return list(dict.fromkeys(hits))


def _sentence_names(node: ast.AST) -> Sequence[str]:
    """Return the constants that a statement makes of a sentence of four words or more."""
    match node:
        case ast.Assign(value=ast.Constant(value=str(text))):
            names = [ast.unparse(target) for target in node.targets]
        case ast.AnnAssign(value=ast.Constant(value=str(text))):
            names = [ast.unparse(node.target)]
        case _:
            return ()
    is_sentence = _words(text) >= SENTENCE and FULL.fullmatch(text)
    return [name for name in names if name.isupper() and is_sentence]


def _is_words(node: ast.AST, fields: AbstractSet[str], aliases: AbstractSet[str]) -> bool:
    """Tell whether an expression is a field that holds words, such as `v.hint`, or made of one."""
    match node:
        case ast.Name(id=name):
            return name in aliases
        case (
            ast.Attribute(attr=name)
            | ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_])
        ):
            return name in fields
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]) if (
            f"str({name})" in aliases
        ):
            return True
    return any(_is_words(part, fields, aliases) for part in _parts(node))


def _parts(node: ast.AST) -> Sequence[ast.AST]:
    """Return the expressions whose words are in those of another, such as of `v.hint.lower()`."""
    match node:
        case (
            ast.Subscript(value=value)
            | ast.NamedExpr(value=value)
            | ast.FormattedValue(value=value)
            | ast.Starred(value=value)
            | ast.Call(func=ast.Name(id="str"), args=[value])
        ):
            return (value,)
        case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (left, right)
        case ast.Call(func=ast.Attribute(attr="join"), args=parts):
            return parts
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in SHAPES:
            return (value,)
    return ()


def _aliases(scope: ast.AST, fields: AbstractSet[str]) -> frozenset[str]:
    """Return the names that a function gives to such fields, and to each of several texts."""
    pairs: list[tuple[ast.AST, ast.AST | None]] = []
    names: set[str] = set()
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs += zip(targets, values, strict=False)
            case (
                ast.Assign(targets=[target], value=value)
                | ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
            ):
                pairs.append((target, value))
            case ast.arg(arg=name, annotation=ast.Name(id="str")) if name in PARAMETERS:
                names.add(name)
            case ast.ExceptHandler(type=ast.AST() as kind, name=str(name)):
                kinds = {part.id for part in ast.walk(kind) if isinstance(part, ast.Name)}
                names |= {f"str({name})"} if kinds & ERRORS else set()
    while True:
        more = {
            target.id
            for target, value in pairs
            if isinstance(target, ast.Name) and value and _is_words(value, fields, names)
        }
        if more <= names:
            return frozenset(names)
        names |= more


def _cuts(node: ast.AST, is_ours: Callable[[ast.AST], bool]) -> bool:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            pairs = zip(ops, [left, *others][:-1], others, strict=True)
            return any(_compares(op, a, b, is_ours) for op, a, b in pairs)
        case ast.Match(subject=subject, cases=cases):
            texts = [p for case in cases for p in ast.walk(case.pattern)]
            return is_ours(subject) and any(isinstance(p, ast.expr) and _is_prose(p) for p in texts)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            inside = [part for arg in args for part in ast.walk(arg)]
            searches = name in PATTERNS and any(map(is_ours, inside))
            return searches or (name in CUTS and is_ours(value))
        case ast.GeneratorExp(elt=elt, generators=parts) | ast.ListComp(elt=elt, generators=parts):
            targets = {ast.unparse(part.target) for part in parts if _are_texts(part.iter)}
            items = [item for item in ast.walk(elt) if isinstance(item, ast.Compare)]
            return any(
                ast.unparse(item.left) in targets and is_ours(item.comparators[0]) for item in items
            )
        case ast.Call(func=ast.Name(id=name), args=args):
            return name in PATTERNS and any(map(is_ours, args))
    return False


def _compares(
    op: ast.cmpop, left: ast.expr, right: ast.expr, is_ours: Callable[[ast.AST], bool]
) -> bool:
    """Tell whether a text is sought in words, or words are compared with one that is not empty."""
    if isinstance(op, ast.In | ast.NotIn):
        elements = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else ()
        is_name = isinstance(left, ast.Name | ast.Attribute) and _is_one_text(right)
        is_sought = is_name or isinstance(left, ast.Call) or _is_text(left) or is_ours(left)
        return (is_ours(right) and not elements and is_sought) or (
            is_ours(left) and (any(map(_is_prose, elements)) or _is_text(right))
        )
    ends = ((left, right), (right, left))
    return not isinstance(op, ast.Is | ast.IsNot) and any(
        is_ours(a) and _is_prose(b) for a, b in ends
    )


def _is_one_text(node: ast.expr) -> bool:
    """Tell whether a field holds one text, and not several."""
    return isinstance(node, ast.Attribute) and node.attr not in SEVERAL


def _is_prose(node: ast.expr) -> bool:
    """Tell whether a text is no code, such as `too_small`, which may be compared as it is."""
    is_code = isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value))
    return _is_text(node) and not is_code


def _are_texts(node: ast.expr) -> bool:
    return _is_text(node) or (isinstance(node, ast.Tuple) and any(map(_is_text, node.elts)))


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value != ""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Name) and node.id.isupper())


@pytest.mark.parametrize(
    ("line", "decides"),
    [
        ('v.hint.startswith("too small")', True),
        ('v.hint.lower().endswith("small")', True),
        ('v.hint.removeprefix("next: ")', True),
        ('"EFA" in summary.limit', True),
        ('summary.limit in ("EFA", "TCP")', True),
        ("LEFT_OUT in note.text", True),
        ('v.hint == "too small"', True),
        ("TOO_SMALL != v.hint", True),
        ('re.search("x", error.what)', True),
        ("SMALL.match(v.hint)", True),
        ('SMALL.search(" ".join((v.title, *v.notes)))', True),
        ('one.part.partition(":")', True),
        ('v.notes[0].split(": ")', True),
        ('match v.hint:\n    case "too small":\n        pass', True),
        ('def f(v):\n    hint = v.hint\n    return hint.startswith("too small")', True),
        ('def f(v):\n    if (hint := v.hint) == "too small":\n        pass', True),
        ('def f(v):\n    return any("cut off" in note for note in v.notes)', True),
        (
            'def f(v):\n    for note in v.notes:\n        if note == "cut off":\n            pass',
            True,
        ),
        ('"too small" == v.hint.strip(".")', True),
        ("TOO_SMALL <= v.hint", True),
        ("str(folder) in error.remedy", True),
        ('"EFA" in f"{v.hint}: {v.note}"', True),
        ('"EFA" in " ".join(v.notes)', True),
        ('any(word in v.hint for word in ("EFA", "TCP"))', True),
        ('getattr(v, "hint").startswith("too")', True),
        ('v.hint.replace("too ", "")', True),
        ('fnmatch(v.hint, "*small")', True),
        ('operator.contains(v.hint, "small")', True),
        ('def f(hint: str):\n    return hint.startswith("too small")', True),
        ('def f(v):\n    a, b = v.hint, v.rate\n    return "EFA" in a', True),
        ('def f(v):\n    a = v.hint\n    b = a.lower()\n    return "EFA" in b', True),
        (
            'def f():\n    try: ...\n    except SpecError as e:\n        return "gone" in str(e)',
            True,
        ),
        (
            'def f():\n    try: ...\n    except OSError as e:\n        return "gone" in str(e)',
            False,
        ),
        ("any(word in v.names for word in WORDS)", False),
        ('part.partition(":")', False),
        ("verdict.reason == TooSmall(1)", False),
        ('verdict.reason == "too_small"', False),
        ('v.hint != ""', False),
        ('"EFA" in str(v.notes[-1])', True),
        ("name not in error.what", True),
        ("name in v.notes", False),
        ('word in ("a", "b")', False),
        ("match v.hint:\n    case _ if v.low:\n        pass", False),
        ('"[default: " not in flag.help', True),
        ('A = "Give a file with hosts."\nB = A.replace("a file", "two files")', True),
        ('A: Final = "Give a file with hosts."\nB = A.replace("a file", "two files")', True),
        ('A = B = "Give a file with hosts."\nC = A.partition("file")', True),
        ('A = "Give {} with the hosts."\nB = A.format("a file")', False),
        ('def f(noun: str):\n    return noun.partition(" of ")', True),
    ],
)
def test_the_check_sees_a_decision_on_prose(line: str, decides: bool) -> None:  # noqa: FBT001
    assert bool(cuts(ast.parse(line))) is decides


def test_nothing_decides_on_prose() -> None:
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    hits = {
        name: texts
        for name in sorted(str(path.relative_to(ROOT)) for path in paths)
        if (texts := cuts(ast.parse((ROOT / name).read_text()), _fields(name)))
    }

    assert not hits, "decide on a value, and word it in cluster/reports/words"


def _fields(name: str) -> AbstractSet[str]:
    return WORDS if name.startswith(THEIRS) else WORDS | OURS


FACTS = ("cluster/analysis", "cluster/fleet")
SENTENCE = 4  # words


def sentences(tree: ast.AST) -> list[str]:
    """Find texts of four words or more that are no docstring, pattern or error."""
    roots = [node for node in ast.walk(tree) if _is_apart(node)]
    calls = [c for node in roots for c in ast.walk(node) if isinstance(c, ast.Call)]
    helpers = {ast.unparse(call.func) for call in calls}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    roots += [node for node in nodes if node.name in helpers]
    pieces = [value for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for value in n.values]
    ids = {id(part) for node in roots for part in ast.walk(node)} | set(map(id, pieces))
    texts = [_text(node) for node in ast.walk(tree) if id(node) not in ids]
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


FULL = re.compile(r"[A-Z{].* .*\.", re.DOTALL)
CODES = ("cluster/analysis", "cluster/fleet", "cluster/logs", "cluster/orchestration")
OF_LOGS = {"End of Tests."}  # what a tool prints
OF_ERRORS = {"what", "means", "remedy"}


def full_sentences(tree: ast.AST) -> list[str]:
    """Find texts that begin with a capital and end with a full stop, and are no error's."""
    roots = [node for node in ast.walk(tree) if _is_apart(node) or _is_of_error(node)]
    ids = {id(part) for node in roots for part in ast.walk(node)}
    pieces = [value for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for value in n.values]
    ids |= set(map(id, pieces))
    texts = (_text(node) for node in ast.walk(tree) if id(node) not in ids)
    return [
        text for text in texts if FULL.fullmatch(text) and _words(text) > 1 and text not in OF_LOGS
    ]


def _is_of_error(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=func):
            return ast.unparse(func).rpartition(".")[2] in ERRORS
        case ast.Assign(targets=targets):
            names = (n for target in targets for n in ast.walk(target))
            ids = {getattr(n, "id", getattr(n, "attr", "")) for n in names}
            return not ids.isdisjoint(OF_ERRORS)
    return False


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('reason = "The cluster was taken down."', 1),
        ('f"{ranks} ranks share {cores} core(s)."', 1),
        ('means = "Nothing was sent to this host."', 0),
        ('error.remedy = f"Type: cluster down {name}."', 0),
        ('raise SpecError("The hosts have no network.")', 0),
        ('outcome_words("down")', 0),
    ],
)
def test_the_check_sees_a_full_sentence(line: str, count: int) -> None:
    assert len(full_sentences(ast.parse(line))) == count


def test_no_sentence_of_what_decides_reaches_a_user_but_in_an_error() -> None:
    files = [file for folder in CODES for file in (ROOT / folder).rglob("*.py")]
    by_file = {str(f.relative_to(ROOT)): full_sentences(ast.parse(f.read_text())) for f in files}

    assert {name: texts for name, texts in by_file.items() if texts} == {}


def test_every_kind_of_note_has_its_words() -> None:
    assert set(WORDS_OF_NOTES) == set(get_args(NoteKind))
