"""Launch a cluster, measure, show the results, and take down what costs money."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from cluster.analysis.compare import ENOUGH_LAUNCHES, Comparison
from cluster.cli import flags
from cluster.cli.compare import show_tables
from cluster.cli.gates import Gates, report_cases
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
from cluster.core.errors import JobError, SpecError
from cluster.core.model.billing import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.units import parse_expected
from cluster.orchestration.ab_test import (
    PLAIN,
    Trial,
    check_launches,
    compare_conditions,
    run_alternating,
    trials,
)
from cluster.orchestration.bench import TIMEOUT
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.launch import launch_spec, plan_spec
from cluster.orchestration.prepare import check_bench, check_plan
from cluster.orchestration.variables import variable
from cluster.reports.ci import Case, comparison_cases, judgement_cases
from cluster.reports.tables import comparison_tables
from cluster.runs.store import make_root
from cluster.runs.store import root as runs_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cluster.providers import Provider
    from cluster.runs.run import Run


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
    gates: Gates = Gates()

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
    cases: list[Case] = []
    try:
        if pair:
            _alternate(cluster, benchmark, pair, params, options, cases)
        else:
            run_once(cluster, benchmark, params, options, trial, cases)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the ranks are stopped.\n")
        raise
    except SpecError:
        if not stood_before:  # as if it had never been asked for
            options = msgspec.structs.replace(options, keep=False)
        raise
    finally:
        _leave(cluster, options, live)
        status = report_cases(options.gates, cases) if options.gates.asked else 0
    if status:
        raise typer.Exit(status)


@contextmanager
def launched(
    spec: ClusterSpec, benchmark: str, params: Mapping[str, object], options: BenchOptions
) -> Iterator[Cluster]:
    """Launch a cluster for a benchmark, and take it down afterwards if it costs money.

    Args:
        spec: of the cluster.
        benchmark: that is to run there.
        params: of it.
        options: what to do around it.

    Yields:
        The cluster.

    Raises:
        ClusterError: it could not be launched.

    """
    planned = check(spec, benchmark, params, options, (PLAIN,))
    make_root(runs_root(options.runs))
    live = JobProgress(stderr=options.json)
    cluster = _launch(spec, planned, live)
    try:
        yield cluster
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
    cases: list[Case] | None = None,
) -> None:
    """Run a benchmark on a cluster, and show what came out, also of a run that failed.

    Args:
        cluster: that runs it.
        benchmark: its name.
        params: of the benchmark.
        options: what to do around it.
        trial: the condition that it is one launch of.
        cases: where the verdicts go, for gates.

    Raises:
        JobError: the job failed.
        KeyboardInterrupt: the user interrupted.

    """
    judged = None
    try:
        run = _bench(cluster, options)(
            benchmark,
            detach=options.detach,
            variables={**options.variables, **trial.variables},
            condition=trial.name,
            **{**params, **trial.params},
        )
        judged = show_run(run, as_json=options.json)
    except (JobError, KeyboardInterrupt):
        judged = show_newest_run(cluster, as_json=options.json)
        raise
    finally:
        if cases is not None and judged is not None:
            cases += judgement_cases(cluster.name, judged)


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
    cases: list[Case],
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
        cases += comparison_cases(comparison)
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
    return not cluster.costs or (options.detach and bool(cluster.state.jobs))
