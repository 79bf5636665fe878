"""`cluster bench`: launch, measure, show, and take down what costs money.

There is one sub-command per file in `benchmarks/`, with a flag per field of its parameters.
"""

from __future__ import annotations

import inspect
import re
import sys
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import msgspec
import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from cluster.analysis.compare import ENOUGH_LAUNCHES, Comparison
from cluster.cli import flags
from cluster.cli.compare import show_tables
from cluster.cli.host_progress import HostProgress
from cluster.cli.job_progress import JobProgress
from cluster.cli.show import (
    print_json,
    receipt_lines,
    relative_path,
    show_newest_run,
    show_plan,
    show_run,
)
from cluster.core import plugins
from cluster.core.errors import JobError, SpecError
from cluster.core.model.billing import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.units import Sizes, format_size, parse_expected
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.ab_test import (
    PLAIN,
    Trial,
    check_launches,
    compare_conditions,
    run_alternating,
    trials,
    variable,
)
from cluster.orchestration.cluster import TIMEOUT, Cluster
from cluster.orchestration.launch import launch_spec, plan_spec
from cluster.orchestration.prepare import check_bench, check_plan
from cluster.reports.tables import comparison_tables
from cluster.runs.store import make_root
from cluster.runs.store import root as runs_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cluster.providers import Provider
    from cluster.runs.run import Run


ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
INSTANCE = "t2.large"  # of the founding programs
ALL, HELP_ALL = "help_all", "--help-all"
RUN_FLAGS: flags.Declared = {
    "keep": (flags.Keep, None),
    "detach": (flags.Detach, False),
    "timeout": (flags.Timeout, TIMEOUT),
    "plan": (flags.PlanOnly, False),
    "runs": (flags.Runs, None),
    "json": (flags.Json, False),
}
FOLDED = {
    *flags.MACHINES,
    *RUN_FLAGS,
    "launches",
    "mca",
    "env",
    "profile",
    "describe",
    "expect",
} - {
    "placement",
    "option",
    "json",
}


class BenchOptions(Value, frozen=True, kw_only=True):
    """What to do around a benchmark: the flags of the same names."""

    runs: str | None = None
    timeout: float = TIMEOUT
    keep: bool | None = None
    detach: bool = False
    plan: bool = False
    json: bool = False
    ab: str | None = None
    launches: int = ENOUGH_LAUNCHES
    mca: list[str] | None = None
    env: list[str] | None = None
    profile: str | None = None
    describe: str = ""
    expect: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """What --mca and --env say."""
        given = (("mca", self.mca or ()), ("env", self.env or ()))
        return dict(
            variable(kind, *flags.pair(kind, text)) for kind, texts in given for text in texts
        )


class AbAnswer(Value, frozen=True, kw_only=True):
    """What `--ab ... --json` prints."""

    runs: tuple[str, ...]
    comparison: Comparison


def measure(
    spec: ClusterSpec,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    trial: Trial = PLAIN,
) -> None:
    """Launch a cluster, run a benchmark on it and show what came out.

    Args:
        spec: of the cluster.
        benchmark: its name.
        params: of the benchmark.
        options: what to do around it.
        trial: the condition that it is one launch of.

    Raises:
        ClusterError: it could not be launched, or the job failed; its values are shown first.
        KeyboardInterrupt: the user interrupted; the values so far are shown first.

    """
    _check_how(spec, options)
    pair = trials(options.ab, benchmark) if options.ab else None
    planned = check(spec, benchmark, params, options, pair or (trial,))
    if options.plan:
        show_plan(planned[1], as_json=options.json)
        return
    make_root(runs_root(options.runs))
    live = JobProgress(stderr=options.json)
    cluster = _launch(spec, planned, live)
    stood_before = "launch" not in cluster.phases
    try:
        if pair:
            _alternate(cluster, benchmark, pair, params, options)
        else:
            run_once(cluster, benchmark, params, options, trial)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the ranks are stopped.\n")
        raise
    except SpecError:
        if not stood_before:  # as if it had never been asked for
            options = msgspec.structs.replace(options, keep=False)
        raise
    finally:
        _leave(cluster, options, live)


def check(
    spec: ClusterSpec,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    conditions: Iterable[Trial],
) -> tuple[Provider, Plan]:
    """Refuse what cannot be measured, before there is anything.

    Args:
        spec: of the cluster.
        benchmark: its name.
        params: of the benchmark, under all conditions.
        options: what to do around it.
        conditions: that it is to be run under.

    Returns:
        The provider, and what it would do.

    Raises:
        ClusterError: it cannot be.

    """
    checked = [
        check_bench(spec, benchmark, {**params, **one.params}, options.timeout)
        for one in conditions
    ]
    planned = plan_spec(spec)
    for chosen, own in checked:
        check_plan(chosen, own, spec, planned[1])
    return planned


def _check_how(spec: ClusterSpec, options: BenchOptions) -> None:
    """Refuse flags that contradict each other."""
    if options.detach and options.keep is False:
        raise SpecError(
            "--no-keep and --detach contradict each other: nobody would be there to take it down.",
            remedy=f"Leave one out; after --detach: cluster down {spec.name}",
        )
    if options.expect:
        parse_expected(options.expect)
    if options.ab:
        check_launches(options.launches)
        if options.detach:
            raise SpecError(
                "--ab and --detach contradict each other: somebody must start each launch.",
                remedy="Leave --detach out, and run it inside tmux.",
            )


def run_once(
    cluster: Cluster,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    trial: Trial = PLAIN,
) -> None:
    """Run a benchmark on a cluster, and show what came out, also of a run that failed.

    Args:
        cluster: that runs it.
        benchmark: its name.
        params: of the benchmark.
        options: what to do around it.
        trial: the condition that it is one launch of.

    Raises:
        JobError: the job failed.
        KeyboardInterrupt: the user interrupted.

    """
    try:
        run = _bench(cluster, options)(
            benchmark,
            detach=options.detach,
            variables={**options.variables, **trial.variables},
            condition=trial.name,
            **{**params, **trial.params},
        )
        show_run(run, as_json=options.json)
    except (JobError, KeyboardInterrupt):
        show_newest_run(cluster, as_json=options.json)
        raise


def _bench(cluster: Cluster, options: BenchOptions) -> Callable[..., Run]:
    """Give a `Cluster.bench` that people can look at: from the second launch on, more briefly."""
    launches = count()

    def bench(benchmark: str, /, **more: Any) -> Run:  # noqa: ANN401 - parameters have their own types
        with JobProgress(stderr=options.json, brief=next(launches) > 0) as live:
            return cluster.bench(
                benchmark,
                runs=options.runs,
                timeout=options.timeout,
                listener=live,
                profile=options.profile,
                describe=options.describe,
                expect=options.expect,
                **more,
            )

    return bench


def _alternate(
    cluster: Cluster,
    benchmark: str,
    pair: tuple[Trial, Trial],
    params: Mapping[str, object],
    options: BenchOptions,
) -> None:
    """Run both conditions in turn, and compare what there is, also after a launch that failed."""
    console = JobProgress(stderr=options.json).console
    ran: list[tuple[Trial, Run]] = []
    total = 2 * options.launches
    console.print(f"{total} launches, in the order ABBA ...", soft_wrap=True)
    launches = run_alternating(
        _bench(cluster, options),
        benchmark,
        pair,
        launches=options.launches,
        variables=options.variables,
        **params,
    )
    try:
        for trial, run in launches:
            ran.append((trial, run))
            console.print(f"Launch {len(ran)} of {total} done: {trial.name}", soft_wrap=True)
    finally:
        comparison = compare_conditions(pair, ran)
        if options.json:
            folders = tuple(str(run.folder) for _, run in ran)
            print_json(AbAnswer(runs=folders, comparison=comparison))
        else:
            show_tables(comparison_tables(comparison), "terminal")
            for _, run in ran:
                sys.stdout.write(
                    f"Run folder: {relative_path(run.folder)} ({run.record.condition})\n"
                )


def _launch(spec: ClusterSpec, planned: tuple[Provider, Plan], live: JobProgress) -> Cluster:
    """Launch, and say first what will cost money."""
    for line in planned[1].lines if planned[1].costs else ():
        live.console.print(line, soft_wrap=True)
    with HostProgress(live.console) as waiting:
        return launch_spec(spec, waiting, planned)


def _leave(cluster: Cluster, options: BenchOptions, live: JobProgress) -> None:
    """Take it down, and say what it was and cost; or say what it goes on costing."""
    if _stays(cluster, options):
        _warn(cluster)
        return
    cluster.down()
    for line in receipt_lines(cluster):
        live.console.print(line, soft_wrap=True)


def _warn(cluster: Cluster) -> None:
    """Say that something goes on costing money, and how to end that."""
    if cluster.costs:
        hourly = (
            f"${cluster.price.hourly * len(cluster.machines):.4g}" if cluster.price else "money"
        )
        sys.stderr.write(
            f"{cluster.name} stays up, and costs {hourly} an hour. "
            f"To end that: cluster down {cluster.name}\n"
        )


def _stays(cluster: Cluster, options: BenchOptions) -> bool:
    """Tell whether a cluster is left up: also to see, and mend, why its hosts are not ready."""
    if options.keep is not None:
        return options.keep
    return not cluster.costs or (options.detach and cluster.has_job)


class BenchGroup(TyperGroup):
    """The sub-commands of `cluster bench`, read from the folder when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's own type
        """List the benchmarks without importing them."""
        return list(plugins.names(Benchmark))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002
        """Make the command of one benchmark."""
        benchmark: Benchmark[Any] = plugins.load(Benchmark, cmd_name)
        app = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
        )
        app.command(cmd_name, help=_help(benchmark), cls=BenchCommand)(_command(benchmark))
        command = get_command(app)
        command.name = cmd_name
        return command


class BenchCommand(TyperCommand):
    """A benchmark's command, whose --help has its own flags and the usual ones, on one screen."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own types
        """Write them, and name the others; with --help-all, write all."""
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
        options = BenchOptions(**{key: values.pop(key) for key in BenchOptions.__struct_fields__})
        provider = _provider(values, "local")
        given = {key: value for key, value in params.items() if value is not None}
        measure(flags.spec(provider=provider, **values), benchmark.name, given, options)

    shared: flags.Declared = {
        "name": (flags.Name, benchmark.name),
        "provider": (flags.Provider, None),
        "run_local": (flags.RunLocal, False),
        "hosts": (flags.Hosts, None),
        "ranks_per_host": (flags.RanksPerHost, 1),
        **flags.MACHINES,
        **RUN_FLAGS,
        "ab": (flags.Ab, None),
        "launches": (flags.Launches, ENOUGH_LAUNCHES),
        "mca": (flags.Mca, None),
        "env": (flags.Env, None),
        "profile": (flags.Profile, None),
        "describe": (flags.Describe, ""),
        "expect": (flags.Expect, ""),
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
    return flags.with_flags(command, [*_flags(benchmark.Params), *flags.parameters(shared)])


def launcher(
    benchmark: str, params: Callable[..., Mapping[str, object]], *, name: str
) -> Callable[..., None]:
    """Make a founding program: one benchmark, with few flags of its own.

    Args:
        benchmark: its name.
        params: gives the benchmark's parameters; its own become flags, its docstring the help.
        name: of the cluster, unless somebody names it.

    Returns:
        What `cluster.cli.start` runs.

    """
    own = inspect.signature(params).parameters

    def command(**values: Any) -> None:  # noqa: ANN401 - each flag has its own type
        given = params(**{key: values.pop(key) for key in own})
        options = BenchOptions(**{key: values.pop(key) for key in RUN_FLAGS})
        provider = _provider(values, "aws")
        if provider == "aws":
            values["instance"] = values["instance"] or INSTANCE
        measure(flags.spec(provider=provider, **values), benchmark, given, options)

    first: flags.Declared = {
        "name": (flags.Name, name),
        "run_local": (flags.RunLocal, False),
        "provider": (flags.Provider, None),
        "hosts": (flags.Hosts, None),
    }
    last = flags.parameters({**flags.MACHINES, **RUN_FLAGS})
    made = flags.with_flags(command, [*flags.parameters(first), *own.values(), *last])
    made.__name__, made.__doc__ = params.__name__, params.__doc__
    return made


def _provider(values: dict[str, Any], default: str) -> str:
    """Take the two flags that say the provider."""
    run_local = values.pop("run_local")
    return flags.choose_provider(values.pop("provider"), run_local=run_local, default=default)


def _flags(params: type[Value]) -> Iterator[inspect.Parameter]:
    parents = reversed(params.__mro__)
    docs = (inspect.cleandoc(parent.__doc__ or "") for parent in parents if parent is not object)
    help_ = {name: text for doc in docs for name, text in ARGUMENT.findall(doc)}
    fields = msgspec.structs.fields(params)
    for field in sorted(fields, key=lambda field: field.name not in params.__annotations__):
        kind, default, shown = _flag_type(field.type, field.default)
        option = typer.Option(
            f"--{field.name.replace('_', '-')}",
            help=" ".join(help_.get(field.name, "").split()),
            metavar=_metavar(field.type),
            show_default=shown,
            autocompletion=_choices(field.type),
        )
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind, option],
        )


def _choices(kind: Any) -> Callable[[], list[str]]:  # noqa: ANN401 - an annotation
    """Give what completes a flag: the words that it takes, if there are only so many."""
    return lambda: list(get_args(kind)) if get_origin(kind) is Literal else []


def _metavar(kind: Any) -> str | None:  # noqa: ANN401 - an annotation
    """Say in a word what a flag takes."""
    if kind is bool:
        return None
    if get_origin(kind) is Literal:
        return "WORD"
    return "N" if kind in (int, int | None) else "LIST"


def _flag_type(kind: Any, default: Any) -> tuple[Any, object, str | bool]:  # noqa: ANN401
    """Choose what typer checks; everything else is text, and is checked by the benchmark."""
    if kind is bool or kind is int:
        return kind, default, True
    if kind == (int | None):
        return kind, None, False
    if get_origin(kind) is Literal:
        return str, default, True
    if default is None:
        return str | None, None, False
    shown = f"{_typed(default[0])}:{_typed(default[-1])}" if kind is Sizes else _joined(default)
    return str | None, None, shown


def _typed(size: int) -> str:
    return format_size(size).removesuffix(" B").replace(" ", "")


def _joined(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(str(part) for part in default)
    return str(default)
