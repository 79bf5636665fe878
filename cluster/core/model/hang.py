"""What sources say of the ranks of a job that may hang, and the answer."""

from typing import Literal

from cluster.core.model.value import Value

ProcessState = Literal[
    "", "running", "sleeping", "disk", "stopped", "gone", "unresponsive", "unreachable", "dead"
]
Confidence = Literal["certain", "likely", "possible"]
Verdict = Literal["hung", "slow", "undecided", "moving", "unknown"]


class Operation(Value, frozen=True, kw_only=True):
    """One collective that a rank has entered."""

    group: str  # the communicator or process group
    number: int  # in its group, from 1
    name: str  # such as all_reduce; empty if only the number is known
    done: bool = False
    since: float = 0.0  # when it was entered, in seconds since the epoch; 0 if not known
    sizes: tuple[tuple[int, ...], ...] = ()  # of the inputs
    dtypes: tuple[str, ...] = ()
    place: str = ""  # in the program: FILE:LINE in FUNCTION
    peer: int = -1  # of a message, the other rank as its group numbers it; -1: a collective


class Membership(Value, frozen=True, kw_only=True):
    """The global ranks of a group, as one rank knows them."""

    group: str
    ranks: tuple[int, ...]


class Count(Value, frozen=True, kw_only=True):
    """How many collectives of a kind a rank has entered in a group."""

    group: str
    name: str
    entered: int


class Frame(Value, frozen=True, kw_only=True):
    """One level of a stack."""

    function: str
    file: str
    line: int = 0
    text: str = ""  # the line of the program, if it could be read


class Snapshot(Value, frozen=True, kw_only=True):
    """What one source says of one rank at one time."""

    source: str
    rank: int = -1  # global; -1 if only the process is known
    host: str = ""
    addresses: tuple[str, ...] = ()  # of its host
    pid: int = 0
    at: float = 0.0  # in seconds since the epoch; 0 if not known
    operations: tuple[Operation, ...] = ()
    groups: tuple[Membership, ...] = ()
    counts: tuple[Count, ...] = ()
    pause: float = 0.0  # seconds, the longest between two collectives, if the source says it
    partial: bool = False  # older collectives were overwritten
    state: ProcessState = ""
    wchan: str = ""  # where in the kernel it waits
    kernel: tuple[str, ...] = ()  # the functions that led there, the innermost first
    call: str = ""  # of MPI, in which it waits for one other rank, such as MPI_Recv
    files: tuple[str, ...] = ()  # that it has open and may be reading or writing
    # full, of those where a file is open for writing
    full: tuple[str, ...] = ()
    stack: tuple[Frame, ...] = ()  # of the main thread, the innermost first
    threads: tuple[tuple[Frame, ...], ...] = ()  # the others
    native: tuple[Frame, ...] = ()  # the levels of C below the main thread's, the innermost first


class DumpFile(Value, frozen=True, kw_only=True):
    """A dump of a rank, as it was written."""

    name: str
    content: bytes
    at: float  # when it was written, in seconds since the epoch


class HostReport(Value, frozen=True, kw_only=True):
    """What the ranks of a job on one host do."""

    snapshots: tuple[Snapshot, ...] = ()
    files: tuple[DumpFile, ...] = ()
    size: int = 0  # ranks of the whole job, if their variables tell


class Stuck(Value, frozen=True, kw_only=True):
    """A collective that some ranks wait in."""

    group: str
    number: int
    name: str
    waiting: tuple[int, ...]
    absent: tuple[int, ...]  # members that have not entered it
    ended: tuple[int, ...] = ()  # members for which it has ended
    unseen: tuple[int, ...] = ()  # members of which no source says whether they have
    has_members: bool = True  # which ranks the group has is known
    since: float = 0.0  # when the first of them entered it
    waited: float = 0.0  # seconds, the longest of them, each by its own clock
    place: str = ""


class Straggler(Value, frozen=True, kw_only=True):
    """A rank that the others wait for, and what it does instead."""

    rank: int
    host: str = ""
    pid: int = 0
    state: ProcessState = ""
    wchan: str = ""
    call: str = ""
    frame: Frame | None = None
    operation: Operation | None = None  # what it has entered instead
    file: str = ""


class CauseWords(Value, frozen=True, kw_only=True):
    """The words of a rule that is added."""

    name: str
    confirm: str


class Cause(Value, frozen=True, kw_only=True):
    """What one rule has found."""

    kind: str = ""  # the name of the rule's file
    stragglers: tuple[Straggler, ...] = ()
    stuck: Stuck | None = None
    confidence: Confidence
    usual: str = ""  # the operation, or the sizes and types, of most ranks
    other: str = ""  # of the stragglers
    usual_ranks: tuple[int, ...] = ()  # the members of a group, as most ranks know them
    other_ranks: tuple[int, ...] = ()
    hard: bool = False  # a hang however short the wait was
    words: CauseWords | None = None


class HangAnswer(Value, frozen=True, kw_only=True):
    """Which rank, and why."""

    verdict: Verdict
    cause: Cause | None = None
    others: tuple[Cause, ...] = ()  # less likely, or what follows from the cause
    waited: float = 0.0  # seconds; 0 if not known
    rate: float = 0.0  # collectives per second, of a job that goes on
    ranks: tuple[int, ...] = ()  # of which something is known
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # sources that would have raised the confidence
