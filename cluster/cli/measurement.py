"""Launch a cluster, measure, show the results, and delete what costs money."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import msgspec
from click.exceptions import Exit

from cluster.analysis.statistics.compare import ENOUGH_LAUNCHES
from cluster.cli.confirm import confirm_cost
from cluster.cli.gates import report_cases
from cluster.cli.progress.hosts import HostProgress
from cluster.cli.progress.jobs import JobProgress
from cluster.cli.repeat import BenchOptions, alternate, check_count, run_launches
from cluster.cli.show import receipt_lines, show_plan
from cluster.core import journal, plugins
from cluster.core.errors import InUse, SpecError
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.units import parse_expected
from cluster.measure.benchmark import Benchmark
from cluster.orchestration import ab_test
from cluster.orchestration.bench.plan import check_bench, check_plan, host_order
from cluster.orchestration.bench.starter import check_starter
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from cluster.reports.ci import Case
from cluster.runs.store import make_root
from cluster.runs.store import root as runs_root


def measure(
    spec: ClusterSpec,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    trial: ab_test.Trial = ab_test.PLAIN,
) -> None:
    """Launch a cluster, benchmark it and show the results, also those until a failure."""
    _check_how(spec, options)
    pair = ab_test.trials(options.ab, benchmark, spec.provider) if options.ab else None
    conditions = pair or (trial,)
    spec = msgspec.structs.replace(spec, options={**spec.options, **conditions[0].options})
    check_machines = check(spec, benchmark, params, options, conditions)
    _check_order(spec.name, benchmark, options)
    if options.plan:
        plan = plan_spec(spec)[1]
        check_machines(plan)
        show_plan(plan, as_json=options.json)
        return
    live = JobProgress(stderr=options.json)
    cluster = _launch(spec, check_machines, live, options)
    stood_before = "launch" not in cluster.phases
    cases: list[Case] = []
    try:
        with cluster.bench_jobs.claimed(replace=options.replace):
            if pair:
                with _sharing(cluster, pair[1], live, options) as second:
                    clusters = {pair[0].name: cluster, pair[1].name: second}
                    alternate(clusters, benchmark, pair, params, options, cases)
            else:
                run_launches(cluster, benchmark, params, options, trial, cases)
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
    cluster: Cluster, trial: ab_test.Trial, live: JobProgress, options: BenchOptions
) -> Iterator[Cluster]:
    """Launch a cluster for the second condition on the same machines, if it has options."""
    spec = ab_test.sharing_spec(cluster, trial)
    if spec is None:
        yield cluster
        return
    second = _launch(spec, lambda _: None, live, options)
    try:
        with second.bench_jobs.claimed(replace=options.replace):
            yield second
    finally:
        _leave(second, options, live)


@contextmanager
def launched(
    spec: ClusterSpec, benchmark: str, params: Mapping[str, object], options: BenchOptions
) -> Iterator[Cluster]:
    """Launch a cluster for a benchmark, and take it down afterwards if it costs money."""
    check_machines = check(spec, benchmark, params, options, (ab_test.PLAIN,))
    live = JobProgress(stderr=options.json)
    cluster = _launch(spec, check_machines, live, options)
    try:
        with cluster.bench_jobs.claimed():
            yield cluster
    except InUse:
        options = msgspec.structs.replace(options, keep=True)
        raise
    finally:
        _leave(cluster, options, live)


def check(
    spec: ClusterSpec,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    conditions: Iterable[ab_test.Trial],
) -> Callable[[Plan], None]:
    """Refuse what cannot be measured; return a check of the plan's machines (ClusterError)."""
    conditions = tuple(conditions)
    checked = [
        check_bench(spec, benchmark, {**params, **trial.params}, options.timeout)
        for trial in conditions
    ]
    for chosen, _ in checked:
        check_starter(options.starter, chosen)
    ab_test.check_common(checked, spec)
    ab_test.check_toggles(checked, conditions)

    def check_machines(plan: Plan) -> None:
        for chosen, own in checked:
            check_plan(chosen, own, spec, plan)

    return check_machines


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


def _check_order(name: str, benchmark: str, options: BenchOptions) -> None:
    """Refuse an order that nobody measured, before anything is launched."""
    if options.order == "given":
        return
    if name not in journal.names():
        raise SpecError(
            f"--order near needs a placement, and the cluster {name} does not run.",
            means="Which of its hosts are near one another is not known before they exist.",
            remedy=f"Type: cluster up {name}; cluster check {name} --near; then this again",
        )
    chosen = plugins.load(Benchmark, benchmark)
    host_order(options.order, chosen, runs_root(options.runs), attach(name).state)


def _launch(
    spec: ClusterSpec,
    check_machines: Callable[[Plan], None],
    live: JobProgress,
    options: BenchOptions,
) -> Cluster:
    """Ask before it costs money, launch, and show the progress of each host."""

    def confirm(plan: Plan) -> None:
        check_machines(plan)
        make_root(runs_root(options.runs))
        show = partial(live.console.print, soft_wrap=True)
        confirm_cost(spec, plan, show, yes=options.yes)

    with HostProgress(live.console) as waiting:
        return launch_spec(spec, waiting, confirm=confirm, replace=options.replace)


def _leave(cluster: Cluster, options: BenchOptions, live: JobProgress) -> None:
    """Take the cluster down and print its receipt; or leave it up and print what it costs."""
    if _stays(cluster, options):
        if cluster.costs:
            price = cluster.price and f"${cluster.price.hourly * len(cluster.machines):.4g}"
            sys.stderr.write(
                f"{cluster.name} stays up, and costs {price or 'money'} an hour. "
                f"To end that: cluster down {cluster.name}\n"
            )
        return
    cluster.down()
    for line in receipt_lines(cluster):
        live.console.print(line, soft_wrap=True)


def _stays(cluster: Cluster, options: BenchOptions) -> bool:
    """Tell whether a cluster is left up: also if its hosts are not ready, to find out why.

    What another process has taken over is its own; what stood before, its user's.
    """
    if cluster.bench_jobs.superseded:
        return True
    if options.keep is not None:
        return options.keep
    stood_before = "launch" not in cluster.phases
    return stood_before or not cluster.costs or (options.detach and bool(cluster.state.jobs))
