"""Launch a cluster, measure, show the results, and delete what costs money."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import getdoc
from typing import Any, NamedTuple

import click
import msgspec
from click.exceptions import Exit

from cluster.analysis.statistics.compare import ENOUGH_LAUNCHES, Comparison
from cluster.cli import flags, show
from cluster.cli.confirm import confirm_cost, has_terminal
from cluster.cli.gates import Case, Gates, comparison_cases, judgement_cases, report_cases
from cluster.cli.progress import HostProgress, JobProgress
from cluster.core import plugins
from cluster.core.errors import ClusterError, InUse, JobError, LargeDownload, SpecError
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.text.units import parse_expected
from cluster.measure.benchmark import Benchmark
from cluster.orchestration import ab_test
from cluster.orchestration.ab_test import PLAIN, Trial, compare_conditions, run_alternating
from cluster.orchestration.bench.bench import TIMEOUT, variable
from cluster.orchestration.bench.plan import check_bench, check_plan, check_starter, host_order
from cluster.orchestration.bench.working_folder import WorkingFolder
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from cluster.reports.formats.terminal import wrap_line
from cluster.reports.tables import comparison_tables
from cluster.reports.words.comparison import headline, with_words
from cluster.runs.run import Run
from cluster.runs.store import make_root
from cluster.runs.store import root as runs_root

LAUNCHES = "CLUSTER_LAUNCHES"  # the environment variable


class BenchOptions(Value, frozen=True, kw_only=True):
    """The options of a benchmark's command: the flags of the same names."""

    keep: flags.Keep = None
    detach: flags.Detach = False
    timeout: flags.Timeout = TIMEOUT
    plan: flags.PlanOnly = False
    runs: flags.Runs = None
    replace: flags.Replace = False
    busy: flags.Busy = False
    yes: flags.Yes = False
    json: flags.Json = False
    ab: flags.Ab = None
    launches: flags.Launches = None
    lottery: flags.Lottery = None
    mca: flags.Mca = None
    env: flags.Env = None
    profile: flags.Profile = None
    order: flags.Order = "given"
    starter: flags.Starter = ""
    describe: flags.Describe = ""
    expect: flags.Expect = ""
    gates: Gates = Gates()
    founding: bool = False  # print the lines of the founding programs; only launchers do
    # the folder, in a copy of which the ranks run; only `cluster run --mpi` has it
    workdir: WorkingFolder | None = None

    @property
    def variables(self) -> dict[str, str]:
        groups = (("mca", self.mca or ()), ("env", self.env or ()))
        return dict(
            variable(kind, *flags.pair(kind, text)) for kind, texts in groups for text in texts
        )


LAUNCHER = "keep detach timeout plan runs replace yes json"
"""The flags of every founding program."""
FLAGS = f"{LAUNCHER} busy ab launches lottery mca env profile order starter describe expect"
"""The flags of `cluster bench`."""


class Request(NamedTuple):
    """What a command runs, once or several times."""

    benchmark: str
    params: Mapping[str, Any]
    options: BenchOptions


def measure(spec: ClusterSpec, bench: Request, trial: Trial = PLAIN) -> None:
    """Launch a cluster, benchmark it and show the results, also those until a failure."""
    options = bench.options
    _check_how(spec, options)
    pair = ab_test.trials(options.ab, bench.benchmark, spec.provider) if options.ab else None
    conditions = pair or (trial,)
    spec = msgspec.structs.replace(spec, options={**spec.options, **conditions[0].options})
    check_machines = check(spec, bench, conditions)
    _check_order(spec.name, bench)
    if options.plan:
        plan = plan_spec(spec)[1]
        check_machines(plan)
        show.show_plan(plan, as_json=options.json)
        return
    live = JobProgress(stderr=options.json)
    cluster = _launch(spec, check_machines, live, options)
    stood_before = "launch" not in cluster.phases
    cases: list[Case] = []
    try:
        with cluster.bench_jobs.claim_hosts(replace=options.replace):
            if pair:
                with _sharing(cluster, pair[1], live, options) as second:
                    clusters = {pair[0].name: cluster, pair[1].name: second}
                    alternate(clusters, bench, pair, cases)
            else:
                run_launches(cluster, bench, trial, cases)
    except InUse:
        options = msgspec.structs.replace(options, keep=True)
        raise
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the ranks are stopped.\n")
        raise
    except SpecError:
        if not stood_before:  # undo the launch, which the user interrupted
            options = msgspec.structs.replace(options, keep=False)
        raise
    finally:
        _leave(cluster, options, live)
        status = report_cases(options.gates, cases) if options.gates.has_any else 0
    if status:
        raise Exit(status)


@contextmanager
def _sharing(
    cluster: Cluster, trial: Trial, live: JobProgress, options: BenchOptions
) -> Iterator[Cluster]:
    """Launch a cluster for the second condition on the same machines, if it has options."""
    spec = ab_test.sharing_spec(cluster, trial)
    if spec is None:
        yield cluster
        return
    second = _launch(spec, lambda _: None, live, options)
    try:
        with second.bench_jobs.claim_hosts(replace=options.replace):
            yield second
    finally:
        _leave(second, options, live)


@contextmanager
def temporary_cluster(spec: ClusterSpec, bench: Request) -> Iterator[Cluster]:
    """Launch a cluster for a benchmark, and take it down afterwards if it costs money."""
    options = bench.options
    check_machines = check(spec, bench, (PLAIN,))
    live = JobProgress(stderr=options.json)
    cluster = _launch(spec, check_machines, live, options)
    try:
        with cluster.bench_jobs.claim_hosts():
            yield cluster
    except InUse:
        options = msgspec.structs.replace(options, keep=True)
        raise
    finally:
        _leave(cluster, options, live)


def check(spec: ClusterSpec, bench: Request, conditions: Sequence[Trial]) -> Callable[[Plan], None]:
    """Refuse what cannot be measured; return a check of the plan's machines (ClusterError)."""
    benchmark, params, options = bench
    requests = [
        check_bench(spec, benchmark, {**params, **trial.params}, options.timeout)
        for trial in conditions
    ]
    for plugin, _ in requests:
        check_starter(options.starter, plugin)
    ab_test.check_common(requests, spec)
    ab_test.check_toggles(requests, conditions)

    def check_machines(plan: Plan) -> None:
        for plugin, values in requests:
            check_plan(plugin, values, spec, plan)

    return check_machines


def launcher(
    benchmark: str,
    params: Callable[..., Mapping[str, object]],
    *,
    name: str,
    provider: str,
    instance: str | None = None,
    launcher_values: Mapping[str, object] | None = None,
) -> click.Command:
    """Make a founding program: one benchmark, with few flags of its own, for `cluster.cli.start`.

    `name`, `provider` and `instance` count unless their flags are given; `launcher_values` are
    parameters in place of those of `params` if all ranks are on this machine.
    """

    def command(
        machines: dict[str, Any], own_params: dict[str, Any], options: BenchOptions, **more: object
    ) -> None:
        values: dict[str, Any] = {**machines, **more}
        choice = flags.choose_provider(
            values.pop("provider"), run_local=values.pop("run_local"), default=provider
        )
        if choice == "local":
            own_params = {**own_params, **(launcher_values or {})}
        if choice == provider:
            values["instance"] = values["instance"] or instance
        options = msgspec.structs.replace(options, launches=1, founding=True)
        bench = Request(benchmark, own_params, options)
        measure(flags.spec(provider=choice, **values), bench)

    return flags.make_command(
        params.__name__,
        command,
        getdoc(params),
        {
            "name": flags.parameter("name", flags.Name, name),
            "run_local": flags.parameter("run_local", flags.RunLocal, False),
            "provider": flags.with_default("provider", None, words=provider),
            "hosts": flags.SPEC["hosts"],
            "own_params": flags.group(params),
            "machines": flags.ParameterGroup(flags.MACHINES),
            "options": flags.group(BenchOptions, LAUNCHER),
        },
    )


def _check_how(spec: ClusterSpec, options: BenchOptions) -> None:
    if options.detach and options.keep is False:
        raise SpecError(
            "--no-keep and --detach contradict each other: no process is left to take it down.",
            remedy=f"Leave one out; after --detach: cluster down {spec.name}",
        )
    if options.expect:
        parse_expected(options.expect)
    if options.launches is not None:
        check_count(options.launches, "--launches")
    if options.ab:
        ab_test.check_launches(options.launches or ENOUGH_LAUNCHES)
    for flag, is_given in (("--launches", (options.launches or 1) > 1), ("--ab", options.ab)):
        if options.detach and is_given:
            raise SpecError(
                f"{flag} and --detach contradict each other: a process must start each launch.",
                remedy="Leave --detach out, and run it inside tmux.",
            )


def _check_order(name: str, bench: Request) -> None:
    """Refuse an order that nobody measured, before anything is launched."""
    options = bench.options
    if options.order == "given":
        return
    if not journal.exists(name):
        raise SpecError(
            f"--order near needs a placement, and the cluster {name} does not run.",
            means="Which of its hosts are near one another is not known before they exist.",
            remedy=f"Type: cluster up {name}; cluster check {name} --near; then this again",
        )
    benchmark = plugins.load(Benchmark, bench.benchmark)
    host_order(options.order, benchmark, runs_root(options.runs), attach(name).state)


def _launch(
    spec: ClusterSpec, refuse: Callable[[Plan], None], live: JobProgress, options: BenchOptions
) -> Cluster:
    """Ask before it costs money, launch, and show the progress of each host."""

    def confirm(plan: Plan) -> None:
        refuse(plan)
        make_root(runs_root(options.runs))
        print_line = partial(live.console.print, soft_wrap=True)
        confirm_cost(spec, plan, print_line, yes=options.yes)

    with HostProgress(live.console) as progress:
        return launch_spec(spec, progress, confirm=confirm, replace=options.replace)


def _leave(cluster: Cluster, options: BenchOptions, live: JobProgress) -> None:
    """Take the cluster down and print its receipt; or leave it up and print what it costs."""
    # It also stays if its hosts are not ready, to find out why; what stood before is its user's,
    # and what another process has taken over is that one's.
    stood_before = "launch" not in cluster.phases
    stays = stood_before or not cluster.costs or (options.detach and bool(cluster.state.jobs))
    if cluster.bench_jobs.is_superseded or (stays if options.keep is None else options.keep):
        if cluster.costs:
            price = cluster.price and f"${cluster.price.hourly * len(cluster.machines):.4g}"
            sys.stderr.write(
                f"{cluster.name} stays up, and costs {price or 'money'} an hour. "
                f"To end that: cluster down {cluster.name}\n"
            )
        return
    cluster.down()
    for line in show.receipt_lines(cluster):
        live.console.print(line, soft_wrap=True)


class AbAnswer(Value, frozen=True, kw_only=True):
    """What `--ab ... --json` prints."""

    runs: tuple[str, ...]
    comparison: Comparison


def count_launches(cluster: Cluster, benchmark: str, options: BenchOptions) -> int:
    """Choose --launches, CLUSTER_LAUNCHES, the benchmark's own on one host, or 1 (SpecError)."""
    if options.launches is not None or options.detach or options.profile is not None:
        return check_count(1 if options.launches is None else options.launches, "--launches")
    number = os.environ.get(LAUNCHES)
    if number:
        return check_count(int(number) if number.isdecimal() else 0, LAUNCHES)
    if len({machine.address for machine in cluster.machines}) > 1:
        return 1
    return plugins.find(Benchmark, benchmark).launches_on_one_host


def check_count(launches: int, label: str) -> int:
    if launches < 1:
        raise SpecError(
            f"{label} is not a number of launches.", remedy="Give a whole number, 1 or more."
        )
    return launches


def run_launches(
    cluster: Cluster, bench: Request, trial: Trial = PLAIN, cases: list[Case] | None = None
) -> None:
    """Launch a benchmark once or several times, and show the results, also of a failed run."""
    as_json, total = bench.options.json, count_launches(cluster, bench.benchmark, bench.options)
    launch_of = f"{time.time():.3f}" if total > 1 else ""
    runs: list[Run] = []
    conclusion = None
    try:
        with _progress(bench.options, total) as live:
            for _ in range(total):
                run = launch_once(cluster, bench, trial, live, launch_of)
                runs.append(run)
                if total > 1:
                    text = run.judge().answer
                    lines = wrap_line(f"Launch {len(runs)} of {total}: {text}", show.screen_width())
                    live.console.print("\n".join(lines), soft_wrap=True)
    except (JobError, KeyboardInterrupt):
        newest = show.show_newest_run(cluster, as_json=as_json and not runs)
        conclusion = newest if total == 1 else None
        raise
    finally:
        if runs:
            conclusion = (
                show.show_launches(runs, as_json=as_json)
                if total > 1
                else show.show_run(runs[0], as_json=as_json)
            )
        if cases is not None and conclusion is not None:
            cases += judgement_cases(cluster.name, conclusion)


def _progress(options: BenchOptions, launches: int) -> JobProgress:
    return JobProgress(stderr=options.json, founding=options.founding, launches=launches)


def launch_once(
    cluster: Cluster, bench: Request, trial: Trial, live: JobProgress, launch_of: str
) -> Run:
    """Run a benchmark once; `launch_of` is what all launches of one command share."""
    variables = {**bench.options.variables, **trial.variables}
    params = {**bench.params, **trial.params}
    context = {"variables": variables, "condition": trial.name, "launch_of": launch_of}
    return _bench(cluster, bench.options, live, bench.benchmark, **context, **params)


def _bench(
    cluster: Cluster,
    options: BenchOptions,
    live: JobProgress,
    benchmark: str,
    /,
    **more: Any,  # noqa: ANN401 - parameters have their own types
) -> Run:
    fields = ("runs", "timeout", "detach", "profile", "describe", "expect", "workdir", "order")
    values = {name: getattr(options, name) for name in (*fields, "starter", "replace", "busy")}
    bench = partial(cluster.bench, benchmark, listener=live, **values, **more)
    try:
        return bench(yes=options.yes)
    except LargeDownload as error:
        live.end_waiting()
        question = f"{error.what}\n{error.means}\nDownload them?"
        if not (has_terminal() and click.confirm(question, err=True)):
            raise
        return bench(yes=True)


def alternate(
    clusters: Mapping[str, Cluster], bench: Request, pair: tuple[Trial, Trial], cases: list[Case]
) -> None:
    """Run both conditions in turn, each on its cluster, and compare the launches so far."""
    benchmark, params, options = bench
    per_condition = options.launches or ENOUGH_LAUNCHES
    runs: list[tuple[Trial, Run]] = []
    try:
        with _progress(options, 2 * per_condition) as live:
            launches = run_alternating(
                lambda name, **more: _bench(
                    clusters[more["condition"]], options, live, name, **more
                ),
                benchmark,
                pair,
                launches=per_condition,
                variables=options.variables,
                **params,
            )
            for trial, run in launches:
                runs.append((trial, run))
                line = f"Launch {len(runs)} of {2 * per_condition} done: {trial.name}"
                line += "; both in turn, ABBA" if len(runs) == 1 else ""
                live.console.print(line, soft_wrap=True)
    except KeyboardInterrupt:
        show.print_lines(
            f"{len(runs)} of {2 * per_condition} launches are done: too few to compare. "
            "Each is a run: cluster runs"
        )
        raise
    except ClusterError:
        if runs:
            _show_alternated(pair, runs, cases, as_json=options.json)
        raise
    _show_alternated(pair, runs, cases, as_json=options.json)


def _show_alternated(
    pair: tuple[Trial, Trial], runs: list[tuple[Trial, Run]], cases: list[Case], *, as_json: bool
) -> None:
    comparison = compare_conditions(pair, runs)
    cases += comparison_cases(comparison)
    if as_json:
        folders = tuple(str(run.folder) for _, run in runs)
        show.print_json(AbAnswer(runs=folders, comparison=with_words(comparison)))
        return
    show.show_tables(comparison_tables(comparison), "terminal")
    for _, run in runs:
        sys.stdout.write(f"Run folder: {show.relative_path(run.folder)} ({run.record.condition})\n")
    show.print_lines(f"{headline(comparison)}. Next: cluster report {runs[0][1].record.spec.name}")
