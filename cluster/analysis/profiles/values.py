"""The values of the MPI profile of a job."""

from __future__ import annotations

from cluster.core.model.logs import Profile, RoleTime, TaskTimes
from cluster.core.model.value import Value

MILLI = 0.001  # seconds to which a profile rounds


class Source(Value, frozen=True, kw_only=True):
    """A profile, and the job that its file names.

    Args:
        job: such as `19013`; the name of the file, if it names no job.
        profile: of one rank.

    """

    job: str
    profile: Profile


class Total(Value, frozen=True, kw_only=True):
    """A routine, over all ranks that have a file.

    Args:
        name: such as `MPI_Allreduce`.
        calls: of all these ranks.
        bytes: in all calls together.
        time: of all these ranks, seconds.
        share: of the time of these ranks in MPI.
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
    """Messages of one routine and of about the same size, over all ranks that have a file.

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
    """A sum in a profile that must agree with another figure in it.

    Args:
        what: what was added up.
        agrees: whether the two figures agree.
        how: the two figures.

    """

    what: str
    agrees: bool
    how: str


class ProfileFinding(Value, frozen=True, kw_only=True):
    """A finding from a profile.

    Args:
        name: of the rule.
        says: what it found.
        how: the arithmetic.

    """

    name: str
    says: str
    how: str


class JobProfile(Value, frozen=True, kw_only=True):
    """The time that the ranks of one job spent in MPI.

    Args:
        job: that the files name.
        context: the part of the program; empty if it is all of it.
        size: ranks of the job; 0 if no file says so.
        ranks: that have a file.
        calls: of MPI routines, of these ranks.
        bytes: that these ranks passed to MPI, or received from it.
        communication: seconds in MPI, of all ranks that are known.
        elapsed: seconds in all, of the same ranks.
        share: of that time that MPI took; 0 if it is not known.
        routines: the flat profile, by time.
        bins: sizes of messages, by routine.
        tasks: times of every rank that is known, by rank.
        extremes: the ranks with the least, the median and the most time in MPI, as a file says.
        checks: sums that were checked.
        findings: what the profile shows.

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
    extremes: tuple[RoleTime, ...] = ()
    checks: tuple[SumCheck, ...]
    findings: tuple[ProfileFinding, ...]
