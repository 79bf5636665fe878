"""Is a number normal? One point of each series, its share of its bound, and a word for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from cluster.analysis.hardware import of_point
from cluster.analysis.hardware_bounds import missing, network_share
from cluster.analysis.link_bounds import BELIEVABLE
from cluster.core.model.value import Scalar, Value
from cluster.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.hardware import Figure, Hardware
    from cluster.core.model.measurements import Definition, Summary

Word = Literal["normal", "low", "impossible", "plausible", "unknown"]
POINTS = ("size", "place", "type", "redop", "root", "row", "column", "clock", "by", "percentile")
"""Parameters along which a series has a best point; all others tell series apart."""


class Usual(Value, frozen=True, kw_only=True):
    """The share of a bound that healthy hardware reaches with large messages.

    Args:
        share: at least.
        source: who measured it.

    """

    share: float
    source: str


TCP = Usual(share=0.9, source="9.6 of 10 Gbit/s on EC2 c5.18xlarge, 0.94 of 1 Gbit/s on t2.large")
MPI_TCP = Usual(share=0.75, source="MPI over TCP: 7.8 of 10 Gbit/s between n1 machines (mlbench)")
RDMA = Usual(share=0.9, source="12.0 of 12.5 GB/s on EFA, 24.7 of 25 on HDR InfiniBand")
RING = Usual(share=0.75, source="rings of 8: 365 of 450 GB/s on H100, 682 of 900 on B200")
SUMS = Usual(share=0.65, source="NVLS on 8 H100: 473 to 480 of 700 GB/s")
ACROSS = Usual(share=0.7, source="4 hosts of 8 B200: 382 of 517 GB/s")
RINGS = ("", "all_reduce", "all_gather", "reduce_scatter")  # whose figures ACROSS and TREES are
RING_ACROSS = 0.85  # of what the interfaces of a host carry; 46 to 48 of 50 GB/s of NDR InfiniBand
TREES = "2 hosts of 8 H100: 465 to 487 of 750 GB/s with trees, about 370 with rings"
LINKS = Usual(share=0.8, source="copies between GPUs: 396 of 450 GB/s on H200, 24.3 of 25 on V100")
PCIE = Usual(share=0.75, source="12.2 of 15.75 GB/s on P100, 55 of 63 on H200; headers take 12 %")
MEMORY = Usual(share=0.6, source="65 % on K80 with ECC, 87 % on V100")


# Bytes of a message from which it fills what it passes, so that its share says something.
LARGE = {"network": 1 << 20, "collective": 1 << 26, "host to GPU": 1 << 23, "GPU memory": 1 << 23}
# What others measured where there is no bound: half a round trip of a small message.
LATENCIES = (
    "others measured 1.6 us on InfiniBand, 10 to 16 us on EFA, 20 to 43 us with TCP in clouds "
    "(OSU, 8 B)"
)
REPEATED = 0.9  # of a figure that others measured once, which is the same figure
COLLAPSE = 0.5  # of the best share, below which a larger message is a finding
SMALL = 64  # bytes of such a message


# The command that tells why a value is low, by what its bytes pass.
NEXT = {
    "TCP": "next: iperf3 -c HOST -P 8, and several processes at once: a core carries about 25 "
    "Gbit/s, and iperf3 before 3.16 has one thread",
    "network": "next: ib_write_bw -d DEVICE HOST without MPI, and UCX_LOG_LEVEL=info or "
    "--mca btl_base_verbose 30 to see what carries the messages",
    "collective": "next: the same test with NCCL_DEBUG=INFO, then cluster topology LOG: which "
    "network, which interfaces, with GPUDirect or without",
    "GPU to GPU": "next: nvidia-smi topo -m and nvidia-smi nvlink --status: are all links up?",
    "host to GPU": "next: nvidia-smi -q | grep -A2 'Link Width' while it copies, and the same with "
    "numactl --cpunodebind and --membind of the GPU's node",
    "GPU memory": "next: nvidia-smi -q -d CLOCK,PERFORMANCE,ECC while it runs",
}


class Verdict(Value, frozen=True, kw_only=True):
    """What there is to say of one series.

    Args:
        word: for it: `normal` or `low` against what healthy hardware reaches, `plausible` below its
            bound where nobody knows that, `impossible` above it, `unknown` where there is no bound,
            or where a value is above one that takes something for granted.
        benchmark: whose it is.
        metric: of it.
        unit: of the median.
        params: its best point.
        n: how many values there are at that point.
        median: of them.
        ci: its 95 % interval; none for fewer than 6 values.
        bound: the best that is possible; none if that is not known.
        share: of the bound that the median reaches.
        share_ci: the same of the interval.
        limit: what sets the bound: direction and source.
        assumes: what the bound takes for granted, and nobody said; empty if nothing.
        usual: the share that healthy hardware reaches; none if that is not known.
        usual_source: who says so.
        hint: what would have to be known for a bound or a word, or what others measured.

    """

    word: Word
    benchmark: str
    metric: str
    unit: str
    params: dict[str, Scalar]
    n: int
    median: float
    ci: tuple[float, float] | None = None
    bound: float | None = None
    share: float | None = None
    share_ci: tuple[float, float] | None = None
    limit: str = ""
    assumes: str = ""
    usual: float | None = None
    usual_source: str = ""
    hint: str = ""


def verdicts(
    summaries: Sequence[Summary],
    definitions: Mapping[str, Definition],
    hardware: Hardware | None,
) -> tuple[Verdict, ...]:
    """Judge each series at the best of its large messages, or where it collapses behind that.

    Args:
        summaries: with their bounds.
        definitions: of their metrics, by id.
        hardware: they were taken on, where that is known.

    Returns:
        A verdict for each series that its benchmark is run for.

    """
    best = [_point(points, definitions) for points in _by_series(summaries)]
    bounded = {s.definition.split(".")[0] for s in best if definitions[s.definition].medium}
    told: set[object] = set()
    found = []
    for summary in best:
        definition = definitions[summary.definition]
        if definition.benchmark in bounded and not definition.medium:
            continue  # times beside rates: they say the same again
        where = (definition.benchmark, definition.medium, _series(summary))
        if definition.medium == "TCP" and where in told and summary.ci is None:
            continue  # a sender's figure beside the receiver's
        told.add(where)
        found.append(_verdict(summary, definition, of_point(hardware, summary.params)))
    return tuple(found)


def overall(found: Iterable[Verdict], *, failed: bool) -> str:
    """Give one word for all.

    Args:
        found: the verdicts.
        failed: the log records a failure.

    Returns:
        `failed`, or the worst of the words.

    """
    words = {verdict.word for verdict in found}
    order = ("impossible", "low", "normal", "plausible", "unknown")
    return "failed" if failed else next((word for word in order if word in words), "unknown")


def usual(definition: Definition, params: Mapping[str, Scalar], hardware: Hardware) -> Usual | None:
    """Give the share of a bound that healthy hardware reaches.

    Args:
        definition: of the metric.
        params: the point.
        hardware: that it was taken on.

    Returns:
        The share; none where nobody that we know has measured it.

    """
    medium, size = definition.medium, params.get("size", math.inf)
    is_small = not isinstance(size, str) and size < LARGE.get(medium, 0)
    # UDP is sent as fast as it was asked for; iperf3 sends 1 Mbit/s of itself.
    if is_small or params.get("protocol") == "UDP":
        return None
    if medium == "collective":
        return _usual_collective(params, hardware)
    if medium == "GPU to GPU":
        return LINKS if hardware.switched and params.get("p2p") != "off" else None
    if medium == "network":
        return _usual_messages(definition, hardware)
    if medium == "host to GPU":
        return _usual_bus(params, hardware.bus)
    return {"TCP": TCP, "GPU memory": MEMORY if params.get("devices", 1) == 1 else None}.get(medium)


def _usual_messages(definition: Definition, hardware: Hardware) -> Usual:
    both = hardware.both_ways
    if definition.flow == "both ways" and both is not None and hardware.nic is not None:
        return Usual(share=REPEATED * both.rate / (2 * hardware.nic.rate), source=both.source)
    return RDMA if hardware.rdma else MPI_TCP


def _usual_bus(params: Mapping[str, Scalar], bus: Figure | None) -> Usual | None:
    """Give it for one GPU alone, in one direction, from memory that is pinned."""
    test = str(params.get("test", ""))
    alone = params.get("devices", 1) == 1 and "all" not in test and "bidirectional" not in test
    if bus is None or not alone or params.get("memory") == "pageable":
        return None
    return Usual(share=bus.usual, source=bus.usual_source) if bus.usual else PCIE


def _usual_collective(params: Mapping[str, Scalar], hardware: Hardware) -> Usual | None:
    hosts, ranks = params.get("hosts", 0), params.get("ranks", 0)
    if hosts != 1:
        return _usual_across(params, hardware) if hardware.rdma else None
    if hardware.nvlink is None or not hardware.switched:
        return None
    sums = hardware.reduces and params.get("operation", "") in ("", "all_reduce")
    return SUMS if sums and isinstance(ranks, int) and ranks > 2 else RING  # noqa: PLR2004 - a pair


def _usual_across(params: Mapping[str, Scalar], hardware: Hardware) -> Usual | None:
    """Give it between hosts, where a ring sends more than it must: NCCL may choose one.

    Some of a host's GPUs alone reach some of its interfaces, and nobody measured how many.
    """
    hosts, ranks = params.get("hosts", 0), params.get("ranks", 0)
    if params.get("operation", "") not in RINGS:
        return None
    if not isinstance(hosts, int) or not isinstance(ranks, int) or not 1 < hosts <= ranks:
        return ACROSS
    if hardware.nics > 1 and ranks // hosts < (hardware.gpus or hardware.nics):
        return None
    ring = RING_ACROSS / network_share(str(params.get("operation", "")), ranks, hosts)
    return Usual(share=ring, source=TREES) if ring < ACROSS.share else ACROSS


def _by_series(summaries: Iterable[Summary]) -> Iterable[list[Summary]]:
    """Put the points of each series together, in the order of the summaries."""
    found: dict[object, list[Summary]] = {}
    for summary in summaries:
        found.setdefault((summary.definition, _series(summary)), []).append(summary)
    return found.values()


def _point(points: Sequence[Summary], definitions: Mapping[str, Definition]) -> Summary:
    """Choose the point that is judged: small messages cannot fill what they pass.

    A larger message that is much slower than the best one is a finding, and no small share of it.
    """
    least = LARGE.get(definitions[points[0].definition].medium, 0)
    best = max(points, key=_rank)
    slow = [s for s in _best_by_size(points) if _size(s) > _size(best) and _collapses(s, best)]
    if slow:
        return min(slow, key=_rank)
    return max([s for s in points if _size(s) >= least] or points, key=_rank)


def _best_by_size(points: Iterable[Summary]) -> Iterable[Summary]:
    best: dict[float, Summary] = {}
    for point in points:
        held = best.get(_size(point))
        if held is None or _rank(point) > _rank(held):
            best[_size(point)] = point
    return best.values()


def _collapses(point: Summary, best: Summary) -> bool:
    return point.share is not None and point.share < COLLAPSE * (best.share or 0.0)


def _size(summary: Summary) -> float:
    """Give the bytes of a message; those without a size are large."""
    size = summary.params.get("size", math.inf)
    return math.inf if isinstance(size, str) else size


def _rank(summary: Summary) -> tuple[float, float]:
    """Order points: by share of the bound, so that large messages win; else by the value."""
    value = summary.median if summary.better == "higher" else -summary.median
    return (summary.share or 0.0, value)


def _series(summary: Summary) -> tuple[object, ...]:
    return tuple((k, v) for k, v in summary.params.items() if k not in POINTS)


def _verdict(summary: Summary, definition: Definition, hardware: Hardware | None) -> Verdict:
    known = usual(definition, summary.params, hardware) if hardware and summary.share else None
    word = _word(summary, known)
    return Verdict(
        word=word,
        benchmark=definition.benchmark,
        metric=summary.metric,
        unit=summary.unit,
        params=summary.params,
        n=summary.n,
        median=summary.median,
        ci=summary.ci,
        bound=summary.bound,
        share=summary.share,
        share_ci=_share_interval(summary),
        limit=summary.limit,
        assumes=summary.assumes,
        usual=known.share if known else None,
        usual_source=known.source if known else "",
        hint=_hint(summary, definition, hardware) or _next_step(summary, definition, word),
    )


def _hint(summary: Summary, definition: Definition, hardware: Hardware | None) -> str:
    size = summary.params.get("size", math.inf)
    if summary.share is None:
        small = summary.metric == "latency" and not isinstance(size, str) and size <= SMALL
        return LATENCIES if small else missing(definition, summary.params, hardware)
    if summary.share > BELIEVABLE and summary.assumes:
        return f"impossible only if {summary.assumes}"
    least = LARGE.get(definition.medium, 0)
    if not isinstance(size, str) and size < least:
        return f"too small a message to fill it; measure {format_size(least)} or more"
    if summary.params.get("protocol") == "UDP":
        return "UDP is sent as fast as it was asked for (-b), whatever the network could take"
    return ""


def _next_step(summary: Summary, definition: Definition, word: Word) -> str:
    """Give the command that tells why a value is low."""
    if word != "low":
        return ""
    if definition.medium == "collective" and summary.params.get("hosts") == 1:
        return NEXT["GPU to GPU"]
    return NEXT.get(definition.medium, "")


def _word(summary: Summary, known: Usual | None) -> Word:
    share = summary.share
    if share is None:
        return "unknown"
    if share > BELIEVABLE:
        return "unknown" if summary.assumes else "impossible"
    if known is None:
        return "plausible"
    return "normal" if share >= known.share else "low"


def _share_interval(summary: Summary) -> tuple[float, float] | None:
    if summary.ci is None or summary.bound is None or not all(summary.ci):
        return None
    low, high = (
        (end / summary.bound if summary.unit == "B/s" else summary.bound / end)
        for end in summary.ci
    )
    return min(low, high), max(low, high)
