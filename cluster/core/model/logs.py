"""Every frozen value that parsers read from the output of other people's tools.

Times are seconds, sizes bytes, rates bytes per second, whatever the tool printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

from cluster.core.model.measurements import Definition, Measurement
from cluster.core.model.value import Value

CAUSE: Literal["cause"] = "cause"  # of a failure, of no known kind
# Kinds of failures at the start of a job, of which each has its remedy.
START_UP = (
    *("shm", "memlock", "interface", "names", "unreachable", "device", "fabric_manager"),
    *("gid", "died", "build"),
)
# What launchers add at the end of a job that failed.
_EPILOGUE = re.compile(
    r"Primary job|exited due to|noticed that|detected that|BAD TERMINATION|EXIT STRING|ORTE "
    r"|srun: (?:error|Job)"
    r"|slurmstepd: error: \*\*\*|MPI_ABORT was invoked|exitcode|ChildFailedError|non-zero"
    r"|core dumped"
    r"|exit (?:code|status)|entire process down|exited on signal|MPI_ERRORS_ARE_FATAL"
    r"|no row|no report|rows of",
)
NUMA = "NUMA"  # the name of a NUMA node is this and its number


class Device(Value, frozen=True, kw_only=True):
    """A row of the matrix of `nvidia-smi topo -m`, or of the distances of `numactl --hardware`.

    Args:
        name: such as `GPU0`, `NIC0`, `mlx5_0` or `NUMA0`.
        paths: to each device of `Topology.devices`: `X` itself, `NV4` (bonded NVLinks), `PIX`,
            `PXB`, `PHB`, `NODE`, `SYS`, or the older `SOC`; of NUMA nodes the distance, such as
            `10`; `?` where the log lost it.
        cpus: near it, such as `0-19,40-59`; empty if the log does not say.
        numa: nodes near it, such as `0`; empty if the log does not say.
        model: the name of a NIC in the legend, such as `mlx5_0`; empty if there is none.
    """

    name: str
    paths: tuple[str, ...]
    cpus: str = ""
    numa: str = ""
    model: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU and no NIC."""
        number = self.name.removeprefix("GPU")
        return number != self.name and number.isascii() and number.isdigit()

    @property
    def is_node(self) -> bool:
        """Whether it is a NUMA node."""
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
    """Which GPUs may use which others' memory.

    Args:
        devices: such as `GPU0`, in the order of rows and columns.
        status: a row per device: `X` itself, `OK`, `NS`, `CNS`, `GNS`, `TNS`, `DR`, `U`; `?` where
            the log lost it.
    """

    devices: tuple[str, ...]
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
    """What a log reports about one rank.

    Args:
        rank: its number.
        host: it ran on; empty if the log does not say.
        device: its CUDA device; -1 if the log does not say.
        bus: PCI address of the device, as NCCL printed it.
        gpu: the number of the GPU on its host, whatever CUDA_VISIBLE_DEVICES says; -1 if the log
            does not say.
        place: the text in brackets after the rank, in lines about its connections: its CUDA
            device, its PCI address or the number of its GPU, depending on NCCL's version.
    """

    rank: int
    host: str = ""
    device: int = -1
    bus: str = ""
    gpu: int = -1
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
    """A line that is a sign of a known problem.

    Args:
        kind: of the problem, such as `cma`; see `parsers/symptoms.py`.
        text: of the line.
        value: the figure in it, such as the value of a kernel setting; empty if there is none.
        line: its number, from 1; 0 if it is not known.
    """

    kind: str
    text: str
    value: str = ""
    line: int = 0


class Symptoms(Value, frozen=True, kw_only=True, tag="symptoms"):
    """Lines that are signs of known problems: errors of libraries, settings of hosts."""

    found: tuple[Symptom, ...]  # in the order of the log; the first few of each kind


class NcclLog(Value, frozen=True, kw_only=True, tag="nccl-log"):
    """NCCL's log of its decisions (NCCL_DEBUG=INFO).

    Args:
        versions: of NCCL; more than one if ranks differ.
        size: ranks of the largest communicator; 0 if the log does not say.
        nodes: hosts of the largest communicator; 0 if the log does not say.
        communicators: that were created, as counted in the lines of rank 0.
        channels: of the collectives; 0 if the log does not say.
        p2p_channels: of sends and receives; 0 if the log does not say.
        rings: the order of ranks of each channel, as far as it was printed.
        trees: the place of each rank in each channel's tree.
        edges: what carries data between which ranks.
        ranks: where they ran.
        gpus: numbers, on their host, of the GPUs that ranks were bound close to.
        networks: that NCCL uses between hosts, such as `IB` or `Socket`.
        interfaces: of these networks, such as `mlx5_0:1/IB` or `eth0:10.0.0.1<0>`.
        settings: from the environment.
        warnings: each once, in the order of the log.
        connected: ranks reported connected rings, or a complete set-up.
        fabric: NVLink joins hosts (MNNVL, multi-node NVLink).
        copied_sends: receives between hosts are GPUDirect RDMA, and sends are not.
        torn: how many lines were interrupted by other ranks' lines.
    """

    versions: tuple[str, ...] = ()
    size: int = 0
    nodes: int = 0
    communicators: int = 0
    channels: int = 0
    p2p_channels: int = 0
    rings: tuple[tuple[int, ...], ...] = ()
    trees: tuple[NcclTree, ...] = ()
    edges: tuple[NcclEdge, ...] = ()
    ranks: tuple[NcclRank, ...] = ()
    gpus: tuple[int, ...] = ()
    networks: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    warnings: tuple[str, ...] = ()
    connected: bool = False
    fabric: bool = False
    copied_sends: bool = False
    torn: int = 0


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
    """What one rank spent in MPI, as IBM's mpitrace wrote it.

    Args:
        rank: whose file it is.
        size: ranks of the job.
        region: that was measured, such as `MPI_Init() to MPI_Finalize()`.
        context: the name of the part of the program; empty if it is all of it.
        routines: the flat profile.
        distributions: a row per routine and size of message.
        communication: seconds in MPI, without its operations on files.
        files: seconds in these.
        elapsed: seconds in all.
        user: seconds of processor time.
        system: seconds of it in the kernel.
        memory: largest resident set in bytes.
        roles: `minimum`, `median`, `maximum`: those that this rank had in communication time.
        sections: parts by call site, stack or communicator.
        tasks: the table of all ranks, which only rank 0 writes.
        extremes: the ranks with the least, the median and the most time in MPI, as printed.
        complete: whether the file has its totals.
    """

    rank: int = -1
    size: int = 0
    region: str = ""
    context: str = ""
    routines: tuple[Routine, ...] = ()
    distributions: tuple[Routine, ...] = ()
    communication: float = 0.0
    files: float = 0.0
    elapsed: float = 0.0
    user: float = 0.0
    system: float = 0.0
    memory: float = 0.0
    roles: tuple[str, ...] = ()
    sections: tuple[ProfileSection, ...] = ()
    tasks: tuple[TaskTimes, ...] = ()
    extremes: tuple[RoleTime, ...] = ()
    complete: bool = True


Detail = Topology | PeerAccess | NcclLog | Profile | Symptoms


class Parsed(Value, frozen=True, kw_only=True):
    """The results of one run of one tool.

    Args:
        format: the parser that read it.
        title: what was run, such as `all_reduce` or `OSU MPI Latency Test v5.7.1`.
        first: the number of its first line in the log, from 1.
        measurements: its values, in common units.
        definitions: of their metrics.
        detail: what the log says besides measurements, such as a topology.
        notes: what a reader of the numbers must know.
        whole: no line of it is missing, as far as known.
        failures: failures that the log itself records.
        failed_at: the lines of these failures; 0 where that is not known.
        expects: what its rows look like, if its only failure is that there is none.
        operation: the collective, as MPI and NCCL name it without their prefix, such as
            `all_reduce`; empty if it is none, or if the log does not say.
        ranks: how many took part; 0 if the log does not say.
        hosts: how many the ranks were on; 0 if the log does not say.
        hosts_of_job: `hosts` are those of the whole job, and the ranks may be on fewer.
        devices: models of GPUs, each once, such as `NVIDIA A100-SXM4-40GB`.
        settings: other settings that the tool prints: `version`, `congestion`, `mss`.
    """

    format: str
    title: str = ""
    first: int = 0
    measurements: Sequence[Measurement] = ()
    definitions: tuple[Definition, ...] = ()
    detail: Detail | None = None
    notes: tuple[str, ...] = ()
    whole: bool = True
    failures: tuple[str, ...] = ()
    failed_at: tuple[int, ...] = ()
    expects: str = ""
    operation: str = ""
    ranks: int = 0
    hosts: int = 0
    hosts_of_job: bool = False
    devices: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()


def first_cause(results: Sequence[Parsed]) -> Symptom | None:
    """Return the line that decided that a job failed: the first that no launcher added at its end.

    None if the log records no failure.
    """
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
