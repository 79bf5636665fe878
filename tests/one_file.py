"""A benchmark that is a folder, as the one file that a user's own benchmark must be."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter

from tests.conftest import ROOT


def one_file(benchmark: str, module: str, old: str, new: str) -> str:
    """Join the modules of a benchmark, after a change in one of them."""
    folder = ROOT / "benchmarks" / benchmark
    texts = {path.stem: path.read_text() for path in folder.glob("*.py")}
    assert texts[module].count(old) == 1
    texts[module] = texts[module].replace(old, new)
    trees = {name: ast.parse(text) for name, text in texts.items()}
    package = f"cluster.benchmarks.{benchmark}"
    order = TopologicalSorter({name: set(_inside(tree, package)) for name, tree in trees.items()})
    parts = [_outside(trees[name], package) for name in order.static_order()]
    return "\n".join(["from __future__ import annotations", *parts])


def _inside(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the modules of the same package that one imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
            yield (node.module or "").removeprefix(package).lstrip(".") or "__init__"


def _outside(tree: ast.Module, package: str) -> str:
    """Return the text of a module without its imports from the same package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.If):
            node.body = [line for line in node.body if not _is_inside(line, package)] or [
                ast.Pass()
            ]
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_inside(line: ast.stmt, package: str) -> bool:
    module = (line.module or "") if isinstance(line, ast.ImportFrom) else ""
    return module.startswith(package) or module == "__future__"
