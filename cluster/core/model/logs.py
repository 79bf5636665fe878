"""Every frozen value that parsers read from the output of other people's tools.

Times are seconds, sizes bytes, rates bytes per second, whatever the tool printed.
"""

import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

from cluster.core.model.results.measurements import Definition, Measurement
from cluster.core.model.results.records import Note
from cluster.core.model.value import Value

CAUSE: Literal["cause"] = "cause"  # of a failure, of no known kind
# Kinds of failures at the start of a job, of which each has its remedy.
START_UP = (
    *("shm", "memlock", "interface", "names", "unreachable", "device", "fabric_manager"),
    *("gid", "died", "build", "memory", "hardware", "start", "timeout"),
)
# What launchers add at the end of a job that failed.
_EPILOGUE = re.compile(
    r"Primary job|exited due to|noticed that|detected that|BAD TERMINATION|EXIT STRING|ORTE "
    r"|srun: (?:error|Job)"
    r"|slurmstepd: error: \*\*\*|MPI_ABORT was invoked|exitcode|ChildFailedError|non-zero"
    r"|core dumped"
    r"|exit (?:code|status)|entire process down|exited on signal|MPI_ERRORS_ARE_FATAL"
    r"|no row|no report|rows of"
)
NUMA = "NUMA"  # the name of a NUMA node is this and its number


class Device(Value, frozen=True, kw_only=True):
    """A row of the matrix of `nvidia-smi topo -m`, or of the distances of `numactl --hardware`."""

    name: str  # such as `GPU0`, `NIC0`, `mlx5_0` or `NUMA0`
    # to each device of `Topology.devices`: `X` itself, `NV4` (bonded NVLinks), `PIX`, `PXB`, `PHB`,
    # `NODE`, `SYS`, or the older `SOC`; of NUMA nodes the distance, such as `10`; `?` where the log
    # lost it
    paths: tuple[str, ...]
    cpus: str = ""  # near it, such as `0-19,40-59`; empty if the log does not say
    numa: str = ""  # nodes near it, such as `0`; empty if the log does not say
    model: str = ""  # the name of a NIC in the legend, such as `mlx5_0`; empty if there is none

    @property
    def is_gpu(self) -> bool:
        number = self.name.removeprefix("GPU")
        return number != self.name and number.isascii() and number.isdigit()

    @property
    def is_node(self) -> bool:
        return self.name.startswith(NUMA)


class Topology(Value, frozen=True, kw_only=True, tag="topology"):
    """How the GPUs and NICs of one host are connected."""

    devices: tuple[Device, ...]  # in the order of the columns

    def path(self, a: str, b: str) -> str:
        """Return how two devices are connected, such as `NV2`; `?` if the log does not say."""
        names = [device.name for device in self.devices]
        if a not in names or b not in names:
            return "?"
        return self.devices[names.index(a)].paths[names.index(b)]


class PeerAccess(Value, frozen=True, kw_only=True, tag="peer-access"):
    """Which GPUs may use which others' memory."""

    devices: tuple[str, ...]  # such as `GPU0`, in the order of rows and columns
    # a row per device: `X` itself, `OK`, `NS`, `CNS`, `GNS`, `TNS`, `DR`, `U`; `?` where the log
    # lost it
    status: tuple[tuple[str, ...], ...]


class NcclEdge(Value, frozen=True, kw_only=True):
    """What carries data from one rank to another."""

    source: int  # rank that sends; -1 if the log does not say
    target: int  # rank that receives; -1 if the log does not say
    transport: str  # `P2P`, `SHM`, `NET`, `COLLNET` or `NVLS`
    via: str  # all of what NCCL printed, such as `P2P/CUMEM/read` or `NET/IB/0/GDRDMA`
    channels: tuple[int, ...]  # numbers of the channels, sorted
    direct: bool = False  # GPUDirect RDMA: no copy through the host's memory


class NcclRank(Value, frozen=True, kw_only=True):
    """What a log reports about one rank."""

    rank: int  # its number
    host: str = ""  # it ran on; empty if the log does not say
    device: int = -1  # its CUDA device; -1 if the log does not say
    bus: str = ""  # PCI address of the device, as NCCL printed it
    # the number of the GPU on its host, whatever CUDA_VISIBLE_DEVICES says; -1 if the log does not
    # say
    gpu: int = -1
    # the text in brackets after the rank, in lines about its connections: its CUDA device, its PCI
    # address or the number of its GPU, depending on NCCL's version
    place: str = ""


class NcclTree(Value, frozen=True, kw_only=True):
    """Where a rank is in the tree of a channel."""

    channel: int  # its number
    rank: int  # whose place it is
    up: int  # its parent; -1 for the root
    down: tuple[int, ...]  # its children


class Setting(Value, frozen=True, kw_only=True):
    """A variable that NCCL read from the environment."""

    name: str  # such as `NCCL_P2P_LEVEL`
    value: str  # as NCCL understood it, such as `LOC`


class Symptom(Value, frozen=True, kw_only=True):
    """A line that is a sign of a known problem."""

    kind: str  # of the problem, such as `cma`; see `parsers/symptoms.py`
    text: str  # of the line
    # the figure in it, such as the value of a kernel setting; empty if there is none
    value: str = ""
    line: int = 0  # its number, from 1; 0 if it is not known


class Symptoms(Value, frozen=True, kw_only=True, tag="symptoms"):
    """Lines that are signs of known problems: errors of libraries, settings of hosts."""

    found: tuple[Symptom, ...]  # in the order of the log; the first few of each kind


class NcclLog(Value, frozen=True, kw_only=True, tag="nccl-log"):
    """NCCL's log of its decisions (NCCL_DEBUG=INFO)."""

    versions: tuple[str, ...] = ()  # of NCCL; more than one if ranks differ
    size: int = 0  # ranks of the largest communicator; 0 if the log does not say
    nodes: int = 0  # hosts of the largest communicator; 0 if the log does not say
    communicators: int = 0  # that were created, as counted in the lines of rank 0
    channels: int = 0  # of the collectives; 0 if the log does not say
    p2p_channels: int = 0  # of sends and receives; 0 if the log does not say
    # the order of ranks of each channel, as far as it was printed
    rings: tuple[tuple[int, ...], ...] = ()
    trees: tuple[NcclTree, ...] = ()  # the place of each rank in each channel's tree
    edges: tuple[NcclEdge, ...] = ()  # what carries data between which ranks
    ranks: tuple[NcclRank, ...] = ()  # where they ran
    gpus: tuple[int, ...] = ()  # numbers, on their host, of the GPUs that ranks were bound close to
    networks: tuple[str, ...] = ()  # that NCCL uses between hosts, such as `IB` or `Socket`
    # of these networks, such as `mlx5_0:1/IB` or `eth0:10.0.0.1<0>`
    interfaces: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()  # from the environment
    warnings: tuple[str, ...] = ()  # each once, in the order of the log
    connected: bool = False  # ranks reported connected rings, or a complete set-up
    fabric: bool = False  # NVLink joins hosts (MNNVL, multi-node NVLink)
    copied_sends: bool = False  # receives between hosts are GPUDirect RDMA, and sends are not
    torn: int = 0  # how many lines were interrupted by other ranks' lines


class Routine(Value, frozen=True, kw_only=True, gc=False):
    """A row of an MPI profile."""

    name: str  # such as `MPI_Allreduce`
    calls: int  # how many
    bytes: float  # of a call, on average
    time: float  # in all calls, seconds


def is_file_routine(name: str) -> bool:
    """Tell whether a routine of MPI works on files; its time is not communication."""
    return name.startswith("MPI_File_")


class RoleTime(Value, frozen=True, kw_only=True):
    """What a summary says about the rank with the least, the median or the most time in MPI."""

    role: str  # `minimum`, `median` or `maximum`
    rank: int  # that has it
    time: float  # in MPI, seconds


class TaskTimes(Value, frozen=True, kw_only=True):
    """A row of the table of all ranks."""

    rank: int  # its number
    host: str = ""  # it ran on; empty if the file does not say
    communication: float  # seconds in MPI
    elapsed: float  # seconds in all
    user: float = 0.0  # seconds of processor time; 0 if the file does not say
    system: float = 0.0  # seconds of it in the kernel; 0 if the file does not say
    memory: float = 0.0  # largest resident set in bytes; 0 if the file does not say


class ProfileSection(Value, frozen=True, kw_only=True):
    """A part of a profile with a table of its own: a call site, a stack, a communicator size."""

    kind: str  # `call site`, `call stack`, `communicator size`, `parent` or `on-node`
    name: str  # such as the address, or the sizes
    time: float  # in MPI, seconds
    routines: tuple[Routine, ...] = ()  # its rows


class Profile(Value, frozen=True, kw_only=True, tag="profile"):
    """What one rank spent in MPI, as IBM's mpitrace wrote it."""

    rank: int = -1  # whose file it is
    size: int = 0  # ranks of the job
    region: str = ""  # that was measured, such as `MPI_Init() to MPI_Finalize()`
    context: str = ""  # the name of the part of the program; empty if it is all of it
    routines: tuple[Routine, ...] = ()  # the flat profile
    distributions: tuple[Routine, ...] = ()  # a row per routine and size of message
    communication: float = 0.0  # seconds in MPI, without its operations on files
    files: float = 0.0  # seconds in these
    elapsed: float = 0.0  # seconds in all
    user: float = 0.0  # seconds of processor time
    system: float = 0.0  # seconds of it in the kernel
    memory: float = 0.0  # largest resident set in bytes
    # `minimum`, `median`, `maximum`: those that this rank had in communication time
    roles: tuple[str, ...] = ()
    sections: tuple[ProfileSection, ...] = ()  # parts by call site, stack or communicator
    tasks: tuple[TaskTimes, ...] = ()  # the table of all ranks, which only rank 0 writes
    # the ranks with the least, the median and the most time in MPI, as printed
    extremes: tuple[RoleTime, ...] = ()
    complete: bool = True  # whether the file has its totals


Detail = Topology | PeerAccess | NcclLog | Profile | Symptoms


class Parsed(Value, frozen=True, kw_only=True):
    """The results of one run of one tool."""

    format: str  # the parser that read it
    title: str = ""  # what was run, such as `all_reduce` or `OSU MPI Latency Test v5.7.1`
    first: int = 0  # the number of its first line in the log, from 1
    measurements: Sequence[Measurement] = ()  # its values, in common units
    definitions: tuple[Definition, ...] = ()  # of their metrics
    detail: Detail | None = None  # what the log says besides measurements, such as a topology
    notes: tuple[Note, ...] = ()  # what a reader of the numbers must know
    whole: bool = True  # no line of it is missing, as far as known
    failures: tuple[str, ...] = ()  # failures that the log itself records
    failed_at: tuple[int, ...] = ()  # the lines of these failures; 0 where that is not known
    expects: str = ""  # what its rows look like, if its only failure is that there is none
    # the collective, as MPI and NCCL name it without their prefix, such as `all_reduce`; empty if
    # it is none, or if the log does not say
    operation: str = ""
    ranks: int = 0  # how many took part; 0 if the log does not say
    hosts: int = 0  # how many the ranks were on; 0 if the log does not say
    hosts_of_job: bool = False  # `hosts` are those of the whole job, and the ranks may be on fewer
    devices: tuple[str, ...] = ()  # models of GPUs, each once, such as `NVIDIA A100-SXM4-40GB`
    # other settings that the tool prints: `version`, `congestion`, `mss`
    settings: tuple[Setting, ...] = ()


def first_cause(results: Sequence[Parsed]) -> Symptom | None:
    """Return the line that decided that a job failed: the first of no launcher, if any."""
    failures = [
        Symptom(kind=CAUSE, text=text, line=line)
        for result in results
        for text, line in zip_longest(result.failures, result.failed_at, fillvalue=0)
        if isinstance(text, str) and isinstance(line, int)
    ]
    signs = [
        sign
        for result in results
        if isinstance(result.detail, Symptoms)
        for sign in result.detail.found
        if sign.kind in (CAUSE, *START_UP)
    ]
    if not failures:  # it failed before anything else was printed
        is_silent = all(isinstance(result.detail, Symptoms) for result in results)
        signs = [sign for sign in signs if is_silent and sign.kind in START_UP[2:]]
    causes = [sign for sign in (*failures, *signs) if is_decisive(sign.text)] or failures
    return min(causes, key=lambda sign: sign.line or sys.maxsize, default=None)


def is_decisive(text: str) -> bool:
    """Tell whether a failure is no launcher's at the end of a job, and no lack of rows."""
    return _EPILOGUE.search(text) is None


class Unread(Value, frozen=True, kw_only=True):
    """A line that no parser understood."""

    line: int  # its number, from 1
    text: str  # its beginning


class Reading(Value, frozen=True, kw_only=True):
    """The contents of a log, of one tool or several."""

    results: tuple[Parsed, ...]  # one for each run of a tool, in the order of the log
    lines: int  # how many are not empty
    unread: int  # how many of them no parser understood
    examples: tuple[Unread, ...] = ()  # the first of those lines
