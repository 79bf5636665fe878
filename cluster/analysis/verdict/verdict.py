"""Is a number normal? One point of each series, its share of its limit, and a word for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from cluster.analysis.limits.devices import missing
from cluster.analysis.limits.hardware import of_point
from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.limits.published.comparison import Published, compare
from cluster.analysis.limits.usual import LARGE, Usual, threshold, usual
from cluster.core.model.value import Scalar, Value
from cluster.core.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.hardware import Hardware
    from cluster.core.model.measurements import Definition, Summary

Word = Literal["normal", "low", "impossible", "plausible", "unknown"]
POINTS = ("size", "place", "type", "redop", "root", "row", "column", "clock", "by", "percentile")
"""Parameters along which a series has a best point; all others tell series apart."""


# Latencies have no bound. This is what others measured: half a round trip of a small message.
LATENCIES = (
    "others measured 1.6 µs on InfiniBand, 10 to 16 µs on EFA, 20 to 43 µs with TCP in clouds "
    "(OSU, 8 B)"
)
REPEATEDLY = 2  # published runs; a single one may come from a slow host
COLLAPSE = 0.5  # of the best share: a larger message below this is a finding
SMALL = 64  # bytes of a small message
COPIED = "a copy in memory"  # in the limit of messages between ranks of one host
LARGE_IN_MEMORY = 1 << 16  # bytes from which a message within one host is meaningful
TOO_SMALL = "too small a message"
IMPOSSIBLE_IF = "impossible only if "  # before an assumption


# The command that shows why a value is low, by what its bytes pass.
NEXT = {
    "TCP": "next: iperf3 -c HOST -P 8, and several processes at once: a core carries about 25 "
    "Gbit/s, and iperf3 before 3.16 has one thread",
    "latency": "next: UCX_LOG_LEVEL=info or --mca btl_base_verbose 30, to see what carries the "
    "messages",
    "network": "next: ib_write_bw -d DEVICE HOST without MPI, and UCX_LOG_LEVEL=info or "
    "--mca btl_base_verbose 30 to see what carries the messages",
    "RDMA": "next: ibstat (or ethtool of the interface): its rate and errors; ib_write_bw -q 4 "
    "--report_gbits, on the NUMA node of the adapter (numactl --cpunodebind)",
    "EFA": "next: fi_info -p efa on each host, and FI_LOG_LEVEL=info to see which provider carries "
    "the messages",
    "NVLS": "next: the same test with NCCL_DEBUG=INFO: does it say NVLS multicast support is "
    "available? If not, the switch does not sum (NCCL_NVLS_ENABLE, the fabric manager); if so, "
    "nvidia-smi nvlink --status: are all links up?",
    "collective": "next: the same test with NCCL_DEBUG=INFO, then cluster topology LOG: which "
    "network, which interfaces, with GPUDirect or without",
    "GPU to GPU": "next: nvidia-smi topo -m and nvidia-smi nvlink --status: are all links up?",
    "host to GPU": "next: nvidia-smi -q | grep -A2 'Link Width' while it copies, and the same with "
    "numactl --cpunodebind and --membind of the GPU's node",
    "GPU memory": "next: nvidia-smi -q -d CLOCK,PERFORMANCE,ECC while it runs",
}


class Verdict(Value, frozen=True, kw_only=True):
    """The verdict on one series.

    Args:
        word: `normal` or `low`, compared with healthy hardware; `plausible` if it is below its
            bound, but the share of healthy hardware is not known; `impossible` above its bound;
            `unknown` without a bound, or above a bound that is based on an assumption.
        benchmark: that measured it.
        metric: its name.
        unit: of the median.
        params: its best point.
        n: how many values there are at that point.
        median: of the values.
        ci: the 95 % interval of the median; none for fewer than 6 values.
        bound: the best possible value; none if it is not known.
        share: of the bound that the median reaches.
        share_ci: of the bound that the ends of the interval reach.
        limit: what sets the bound: direction and source.
        assumes: what the bound assumes without the log or the user having stated it; empty if
            nothing.
        usual: the share that healthy hardware reaches; none if that is not known.
        usual_source: who measured that share.
        hint: what must be known for a bound or a word, or what others measured.
        published: published results of the same test; none if we know of none.

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
    published: Published | None = None


def verdicts(
    summaries: Sequence[Summary],
    definitions: Mapping[str, Definition],
    hardware: Hardware | None,
) -> tuple[Verdict, ...]:
    """Judge each series at its best large message, or where a larger message collapses."""
    points = [_point(points, definitions) for points in _by_series(summaries)]
    bounded = {s.definition.split(".")[0] for s, _ in points if definitions[s.definition].medium}
    told: set[object] = set()
    found = []
    for summary, best in points:
        definition = definitions[summary.definition]
        if definition.benchmark in bounded and not definition.medium:
            continue  # times of the same messages as a rate
        where = (definition.benchmark, definition.medium, _series(summary))
        if definition.medium == "TCP" and where in told and summary.ci is None:
            continue  # a sender's figure; the receiver's is judged
        told.add(where)
        found.append(_verdict(summary, best, definition, of_point(hardware, summary.params)))
    return tuple(found)


def overall(found: Iterable[Verdict], *, failed: bool) -> str:
    """Return one word for all.

    Returns:
        `failed`, or the worst of the words.

    """
    words = {verdict.word for verdict in found}
    order = ("impossible", "low", "normal", "plausible", "unknown")
    return "failed" if failed else next((word for word in order if word in words), "unknown")


def _by_series(summaries: Iterable[Summary]) -> Iterable[list[Summary]]:
    """Group the points of each series, in the order of the summaries."""
    found: dict[object, list[Summary]] = {}
    for summary in summaries:
        found.setdefault((summary.definition, _series(summary)), []).append(summary)
    return found.values()


def _point(
    points: Sequence[Summary], definitions: Mapping[str, Definition]
) -> tuple[Summary, Summary]:
    """Choose the point that is judged, and give the best one: small messages cannot fill a link.

    If a larger message is much slower than the best one, it is judged instead: that is a finding.
    """
    definition = definitions[points[0].definition]
    large = [s for s in points if _size(s) >= large_from(s, definition)] or points
    in_memory = any(COPIED in s.limit for s in points)  # small messages may stay in a cache
    best = max(large if in_memory else points, key=_rank)
    slow = [s for s in _best_by_size(points) if _size(s) > _size(best) and _collapses(s, best)]
    return (min(slow, key=_rank) if slow else max(large, key=_rank)), best


def large_from(summary: Summary, definition: Definition) -> int:
    """Return the size from which a message saturates its link, so that its share counts.

    Returns:
        Bytes; 0 if any size is meaningful.

    """
    if COPIED in summary.limit or (definition.flow and not definition.medium):
        return LARGE_IN_MEMORY
    return LARGE.get(definition.medium, 0)


def is_too_small(summary: Summary, definition: Definition) -> bool:
    """Tell whether a rate is of messages that are too small to fill what they pass."""
    size = summary.params.get("size", math.inf)
    is_rate = summary.unit == "B/s" or summary.share is not None
    return is_rate and not isinstance(size, str) and size < large_from(summary, definition)


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
    """Return the bytes of a message; a point without a size counts as large."""
    size = summary.params.get("size", math.inf)
    return math.inf if isinstance(size, str) else size


def _rank(summary: Summary) -> tuple[float, float]:
    """Order points by their share of the bound, so that large messages win, else by value."""
    value = summary.median if summary.better == "higher" else -summary.median
    return (summary.share or 0.0, value)


def _series(summary: Summary) -> tuple[object, ...]:
    return tuple((k, v) for k, v in summary.params.items() if k not in POINTS)


def _verdict(
    summary: Summary, best: Summary, definition: Definition, hardware: Hardware | None
) -> Verdict:
    known = _usual(summary, definition, hardware)
    published = compare(summary, definition, hardware)
    word = word_of(summary, known, published)
    fell = _collapses(summary, best) and _size(best) < _size(summary)
    word = "low" if fell and word in ("normal", "plausible") else word
    hint = _hint(summary, definition, hardware, published)
    if known and hint.startswith(TOO_SMALL):
        hint = ""
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
        hint=hint or _next_step(summary, definition, word, hardware),
        published=published,
    )


def _usual(summary: Summary, definition: Definition, hardware: Hardware | None) -> Usual | None:
    """Return what is usual; a small message that reaches it all the same is not too small."""
    if hardware is None or not summary.share:
        return None
    if not is_too_small(summary, definition):
        return usual(definition, summary.params, hardware)
    sizeless = {key: value for key, value in summary.params.items() if key != "size"}
    known = usual(definition, sizeless, hardware)
    return known if known and summary.share >= known.share else None


def _hint(
    summary: Summary,
    definition: Definition,
    hardware: Hardware | None,
    published: Published | None,
) -> str:
    size = summary.params.get("size", math.inf)
    if summary.share is None and published is not None and published.word:
        return ""
    if (summary.share or 0.0) > BELIEVABLE and summary.assumes:
        return f"{IMPOSSIBLE_IF}{summary.assumes}"
    if is_too_small(summary, definition):
        least = large_from(summary, definition)
        return f"{TOO_SMALL} to fill it; measure {format_size(least)} or more"
    if summary.share is None:
        small = summary.metric == "latency" and not isinstance(size, str) and size <= SMALL
        return LATENCIES if small else missing(definition, summary.params, hardware)
    if summary.params.get("protocol") == "UDP":
        return "UDP is sent as fast as it was asked for (-b), whatever the network could take"
    return ""


def _next_step(
    summary: Summary, definition: Definition, word: Word, hardware: Hardware | None
) -> str:
    """Return the command that shows why a value is low."""
    if word != "low":
        return ""
    if summary.metric == "latency":
        return NEXT["latency"]
    if definition.medium == "collective" and summary.params.get("hosts") == 1:
        links = hardware.nvlink.rate if hardware and hardware.nvlink else 0.0
        is_ring = "NVLS" in summary.limit and summary.median >= threshold("ring").share * links
        return NEXT["NVLS" if is_ring else "GPU to GPU"]
    if definition.medium == "network" and "EFA" in summary.limit:
        return NEXT["EFA"]
    return NEXT["TCP"] if "TCP" in summary.limit else NEXT.get(definition.medium, "")


def word_of(summary: Summary, known: Usual | None, published: Published | None) -> Word:
    """Choose the word: physics first, then what is usual, then what others published.

    A value that is low for its class is normal if at least two published runs of the same test are
    as low.

    Args:
        known: what is usual for its class; none if we know of no measurement.
        published: published results of the same test; none if there are none.

    """
    share, like = summary.share, published.word if published else ""
    if share is None:
        return like or "unknown"
    if share > BELIEVABLE:
        return "unknown" if summary.assumes else "impossible"
    if known is None:
        return like or "plausible"
    if share >= known.share:
        return "normal"
    repeated = published is not None and published.reached >= REPEATEDLY
    return "normal" if repeated else "low"


def _share_interval(summary: Summary) -> tuple[float, float] | None:
    if summary.ci is None or summary.bound is None or not all(summary.ci):
        return None
    low, high = (
        (end / summary.bound if summary.unit == "B/s" else summary.bound / end)
        for end in summary.ci
    )
    return min(low, high), max(low, high)
