"""The values of the MPI profile of a job."""

from __future__ import annotations

from cluster.core.model.logs import Profile, RoleTime, TaskTimes
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


class SumCheck(Value, frozen=True, kw_only=True):
    """A sum in a profile that must agree with another figure in it."""

    what: str
    agrees: bool
    how: str


class ProfileFinding(Value, frozen=True, kw_only=True):
    """A finding from a profile."""

    name: str
    says: str
    how: str


class JobProfile(Value, frozen=True, kw_only=True):
    """The time that the ranks of one job spent in MPI.

    Args:
        context: the part of the program; empty if it is all of it.
        size: ranks of the job; 0 if no file says so.
        communication: seconds in MPI, of all ranks that are known.
        elapsed: seconds in all, of the same ranks.
        share: of that time that MPI took; 0 if it is not known.
        extremes: the ranks with the least, the median and the most time in MPI, as a file says.
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
