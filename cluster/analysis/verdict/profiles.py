"""Combines MPI profiles of single ranks into that of a job: totals, imbalance, checks, findings.

A time in MPI includes the transfer and all waiting for other ranks. A profile cannot separate them,
but sizes help: a small message that takes longer than larger ones was waiting.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from msgspec import structs

from cluster.core.model.logs import Profile, RoleTime, Routine, TaskTimes, is_file_routine
from cluster.core.model.value import Value

MILLI = 0.001  # seconds to which a profile rounds


class Source(Value, frozen=True, kw_only=True):
    """A profile, and the job that its file names."""

    job: str  # such as `19013`; the name of the file, if it names no job
    profile: Profile


class Total(Value, frozen=True, kw_only=True):
    """A routine, over all ranks that have a file."""

    name: str  # such as `MPI_Allreduce`
    calls: int
    bytes: float
    time: float  # of all these ranks, seconds
    share: float
    most: float  # the time of the rank that spent most in it, seconds
    most_rank: int


class Bin(Value, frozen=True, kw_only=True):
    """Messages of one routine and of about the same size, over all ranks that have a file."""

    routine: str  # such as `MPI_Allreduce`
    size: float  # of a message on average, bytes
    calls: int
    bytes: float
    time: float  # of all these ranks, seconds


CheckedSum = Literal[
    "totals", "routines", "files", "inside", "task", "tasks", "calls", "bytes", "time"
]
FindingName = Literal[
    "share", "files", "no_payload", "payload", "waiting", "imbalance", "negotiation"
]


class SumCheck(Value, frozen=True, kw_only=True):
    """A sum in a profile that must agree with another figure in it."""

    sum: CheckedSum
    agrees: bool
    rank: int
    routine: str = ""  # of sums over the sizes of one
    value: float = 0.0
    printed: float = 0.0  # the figure that it must agree with


class Imbalance(Value, frozen=True, kw_only=True):
    """The ranks with the least and the most time in MPI."""

    least: RoleTime
    most: RoleTime
    elapsed: float  # seconds; 0 if the log does not say
    median: float = 0.0  # time in MPI, where the time of every rank is known
    ranks: tuple[int, int] = (0, 0)  # of which the time is known, of all; zeros if of all


class ProfileFinding(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a profile shows, and its figures."""

    name: FindingName
    share: float = 0.0  # of the time; of the bytes, of a payload
    time: float = 0.0  # seconds
    elapsed: float = 0.0  # that the time is a part of, seconds
    ranks: int = 0
    calls: int = 0
    bytes: float = 0.0
    of: Total | None = None  # the routine of a negotiation
    of_bytes: float = 0.0  # of all messages, of a payload
    largest: float = 0.0  # bytes of a message
    routines: tuple[str, ...] = ()
    row: Bin | None = None  # the messages that are meant
    faster: Bin | None = None  # larger messages that take less time
    imbalance: Imbalance | None = None


class JobProfile(Value, frozen=True, kw_only=True):
    """The time that the ranks of one job spent in MPI."""

    job: str
    context: str  # the part of the program; empty if it is all of it
    size: int  # ranks of the job; 0 if no file says so
    ranks: tuple[int, ...]
    calls: int
    bytes: float
    communication: float  # seconds in MPI, of all ranks that are known
    elapsed: float  # seconds in all, of the same ranks
    share: float  # of that time that MPI took; 0 if it is not known
    routines: tuple[Total, ...]
    bins: tuple[Bin, ...]
    tasks: tuple[TaskTimes, ...]
    # the ranks with the least, the median and the most time in MPI, as a file says
    extremes: tuple[RoleTime, ...] = ()
    checks: tuple[SumCheck, ...]
    findings: tuple[ProfileFinding, ...]


def job_profiles(sources: Iterable[Source]) -> tuple[JobProfile, ...]:
    """Combine the profiles of ranks: one per job, and per context, in the order of the sources."""
    groups: dict[tuple[str, int, str, int], list[Profile]] = {}
    turns: dict[tuple[str, int, str, int], int] = defaultdict(int)
    for source in sources:
        profile = source.profile
        rank = (source.job, profile.size, profile.context, profile.rank)
        turn = turns[rank]
        turns[rank] += 1
        groups.setdefault((source.job, profile.size, profile.context, turn), []).append(profile)
    return tuple(
        _job(job, sorted(profiles, key=lambda p: p.rank))
        for (job, _, _, _), profiles in groups.items()
    )


def _job(job: str, profiles: Sequence[Profile]) -> JobProfile:
    routines, bins, tasks = _totals(profiles), _bins(profiles), _tasks(profiles)
    communication = sum(task.communication for task in tasks)
    total = sum(task.elapsed for task in tasks)
    job_profile = JobProfile(
        job=job,
        context=profiles[0].context,
        size=profiles[0].size,
        ranks=tuple(profile.rank for profile in profiles),
        calls=sum(routine.calls for routine in routines),
        bytes=sum(routine.bytes for routine in routines),
        communication=communication,
        elapsed=total,
        share=communication / total if total else 0.0,
        routines=routines,
        bins=bins,
        tasks=tasks,
        extremes=next((p.extremes for p in profiles if p.extremes), ()),
        checks=tuple(check for profile in profiles for check in sum_checks(profile)),
        findings=(),
    )
    all_findings = (*findings(job_profile), *file_findings(profiles))
    return structs.replace(job_profile, findings=all_findings)


def _totals(profiles: Sequence[Profile]) -> tuple[Total, ...]:
    rows: dict[str, list[tuple[int, Routine]]] = defaultdict(list)
    for profile in profiles:
        for routine in profile.routines:
            rows[routine.name].append((profile.rank, routine))
    whole = sum(routine.time for profile in profiles for routine in profile.routines)
    totals = []
    for name, routines in rows.items():
        rank, most = max(routines, key=lambda pair: pair[1].time)
        time = sum(routine.time for _, routine in routines)
        total = Total(
            name=name,
            calls=sum(routine.calls for _, routine in routines),
            bytes=sum(routine.calls * routine.bytes for _, routine in routines),
            time=time,
            share=time / whole if whole else 0.0,
            most=most.time,
            most_rank=rank,
        )
        totals.append(total)
    return tuple(sorted(totals, key=lambda t: -t.time))


def _bins(profiles: Sequence[Profile]) -> tuple[Bin, ...]:
    """Add up messages by size, rounded up to powers of two, as the profiles themselves do."""
    rows: dict[tuple[str, int], list[Routine]] = defaultdict(list)
    for profile in profiles:
        for row in profile.distributions:
            rows[row.name, max(0, round(row.bytes) - 1).bit_length()].append(row)
    bins = []
    for (name, _), sized_rows in rows.items():
        calls = sum(row.calls for row in sized_rows)
        total = sum(row.calls * row.bytes for row in sized_rows)
        time = sum(row.time for row in sized_rows)
        size = total / calls if calls else 0.0
        bins.append(Bin(routine=name, size=size, calls=calls, bytes=total, time=time))
    return tuple(sorted(bins, key=lambda row: (row.routine, row.size)))


def _tasks(profiles: Sequence[Profile]) -> tuple[TaskTimes, ...]:
    """Take the table of all ranks, if a file has it, and the totals of each file."""
    tasks = {
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
        tasks |= {task.rank: task for task in profile.tasks}
    return tuple(task for _, task in sorted(tasks.items()))


CENTI = 0.01  # seconds to which the table of all ranks rounds
TENTH = 0.1  # bytes to which an average rounds


def sum_checks(profile: Profile) -> Iterator[SumCheck]:
    """Check the sums of a profile, as far as it has them."""
    bins: dict[str, list[Routine]] = defaultdict(list)
    for row in profile.distributions:
        bins[row.name].append(row)
    for routine in profile.routines:
        if routine.name in bins:
            rows = bins[routine.name]
            calls = sum(row.calls for row in rows)
            yield SumCheck(
                sum="calls",
                rank=profile.rank,
                routine=routine.name,
                agrees=calls == routine.calls,
                value=calls,
                printed=routine.calls,
            )
            mean = sum(row.calls * row.bytes for row in rows) / calls if calls else 0.0
            yield SumCheck(
                sum="bytes",
                rank=profile.rank,
                routine=routine.name,
                agrees=abs(mean - routine.bytes) <= TENTH,
                value=mean,
                printed=routine.bytes,
            )
            yield _sum_check("time", profile.rank, rows, routine.time, routine.name)
    if not profile.complete:
        yield SumCheck(sum="totals", rank=profile.rank, agrees=False)
        return
    files = [routine for routine in profile.routines if is_file_routine(routine.name)]
    routines = [routine for routine in profile.routines if not is_file_routine(routine.name)]
    yield _sum_check("routines", profile.rank, routines, profile.communication)
    if files:
        yield _sum_check("files", profile.rank, files, profile.files)
    inside = profile.communication + profile.files
    yield SumCheck(
        sum="inside",
        rank=profile.rank,
        agrees=inside <= profile.elapsed + MILLI,
        value=inside,
        printed=profile.elapsed,
    )
    yield from _task_checks(profile)


def _task_checks(profile: Profile) -> Iterator[SumCheck]:
    for task in profile.tasks:
        if task.rank == profile.rank:
            yield SumCheck(
                sum="task",
                rank=profile.rank,
                agrees=abs(task.communication - profile.communication) <= CENTI,
                value=task.communication,
                printed=profile.communication,
            )
    if profile.tasks:
        yield SumCheck(
            sum="tasks",
            rank=profile.rank,
            agrees=len(profile.tasks) == profile.size,
            value=len(profile.tasks),
            printed=profile.size,
        )


def _sum_check(
    kind: CheckedSum, rank: int, rows: Sequence[Routine], log_total: float, routine: str = ""
) -> SumCheck:
    total = sum(row.time for row in rows)
    agrees = abs(total - log_total) <= MILLI * (len(rows) + 1)
    return SumCheck(
        sum=kind, rank=rank, routine=routine, agrees=agrees, value=total, printed=log_total
    )


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
        time, total, ranks = job.communication, job.elapsed, len(job.tasks)
        yield ProfileFinding(name="share", share=job.share, time=time, elapsed=total, ranks=ranks)
    for rule in (_no_payload, _payload, _waiting, _imbalance):
        finding = rule(job)
        if finding:
            yield finding
    # find messages too small to be data, in routines that take much of the time
    for routine in job.routines:
        rows = [row for row in job.bins if row.routine == routine.name]
        row = max(rows, key=lambda r: r.calls, default=None)
        if row is None or row.size > SMALL or row.calls < ENOUGH_CALLS or not routine.time:
            continue
        calls, time = row.calls / routine.calls, row.time / routine.time
        if routine.share >= MUCH and calls >= MOST_CALLS and time >= MUCH:
            # Larger messages that take less time each prove that small ones wait.
            per_call = row.time / row.calls
            candidates = [r for r in rows if r.size > row.size and r.time > 5 * MILLI]
            faster = [r for r in candidates if r.time / r.calls < per_call]
            largest = max(faster, key=lambda r: r.size, default=None)
            yield ProfileFinding(name="negotiation", of=routine, row=row, faster=largest)


def file_findings(profiles: Sequence[Profile]) -> Iterator[ProfileFinding]:
    """Return how much of the time is spent on files, which may not involve the network."""
    whole = [profile for profile in profiles if profile.complete]
    time, total = sum(p.files for p in whole), sum(p.elapsed for p in whole)
    if time > MILLI and total:
        yield ProfileFinding(
            name="files", share=time / total, time=time, elapsed=total, ranks=len(whole)
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
        name="no_payload",
        calls=sum(r.calls for r in routines),
        bytes=total,
        time=time,
        largest=largest,
    )


def _payload(job: JobProfile) -> ProfileFinding | None:
    """Name the messages that carry most of the bytes."""
    messages = [row for row in job.bins if not is_file_routine(row.routine)]
    sends = [row for row in messages if row.routine not in RECEIVES]
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
    longest = max((task.elapsed for task in job.tasks), default=0.0)
    summary = {extreme.role: extreme for extreme in job.extremes}
    if len(summary) == len(ROLES):
        least, middle, most = (summary[role] for role in ROLES)
        return Imbalance(least=least, most=most, elapsed=longest, median=middle.time)
    if not job.tasks:
        return None
    times = [RoleTime(role="", rank=t.rank, time=t.communication) for t in job.tasks]
    least, most = (end(times, key=lambda rank: rank.time) for end in (min, max))
    if len(times) < job.size:
        ranks = (len(times), job.size)
        return Imbalance(least=least, most=most, elapsed=longest, ranks=ranks)
    middle_time = median(rank.time for rank in times)
    return Imbalance(least=least, most=most, elapsed=longest, median=middle_time)
