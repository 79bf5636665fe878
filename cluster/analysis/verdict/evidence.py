"""What the rules of a diagnosis read, and the findings that they give."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from cluster.core.model.hosts import Facts, Interface, RankProcess
from cluster.core.model.logs import NcclEdge, NcclLog, Parsed, Profile, Symptoms
from cluster.core.model.results.limits import IN_MEMORY, Hardware
from cluster.core.model.results.measurements import Definition, Summary
from cluster.core.model.value import Value

OURS = ("p2p", "iperf")  # our own benchmarks that use the network
BY_MPI = {
    **dict.fromkeys((("p2p", m) for m in ("oneway_time", "bandwidth")), "one"),
    **dict.fromkeys((("collectives", m) for m in ("bcast", "reduce")), "one"),
    **dict.fromkeys((("collectives", m) for m in ("allgather", "alltoall", "allreduce")), "both"),
    ("p2p", "bidirectional"): "both",
}
"""The directions of large messages between two hosts, by benchmark and metric."""
Confidence = Literal["certain", "likely", "possible"]


FindingKind = Literal[
    "cuda_ipc", "no_gpudirect", "efa_without_gpudirect", "gdr_reads_off", "nccl_on_sockets",
    "few_sockets", "level_by_number", "no_peers", "peers_blocked", "slow_peers", "far_memory",
    "unconnected", "oversubscribed", "cma_blocked", "not_cuda_aware", "fork", "hyper_threads",
    "shared_core", "burst_credits", "waiting", "slow_input", "one_flow", "one_core",
    "links_without_effect", "directions_wait", "wrong_interface", "one_of_several",
    "shared_subnet", "nothing_received", "datagrams_lost", "bond_reorders", "overlay_checksums",
    "socket_buffers", "mtu_mismatch", "bbr_without_fq", "retransmissions", "old_iperf", "overlay",
    "firmware_differs", "added",
]  # fmt: skip
SLOW: tuple[FindingKind, ...] = ("slow_peers", "nothing_received", "datagrams_lost")
"""What makes a run low by itself."""


class FindingWords(NamedTuple):
    """The name of a problem, its remedy, and what confirms it."""

    name: str
    remedy: str
    confirm: str


class Finding(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A known problem of a run, and what shows it.

    It is confirmed only if the confirming run moves the figure beyond its confidence interval.
    """

    kind: FindingKind
    confidence: Confidence
    text: str = ""  # of the line that shows it
    name: str = ""  # of a host, board, instance type or address, or the value of a setting
    names: tuple[str, ...] = ()  # of several
    series: Summary | None = None  # that shows it
    other: Summary | None = None  # to compare it with
    share: float | None = None  # of what is possible
    count: int = 0  # ranks, links, tests or bytes, as its kind says
    other_count: int = 0  # to compare it with
    figure: float = 0.0  # that shows it; its unit goes with the kind
    rate: float = 0.0  # of a cap or an interface, in bytes per second
    network: float = 0.0  # the rate of the network, or of the faster interface
    edge: NcclEdge | None = None  # a link of NCCL
    ranks: tuple[RankProcess, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    words: FindingWords | None = None  # of a rule that was added, whose kind is `added`


Mistake = Literal["bits", "both_ways", "gib", "mib"]


class AboveLimit(Value, frozen=True, kw_only=True):
    """A value is better than possible, or than possible under an assumption."""

    summary: Summary  # the one that is furthest above its limit
    confidence: Confidence
    mistake: Mistake | None = None  # the common one that its share suggests
    interfaces: int = 0  # that the log names, if it is more than were stated and explains the share


class OtherLoad(Value, frozen=True, kw_only=True):
    """Others used the processors of a host while it measured."""

    host: str
    used: float  # processors, by processes that are not of the run
    processors: int  # that the host has
    stolen: float = 0.0  # processors, by other virtual machines
    slowdown: float = 1.0  # of the ranks there, at most
    confidence: Confidence = "possible"


FailureKind = Literal[
    "shm", "memlock", "interface", "names", "unreachable", "device", "fabric_manager", "gid",
    "died", "build", "memory", "hardware", "start", "timeout", "cause",
]  # fmt: skip
"""Why a job failed: a kind with a remedy of its own, or the line that decided it."""


class JobFailure(Value, frozen=True, kw_only=True):
    """Why a job failed, by a line of its log."""

    kind: FailureKind
    text: str  # of the line
    line: int  # its number in the log; 0 if that is not known
    confidence: Confidence


Sign: TypeAlias = Finding | AboveLimit | OtherLoad | JobFailure


def is_slow(sign: Sign) -> bool:
    """Tell whether a sign makes a run low by itself."""
    return isinstance(sign, Finding) and sign.kind in SLOW


class Evidence(Value, frozen=True, kw_only=True):
    """All that is known of a run."""

    summaries: tuple[Summary, ...] = ()
    definitions: dict[str, Definition] = msgspec.field(default_factory=dict)
    hardware: Hardware | None = None
    results: tuple[Parsed, ...] = ()
    hosts: tuple[Facts, ...] = ()
    ranks_per_host: int = 0  # how many ranks we started on each host; 0 if we did not start them
    processes: tuple[RankProcess, ...] = ()
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    instance: str = ""
    has_failed: bool = False
    transport: str = "mpi"  # what carried the messages of our own collectives
    own_nccl: NcclLog | None = None  # of all its ranks, if they used it

    def symptoms(self, kind: str) -> Iterator[tuple[str, str]]:
        """Find lines that are signs of a problem, of a kind of `parsers/symptoms.py`."""
        for result in self.results:
            if isinstance(result.detail, Symptoms):
                yield from ((s.text, s.value) for s in result.detail.found if s.kind == kind)

    def symptom(self, kind: str) -> str:
        """Return the first line that is a sign of a problem; empty if there is none."""
        return next((text for text, _ in self.symptoms(kind)), "")

    @property
    def nccl(self) -> tuple[NcclLog, ...]:
        """What NCCL logged about its decisions."""
        details = (*(result.detail for result in self.results), self.own_nccl)
        return tuple(detail for detail in details if isinstance(detail, NcclLog))

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The time that ranks spent in MPI."""
        return tuple(r.detail for r in self.results if isinstance(r.detail, Profile))

    def setting(self, name: str) -> str:
        """Return a setting of the variables and the logs; empty if nobody set it."""
        settings = {s.name: s.value for log in self.nccl for s in log.settings}
        return settings.get(name, self.variables.get(name, ""))

    def series(self, *metrics: str, flow: str = "") -> tuple[Summary, ...]:
        """Find summaries; of any flow, if it is empty."""
        of_flow = (s for s in self.summaries if not flow or self._flow(s) == flow)
        return tuple(s for s in of_flow if not metrics or s.metric in metrics)

    def _flow(self, summary: Summary) -> str:
        definition = self.definitions.get(summary.definition)
        return definition.flow if definition else ""

    def machines(self) -> Iterator[tuple[Facts, tuple[RankProcess, ...]]]:
        """Return the facts and processes of each machine: hosts with one kernel are one."""
        for boot, facts in {facts.boot: facts for facts in self.hosts if facts.boot}.items():
            yield facts, tuple(p for p in self.processes if p.boot == boot)

    def links(self) -> dict[tuple[int, int], int]:
        """Count the TCP connections between two ranks of different hosts, the lower one first."""
        owners = {(c.here, c.there): p.rank for p in self.processes for c in p.connections}
        pairs = (
            (p.rank, owners[c.there, c.here])
            for p in self.processes
            for c in p.connections
            if (c.there, c.here) in owners
        )
        return dict(Counter(pair for pair in pairs if pair[0] < pair[1]))

    def between_hosts(self) -> tuple[Summary, ...]:
        """Find the rates of data that passes the network in one direction."""
        series = [s for s in self.series(flow="one way") if s.unit == "B/s" and self._is_network(s)]
        return tuple(sorted(series, key=lambda s: -s.median))

    def crossing(self, *, total: bool) -> tuple[Summary, ...]:
        """Find what our own MPI benchmarks moved between hosts, with its share of the bound."""
        return tuple(
            s
            for s in self.summaries
            if self.transport == "mpi"
            and s.share is not None
            and not _in_memory(s)
            and (definition := self.definitions.get(s.definition)) is not None
            and BY_MPI.get((definition.benchmark, definition.metric)) == ("one", "both")[total]
        )

    def _is_network(self, summary: Summary) -> bool:
        definition = self.definitions[summary.definition]
        is_own = definition.benchmark in OURS and summary.bound is not None
        is_sent = is_own and not _in_memory(summary)
        return is_sent or definition.medium in ("TCP", "network", "RDMA")


def _in_memory(summary: Summary) -> bool:
    return summary.limit is not None and summary.limit.kind in IN_MEMORY


def count(summary: Summary, name: str) -> int:
    """Read a parameter that is a number; 0 if there is none."""
    value = summary.params.get(name, 0)
    return value if isinstance(value, int) else 0
