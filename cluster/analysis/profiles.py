"""From MPI profiles of single ranks to that of a job: totals, imbalance, checks, and what it means.

A time in MPI is that of a transfer and of all waiting for other ranks; a profile cannot tell them
apart, but sizes can: what takes longer than larger messages do is no transfer.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from msgspec import structs

from cluster.core.model.logs import Profile, Routine, TaskTimes, on_files
from cluster.core.model.value import Value
from cluster.core.units import format_bytes, format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SMALL = 64.0  # bytes of a message that carries a decision, and no data
LARGE = 65536.0  # bytes; a program that moves data by MPI has larger messages, or many
TRICKLE = 1e6  # bytes per second in MPI: no network is as slow
ENOUGH_CALLS = 100  # that no set-up of connections explains
MOST_CALLS = 0.5  # of a routine's
MUCH = 0.25  # of a time
UNEVEN = 0.15  # of the elapsed time, between the most and the least time in MPI
MILLI = 0.001  # seconds to which a profile rounds
CENTI = 0.01  # seconds to which the table of all ranks rounds
TENTH = 0.1  # bytes to which an average rounds
WAITS = ("MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome", "MPI_Barrier", "MPI_Probe")
RECEIVES = ("MPI_Recv", "MPI_Irecv", "MPI_Mrecv", "MPI_Imrecv")  # the same bytes as the sends


class Source(Value, frozen=True, kw_only=True):
    """A profile, and the job that its file names.

    Args:
        job: such as `19013`; the name of the file, if it names none.
        profile: of one rank.

    """

    job: str
    profile: Profile


class Total(Value, frozen=True, kw_only=True):
    """A routine over all ranks whose files are there.

    Args:
        name: such as `MPI_Allreduce`.
        calls: of all these ranks.
        bytes: in all calls together.
        time: of all these ranks, seconds.
        share: of their time in MPI.
        most: the time of the rank that spent most in it, seconds.
        most_rank: that rank.

    """

    name: str
    calls: int
    bytes: float
    time: float
    share: float
    most: float
    most_rank: int


class Bin(Value, frozen=True, kw_only=True):
    """Messages of about one size, of one routine, over all ranks whose files are there.

    Args:
        routine: such as `MPI_Allreduce`.
        size: of a message on average, bytes.
        calls: of all these ranks.
        bytes: in all calls together.
        time: of all these ranks, seconds.

    """

    routine: str
    size: float
    calls: int
    bytes: float
    time: float


class SumCheck(Value, frozen=True, kw_only=True):
    """A sum that a profile must agree with itself about.

    Args:
        what: was added up.
        agrees: whether it does.
        how: the numbers.

    """

    what: str
    agrees: bool
    how: str


class ProfileFinding(Value, frozen=True, kw_only=True):
    """What a profile means.

    Args:
        name: of the rule.
        says: what it found.
        how: the arithmetic.

    """

    name: str
    says: str
    how: str


class JobProfile(Value, frozen=True, kw_only=True):
    """What the ranks of one job spent in MPI.

    Args:
        job: that the files name.
        context: the part of the program; empty if it is all of it.
        size: ranks of the job; 0 if no file says so.
        ranks: whose files are there.
        calls: of MPI routines, of these ranks.
        bytes: that these ranks gave to MPI, or got from it.
        communication: seconds in MPI, of all ranks that are known.
        elapsed: seconds in all, of the same ranks.
        share: of that time that MPI took; 0 if it is not known.
        routines: the flat profile, by time.
        bins: sizes of messages, by routine.
        tasks: times of every rank that is known, by rank.
        checks: sums that were checked.
        findings: what it means.

    """

    job: str
    context: str
    size: int
    ranks: tuple[int, ...]
    calls: int
    bytes: float
    communication: float
    elapsed: float
    share: float
    routines: tuple[Total, ...]
    bins: tuple[Bin, ...]
    tasks: tuple[TaskTimes, ...]
    checks: tuple[SumCheck, ...]
    findings: tuple[ProfileFinding, ...]


def job_profiles(sources: Iterable[Source]) -> tuple[JobProfile, ...]:
    """Put the profiles of ranks together.

    Args:
        sources: in any order. A rank that comes again begins another job.

    Returns:
        A profile per job, and per context within it, in the order they came.

    """
    groups: dict[tuple[str, int, str, int], list[Profile]] = {}
    seen: dict[tuple[str, int, str, int], int] = defaultdict(int)
    for source in sources:
        profile = source.profile
        rank = (source.job, profile.size, profile.context, profile.rank)
        turn = seen[rank]
        seen[rank] += 1
        groups.setdefault((source.job, profile.size, profile.context, turn), []).append(profile)
    return tuple(
        _job(job, sorted(profiles, key=lambda p: p.rank))
        for (job, _, _, _), profiles in groups.items()
    )


def _job(job: str, profiles: Sequence[Profile]) -> JobProfile:
    routines, bins = _totals(profiles), _bins(profiles)
    tasks = _tasks(profiles)
    communication, elapsed = (sum(times) for times in _times(tasks))
    made = JobProfile(
        job=job,
        context=profiles[0].context,
        size=profiles[0].size,
        ranks=tuple(profile.rank for profile in profiles),
        calls=sum(routine.calls for routine in routines),
        bytes=sum(routine.bytes for routine in routines),
        communication=communication,
        elapsed=elapsed,
        share=communication / elapsed if elapsed else 0.0,
        routines=routines,
        bins=bins,
        tasks=tasks,
        checks=tuple(check for profile in profiles for check in _checks(profile)),
        findings=(),
    )
    found = (*_findings(made), *_files(profiles))
    return structs.replace(made, findings=found)


def _totals(profiles: Sequence[Profile]) -> tuple[Total, ...]:
    rows: dict[str, list[tuple[int, Routine]]] = defaultdict(list)
    for profile in profiles:
        for routine in profile.routines:
            rows[routine.name].append((profile.rank, routine))
    whole = sum(routine.time for profile in profiles for routine in profile.routines)
    return tuple(
        sorted((_total(name, found, whole) for name, found in rows.items()), key=lambda t: -t.time)
    )


def _total(name: str, found: Sequence[tuple[int, Routine]], whole: float) -> Total:
    rank, most = max(found, key=lambda one: one[1].time)
    time = sum(routine.time for _, routine in found)
    return Total(
        name=name,
        calls=sum(routine.calls for _, routine in found),
        bytes=sum(routine.calls * routine.bytes for _, routine in found),
        time=time,
        share=time / whole if whole else 0.0,
        most=most.time,
        most_rank=rank,
    )


def _bins(profiles: Sequence[Profile]) -> tuple[Bin, ...]:
    """Add up messages by the power of two that they fit into, as the profiles themselves do."""
    rows: dict[tuple[str, int], list[Routine]] = defaultdict(list)
    for profile in profiles:
        for row in profile.distributions:
            rows[row.name, _power(row.bytes)].append(row)
    found = []
    for (name, _), same in rows.items():
        calls = sum(row.calls for row in same)
        total = sum(row.calls * row.bytes for row in same)
        time = sum(row.time for row in same)
        size = total / calls if calls else 0.0
        found.append(Bin(routine=name, size=size, calls=calls, bytes=total, time=time))
    return tuple(sorted(found, key=lambda row: (row.routine, row.size)))


def _power(size: float) -> int:
    """Give the power of two that a size fits into."""
    return max(0, (max(0, round(size) - 1)).bit_length())


def _tasks(profiles: Sequence[Profile]) -> tuple[TaskTimes, ...]:
    """Take the table of all ranks where a file has it, and each file's own totals."""
    known = {
        p.rank: TaskTimes(
            rank=p.rank,
            communication=p.communication,
            elapsed=p.elapsed,
            user=p.user,
            system=p.system,
            memory=p.memory,
        )
        for p in profiles
        if p.complete
    }
    for profile in profiles:
        known |= {task.rank: task for task in profile.tasks}
    return tuple(task for _, task in sorted(known.items()))


def _times(tasks: Sequence[TaskTimes]) -> tuple[list[float], list[float]]:
    return [task.communication for task in tasks], [task.elapsed for task in tasks]


def _checks(profile: Profile) -> Iterator[SumCheck]:
    """Check a profile by its own sums, as far as it has them."""
    whose = f"rank {profile.rank}"
    bins: dict[str, list[Routine]] = defaultdict(list)
    for row in profile.distributions:
        bins[row.name].append(row)
    for routine in profile.routines:
        if routine.name in bins:
            yield from _bin_checks(whose, routine, bins[routine.name])
    if not profile.complete:
        yield SumCheck(what=f"{whose}: its totals", agrees=False, how="they are missing")
        return
    files = [routine for routine in profile.routines if on_files(routine.name)]
    others = [routine for routine in profile.routines if not on_files(routine.name)]
    yield _sum_check(f"{whose}: times of its routines", others, profile.communication)
    if files:
        yield _sum_check(f"{whose}: times of its operations on files", files, profile.files)
    inside = profile.communication + profile.files
    yield SumCheck(
        what=f"{whose}: time in MPI within the elapsed time",
        agrees=inside <= profile.elapsed + MILLI,
        how=f"{inside:.3f} s of {profile.elapsed:.3f} s",
    )
    yield from _task_checks(whose, profile)


def _task_checks(whose: str, profile: Profile) -> Iterator[SumCheck]:
    for task in profile.tasks:
        if task.rank == profile.rank:
            yield SumCheck(
                what=f"{whose}: its line in the table of all ranks",
                agrees=abs(task.communication - profile.communication) <= CENTI,
                how=f"{task.communication:.2f} s, and {profile.communication:.3f} s in its total",
            )
    if profile.tasks:
        yield SumCheck(
            what=f"{whose}: lines in the table of all ranks",
            agrees=len(profile.tasks) == profile.size,
            how=f"{len(profile.tasks)}, for {profile.size} ranks",
        )


def _sum_check(what: str, rows: Sequence[Routine], told: float) -> SumCheck:
    total = sum(row.time for row in rows)
    return SumCheck(
        what=what,
        agrees=abs(total - told) <= MILLI * (len(rows) + 1),
        how=f"{total:.3f} s, and {told:.3f} s in its total",
    )


def _bin_checks(whose: str, routine: Routine, rows: Sequence[Routine]) -> Iterator[SumCheck]:
    calls = sum(row.calls for row in rows)
    yield SumCheck(
        what=f"{whose}: {routine.name}, calls by size",
        agrees=calls == routine.calls,
        how=f"{calls}, and {routine.calls} in its row",
    )
    mean = sum(row.calls * row.bytes for row in rows) / calls if calls else 0.0
    yield SumCheck(
        what=f"{whose}: {routine.name}, bytes by size",
        agrees=abs(mean - routine.bytes) <= TENTH,
        how=f"{mean:.1f} B a call, and {routine.bytes:.1f} B in its row",
    )
    time = sum(row.time for row in rows)
    yield SumCheck(
        what=f"{whose}: {routine.name}, time by size",
        agrees=abs(time - routine.time) <= MILLI * (len(rows) + 1),
        how=f"{time:.3f} s, and {routine.time:.3f} s in its row",
    )


def _findings(job: JobProfile) -> Iterator[ProfileFinding]:
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


def _files(profiles: Sequence[Profile]) -> Iterator[ProfileFinding]:
    """Say how much of the time goes to files: the network may have no part in it."""
    whole = [profile for profile in profiles if profile.complete]
    time, elapsed = sum(p.files for p in whole), sum(p.elapsed for p in whole)
    if time > MILLI and elapsed:
        yield ProfileFinding(
            name="files",
            says=f"{time / elapsed:.0%} of the time is spent in files, by MPI-IO, beside that",
            how=f"{time:.3f} s of {elapsed:.3f} s, of {len(whole)} rank(s) together",
        )


def _no_payload(job: JobProfile) -> ProfileFinding | None:
    """Notice ranks that spend time in MPI, and give it nothing to carry."""
    routines = [routine for routine in job.routines if not on_files(routine.name)]
    time, held = sum(r.time for r in routines), sum(r.bytes for r in routines)
    sizes = [row.size for row in job.bins if not on_files(row.routine)] or [
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
    carried = [row for row in job.bins if not on_files(row.routine)]
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
    """Compare ranks: who computes longest waits least."""
    if len(job.tasks) < 2:  # noqa: PLR2004 - there must be another rank
        return None
    least = min(job.tasks, key=lambda task: task.communication)
    most = max(job.tasks, key=lambda task: task.communication)
    elapsed = max(task.elapsed for task in job.tasks)
    apart = most.communication - least.communication
    if not elapsed or apart < UNEVEN * elapsed:
        return None
    middle = median(task.communication for task in job.tasks)
    return ProfileFinding(
        name="imbalance",
        says=f"uneven: rank {most.rank} spends {apart / elapsed:.0%} of the time more in MPI than "
        f"rank {least.rank}, for which the others may be waiting",
        how=f"{least.communication:.2f} s (rank {least.rank}), median {middle:.2f} s, "
        f"{most.communication:.2f} s (rank {most.rank}), of {elapsed:.2f} s elapsed",
    )


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
    """Name larger messages that take less time each: so the small ones are no transfers."""
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
