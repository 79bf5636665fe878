"""Launch a cluster and run a benchmark on it.

Example: cluster bench p2p --metrics latency --sizes 8:64MiB --json
"""

from __future__ import annotations

import inspect
from typing import Any

import click
import msgspec
from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.commands._lottery import draw_lottery
from cluster.cli.flags import make_command
from cluster.cli.gates import Gates, read_gates
from cluster.cli.measurement import measure
from cluster.cli.repeat import FLAGS, BenchOptions
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.measure.benchmark import Benchmark

ALL, HELP_ALL = "help_all", "--help-all"
SHOWN = ("run_local", "provider", "hosts", "ranks_per_host", "placement", "options", "json", "ab")
"""The flags that the help of every benchmark describes, besides its own."""


class BenchGroup(click.Group):
    """The sub-commands of `cluster bench`, read from the folder of benchmarks when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        """List the benchmarks without importing them."""
        return list(plugins.names(Benchmark))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002
        """Make the command of one benchmark."""
        return bench_command(cmd_name)


def bench_command(name: str) -> click.Command:
    """Make the command of one benchmark: the shared flags, and one per parameter (SpecError)."""
    if name not in plugins.names(Benchmark):
        _suggest(name)
    benchmark: Benchmark[Any] = plugins.load(Benchmark, name)

    def command(
        params: dict[str, Any],
        machines: dict[str, Any],
        options: BenchOptions,
        gates: Gates,
        **_: object,
    ) -> None:
        options = msgspec.structs.replace(options, gates=gates)
        chosen = {key: value for key, value in params.items() if value is not None}
        run_local = machines.pop("run_local")
        if machines["provider"] is None and not run_local:
            machines = flags.like_running(machines["name"], machines)
        else:
            machines["provider"] = flags.choose_provider(machines["provider"], run_local=run_local)
        begin = measure if options.lottery is None else draw_lottery
        begin(flags.spec(**machines), benchmark.name, chosen, options)

    provider, *shared = flags.SPEC.values()
    return make_command(
        name,
        command,
        _help(benchmark),
        {
            "params": flags.Group(flags.param_flags(benchmark.Params)),
            "machines": flags.Group(
                (
                    flags.parameter("name", flags.Name, benchmark.name),
                    provider,
                    flags.parameter("run_local", flags.RunLocal, False),
                    *shared,
                )
            ),
            "options": flags.group(BenchOptions, FLAGS),
            "gates": flags.group(read_gates),
            ALL: click.Option(
                [HELP_ALL],
                is_flag=True,
                is_eager=True,
                callback=_show_all,
                help="Show every flag and exit.",
            ),
        },
        BenchCommand,
    )


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


class BenchCommand(flags.Command):
    """A benchmark's command, whose --help has its own flags and the usual ones, on one screen."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Describe these flags, and name the others; with --help-all, describe all."""
        own = plugins.load(Benchmark, self.name or "").Params.__struct_fields__
        all_ = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        listed = {*own, *SHOWN, ALL}
        folded = (
            []
            if ctx.params.get(ALL)
            else [p for p in all_ if p.expose_value and p.name not in listed]
        )
        with formatter.section("Options"):
            records = [p.get_help_record(ctx) for p in all_ if p not in folded]
            formatter.write_dl([record for record in records if record])
        if folded:
            names = " ".join(param.opts[0] for param in folded)
            with formatter.section(f"More (explained by {HELP_ALL})"):
                formatter.write_text(names)


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        ctx.params[ALL] = True
        click.echo(ctx.get_help())
        raise Exit


def _help(benchmark: Benchmark[Any]) -> str:
    module = inspect.getdoc(inspect.getmodule(type(benchmark))) or ""
    summary = module.partition("\n")[0]
    metrics = ", ".join(definition.metric for definition in benchmark.metrics)
    return (
        f"{summary}\n\nMetrics: {metrics}.\n\nExample: cluster bench {benchmark.name} --run-local"
    )


command = BenchGroup("bench", help=__doc__, no_args_is_help=True)
