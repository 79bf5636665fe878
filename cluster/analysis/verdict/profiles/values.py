"""The values of the MPI profile of a job."""

from typing import Literal

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


CheckedSum = Literal[
    "totals", "routines", "files", "inside", "task", "tasks", "calls", "bytes", "time"
]
FindingName = Literal[
    "share", "files", "no payload", "payload", "waiting", "imbalance", "negotiation"
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
