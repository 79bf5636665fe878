"""Launches of a benchmark on a cluster that exists: one, several, or two conditions in turn."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cluster.analysis.statistics.compare import ENOUGH_LAUNCHES, Comparison
from cluster.cli import flags, show
from cluster.cli.confirm import confirm_download
from cluster.cli.gates import Gates
from cluster.cli.progress.jobs import JobProgress
from cluster.core import plugins
from cluster.core.errors import ClusterError, JobError, LargeDownload, SpecError
from cluster.core.model.value import Value
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.ab_test import PLAIN, Trial, compare_conditions, run_alternating
from cluster.orchestration.bench.bench import TIMEOUT, variable
from cluster.orchestration.bench.working_folder import WorkingFolder
from cluster.orchestration.cluster import Cluster
from cluster.reports.ci import Case, comparison_cases, judgement_cases
from cluster.reports.formats.terminal import wrapped
from cluster.reports.tables import comparison_tables
from cluster.reports.words.comparison import headline, with_words
from cluster.runs.run import Run

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
    """Refuse a number of launches below 1 (SpecError)."""
    if launches < 1:
        raise SpecError(
            f"{label} is not a number of launches.", remedy="Give a whole number, 1 or more."
        )
    return launches


def run_launches(
    cluster: Cluster,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    trial: Trial = PLAIN,
    cases: list[Case] | None = None,
) -> None:
    """Launch a benchmark once or several times, and show the results, also of a failed run."""
    total = count_launches(cluster, benchmark, options)
    launch_of = f"{time.time():.3f}" if total > 1 else ""

    def launch(live: JobProgress) -> Run:
        return launch_once(cluster, benchmark, params, options, trial, live, launch_of)

    if total == 1:
        _run_once(cluster, launch, options, cases)
        return
    ran: list[Run] = []
    try:
        with _progress(options, total) as live:
            for _ in range(total):
                run = launch(live)
                ran.append(run)
                text = show.judgement(run, run.summary()).answer
                lines = wrapped(f"Launch {len(ran)} of {total}: {text}", show.screen_width())
                live.console.print("\n".join(lines), soft_wrap=True)
    except (JobError, KeyboardInterrupt):
        show.show_newest_run(cluster, as_json=options.json and not ran)
        raise
    finally:
        if ran:
            judged = show.show_launches(ran, as_json=options.json)
            if cases is not None:
                cases += judgement_cases(cluster.name, judged)


def _run_once(
    cluster: Cluster,
    launch: Callable[[JobProgress], Run],
    options: BenchOptions,
    cases: list[Case] | None,
) -> None:
    judged = None
    try:
        with _progress(options, 1) as live:
            run = launch(live)
        judged = show.show_run(run, as_json=options.json)
    except (JobError, KeyboardInterrupt):
        judged = show.show_newest_run(cluster, as_json=options.json)
        raise
    finally:
        if cases is not None and judged is not None:
            cases += judgement_cases(cluster.name, judged)


def _progress(options: BenchOptions, launches: int) -> JobProgress:
    return JobProgress(stderr=options.json, founding=options.founding, launches=launches)


def launch_once(
    cluster: Cluster,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    trial: Trial,
    live: JobProgress,
    launch_of: str,
) -> Run:
    """Run a benchmark once; `launch_of` is what all launches of one command share."""
    variables = {**options.variables, **trial.variables}
    own = {**params, **trial.params}
    about = {"variables": variables, "condition": trial.name, "launch_of": launch_of}
    return _bench(cluster, options, live, benchmark, **about, **own)


def _bench(
    cluster: Cluster,
    options: BenchOptions,
    live: JobProgress,
    benchmark: str,
    /,
    **more: Any,  # noqa: ANN401 - parameters have their own types
) -> Run:
    fields = ("runs", "timeout", "detach", "profile", "describe", "expect", "workdir", "order")
    own = {name: getattr(options, name) for name in (*fields, "starter", "replace", "busy")}
    bench = partial(cluster.bench, benchmark, listener=live, **own, **more)
    try:
        return bench(yes=options.yes)
    except LargeDownload as error:
        live.end_waiting()
        if not confirm_download(error):
            raise
        return bench(yes=True)


def alternate(
    clusters: Mapping[str, Cluster],
    benchmark: str,
    pair: tuple[Trial, Trial],
    params: Mapping[str, object],
    options: BenchOptions,
    cases: list[Case],
) -> None:
    """Run both conditions in turn, each on its cluster, and compare the launches so far."""
    each = options.launches or ENOUGH_LAUNCHES
    ran: list[tuple[Trial, Run]] = []
    try:
        with _progress(options, 2 * each) as live:
            launches = run_alternating(
                lambda name, **more: _bench(
                    clusters[more["condition"]], options, live, name, **more
                ),
                benchmark,
                pair,
                launches=each,
                variables=options.variables,
                **params,
            )
            for trial, run in launches:
                ran.append((trial, run))
                line = f"Launch {len(ran)} of {2 * each} done: {trial.name}"
                line += "; both in turn, ABBA" if len(ran) == 1 else ""
                live.console.print(line, soft_wrap=True)
    except KeyboardInterrupt:
        show.print_lines(
            f"{len(ran)} of {2 * each} launches are done: too few to compare. "
            "Each is a run: cluster runs"
        )
        raise
    except ClusterError:
        if ran:
            _show_alternated(pair, ran, options, cases)
        raise
    _show_alternated(pair, ran, options, cases)


def _show_alternated(
    pair: tuple[Trial, Trial],
    ran: Sequence[tuple[Trial, Run]],
    options: BenchOptions,
    cases: list[Case],
) -> None:
    comparison = compare_conditions(pair, ran)
    cases += comparison_cases(comparison)
    if options.json:
        folders = tuple(str(run.folder) for _, run in ran)
        show.print_json(AbAnswer(runs=folders, comparison=with_words(comparison)))
        return
    show.show_tables(comparison_tables(comparison), "terminal")
    for _, run in ran:
        sys.stdout.write(f"Run folder: {show.relative_path(run.folder)} ({run.record.condition})\n")
    show.print_lines(f"{headline(comparison)}. Next: cluster report {ran[0][1].record.spec.name}")
