"""Launch a cluster and run a benchmark on it.

Example: cluster bench p2p --metrics latency --sizes 8:64MiB --json
"""

import inspect
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import click
import msgspec
from click.exceptions import Exit

from cluster.cli import flags, show
from cluster.cli.confirm import confirm_cost
from cluster.cli.console import console
from cluster.cli.flags import make_command
from cluster.cli.gates import Gates, read_gates
from cluster.cli.measurement import FLAGS, BenchOptions, Request, check, launch_once, measure
from cluster.cli.progress import HostProgress, JobProgress
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import DrawCost, DrawnSeries
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.ab_test import PLAIN, Trial
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from cluster.providers import ExistingHosts, Provider, Simulates
from cluster.runs.run import Run
from cluster.runs.store import make_root
from cluster.runs.store import root as runs_root

ALL, HELP_ALL = "help_all", "--help-all"
SHOWN = ("run_local", "provider", "hosts", "ranks_per_host", "placement", "options", "json", "ab")
"""The flags that the help of every benchmark describes, besides its own."""


class BenchGroup(click.Group):
    """The sub-commands of `cluster bench`, read from the folder of benchmarks when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        return list(plugins.names(Benchmark))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:  # noqa: ARG002
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
        if machines["name"] in {definition.metric for definition in benchmark.metrics}:
            _suggest(machines["name"])
        values = {key: value for key, value in params.items() if value is not None}
        run_local = machines.pop("run_local")
        if machines["provider"] is None and not run_local:
            machines = flags.like_running(machines["name"], machines)
        else:
            machines["provider"] = flags.choose_provider(machines["provider"], run_local=run_local)
        begin = measure if options.lottery is None else draw_lottery
        begin(flags.spec(**machines), Request(benchmark.name, values, options))

    summary = (inspect.getdoc(inspect.getmodule(type(benchmark))) or "").partition("\n")[0]
    metrics = ", ".join(definition.metric for definition in benchmark.metrics)
    provider, *spec_flags = flags.SPEC.values()
    return make_command(
        name,
        command,
        f"{summary}\n\nMetrics: {metrics}.\n\nExample: cluster bench {benchmark.name} --run-local",
        {
            "params": flags.ParameterGroup(flags.param_flags(benchmark.Params)),
            "machines": flags.ParameterGroup(
                (
                    flags.parameter("name", flags.ClusterName, benchmark.name),
                    provider,
                    flags.parameter("run_local", flags.RunLocal, False),
                    *spec_flags,
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
    """Refuse a metric in place of a benchmark or a name, and say which benchmark has it."""
    for name in plugins.names(Benchmark):
        benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
        if metric in [definition.metric for definition in benchmark.metrics]:
            fields = benchmark.Params.__struct_fields__
            flag = "--operations" if "operations" in fields else "--metrics"
            raise SpecError(
                f"{metric} is not a benchmark or a cluster, but a metric of {name}.",
                remedy=f"Type: cluster bench {name} {flag} {metric}",
            )


class BenchCommand(flags.Command):
    """A benchmark's command, whose --help has its own flags and the usual ones, on one screen."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        fields = plugins.load(Benchmark, self.name or "").Params.__struct_fields__
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        basics = {*fields, *SHOWN, ALL}
        extras = (
            []
            if ctx.params.get(ALL)
            else [p for p in options if p.expose_value and p.name not in basics]
        )
        with formatter.section("Options"):
            records = [p.get_help_record(ctx) for p in options if p not in extras]
            formatter.write_dl([record for record in records if record])
        if extras:
            names = " ".join(param.opts[0] for param in extras)
            with formatter.section(f"More (explained by {HELP_ALL})"):
                formatter.write_text(names)


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        ctx.params[ALL] = True
        click.echo(ctx.get_help())
        raise Exit


command = BenchGroup("bench", help=__doc__, no_args_is_help=True)


JOBS = 3  # on the machines of each draw
FEWEST = 2  # draws, and jobs of each


class Draw(Value, frozen=True, kw_only=True):
    """One launch of machines, which are gone again."""

    runs: tuple[str, ...]
    cost: DrawCost


class LotteryAnswer(Value, frozen=True, kw_only=True):
    """What `--lottery K --json` prints."""

    draws: tuple[Draw, ...]  # in their order
    series: tuple[DrawnSeries, ...]  # that every draw has
    answer: str  # in one line


def draw_lottery(spec: ClusterSpec, bench: Request) -> None:
    """Launch machines several times, benchmark and end them; show draws also if one fails."""
    options = bench.options
    draws = options.lottery or 0
    _check(spec, options, draws)
    check_machines = check(spec, bench, (PLAIN,))
    plan = plan_spec(spec)[1]
    check_machines(plan)
    if options.plan:
        show.show_plan(plan, as_json=options.json)
        return
    make_root(runs_root(options.runs))
    screen = console(stderr=options.json)
    print_line = partial(screen.print, soft_wrap=True)
    confirm_cost(spec, plan, print_line, yes=options.yes, launches=draws)
    outcomes: list[tuple[Draw, list[Run]]] = []
    try:
        for number in range(1, draws + 1):
            screen.print(f"Draw {number} of {draws}", soft_wrap=True)
            start, jobs = time.time(), options.launches or JOBS
            trial = Trial(name=f"draw {number}", params={}, variables={})
            with HostProgress(screen) as progress:
                cluster = launch_spec(spec, progress)
            try:
                with JobProgress(stderr=options.json, launches=jobs) as live:
                    launch = partial(launch_once, cluster, bench, trial, live, f"{start:.3f}")
                    runs = [launch() for _ in range(jobs)]
            finally:
                cluster.down()
                for line in show.receipt_lines(cluster):
                    screen.print(line, soft_wrap=True)
            receipt = cluster.receipt()
            cost = DrawCost(
                seconds=receipt.seconds if receipt else time.time() - start,
                dollars=receipt.dollars if receipt else None,
            )
            outcomes.append((Draw(runs=tuple(str(run.folder) for run in runs), cost=cost), runs))
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the ranks are stopped, and the machines are ended.\n")
        raise
    finally:
        if len(outcomes) >= FEWEST:
            _show(outcomes, as_json=options.json)


def _check(spec: ClusterSpec, options: BenchOptions, draws: int) -> None:
    """Refuse what is no lottery, before anything is launched."""
    if min(draws, options.launches or JOBS) < FEWEST:
        raise SpecError(
            "A lottery needs two launches of machines or more, and two jobs on each.",
            means="With fewer, nothing shows how much machines differ, and how much jobs do.",
            remedy=f"Such as: --lottery 5 --launches {JOBS}",
        )
    conflicts = {
        "--keep": options.keep,
        "--detach": options.detach,
        "--ab": options.ab,
        "--order near": options.order != "given",
        "--fail-on, --junit and --github": options.gates.has_any,
    }
    for flag, is_given in conflicts.items():
        if is_given:
            raise SpecError(f"--lottery and {flag} contradict each other.", remedy="Leave one out.")
    provider = plugins.find(Provider, spec.provider)
    if issubclass(provider, Simulates | ExistingHosts):
        raise SpecError(
            f"--lottery has no effect with the provider {spec.provider!r}.",
            means="It gives the same hosts each time, so that there is nothing to draw.",
            remedy="Choose a provider that creates machines, such as --provider aws.",
        )
    if journal.exists(spec.name):
        raise SpecError(
            f"The cluster {spec.name} runs, and a lottery ends its machines after each draw.",
            remedy=f"Choose another --name, or end it first: cluster down {spec.name}",
        )


def _show(outcomes: Sequence[tuple[Draw, list[Run]]], *, as_json: bool) -> None:
    from cluster.analysis.statistics.lottery import drawn_series  # noqa: PLC0415 - slow: numpy
    from cluster.reports.tables import lottery_answer, lottery_table  # noqa: PLC0415

    draws = tuple(draw for draw, _ in outcomes)
    series = drawn_series(
        [[run.summary() for run in runs] for _, runs in outcomes], [draw.cost for draw in draws]
    )
    costs = [draw.cost.dollars for draw in draws if draw.cost.dollars is not None]
    answer = lottery_answer(
        series, [len(draw.runs) for draw in draws], sum(costs) if len(costs) == len(draws) else None
    )
    if as_json:
        show.print_json(LotteryAnswer(draws=draws, series=series, answer=answer))
        return
    show.show_tables([lottery_table(series, len(draws))], "terminal")
    for number, (_, runs) in enumerate(outcomes, 1):
        show.print_lines(f"Draw {number}: {show.relative_path(runs[-1].folder)} is its newest run")
    show.print_lines(answer)
