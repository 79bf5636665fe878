"""The house: names that occur once, no cycle, and code that a reader can hold in mind."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests import snapshots
from tests.conftest import ROOT

LINES, LENGTH, PARAMETERS = 700, 80, 8
ENTRIES = 15  # side by side in a folder, where each is not a plug-in
PLUGINS = ("cli/commands", "logs/parsers")
FRAGMENT = 60  # lines
REASONS = {  # why a module below that has one importer of its package
    "cluster.orchestration.bench.bench_methods": "scripts/stubs writes its types",
}
NOUNS = {  # words that end like a gerund and name a thing
    "findings": "what a diagnosis found",
    "scaling": "the name of the command; strong and weak scaling are the field's terms",
    "testing": "as in numpy.testing: what users' tests import",
    "training": "the name of the benchmark; the field has no other noun for it",
    "working": "of a working folder, as in working directory",
}
FOLDERS = ("cluster", "benchmarks", "launchers", "examples", "scripts")
ALL = (*FOLDERS, "tests")  # whoever reads a test is a reader, too


@cache
def trees(folders: tuple[str, ...] = FOLDERS) -> dict[Path, ast.Module]:
    """Read every module, and every script in Python; `cluster/benchmarks` is a link."""
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path: ast.parse(path.read_bytes()) for path in sorted(paths) if _is_python(path)}


def _is_python(path: Path) -> bool:
    if path.is_relative_to(ROOT / "cluster" / "benchmarks"):
        return False
    if path.suffix:
        return path.suffix == ".py"
    return path.read_bytes().startswith(b"#!/usr/bin/env python3")


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in trees(ALL).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_there_is_something_to_look_at() -> None:
    paths = {str(path.relative_to(ROOT)) for path in trees(ALL)}

    assert {"cluster/__init__.py", "benchmarks/p2p/__init__.py", "scripts/fresh"} <= paths
    assert {"tests/test_house.py", "tests/fakes/gcp/cloud.py"} <= paths
    assert len(paths) > 400
    assert sum(1 for _ in functions()) > 4000


def test_a_class_name_occurs_once() -> None:
    """If two areas need a word, each takes its own: `Subnet`, `UsedRegion`, `LogLocation`."""
    names = Counter(
        node.name
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] in {"cluster", "benchmarks"}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )

    assert {name for name, times in names.items() if times > 1} == set()


def report() -> Iterator[str]:
    """Name what a reader may not hold in mind: a design question each, and no failure."""
    for path, tree in trees(ALL).items():
        lines = len(path.read_bytes().splitlines())
        if lines > LINES:
            yield f"{path.relative_to(ROOT)} has {lines} lines (more than {LINES})"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > LENGTH:
                    name = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                    yield f"{name} has {length} lines (more than {LENGTH})"


def test_a_small_module_is_shared_or_has_a_reason() -> None:
    """A fragment that one module of its package imports belongs into that module."""
    modules = {_module(path): tree for path, tree in trees(("cluster", "benchmarks")).items()}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for name, tree in modules.items():
        for imported in set(_modules(tree, modules)) - {name}:
            importers[imported].add(name)
    small = {  # a command is a file
        _module(path)
        for path in trees(("cluster",))
        if path.name != "__init__.py" and len(path.read_bytes().splitlines()) < FRAGMENT
        if path.parent.name != "commands" or path.name.startswith("_")
    }
    alone = {
        name
        for name in small
        if len(importers[name]) == 1 and _area(name) == _area(*importers[name])
    }

    assert alone == set(REASONS)


def _area(name: str) -> str:
    """Return the package of a module: `analysis` of `cluster.analysis.models.fit`."""
    return name.split(".")[1]


def test_a_folder_shows_what_fits_in_a_mind() -> None:
    folders = defaultdict(set)
    for path in trees(("cluster",)):
        place = path.relative_to(ROOT / "cluster")
        for folder in place.parents:
            folders[folder.as_posix()].add(place.relative_to(folder).parts[0])
    counts = {folder: len(names - {"__init__.py"}) for folder, names in folders.items()}

    assert counts["fleet"] > 10
    assert {f for f, count in counts.items() if count > ENTRIES} == set(PLUGINS)


def test_no_function_asks_for_more_than_eight_things() -> None:
    """Those that are given by their names alone are a specification, and not counted."""
    counts = {
        name: count
        for name, node in functions()
        if (count := len(node.args.posonlyargs) + len(node.args.args)) > PARAMETERS
    }

    assert counts == {}


def test_a_module_is_named_by_a_noun() -> None:
    """A test is named after what it tests, such as `test_training.py`."""
    files = {path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")}
    words = {
        word
        for path in (*trees(), *files)
        for name in path.relative_to(ROOT).with_suffix("").parts
        for word in name.split("_")
    }

    assert {word for word in words if word.endswith(("ing", "ings"))} == set(NOUNS)


def test_no_cycle_between_modules() -> None:
    """Also in imports inside functions, and in those that only types need."""
    modules = {_module(path): tree for path, tree in trees(("cluster",)).items()}
    graph = {name: set(_modules(tree, modules)) - {name} for name, tree in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from error

    assert "cluster.cli.overview" in graph["cluster.cli.command_line"]


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _modules(tree: ast.Module, names: Collection[str]) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in names:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inside & {*names} or {node.module}


def test_no_cycle_between_packages() -> None:
    """Also in imports that only types need."""
    packages: defaultdict[str, set[str]] = defaultdict(set)
    for path, tree in trees().items():
        package = _package(path)
        if package:
            packages[package] |= set(_imported(tree)) - {package}
    try:
        TopologicalSorter(packages).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from error

    assert {"core", "agent", "benchmarks", "cli"} <= set(packages)


def _package(path: Path) -> str:
    first, *inside = path.relative_to(ROOT).parts
    if first == "benchmarks":
        return first
    return inside[0] if first == "cluster" and len(inside) > 1 else ""


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the packages of ours that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "cluster":
            yield from (alias.name for alias in node.names)
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            if module.startswith("cluster."):
                yield module.split(".")[1]


def test_no_pattern_repeats_a_group_possessively() -> None:
    """`(ab)++` ends in the wrong place on Python 3.11.2, Debian 12's; `(?>(ab)+)` does not."""
    group = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+")
    texts = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.value[:60]!r}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if group.search(node.value)
    ]

    assert texts == []


if __name__ == "__main__":  # scripts/check shows it
    print(*report(), sep="\n")  # noqa: T201


def test_types_are_decoded_where_several_threads_may_do_it() -> None:
    """`cluster.core.decoders` says why; programs of a host have one thread that decodes."""
    alone = ("cluster/agent", "cluster/measure", "cluster/core/model", "cluster/core/decoders.py")
    direct = re.compile(r"\bmsgspec\.(convert\(|json\.decode\([^\n]*type=)")
    files = (path.relative_to(ROOT) for path in (ROOT / "cluster").rglob("*.py"))

    assert not [
        path
        for path in files
        if not str(path).startswith(alone) and direct.search((ROOT / path).read_text())
    ]


def test_each_answer_that_is_kept_is_one_of_a_test() -> None:
    """What a test held before it had another name is no expectation any more."""
    answers = {
        (path.with_name(file), name)
        for path in (ROOT / "tests").rglob(snapshots.FILE)
        for file, name in (re.split(r"::|\[| ", key)[:2] for key in snapshots.read(path))
    }
    tests = {
        (path, node.name)
        for path, tree in trees(("tests",)).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(argument.arg == "snapshot" for argument in node.args.args)
    }

    assert answers <= tests, answers - tests
