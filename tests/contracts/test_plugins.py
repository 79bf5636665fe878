"""What every plug-in promises, in every folder: a new file is checked by being there."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from cluster.core import plugins
from cluster.core.model.hosts import Layout
from cluster.core.model.results.measurements import Definition, Summary
from cluster.core.model.value import Value
from cluster.core.plugins import Plugin
from cluster.core.text.options import convert
from cluster.logs.parsers import Parser
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.providers import Provider
from cluster.remote.shells import Shell
from cluster.reports.formats import Report
from tests.plain_values import plain_summary

KINDS: tuple[type[Plugin], ...] = (Benchmark, Parser, Provider, Report, Shell, Starter)
ALL = [
    pytest.param(kind, name, id=f"{kind.folder.rpartition('.')[2]}.{name}")
    for kind in KINDS
    for name in plugins.names(kind)
]
PROGRAM = ["python3", "-P", "a b.py", '{"x": "$HOME"}']
LAYOUTS = [
    Layout(addresses=("10.0.0.1",)),
    Layout(addresses=("10.0.0.1", "10.0.0.2"), cores=8),
    Layout(addresses=("10.0.0.1", "10.0.0.1", "10.0.0.3"), ranks_per_host=3, cores=2, root=True),
]
SUMMARY = plain_summary(
    1e-6,
    metric="latency",
    params={"size": 8, "rank": 0},
    ci=(0.9e-6, 1.1e-6),
    p5=0.8e-6,
    p95=2e-6,
    p99=3e-6,
    converged=False,
)


def module_of(kind: type[Plugin], name: str) -> ModuleType:
    return importlib.import_module(f"{kind.folder}.{name}")


def list_imports(source: str) -> Iterator[str]:
    """Name everything that a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def documented(kind: type[Value]) -> list[str]:
    """Read the names under `Args:` in the docstrings of a struct and those it inherits from."""
    names: list[str] = []
    for parent in reversed(kind.__mro__):
        _, _, arguments = inspect.cleandoc(parent.__doc__ or "").partition("Args:\n")
        if issubclass(parent, Value):
            names += re.findall(r"^    (\w+): \S", arguments, re.MULTILINE)
    return names


def list_required(kind: type[Value]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


@pytest.mark.parametrize("kind", KINDS)
def test_every_folder_has_a_plugin(kind: type[Plugin]) -> None:
    """Otherwise the tests below would pass by checking nothing."""
    assert plugins.names(kind)


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_the_file_and_its_class_say_what_they_are(kind: type[Plugin], name: str) -> None:
    plugin = plugins.load(kind, name)

    assert module_of(kind, name).__doc__
    assert type(plugin).__doc__
    assert type(plugin).__doc__ != kind.__doc__


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_the_file_holds_exactly_one_plugin(kind: type[Plugin], name: str) -> None:
    module = module_of(kind, name)
    classes = {member for _, member in inspect.getmembers(module, inspect.isclass)}
    members = [c for c in classes if c.__module__ == module.__name__ and issubclass(c, Plugin)]

    assert len(members) == 1
    assert issubclass(members[0], kind)
    assert not inspect.isabstract(members[0])


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_the_plugin_has_the_name_of_its_file_or_folder(kind: type[Plugin], name: str) -> None:
    plugin = plugins.load(kind, name)
    file = Path(str(module_of(kind, name).__file__))

    assert isinstance(plugin, kind)
    assert plugin.name == name == (file.parent.name if file.stem == "__init__" else file.stem)


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_no_file_of_it_imports_a_sibling(kind: type[Plugin], name: str) -> None:
    file = Path(str(module_of(kind, name).__file__))
    files = file.parent.rglob("*.py") if file.stem == "__init__" else [file]
    imports = {word for path in files for word in list_imports(path.read_text())}
    folder = kind.folder.rpartition(".")[2]
    packages = (f"{kind.folder}.", f"{folder}.", ".")
    siblings = {p + other for p in packages for other in plugins.names(kind) if other != name}

    assert not siblings & imports


def test_a_provider_is_four_methods_and_its_options() -> None:
    """What only some can do is a capability beside it, so a new provider is as small as this."""
    names = {name for name in vars(Provider) if not name.startswith("_")}

    assert names == {"folder", "Options", "plan", "create", "find", "destroy"}
    assert Provider.__abstractmethods__ == names - {"folder", "Options"}


@pytest.mark.parametrize("name", plugins.names(Provider))
def test_a_provider_needs_no_options(name: str) -> None:
    options = plugins.load(Provider, name).Options

    assert issubclass(options, Value)
    assert options.__struct_config__.frozen
    assert list_required(options) == []
    assert documented(options) == list(options.__struct_fields__)


@pytest.mark.parametrize("name", plugins.names(Benchmark))
def test_a_benchmark_needs_no_parameters_and_documents_each(name: str) -> None:
    params = plugins.load(Benchmark, name).Params

    assert issubclass(params, Value)
    assert params.__struct_config__.frozen
    assert list_required(params) == []
    assert documented(params) == list(params.__struct_fields__)


@pytest.mark.parametrize("name", plugins.names(Benchmark))
def test_a_benchmark_defines_its_metrics(name: str) -> None:
    metrics = plugins.load(Benchmark, name).metrics

    assert metrics
    assert all(isinstance(metric, Definition) for metric in metrics)
    assert {metric.benchmark for metric in metrics} == {name}
    assert len({metric.metric for metric in metrics}) == len(metrics)
    assert len({metric.id for metric in metrics}) == len(metrics)


@pytest.mark.parametrize("name", plugins.names(Benchmark))
def test_every_word_of_a_definition_is_there(name: str) -> None:
    for metric in plugins.load(Benchmark, name).metrics:
        assert all(msgspec.to_builtins(metric).values())


@pytest.mark.parametrize("name", plugins.names(Benchmark))
def test_a_benchmark_measures_some_of_its_metrics(name: str) -> None:
    benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
    selection = benchmark.selection(benchmark.Params())

    assert selection
    assert set(selection) <= set(benchmark.metrics)


@pytest.mark.parametrize("name", plugins.names(Benchmark))
def test_the_program_of_a_benchmark_carries_its_parameters(name: str) -> None:
    benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
    params = benchmark.Params()
    program = benchmark.program(params)

    assert program
    assert all(type(word) is str for word in program)
    assert convert(msgspec.json.decode(program[-1]), benchmark.Params, "parameter") == params


@pytest.mark.parametrize("name", plugins.names(Benchmark))
def test_a_benchmark_can_be_run_by_its_ranks(name: str) -> None:
    """The file is what every rank runs, so it ends by running itself."""
    benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
    last = ast.parse(benchmark.source.read_text()).body[-1]

    assert (
        ast.unparse(last) == f"if __name__ == '__main__':\n    main({type(benchmark).__name__}())"
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=["one", "two", "crowded"])
@pytest.mark.parametrize("name", plugins.names(Starter))
def test_a_starter_runs_the_program_unchanged_on_every_host(name: str, layout: Layout) -> None:
    starter = plugins.load(Starter, name)
    argv = starter.argv(PROGRAM, layout)
    before = " ".join(argv[: -len(PROGRAM)])
    per_host = {str(len(layout.addresses)), str(layout.ranks_per_host)}

    assert argv[-len(PROGRAM) :] == PROGRAM
    assert all(type(word) is str for word in argv)
    assert not starter.places_ranks or all(address in before for address in layout.addresses)
    assert str(layout.size) in argv or (not starter.starts_mpi and per_host <= set(argv))


@pytest.mark.parametrize("layout", LAYOUTS, ids=["one", "two", "crowded"])
@pytest.mark.parametrize("name", plugins.names(Starter))
def test_a_starter_is_pure(name: str, layout: Layout) -> None:
    program = list(PROGRAM)
    first, second = (plugins.load(Starter, name).argv(program, layout) for _ in range(2))

    assert first == second
    assert program == PROGRAM
    assert all(isinstance(x, str) for x in sum(plugins.load(Starter, name).env(layout).items(), ()))


@pytest.mark.parametrize("summaries", [(), (SUMMARY,)], ids=["none", "one"])
@pytest.mark.parametrize("name", plugins.names(Report))
def test_a_report_shows_nothing_and_something(name: str, summaries: tuple[Summary, ...]) -> None:
    """It is pure: the same input gives the same output, whatever was shown before."""
    report = plugins.load(Report, name)
    output = report.render(summaries)
    report.render((SUMMARY, SUMMARY), notes=("a note",))

    assert isinstance(output, str | bytes)
    assert output
    assert report.render(summaries) == output
    assert plugins.load(Report, name).render(list(summaries)) == output
    assert isinstance(output, bytes) or output.endswith("\n")
