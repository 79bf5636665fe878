"""How the GPUs of a host are connected: classes of pairs, groups, nearest NICs, unusual pairs.

From fast to slow: NV# (bonded NVLinks), PIX (one PCIe bridge), PXB (several), PHB (the CPU's host
bridge), NODE (host bridges of one NUMA node), SYS (between sockets), as `nvidia-smi topo -m` names
them. NVLinks are compared per link, all other paths per class, as a class has the same hardware.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Literal

from cluster.analysis.topology import OLD, UNKNOWN, nvlinks, speed
from cluster.core.model.logs import Device, PeerAccess, Topology
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.value import Value

SLOWER, FASTER = 0.8, 1.25  # of the others of the class: beyond this, it is not noise
ALIKE = 0.03  # of a bandwidth: pairs within this are as good as the best
ENOUGH = 3  # pairs of a class for a median; of fewer, the fastest shows what the hardware can do
LINK = 25e9  # bytes per second of an NVLink of generation 2 to 4 in each direction
OF_LINK = (0.85, 1.02)  # the share of it that copies reach
MOST_INFERRED = 6  # NVLinks of a V100; a measurement cannot tell more of them apart
BOARD = "SXM"  # GPUs with NVLinks to most others; PCIe 4.0 or 5.0 is as fast as one NVLink


Mismatch = Literal["as_without_nvlink", "as_without_p2p", "slower_than_without", "unlike_others"]


class Copies(Value, frozen=True, kw_only=True):
    """The results of copies between two GPUs, in the slower direction."""

    rate: float | None = None  # with peer-to-peer, in bytes per second
    rate_without: float | None = None
    latency: float | None = None  # with it, in seconds
    latency_without: float | None = None
    ways: int = 1


class GpuPair(Value, frozen=True, kw_only=True):
    """Two GPUs of a host."""

    gpus: tuple[int, int]
    path: str  # such as `NV2` or `SYS`; `?` if it is not known
    inferred: bool = False
    copies: Copies = Copies()
    access: str = ""  # what the driver reports about P2P, such as `OK` or `CNS`; empty if nothing

    @property
    def name(self) -> str:
        return "-".join(f"GPU{gpu}" for gpu in self.gpus)


class GpuGroup(Value, frozen=True, kw_only=True):
    """GPUs of which each reaches every other by this class of path or a faster one."""

    path: str
    sets: tuple[tuple[int, ...], ...]


class Nearest(Value, frozen=True, kw_only=True):
    """The NICs that are nearest to a GPU."""

    gpu: int
    nics: tuple[str, ...]
    path: str


class UnusualPair(Value, frozen=True, kw_only=True):
    """A pair whose rate does not match its links."""

    gpus: tuple[int, int]
    path: str
    rate: float  # that was measured, in bytes per second
    expected: float | None  # the rate of other pairs of their kind; none if there are none
    kind: Mismatch
    without: float | None = None  # its rate without peer-to-peer
    others: int = 0  # pairs of its kind
    words: str = ""


class PeerGain(Value, frozen=True, kw_only=True):
    """What peer-to-peer brings to the pairs of a class: medians of ratios."""

    path: str
    pairs: int
    rate: float
    latency: float | None  # without, to with it; none if it was not measured
    kind: Literal["gain"] = "gain"
    words: str = ""


class TopologyNote(Value, frozen=True, kw_only=True):
    """What else a reader of a topology must know."""

    kind: Literal["misread", "lost", "inferred", "access"]
    names: tuple[str, ...] = ()  # two devices, or pairs
    path: str = ""
    back: str = ""  # the path as the second device has it, or what the driver says of the pair
    words: str = ""


class GpuTopology(Value, frozen=True, kw_only=True):
    """How the GPUs of a host are connected."""

    pairs: tuple[GpuPair, ...]
    groups: tuple[GpuGroup, ...]
    best: tuple[GpuPair, ...]
    worst: tuple[GpuPair, ...]
    nearest: tuple[Nearest, ...]
    misfits: tuple[UnusualPair, ...]
    findings: tuple[PeerGain, ...] = ()
    notes: tuple[TopologyNote, ...] = ()

    def pair(self, a: int, b: int) -> GpuPair | None:
        """Return a pair; None if nothing is known of it."""
        ends = (min(a, b), max(a, b))
        return next((pair for pair in self.pairs if pair.gpus == ends), None)


def gpu_topology(
    topology: Topology | None,
    measurements: Sequence[Measurement] = (),
    access: PeerAccess | None = None,
    models: Iterable[str] = (),
) -> GpuTopology:
    """Find out how GPUs are connected, from all that is known; empty if that is nothing."""
    copies = _copies(measurements)
    paths = _paths(topology) if topology else {}
    rows = [
        (_number(name), row)
        for name, row in (zip(access.devices, access.status, strict=True) if access else ())
        if Device(name=name, paths=row).is_gpu
    ]
    statuses = {
        (a, b): row[column]
        for (a, row) in rows
        for column, (b, _) in enumerate(rows)
        if a < b and column < len(row) and row[column] != UNKNOWN
    }
    names = sorted(paths.keys() | copies.keys() | statuses.keys())
    may_infer = topology is None and all(BOARD in model for model in models)
    guesses = _infer_paths(copies) if may_infer else {}
    pairs = tuple(
        GpuPair(
            gpus=gpus,
            path=paths.get(gpus) or guesses.get(gpus, UNKNOWN),
            inferred=gpus in guesses,
            copies=copies.get(gpus, Copies()),
            access=statuses.get(gpus, ""),
        )
        for gpus in names
    )
    candidates = [pair for pair in pairs if pair.path != UNKNOWN or pair.copies.rate is not None]
    return GpuTopology(
        pairs=pairs,
        groups=tuple(_groups(pairs)),
        best=tuple(_extreme_pairs(candidates, max)),
        worst=tuple(_extreme_pairs(candidates, min)),
        nearest=tuple(_nearest(topology)) if topology else (),
        misfits=tuple(_misfits(pairs)),
        findings=tuple(_gains(pairs)),
        notes=tuple(_notes(topology, pairs)),
    )


def _paths(topology: Topology) -> dict[tuple[int, int], str]:
    """Return the class of each pair; if the log lost one direction, that of the other."""
    gpus = [device.name for device in topology.devices if device.is_gpu]
    paths = {}
    for a, b in combinations(gpus, 2):
        forth, back = topology.path(a, b), topology.path(b, a)
        path = forth if forth != UNKNOWN else back
        paths[_number(a), _number(b)] = OLD.get(path, path)
    return paths


def _number(name: str) -> int:
    return int(name.removeprefix("GPU"))


def _copies(measurements: Iterable[Measurement]) -> dict[tuple[int, int], Copies]:
    """Take the rates of one direction if there are any, else those of both at once."""
    rates: dict[tuple[int, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for m in measurements:
        row, column = m.params.get("row"), m.params.get("column")
        if not isinstance(row, int) or not isinstance(column, int) or row == column:
            continue
        rates[min(row, column), max(row, column)][_test_name(m)] += m.values
    one_way = any("p2p_bandwidth on" in kinds for kinds in rates.values())
    rate, ways = ("p2p_bandwidth", 1) if one_way else ("p2p_bidirectional", 2)
    return {
        gpus: Copies(
            rate=min(kinds.get(f"{rate} on", ()), default=None),
            rate_without=min(kinds.get(f"{rate} off", ()), default=None),
            latency=min(kinds.get("p2p_latency on", ()), default=None),
            latency_without=min(kinds.get("p2p_latency off", ()), default=None),
            ways=ways,
        )
        for gpus, kinds in sorted(rates.items())
        if set(kinds) != {"other"}
    }


def _test_name(m: Measurement) -> str:
    """Name what was measured; copies of nvbandwidth are treated like those of the older test."""
    if m.metric == "p2p_latency" and m.params.get("clock") == "CPU":
        return "other"  # it includes the time to launch the copy
    if m.metric.startswith("p2p_"):
        return f"{m.metric} {m.params.get('p2p', 'on')}"
    alone = str(m.params.get("test", "")).startswith("device_to_device_memcpy")
    return "p2p_bandwidth on" if m.metric == "peer_copy_bandwidth" and alone else "other"


def _infer_paths(copies: Mapping[tuple[int, int], Copies]) -> dict[tuple[int, int], str]:
    """Infer NVLinks from rates with peer-to-peer that are multiples of the rate of one link."""
    paths = {}
    for gpus, copy in copies.items():
        if copy.rate is None or copy.rate_without is None:
            continue
        link = LINK * copy.ways
        links = round(copy.rate / (link * sum(OF_LINK) / 2))
        fits = links and OF_LINK[0] <= copy.rate / (links * link) <= OF_LINK[1]
        if fits and links <= MOST_INFERRED and copy.rate > FASTER * copy.rate_without:
            paths[gpus] = f"NV{links}"
    return paths


def _extreme_pairs(
    pairs: Sequence[GpuPair], end: Callable[[Iterable[float]], float]
) -> Iterator[GpuPair]:
    """Return the pairs of the fastest or slowest class, without those whose rates are worse."""
    classes = [speed(pair.path) for pair in pairs]
    extreme = max(classes, default=None) if end is max else min(classes, default=None)
    equal = [pair for pair in pairs if speed(pair.path) == extreme]
    rates = [pair.copies.rate for pair in equal if pair.copies.rate is not None]
    limit = end(rates) if 0 < len(rates) == len(equal) else None
    for pair in equal:
        if limit is None or abs((pair.copies.rate or 0.0) - limit) <= ALIKE * limit:
            yield pair


def _gains(pairs: Sequence[GpuPair]) -> Iterator[PeerGain]:
    for path in sorted({pair.path for pair in pairs}, key=speed, reverse=True):
        equal = [pair.copies for pair in pairs if pair.path == path]
        rates = [c.rate / c.rate_without for c in equal if c.rate and c.rate_without]
        times = [c.latency_without / c.latency for c in equal if c.latency and c.latency_without]
        if rates:
            latency = median(times) if times else None
            yield PeerGain(path=path, pairs=len(rates), rate=median(rates), latency=latency)


def _groups(pairs: Sequence[GpuPair]) -> Iterator[GpuGroup]:
    """Merge groups whose pairs all have a class, from the fastest class to the slowest."""
    paths = {pair.gpus: pair.path for pair in pairs}
    gpus = sorted({gpu for pair in pairs for gpu in pair.gpus})
    sets: list[tuple[int, ...]] = [(gpu,) for gpu in gpus]
    for path in sorted({p for p in paths.values() if speed(p) > (0, 0)}, key=speed, reverse=True):
        before = sets
        sets = _merge(sets, paths, speed(path))
        if sets != before:
            yield GpuGroup(path=path, sets=tuple(members for members in sets if len(members) > 1))


def _merge(
    sets: list[tuple[int, ...]], paths: Mapping[tuple[int, int], str], least: tuple[int, int]
) -> list[tuple[int, ...]]:
    result: list[tuple[int, ...]] = []
    for members in sets:
        for index, other in enumerate(result):
            crossing = ((min(a, b), max(a, b)) for a in members for b in other)
            if all(speed(paths.get(gpus, UNKNOWN)) >= least for gpus in crossing):
                result[index] = tuple(sorted((*other, *members)))
                break
        else:
            result.append(members)
    return result


def _nearest(topology: Topology) -> Iterator[Nearest]:
    nics = [device for device in topology.devices if not device.is_gpu]
    for gpu in topology.devices:
        if not gpu.is_gpu:
            continue
        paths = {nic.model or nic.name: topology.path(gpu.name, nic.name) for nic in nics}
        reachable = {name: path for name, path in paths.items() if speed(path) > (0, 0)}
        if reachable:
            best = max(reachable.values(), key=speed)
            near = tuple(name for name, path in reachable.items() if path == best)
            yield Nearest(gpu=_number(gpu.name), nics=near, path=best)


def _kind(path: str) -> str:
    return "NVLink" if nvlinks(path) else path


def _misfits(pairs: Sequence[GpuPair]) -> Iterator[UnusualPair]:
    """Compare each pair with the others of its kind, and NVLinks with other paths."""
    rates: dict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        if pair.copies.rate is not None and pair.path != UNKNOWN:
            rates[_kind(pair.path)].append(pair.copies.rate / max(1, nvlinks(pair.path)))
    norms = {kind: median(v) if len(v) >= ENOUGH else max(v) for kind, v in rates.items()}
    slow = max((norm for kind, norm in norms.items() if kind != "NVLink"), default=0.0)
    for pair in pairs:
        rate = pair.copies.rate
        if rate is None or pair.inferred or _kind(pair.path) not in norms:
            continue
        links, peers = nvlinks(pair.path), len(rates[_kind(pair.path)]) - 1
        expected = norms[_kind(pair.path)] * max(1, links)
        kind = _mismatch(pair, rate, expected if peers else 0.0, slow)
        if kind is not None:
            yield UnusualPair(
                gpus=pair.gpus,
                path=pair.path,
                rate=rate,
                expected=expected if peers else None,
                kind=kind,
                without=pair.copies.rate_without,
                others=peers,
            )


def _mismatch(pair: GpuPair, rate: float, expected: float, slow: float) -> Mismatch | None:
    """Return how a rate does not match its links; `expected` is 0 if there is no other pair."""
    links, rate_without = nvlinks(pair.path), pair.copies.rate_without
    if links and rate <= slow * FASTER:
        return "as_without_nvlink"
    if links and rate_without is not None and rate <= rate_without * FASTER:
        return "as_without_p2p"
    if rate_without is not None and rate < SLOWER * rate_without:
        return "slower_than_without"
    if expected and not SLOWER <= rate / expected <= FASTER:
        return "unlike_others"
    return None


def _notes(topology: Topology | None, pairs: Sequence[GpuPair]) -> Iterator[TopologyNote]:
    if topology:
        for a, b in combinations([d.name for d in topology.devices if d.is_gpu], 2):
            forth, back = topology.path(a, b), topology.path(b, a)
            if UNKNOWN not in (forth, back) and forth != back:
                yield TopologyNote(kind="misread", names=(a, b), path=forth, back=back)
    names = tuple(pair.name for pair in pairs if pair.path == UNKNOWN)
    if topology and names:
        yield TopologyNote(kind="lost", names=names)
    if any(pair.inferred for pair in pairs):
        yield TopologyNote(kind="inferred")
    for pair in pairs:
        if nvlinks(pair.path) and pair.access not in ("", "OK"):
            yield TopologyNote(kind="access", names=(pair.name,), path=pair.path, back=pair.access)
