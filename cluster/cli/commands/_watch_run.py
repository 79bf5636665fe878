"""`cluster watch run`: measure what is watched, if it is due and nobody else uses the hosts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from cluster.cli import flags
from cluster.cli.commands._watch_texts import change_text, factor_texts, prometheus_text, series_of
from cluster.cli.commands.bench import bench_command
from cluster.cli.flags import argument, call, option
from cluster.cli.overview import FAILED, GATE_HIT
from cluster.cli.show import print_lines
from cluster.core.errors import ClusterError, ShellError
from cluster.core.units import format_point
from cluster.orchestration.launch.busy import why_busy
from cluster.remote.shells.local import LocalShell
from cluster.runs import store
from cluster.runs.watch import store as watches
from cluster.runs.watch.store import Watch, WatchEvent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cluster.runs.watch.store import Outcome

PATIENCE = 60.0  # seconds that the command for alarms may take
ALARMED = 3  # runs that an alarm lasts: `change_points.SEGMENT`, which needs NumPy


def run(
    name: Annotated[str, argument("NAME", "Name of the cluster.")],
    now: Annotated[bool, option("--now", "Measure even if it is not due.")] = False,
    root: flags.Runs = None,
) -> None:
    """Measure what is watched, if it is due and nobody else uses the hosts; a timer calls it.

    Example: cluster watch run mpi_test
    """
    where = store.root(root)
    watch = watches.find(where, name)
    with watches.lock(where, name) as free:
        reason = _why_not(where, watch, now=now) if free else "another `cluster watch run` measures"
        if reason:
            _note(where, name, "skipped", reason)
            print_lines(f"Skipped: {reason}.")
            return
        _measure(where, watch)
        raise Exit(_report(where, watch))


def _why_not(where: Path, watch: Watch, *, now: bool) -> str:
    known = watches.events(where, watch.name)
    due = "" if now else watches.why_not_due(watch, known, time.time())
    return due or why_busy(watch.name, watch.busy)


def _measure(where: Path, watch: Watch) -> None:
    """Run the benchmark, and note its runs or why there are none."""
    before = watches.run_ids(where, watch.name)
    benchmark, *words = watch.bench
    words += ["--name", watch.name, "--runs", str(where)]
    try:
        status = call(bench_command(benchmark), benchmark, words)
    except (ClusterError, KeyboardInterrupt) as error:
        what = getattr(error, "what", "") or str(error) or "it was interrupted"
        _note(where, watch.name, "failed", what.partition("\n")[0])
        raise
    made = tuple(sorted(watches.run_ids(where, watch.name) - before))
    done = tuple(id_ for id_ in made if store.record(where / watch.name / id_).status == "done")
    if done:
        _note(where, watch.name, "measured", "", done)
        return
    _note(where, watch.name, "failed", f"the benchmark ended with status {status or 0}")
    raise Exit(status or FAILED)


def _report(where: Path, watch: Watch) -> int:
    """Write the file for Prometheus, tell the user's command of new alarms, and give the status."""
    found = series_of(where, watch.name)
    if watch.prometheus:
        LocalShell().write(prometheus_text(found), watch.prometheus)
    alarms = [each for each in found if each.state == "alarm"]
    told = _told(watches.events(where, watch.name))
    for each in alarms:
        what = f"{each.metric} {format_point(each.params)} {each.definition}"
        lines = [change_text(each, each.changes[-1]), *factor_texts(each.changes[-1])]
        print_lines(f"ALARM {watch.name}: {lines[0]}", *(f"  {line}" for line in lines[1:]))
        if watch.on_change and what not in told and _run_hook(watch, lines):
            _note(where, watch.name, "told", what, (each.changes[-1].run,))
    return GATE_HIT if alarms else 0


def _told(known: Sequence[WatchEvent]) -> set[str]:
    """Return the series whose alarm was told: an alarm lasts for a few runs, and is told once."""
    measured = [at for at, event in enumerate(known) if event.outcome == "measured"]
    since = measured[-ALARMED] if len(measured) >= ALARMED else 0
    return {event.reason for event in known[since:] if event.outcome == "told"}


def _run_hook(watch: Watch, lines: Sequence[str]) -> bool:
    """Run the user's command; one that fails is tried again after the next run."""
    variables = (f"CLUSTER_WATCH={watch.name}", f"CLUSTER_CHANGE={chr(10).join(lines)}")
    try:
        done = LocalShell().run(["env", *variables, "sh", "-c", watch.on_change], timeout=PATIENCE)
    except ShellError as error:
        sys.stderr.write(f"--on-change: {error.what}\n")
        return False
    sys.stderr.write(done.stdout + done.stderr)
    if done.status:
        sys.stderr.write(f"--on-change ended with status {done.status}; it is tried again.\n")
    return done.status == 0


def _note(
    where: Path, name: str, outcome: Outcome, reason: str, runs: tuple[str, ...] = ()
) -> None:
    event = WatchEvent(at=time.time(), outcome=outcome, reason=reason, runs=runs)
    watches.note(where, name, event)
