"""Findings from the MPI profile of a job."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from cluster.analysis.verdict.profiles.values import MILLI, Imbalance, ProfileFinding
from cluster.core.model.logs import RoleTime, is_file_routine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.analysis.verdict.profiles.values import Bin, JobProfile
    from cluster.core.model.logs import Profile

SMALL = 64.0  # bytes: smaller messages coordinate ranks, and carry no data
LARGE = 65536.0  # bytes: a program that moves data by MPI has larger messages, or many
TRICKLE = 1e6  # bytes per second in MPI: no network is this slow
ENOUGH_CALLS = 100  # calls: more than connections need to be set up
MOST_CALLS = 0.5  # of the calls of a routine
MUCH = 0.25  # of a time
UNEVEN = 0.15  # of the elapsed time: difference between the most and the least time in MPI
ROLES = ("minimum", "median", "maximum")
WAITS = ("MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome", "MPI_Barrier", "MPI_Probe")
RECEIVES = ("MPI_Recv", "MPI_Irecv", "MPI_Mrecv", "MPI_Imrecv")  # the same bytes as the sends


def findings(job: JobProfile) -> Iterator[ProfileFinding]:
    """Return all findings from the profile of a job, except those about files."""
    if job.elapsed:
        yield _share(job)
    for rule in (_no_payload, _payload, _waiting, _imbalance):
        finding = rule(job)
        if finding:
            yield finding
    yield from _negotiations(job)


def _share(job: JobProfile) -> ProfileFinding:
    return ProfileFinding(
        name="share",
        share=job.share,
        time=job.communication,
        elapsed=job.elapsed,
        ranks=len(job.tasks),
    )


def file_findings(profiles: Sequence[Profile]) -> Iterator[ProfileFinding]:
    """Return how much of the time is spent on files, which may not involve the network."""
    whole = [profile for profile in profiles if profile.complete]
    time, elapsed = sum(p.files for p in whole), sum(p.elapsed for p in whole)
    if time > MILLI and elapsed:
        yield ProfileFinding(
            name="files",
            share=time / elapsed,
            time=time,
            elapsed=elapsed,
            ranks=len(whole),
        )


def _no_payload(job: JobProfile) -> ProfileFinding | None:
    """Find ranks that spend time in MPI, but send hardly any data."""
    routines = [routine for routine in job.routines if not is_file_routine(routine.name)]
    time, total = sum(r.time for r in routines), sum(r.bytes for r in routines)
    sizes = [row.size for row in job.bins if not is_file_routine(row.routine)] or [
        routine.bytes / routine.calls for routine in routines if routine.calls
    ]
    largest = max(sizes, default=0.0)
    if not total or largest > LARGE or time <= MILLI or total / time > TRICKLE:
        return None
    return ProfileFinding(
        name="no payload",
        calls=sum(r.calls for r in routines),
        bytes=total,
        time=time,
        largest=largest,
    )


def _payload(job: JobProfile) -> ProfileFinding | None:
    """Name the messages that carry most of the bytes."""
    carried = [row for row in job.bins if not is_file_routine(row.routine)]
    sends = [row for row in carried if row.routine not in RECEIVES]
    row = max(sends, key=lambda r: r.bytes, default=None)
    total = sum(r.bytes for r in sends)
    if row is None or row.bytes < MOST_CALLS * total or row.size <= LARGE or row.time <= MILLI:
        return None
    return ProfileFinding(name="payload", share=row.bytes / total, row=row, of_bytes=total)


def _waiting(job: JobProfile) -> ProfileFinding | None:
    waits = [routine for routine in job.routines if routine.name in WAITS]
    share = sum(routine.share for routine in waits)
    if share < MUCH:
        return None
    return ProfileFinding(
        name="waiting",
        share=share,
        time=sum(routine.time for routine in waits),
        elapsed=sum(r.time for r in job.routines),
        routines=tuple(routine.name for routine in waits if routine.share >= MUCH / 5),
    )


def _imbalance(job: JobProfile) -> ProfileFinding | None:
    """Compare ranks: the one that computes longest waits least."""
    extremes = _extremes(job)
    if extremes is None or extremes.least.rank == extremes.most.rank:
        return None
    gap = extremes.most.time - extremes.least.time
    if gap < UNEVEN * (extremes.elapsed or extremes.most.time):
        return None
    return ProfileFinding(name="imbalance", imbalance=extremes)


def _extremes(job: JobProfile) -> Imbalance | None:
    """Return the ranks with the least and the most time in MPI, and the median.

    The summary of a file takes precedence over its table, which may be cut off.
    """
    elapsed = max((task.elapsed for task in job.tasks), default=0.0)
    summary = {extreme.role: extreme for extreme in job.extremes}
    if len(summary) == len(ROLES):
        least, middle, most = (summary[role] for role in ROLES)
        return Imbalance(least=least, most=most, elapsed=elapsed, median=middle.time)
    if not job.tasks:
        return None
    times = [RoleTime(role="", rank=t.rank, time=t.communication) for t in job.tasks]
    least, most = (end(times, key=lambda rank: rank.time) for end in (min, max))
    if len(times) < job.size:
        ranks = (len(times), job.size)
        return Imbalance(least=least, most=most, elapsed=elapsed, ranks=ranks)
    middle_time = median(rank.time for rank in times)
    return Imbalance(least=least, most=most, elapsed=elapsed, median=middle_time)


def _negotiations(job: JobProfile) -> Iterator[ProfileFinding]:
    """Find messages too small to be data, in routines that take much of the time."""
    for routine in job.routines:
        rows = [row for row in job.bins if row.routine == routine.name]
        row = max(rows, key=lambda r: r.calls, default=None)
        if row is None or row.size > SMALL or row.calls < ENOUGH_CALLS or not routine.time:
            continue
        calls, time = row.calls / routine.calls, row.time / routine.time
        if routine.share >= MUCH and calls >= MOST_CALLS and time >= MUCH:
            faster = _faster(row, rows)
            yield ProfileFinding(name="negotiation", of=routine, row=row, faster=faster)


def _faster(small: Bin, rows: Sequence[Bin]) -> Bin | None:
    """Return the largest messages that take less time each, as proof that small ones wait."""
    timed = [row for row in rows if row.size > small.size and row.time > 5 * MILLI]
    faster = [row for row in timed if row.time / row.calls < small.time / small.calls]
    return max(faster, key=lambda row: row.size, default=None)
