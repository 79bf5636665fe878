"""Launch a cluster and run a benchmark on it.

Example: cluster bench p2p --metrics latency --sizes 8:64MiB --json
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from cluster.cli import flags
from cluster.cli.commands._lottery import draw_lottery
from cluster.cli.flags import param_flags
from cluster.cli.gates import FLAGS as GATES
from cluster.cli.gates import read_gates
from cluster.cli.measurement import measure
from cluster.cli.repeat import BenchOptions
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.bench.bench import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

ALL, HELP_ALL = "help_all", "--help-all"
RUN_FLAGS: flags.Declared = {
    "keep": (flags.Keep, None),
    "detach": (flags.Detach, False),
    "timeout": (flags.Timeout, TIMEOUT),
    "plan": (flags.PlanOnly, False),
    "runs": (flags.Runs, None),
    "replace": (flags.Replace, False),
    "yes": (flags.Yes, False),
    "json": (flags.Json, False),
}
NO_FLAGS = ("gates", "founding", "workdir")  # options that are not flags of a benchmark
FOLDED = {
    *flags.MACHINES,
    *RUN_FLAGS,
    "name",
    "launches",
    "lottery",
    "mca",
    "env",
    "profile",
    "order",
    "starter",
    "describe",
    "expect",
    *GATES,
} - {
    "placement",
    "options",
    "json",
}


class BenchGroup(TyperGroup):
    """The sub-commands of `cluster bench`, read from the folder of benchmarks when needed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's own type
        """List the benchmarks without importing them."""
        return list(plugins.names(Benchmark))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002
        """Make the command of one benchmark."""
        return bench_command(cmd_name)


def bench_command(name: str) -> Any:  # noqa: ANN401 - typer's own type
    """Make the command of one benchmark.

    Raises:
        SpecError: there is no such benchmark.

    """
    if name not in plugins.names(Benchmark):
        _suggest(name)
    benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, help=_help(benchmark), cls=BenchCommand)(_command(benchmark))
    command = get_command(app)
    command.name = name
    return command


def _suggest(metric: str) -> None:
    """Refuse a metric in place of a benchmark, and name the benchmark that measures it."""
    for name in plugins.names(Benchmark):
        benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
        if metric in [definition.metric for definition in benchmark.metrics]:
            fields = benchmark.Params.__struct_fields__
            flag = "--operations" if "operations" in fields else "--metrics"
            raise SpecError(
                f"{metric} is not a benchmark, but a metric of {name}.",
                remedy=f"Type: cluster bench {name} {flag} {metric}",
            )


class BenchCommand(TyperCommand):
    """A benchmark's command, whose --help has its own flags and the usual ones, on one screen."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Describe these flags, and name the others; with --help-all, describe all."""
        flags_ = [param for param in self.get_params(ctx) if param.get_help_record(ctx)]
        folded = [] if ctx.params.get(ALL) else [p for p in flags_ if p.name in FOLDED]
        with formatter.section("Options"):
            formatter.write_dl([p.get_help_record(ctx) for p in flags_ if p not in folded])
        if folded:
            names = " ".join(param.opts[0] for param in folded)
            with formatter.section(f"More (explained by {HELP_ALL})"):
                formatter.write_text(names)


def _show_all(ctx: typer.Context, value: bool) -> None:  # noqa: FBT001 - typer calls it
    if value:
        ctx.params[ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def _help(benchmark: Benchmark[Any]) -> str:
    module = inspect.getdoc(inspect.getmodule(type(benchmark))) or ""
    what = module.partition("\n")[0]
    metrics = ", ".join(definition.metric for definition in benchmark.metrics)
    return f"{what}\n\nMetrics: {metrics}.\n\nExample: cluster bench {benchmark.name} --run-local"


def _command(benchmark: Benchmark[Any]) -> Callable[..., None]:
    """Make a function with the shared flags and a flag per parameter of the benchmark."""

    def command(**values: Any) -> None:  # noqa: ANN401 - each flag has its own type
        del values[ALL]
        params = {key: values.pop(key) for key in benchmark.Params.__struct_fields__}
        gates = read_gates(**{key: values.pop(key) for key in GATES})
        own = [key for key in BenchOptions.__struct_fields__ if key not in NO_FLAGS]
        options = BenchOptions(**{key: values.pop(key) for key in own}, gates=gates)
        given = {key: value for key, value in params.items() if value is not None}
        if values["provider"] is None and not values["run_local"]:
            del values["provider"], values["run_local"]
            values = flags.like_running(values["name"], values)
        else:
            values["provider"] = chosen_provider(values, flags.DEFAULT_PROVIDER)
        begin = measure if options.lottery is None else draw_lottery
        begin(flags.spec(**values), benchmark.name, given, options)

    shared: flags.Declared = {
        "name": (flags.Name, benchmark.name),
        "provider": flags.SPEC["provider"],
        "run_local": (flags.RunLocal, False),
        "hosts": flags.SPEC["hosts"],
        "ranks_per_host": flags.SPEC["ranks_per_host"],
        **flags.MACHINES,
        **RUN_FLAGS,
        "ab": (flags.Ab, None),
        "launches": (flags.Launches, None),
        "lottery": (flags.Lottery, None),
        "mca": (flags.Mca, None),
        "env": (flags.Env, None),
        "profile": (flags.Profile, None),
        "order": (flags.Order, "given"),
        "starter": (flags.Starter, ""),
        "describe": (flags.Describe, ""),
        "expect": (flags.Expect, ""),
        **GATES,
        ALL: (
            Annotated[
                bool,
                typer.Option(
                    HELP_ALL, help="Show every flag and exit.", is_eager=True, callback=_show_all
                ),
            ],
            False,
        ),
    }
    return flags.with_flags(command, [*param_flags(benchmark.Params), *flags.parameters(shared)])


def chosen_provider(values: dict[str, Any], default: str) -> str:
    """Remove the two flags for the provider from the values, and give its name."""
    run_local = values.pop("run_local")
    return flags.choose_provider(values.pop("provider"), run_local=run_local, default=default)


command = typer.Typer(
    cls=BenchGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help=__doc__,
    callback=lambda: None,
)
