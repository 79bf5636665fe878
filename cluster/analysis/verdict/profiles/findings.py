"""Findings from the MPI profile of a job."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from cluster.analysis.verdict.profiles.values import MILLI, ProfileFinding
from cluster.core.model.logs import RoleTime, is_file_routine
from cluster.core.units import format_bytes, format_value

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
        found = rule(job)
        if found:
            yield found
    yield from _negotiations(job)


def _share(job: JobProfile) -> ProfileFinding:
    how = f"{job.communication:.3f} s of {job.elapsed:.3f} s, of {len(job.tasks)} rank(s) together"
    return ProfileFinding(
        name="share", says=f"{job.share:.0%} of the time is spent in MPI", how=how
    )


def file_findings(profiles: Sequence[Profile]) -> Iterator[ProfileFinding]:
    """Say how much of the time is spent on files, which may not involve the network."""
    whole = [profile for profile in profiles if profile.complete]
    time, elapsed = sum(p.files for p in whole), sum(p.elapsed for p in whole)
    if time > MILLI and elapsed:
        yield ProfileFinding(
            name="files",
            says=f"{time / elapsed:.0%} of the time is spent in files, by MPI-IO, beside that",
            how=f"{time:.3f} s of {elapsed:.3f} s, of {len(whole)} rank(s) together",
        )


def _no_payload(job: JobProfile) -> ProfileFinding | None:
    """Find ranks that spend time in MPI, but send hardly any data."""
    routines = [routine for routine in job.routines if not is_file_routine(routine.name)]
    time, held = sum(r.time for r in routines), sum(r.bytes for r in routines)
    sizes = [row.size for row in job.bins if not is_file_routine(row.routine)] or [
        routine.bytes / routine.calls for routine in routines if routine.calls
    ]
    largest = max(sizes, default=0.0)
    if not held or largest > LARGE or time <= MILLI or held / time > TRICKLE:
        return None
    return ProfileFinding(
        name="no payload",
        says="no payload through MPI: NCCL carries it, if these ranks train on GPUs, or another "
        "library that MPI does not see",
        how=f"{sum(r.calls for r in routines)} calls hold {format_bytes(held)} in all, and take "
        f"{format_value(time, 's')}; the largest messages have {format_bytes(largest)}",
    )


def _payload(job: JobProfile) -> ProfileFinding | None:
    """Name the messages that carry most of the bytes."""
    carried = [row for row in job.bins if not is_file_routine(row.routine)]
    sent = [row for row in carried if row.routine not in RECEIVES]
    row = max(sent, key=lambda one: one.bytes, default=None)
    total = sum(one.bytes for one in sent)
    if row is None or row.bytes < MOST_CALLS * total or row.size <= LARGE or row.time <= MILLI:
        return None
    rate = format_value(row.bytes / row.time, "B/s")
    return ProfileFinding(
        name="payload",
        says=f"{_word(row.routine)} of {format_bytes(row.size)} carries {row.bytes / total:.0%} of "
        f"the bytes, at {rate} per rank",
        how=f"{row.calls} calls, {format_bytes(row.bytes)} of {format_bytes(total)}, in "
        f"{format_value(row.time, 's')}",
    )


def _waiting(job: JobProfile) -> ProfileFinding | None:
    waits = [routine for routine in job.routines if routine.name in WAITS]
    share = sum(routine.share for routine in waits)
    if share < MUCH:
        return None
    names = ", ".join(_word(routine.name) for routine in waits if routine.share >= MUCH / 5)
    time = sum(routine.time for routine in waits)
    return ProfileFinding(
        name="waiting",
        says=f"{names}: {share:.0%} of the time in MPI: transfers that no computation hides, or "
        "waiting for other ranks",
        how=f"{time:.3f} s of {sum(r.time for r in job.routines):.3f} s",
    )


def _imbalance(job: JobProfile) -> ProfileFinding | None:
    """Compare ranks: the one that computes longest waits least."""
    least, middle, most = _extremes(job)
    if least is None or most is None or least.rank == most.rank:
        return None
    elapsed = max((task.elapsed for task in job.tasks), default=0.0)
    apart = most.time - least.time
    if apart < UNEVEN * (elapsed or most.time):
        return None
    more = f"{apart / elapsed:.0%} of the time more" if elapsed else f"{apart:.2f} s more"
    ends = f"of {elapsed:.2f} s elapsed" if elapsed else "of a time that the log does not say"
    return ProfileFinding(
        name="imbalance",
        says=f"uneven: rank {most.rank} spends {more} in MPI than "
        f"rank {least.rank}, for which the others may be waiting",
        how=f"{least.time:.2f} s (rank {least.rank}), {middle}, "
        f"{most.time:.2f} s (rank {most.rank}), {ends}",
    )


def _extremes(job: JobProfile) -> tuple[RoleTime | None, str, RoleTime | None]:
    """Return the ranks with the least and the most time in MPI, and the median in words.

    The summary of a file takes precedence over its table, which may be cut off.
    """
    said = {one.role: one for one in job.extremes}
    if len(said) == len(ROLES):
        least, middle, most = (said[role] for role in ROLES)
        return least, f"median {middle.time:.2f} s", most
    if not job.tasks:
        return None, "", None
    known = [RoleTime(role="", rank=t.rank, time=t.communication) for t in job.tasks]
    words = f"median {median(one.time for one in known):.2f} s"
    if len(known) < job.size:
        words = f"of {len(known)} of {job.size} ranks that are known"
    return min(known, key=lambda one: one.time), words, max(known, key=lambda one: one.time)


def _negotiations(job: JobProfile) -> Iterator[ProfileFinding]:
    """Find messages too small to be data, in routines that take much of the time."""
    for routine in job.routines:
        rows = [row for row in job.bins if row.routine == routine.name]
        row = max(rows, key=lambda one: one.calls, default=None)
        if row is None or row.size > SMALL or row.calls < ENOUGH_CALLS or not routine.time:
            continue
        calls, time = row.calls / routine.calls, row.time / routine.time
        if routine.share >= MUCH and calls >= MOST_CALLS and time >= MUCH:
            yield ProfileFinding(
                name="negotiation",
                says=f"{round(row.size)}-byte {_word(routine.name)}, {calls:.0%} of calls, "
                f"{time:.0%} of the time: negotiation or waiting, not transfer",
                how=f"{row.calls} of {routine.calls} calls of {routine.name}, {row.time:.3f} s of "
                f"its {routine.time:.3f} s: {_each(row)} a call{_faster(row, rows)}",
            )


def _faster(small: Bin, rows: Sequence[Bin]) -> str:
    """Name larger messages that take less time each, as proof that small ones are waiting."""
    timed = [row for row in rows if row.size > small.size and row.time > 5 * MILLI]
    faster = [row for row in timed if row.time / row.calls < small.time / small.calls]
    if not faster:
        return f", for {format_bytes(small.bytes)} in all"
    best = max(faster, key=lambda row: row.size)
    return f"; those of {format_bytes(best.size)} take {_each(best)}"


def _each(row: Bin) -> str:
    return format_value(row.time / row.calls, "s")


def _word(routine: str) -> str:
    return routine.removeprefix("MPI_")
