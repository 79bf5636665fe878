"""The transports that NCCL chose between GPUs, whether faster ones exist, and what that costs.

A log of NCCL and the throughput printed after it are one experiment. Experiments on the same GPUs
are compared with one another, but not figures of other work, such as another batch size. What logs
and hosts report about the same GPUs is combined for each host.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Literal

from msgspec import structs

from cluster.analysis.topology import nvlinks
from cluster.analysis.topology.topology import GpuTopology, gpu_topology
from cluster.core.model.logs import NcclEdge, NcclLog, Parsed, PeerAccess, Setting, Topology
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.value import Scalar, Value

DIRECT = "P2P"
ALIKE = 0.01  # of a rate: the best and the worst pair within this are alike
ADDRESS = 4  # the fewest digits of a PCI address, as all versions of RCCL print it
THROUGHPUTS = ("throughput", "tf_cnn", "horovod")  # parsers of what training prints
TABLES = "tables"
REMARK = "remark"
SETTINGS = ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IGNORE_DISABLED_P2P")
_PARTS = re.compile(r"\d+")


class Carrier(Value, frozen=True, kw_only=True):
    """What carries data between two ranks."""

    ranks: tuple[int, int]
    gpus: tuple[int, int]  # their GPUs on the host; -1 if the log does not say
    places: tuple[str, str]
    same_host: bool
    via: tuple[str, ...]
    channels: int
    direct: bool

    @property
    def name(self) -> str:
        """The two GPUs or ranks, as precisely as they are known."""
        if min(self.gpus) >= 0:
            return "-".join(f"GPU{gpu}" for gpu in self.gpus)
        return " - ".join(
            f"rank {rank}" + (f" at {place}" if place else "")
            for rank, place in zip(self.ranks, self.places, strict=True)
        )


class NcclExperiment(Value, frozen=True, kw_only=True):
    """A log of NCCL, and the throughput that followed it."""

    line: int
    carriers: tuple[Carrier, ...]
    channels: int
    settings: tuple[Setting, ...]
    rate: float | None = None  # the median of the printed rates; none if there are none
    unit: str = ""

    @property
    def has_p2p(self) -> bool:
        """Whether all data went from GPU to GPU."""
        return all(via.startswith(DIRECT) for carrier in self.carriers for via in carrier.via)


class PublishedFigure(Value, frozen=True, kw_only=True):
    """A figure of a published table."""

    column: str
    params: dict[str, Scalar]
    rate: float
    unit: str
    alone: str = ""  # why it must not be compared with the others of its column; empty if it can be


class TransportFinding(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What follows from the transports and the results."""

    kind: Literal["unused", "cost", "alike", "extremes", "not_comparable"]
    pair: str = ""  # whose NVLinks are not used
    path: str = ""
    experiment: NcclExperiment | None = None  # the one with peer-to-peer, or the best
    other: NcclExperiment | None = None
    via: tuple[str, ...] = ()
    share: float = 0.0  # of the rate, that the other one has less
    count: int = 0  # pairs
    figure: PublishedFigure | None = None
    words: str = ""


class Transports(Value, frozen=True, kw_only=True):
    """The transports that NCCL chose, and the results."""

    experiments: tuple[NcclExperiment, ...]
    figures: tuple[PublishedFigure, ...]
    findings: tuple[TransportFinding, ...]


def transports(results: Sequence[Parsed], topology: GpuTopology) -> Transports:
    experiments, figures = tuple(_experiments(results)), tuple(_figures(results))
    findings = (
        *(finding for experiment in experiments for finding in _idle_nvlinks(experiment, topology)),
        *_costs(experiments),
        *_extremes(experiments),
        *(TransportFinding(kind="not_comparable", figure=f) for f in figures if f.alone),
    )
    unique: list[TransportFinding] = []
    for finding in findings:
        if finding not in unique:
            unique.append(finding)
    return Transports(experiments=experiments, figures=figures, findings=tuple(unique))


def _experiments(results: Sequence[Parsed]) -> Iterator[NcclExperiment]:
    """Combine each log of NCCL with the throughput that was printed after it."""
    open_: NcclExperiment | None = None
    for result in results:
        if isinstance(result.detail, NcclLog):
            if open_:
                yield open_
            links = tuple(carriers(result.detail))
            most = max((carrier.channels for carrier in links), default=0)
            open_ = NcclExperiment(
                line=result.first,
                carriers=links,
                channels=max(result.detail.channels, most),
                settings=tuple(s for s in result.detail.settings if s.name in SETTINGS),
            )
        elif open_ and result.format in THROUGHPUTS and result.measurements:
            rate = median(result.measurements[0].values)
            yield structs.replace(open_, rate=rate, unit=result.measurements[0].unit)
            open_ = None
    if open_:
        yield open_


def carriers(log: NcclLog) -> Iterator[Carrier]:
    gpus, hosts = _gpus(log), {rank.rank: rank.host for rank in log.ranks}
    places = {rank.rank: rank.place for rank in log.ranks}

    def ends(edge: NcclEdge) -> tuple[int, int]:
        return min(edge.source, edge.target), max(edge.source, edge.target)

    for (a, b), group in groupby(sorted(log.edges, key=ends), key=ends):
        if a < 0:
            continue
        edges = list(group)
        pair_hosts = (hosts.get(a, ""), hosts.get(b, ""))
        yield Carrier(
            ranks=(a, b),
            gpus=(gpus.get(a, -1), gpus.get(b, -1)),
            places=(places.get(a, ""), places.get(b, "")),
            same_host="" in pair_hosts or pair_hosts[0] == pair_hosts[1],
            via=tuple(dict.fromkeys(edge.via for edge in edges)),
            channels=max(len(edge.channels) for edge in edges),
            direct=all(edge.direct for edge in edges),
        )


def _gpus(log: NcclLog) -> dict[int, int]:
    """Find the GPU of each rank: as logged, or in the order of GPUs that ranks were bound near."""
    gpu_of = {rank.rank: rank.gpu for rank in log.ranks if rank.gpu >= 0}
    # The brackets after ranks contain numbers of GPUs, as from NCCL 2.18.3 on.
    versions = [tuple(map(int, _PARTS.findall(version)[:3])) for version in log.versions]
    numbers = all(rank.place.isdigit() and len(rank.place) < ADDRESS for rank in log.ranks)
    if not gpu_of and versions and log.ranks and numbers and min(versions) >= (2, 18, 3):
        gpu_of = {rank.rank: int(rank.place) for rank in log.ranks}
    ranks = sorted(rank.rank for rank in log.ranks)
    if not gpu_of and len(ranks) == len(log.gpus):
        return dict(zip(ranks, log.gpus, strict=True))
    return gpu_of


def _figures(results: Iterable[Parsed]) -> Iterator[PublishedFigure]:
    """Read published tables; figures with a remark of their own are not comparable with others."""
    columns: dict[str, list[Measurement]] = defaultdict(list)
    for result in results:
        for m in result.measurements if result.format == TABLES else ():
            if m.metric == "processing_rate":
                columns[str(m.params.get("column", ""))].append(m)
    for column, rows in columns.items():
        remarks = {str(m.params.get(REMARK, "")) for m in rows}
        for m in rows:
            remark = str(m.params.get(REMARK, ""))
            yield PublishedFigure(
                column=column,
                params={k: v for k, v in m.params.items() if k not in ("column", REMARK)},
                rate=m.values[0],
                unit=m.unit,
                alone=remark if len(remarks) > 1 else "",
            )


def _idle_nvlinks(experiment: NcclExperiment, topology: GpuTopology) -> Iterator[TransportFinding]:
    """Name pairs whose NVLinks NCCL did not use."""
    for carrier in experiment.carriers:
        pair = topology.pair(*carrier.gpus) if carrier.same_host else None
        other = [via for via in carrier.via if not via.startswith(DIRECT)]
        if pair and nvlinks(pair.path) and other:
            only = NcclExperiment(line=0, carriers=(), channels=0, settings=experiment.settings)
            yield TransportFinding(
                kind="unused",
                pair=pair.name,
                path=pair.path,
                via=tuple(other),
                experiment=only if experiment.settings else None,
            )


def _costs(experiments: Sequence[NcclExperiment]) -> Iterator[TransportFinding]:
    """Compare experiments on the same GPUs with and without peer-to-peer."""
    candidates = [e for e in experiments if e.rate is not None and e.carriers]
    for _, group in groupby(sorted(candidates, key=_place), key=_place):
        trials = list(group)
        ways = [experiment for experiment in trials if experiment.has_p2p]
        without_p2p = [experiment for experiment in trials if not experiment.has_p2p]
        if not ways or not without_p2p:
            continue
        base = min(ways, key=lambda experiment: (len(experiment.settings), experiment.line))
        for other in without_p2p:
            less = 1 - (other.rate or 0.0) / (base.rate or 1.0)
            yield TransportFinding(kind="cost", experiment=base, other=other, share=less)


def _place(experiment: NcclExperiment) -> tuple[tuple[str, str], ...]:
    return tuple(carrier.places for carrier in experiment.carriers)


def _extremes(experiments: Sequence[NcclExperiment]) -> Iterator[TransportFinding]:
    """Compare pairs of GPUs of one machine, each with the transports that NCCL chose by itself."""
    candidates = [e for e in experiments if e.rate is not None and not e.settings]
    trials = [e for e in candidates if len(e.carriers) == 1 and min(e.carriers[0].gpus) >= 0]
    if len(trials) < 2:  # noqa: PLR2004 - there must be another
        return
    best = max(trials, key=lambda experiment: experiment.rate or 0.0)
    worst = min(trials, key=lambda experiment: experiment.rate or 0.0)
    if not best.rate or not worst.rate or _place(best) == _place(worst):
        return
    less = 1 - worst.rate / best.rate
    kind: Literal["alike", "extremes"] = "alike" if less <= ALIKE else "extremes"
    yield TransportFinding(kind=kind, experiment=best, other=worst, share=less, count=len(trials))


class HostTopology(Value, frozen=True, kw_only=True):
    """How the devices of one host are connected."""

    host: str  # its name; empty if a log does not name it
    topology: Topology | None  # the matrix of `nvidia-smi topo -m`; none if no log has one
    joined: GpuTopology  # its pairs of GPUs, groups and NICs
    transports: Transports  # the transports that NCCL chose


def host_topologies(
    results: Sequence[Parsed], hosts: Sequence[tuple[str, Topology]]
) -> list[HostTopology]:
    """Combine each matrix with everything that was measured and logged.

    One per matrix; one without a matrix if there is none. Empty if nothing shows how the GPUs are
    connected.
    """
    measurements = [m for result in results for m in result.measurements]
    models = [model for result in results for model in result.devices]
    details = [result.detail for result in results]
    access = next((detail for detail in details if isinstance(detail, PeerAccess)), None)
    matrices: list[tuple[str, Topology | None]] = [
        *hosts,
        *(("", detail) for detail in details if isinstance(detail, Topology)),
    ]
    topologies = [
        (host, matrix, gpu_topology(matrix, measurements, access, models))
        for host, matrix in matrices or [("", None)]
    ]
    hosts_ = [
        HostTopology(host=host, topology=matrix, joined=gpus, transports=transports(results, gpus))
        for host, matrix, gpus in topologies
    ]
    return hosts_ if any(h.joined.pairs or h.transports.experiments for h in hosts_) else []


def group_alike(hosts: Sequence[HostTopology]) -> list[list[HostTopology]]:
    """Group named hosts that have the same devices, connected in the same way."""
    groups: list[list[HostTopology]] = []
    for host in hosts:
        twins = (group for group in groups if host.host and group[0].topology == host.topology)
        twin = next(twins, None)
        if twin is None:
            groups.append([host])
        else:
            twin.append(host)
    return groups
