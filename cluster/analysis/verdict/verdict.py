"""Is a number normal? One point of each series, its share of its limit, and a word for it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from cluster.analysis.limits.devices import OR, missing
from cluster.analysis.limits.hardware import of_point
from cluster.analysis.limits.link import BELIEVABLE, share
from cluster.analysis.limits.published import Published, compare
from cluster.analysis.limits.usual import LARGE, RINGS, Usual, threshold, usual
from cluster.analysis.verdict import reasons
from cluster.core.model.results.limits import Hardware, Limit
from cluster.core.model.results.measurements import Definition, Medium, Summary
from cluster.core.model.value import Scalar, Value

Word = Literal["normal", "low", "impossible", "plausible", "unknown"]
POINTS = ("size", "place", "type", "redop", "root", "row", "column", "clock", "by", "percentile")
"""Parameters along which a series has a best point; all others tell series apart."""


PER_SIZE = ("not_cached",)  # assumptions that hold for some sizes of a series, and not for others
WITHOUT_CACHES = ("collective", "RDMA", "TCP")  # media where only a fault makes large messages slow
REPEATEDLY = 2  # published runs; a single one may come from a slow host
COLLAPSE = 0.5  # of the best share: a larger message below this is a finding
SMALL = 64  # bytes of a small message
LARGE_IN_MEMORY = 1 << 16  # bytes from which a message within one host is meaningful
# Below these rates, in bytes per second, it is not a core that limits TCP.
SLOW_TCP: tuple[tuple[float, reasons.Check], ...] = ((1e6, "tcp_stalled"), (1e9, "tcp_link"))
# What shows why a value is low, by what its bytes pass.
CHECKS: dict[Medium, reasons.Check] = {
    "network": "messages",
    "RDMA": "rdma",
    "collective": "collective",
    "GPU to GPU": "gpu_to_gpu",
    "host to GPU": "host_to_gpu",
    "GPU memory": "gpu_memory",
}


class VerdictFigures(Value, frozen=True, kw_only=True):
    """The figures of the verdict on one series."""

    # `normal` or `low`, compared with healthy hardware; `plausible` if it is below its bound, but
    # the share of healthy hardware is not known; `impossible` above its bound; `unknown` without a
    # bound, or above a bound that is based on an assumption
    word: Word
    benchmark: str  # that measured it
    metric: str  # its name
    unit: str  # of the median
    params: dict[str, Scalar]  # its best point
    n: int  # how many values there are at that point
    median: float  # of the values
    # the 95 % interval of the median; none for fewer than 6 values
    ci: tuple[float, float] | None = None
    bound: float | None = None  # the best possible value; none if it is not known
    share: float | None = None  # of the bound that the median reaches
    share_ci: tuple[float, float] | None = None  # of the bound that the ends of the interval reach


class Verdict(VerdictFigures, frozen=True, kw_only=True):
    """The verdict on one series."""

    limit: Limit | None = None  # what sets the bound; none if it is not known
    usual: Usual | None = None  # what healthy hardware reaches; none if that is not known
    # of the word, or why there is no limit; none if the figures say it
    reason: reasons.Reason | None = None
    # published results of the same test; none if we know of none
    published: Published | None = None


def verdicts(
    summaries: Sequence[Summary], definitions: Mapping[str, Definition], hardware: Hardware | None
) -> tuple[Verdict, ...]:
    """Judge each series at its best large message, or where a larger message collapses."""
    points = judged_points(summaries, definitions)
    medium_tests = {_test(s) for s, _ in points if definitions[s.definition].medium}
    series_verdicts = []
    for summary, best in points:
        definition = definitions[summary.definition]
        if definition.medium or _test(summary) not in medium_tests:
            board = of_point(hardware, summary.params)
            series_verdicts.append(_verdict(summary, best, definition, board))
    return tuple(series_verdicts)  # without times of the same messages as a rate


def judged_points(
    summaries: Iterable[Summary], definitions: Mapping[str, Definition]
) -> list[tuple[Summary, Summary]]:
    """Return the point of each series that its verdict is about, and the best point.

    A sender's figure beside the receiver's has none.
    """
    groups: dict[object, list[Summary]] = {}
    for point in summaries:
        groups.setdefault((point.definition, _series(point)), []).append(point)
    choices: dict[object, list[tuple[Summary, Summary]]] = {}
    for points in groups.values():
        summary, best = _point(points, definitions)
        definition = definitions[summary.definition]
        series = choices.setdefault((definition.benchmark, definition.medium, _series(summary)), [])
        if definition.medium != "TCP" or not series or summary.ci is not None:
            series.append((summary, best))
    return [pair for series in choices.values() for pair in series]


def overall(verdicts: Iterable[Verdict], *, has_failed: bool) -> str:
    """Return one word for all: `failed`, or the worst of the words."""
    words = {verdict.word for verdict in verdicts}
    order = ("impossible", "low", "normal", "plausible", "unknown")
    return "failed" if has_failed else next((word for word in order if word in words), "unknown")


def _point(
    points: Sequence[Summary], definitions: Mapping[str, Definition]
) -> tuple[Summary, Summary]:
    """Choose the point that is judged, and the best one: small messages cannot fill a link.

    A point above the limit, of whatever size, decides. If a larger message is much slower than the
    best one, it is judged instead: that is a finding.
    """
    definition = definitions[points[0].definition]
    large = [s for s in points if _size(s) >= large_from(s, definition)] or points
    in_memory = any(is_copy(s) for s in points)  # small messages may stay in a cache
    candidates = large if in_memory else points
    suspects = [s for s in candidates if _is_above(s)]
    if suspects:
        first = max([s for s in suspects if not is_assumed(s)] or suspects, key=_rank)
        return first, first
    best = max(candidates, key=_rank)
    slow = [s for s in _best_by_size(points) if _falls(s, best, definition)]
    lowest = min([s for s in slow if s in large] or slow, key=_rank, default=None)
    return lowest or max(large, key=_rank), best


def large_from(summary: Summary, definition: Definition) -> int:
    """Return the bytes from which a message saturates its link; 0 if any size is meaningful."""
    if is_copy(summary) or (definition.flow and not definition.medium):
        return LARGE_IN_MEMORY
    return LARGE.get(definition.medium, 0)


def is_copy(summary: Summary) -> bool:
    """Tell whether a copy in memory limits it: messages between ranks of one host."""
    return summary.limit is not None and summary.limit.kind == "memory_copy"


def is_too_small(summary: Summary, definition: Definition) -> bool:
    """Tell whether a rate is of messages that are too small to fill what they pass."""
    size = summary.params.get("size", math.inf)
    is_rate = summary.unit == "B/s" or summary.share is not None
    return is_rate and not isinstance(size, str) and size < large_from(summary, definition)


def _best_by_size(points: Iterable[Summary]) -> Iterable[Summary]:
    best: dict[float, Summary] = {}
    for point in points:
        best_point = best.get(_size(point))
        if best_point is None or _rank(point) > _rank(best_point):
            best[_size(point)] = point
    return best.values()


def _is_above(point: Summary) -> bool:
    """Tell whether a point proves that the limit of its series is wrong, or an assumption of it."""
    assumption = point.limit.assumption if point.limit else None
    per_size = assumption is not None and assumption.kind in PER_SIZE
    return (point.share or 0.0) > BELIEVABLE and not per_size


def is_assumed(point: Summary) -> bool:
    """Tell whether the limit of a point holds only under an assumption."""
    return point.limit is not None and point.limit.assumption is not None


def _falls(point: Summary, best: Summary, definition: Definition) -> bool:
    """Tell whether a point collapses: it is of larger messages than the best, and far slower."""
    if _size(point) <= _size(best):
        return False
    if point.share is not None and best.share is not None:
        return point.share < COLLAPSE * best.share
    is_rate = point.unit == "B/s" and definition.medium in WITHOUT_CACHES
    return is_rate and point.share is None and 0 < point.median < COLLAPSE * best.median


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


def _test(summary: Summary) -> tuple[str, Scalar]:
    return summary.definition.partition(".")[0], summary.params.get("test", "")


def _verdict(
    summary: Summary, best: Summary, definition: Definition, hardware: Hardware | None
) -> Verdict:
    usual_share = _usual(summary, definition, hardware)
    reference = compare(summary, definition, hardware)
    word = word_of(summary, usual_share, reference)
    fell = _falls(summary, best, definition)
    word = "low" if fell and word != "impossible" else word
    reason = None if fell else _reason(summary, definition, hardware, reference)
    if usual_share and isinstance(reason, reasons.TooSmall):
        reason = None
    if word == "low" and reason is None:
        check = _check(summary, definition, hardware)
        reason = (
            reasons.Collapse(
                check=check,
                at=summary.params.get("size", 0),
                best=best.share or 0.0,
                best_value=best.median,
                best_at=best.params.get("size", 0),
                best_value_of_usual=_best_value(summary, COLLAPSE * (best.share or 0.0)),
            )
            if fell
            else reasons.Low(
                check=check,
                share=summary.share,
                usual=usual_share.share if usual_share else None,
                best_value_of_usual=_best_value(summary, usual_share.share if usual_share else 0.0),
            )
        )
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
        usual=usual_share,
        reason=reason,
        published=reference,
    )


def _best_value(summary: Summary, usual_share: float) -> float | None:
    """Return what the best of all values reaches of a share of the limit."""
    if summary.shape is None or not summary.bound or not usual_share or is_copy(summary):
        return None  # of copies in memory, all values are slowed down by what else runs
    best = summary.shape.maximum if summary.better == "higher" else summary.shape.minimum
    return share(best, summary.bound, summary.unit) / usual_share


def _usual(summary: Summary, definition: Definition, hardware: Hardware | None) -> Usual | None:
    """Return what is usual; of small messages, and of what may be a ring, only if it is reached."""
    if hardware is None or not summary.share or _is_of_subgroup(summary):
        return None
    operations = str(summary.params.get("operation", "")).split(OR)
    if not is_too_small(summary, definition) and len(operations) == 1:
        return usual(definition, summary.params, hardware)
    ring = next((name for name in operations if name in RINGS), operations[0])
    params = {k: v for k, v in summary.params.items() if k not in ("size", "operation")}
    usual_share = usual(definition, {**params, "operation": ring}, hardware)
    return usual_share if usual_share and summary.share >= usual_share.share else None


def _is_of_subgroup(summary: Summary) -> bool:
    """Tell whether the ranks may all be on one host, or share its network with other groups."""
    if summary.params.get("groups", 1) not in (0, 1):
        return True
    assumption = summary.limit.assumption if summary.limit else None
    return assumption is not None and assumption.kind == "several_hosts"


def _reason(
    summary: Summary, definition: Definition, hardware: Hardware | None, reference: Published | None
) -> reasons.Reason | None:
    """Return why there is no limit or no word, if that is so."""
    assumption = summary.limit.assumption if summary.limit else None
    if summary.share is None and reference is not None and reference.word:
        return None
    if (summary.share or 0.0) > BELIEVABLE:
        return reasons.AboveAssumption(assumption=assumption) if assumption else None
    if is_too_small(summary, definition):
        return reasons.TooSmall(least=large_from(summary, definition))
    if summary.share is None and (reason := _no_limit(summary, definition, hardware)):
        return reason
    return reasons.RateAsRequested() if summary.params.get("protocol") == "UDP" else None


def _no_limit(
    summary: Summary, definition: Definition, hardware: Hardware | None
) -> reasons.NoLimit | reasons.NoLimitOfLatency | reasons.NoLimitOfProgram | None:
    """Return why there is no limit, if that is known."""
    size = summary.params.get("size", math.inf)
    if summary.metric == "latency" and not isinstance(size, str) and size <= SMALL:
        return reasons.NoLimitOfLatency()
    if definition.benchmark == "program":
        return reasons.NoLimitOfProgram()
    lacking = missing(definition, summary.params, hardware)
    return None if lacking is None else reasons.NoLimit(lacking, hardware.name if hardware else "")


def _check(
    summary: Summary, definition: Definition, hardware: Hardware | None
) -> reasons.Check | None:
    """Return what shows why a value is low."""
    kind = summary.limit.kind if summary.limit else ""
    if is_copy(summary):
        return "memory"
    if summary.metric == "latency":
        return "latency"
    if definition.medium == "collective" and summary.params.get("hosts") == 1:
        links = hardware.nvlink.rate if hardware and hardware.nvlink else 0.0
        is_ring = kind == "nvls" and summary.median >= threshold("ring").share * links
        return "nvls" if is_ring else "gpu_to_gpu"
    if definition.medium == "network" and kind == "efa":
        return "efa"
    if kind == "tcp" or definition.medium == "TCP":
        rate = summary.median if summary.unit == "B/s" else math.inf
        return next((check for most, check in SLOW_TCP if rate < most), "tcp")
    return CHECKS.get(definition.medium)


def word_of(summary: Summary, usual_share: Usual | None, reference: Published | None) -> Word:
    """Choose the word: physics first, then what is usual, then what others published.

    A value that is low for its class is normal if at least two published runs of the same test are
    as low.
    """
    share, word = summary.share, reference.word if reference else ""
    if share is None:
        return word or "unknown"
    if share > BELIEVABLE:
        return "unknown" if summary.limit and summary.limit.assumption else "impossible"
    if usual_share is None:
        return word or "plausible"
    if share >= usual_share.share:
        return "normal"
    is_repeated = reference is not None and reference.reached >= REPEATEDLY
    return "normal" if is_repeated else "low"


def _share_interval(summary: Summary) -> tuple[float, float] | None:
    if summary.ci is None or summary.bound is None or not all(summary.ci):
        return None
    low, high = (
        (end / summary.bound if summary.unit == "B/s" else summary.bound / end)
        for end in summary.ci
    )
    return min(low, high), max(low, high)
