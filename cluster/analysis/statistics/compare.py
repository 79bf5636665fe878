"""Is it faster? Compares two groups of launches at each data point, also to "inconclusive".

A data point is a metric at a size or another parameter. It is called faster or slower only if the
95 % interval of the ratio excludes 1, the ratio itself is beyond the practical threshold, and a
difference like this one would be rare by chance among all data points. It is called equivalent if
the whole interval is within the threshold. Everything else is inconclusive, and says why
(T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC15, rules 7, 8).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

import msgspec

from cluster.analysis.statistics.factors import Factor, differing_factors, factors
from cluster.analysis.topology.nccl_toggles import ToggleProof, missing_proof
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Summary
from cluster.core.model.results.records import Record
from cluster.core.model.value import Scalar, Value

THRESHOLD = 0.03  # of a value: a smaller difference is of no practical interest
ENOUGH_LAUNCHES = 5  # of each group, for a verdict
RARE = 0.025  # p-value: of 200 comparisons of equal conditions, hardly ever do more than 5% differ

Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = ("faster", "slower", "equivalent", "inconclusive")
Place = tuple[str, tuple[tuple[str, Scalar], ...]]  # a metric at a point


class Launch(Value, frozen=True, kw_only=True):
    """One run, as a comparison uses it."""

    record: Record
    summaries: tuple[Summary, ...]
    toggle: ToggleProof | None = None


class Side(Value, frozen=True, kw_only=True):
    """Launches of one condition."""

    name: str
    launches: tuple[Launch, ...]


class CellReason(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Why a cell has no verdict."""

    kind: Literal[
        "not_measured", "definitions", "no_positive_median", "too_few_launches", "no_interval",
        "includes_one", "small", "chance", "value_missing", "unproven", "same_transports",
    ]  # fmt: skip
    side: str = ""  # that did not measure it
    names: tuple[str, ...] = ()  # why it failed, or the definitions
    count: int = 0  # data points, or launches of the first group
    other_count: int = 0
    threshold: float = 0.0
    proof: ToggleProof | None = None


class ComparisonNote(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader of the verdicts must know."""

    kind: Literal["proof", "simulated", "two_launches", "in_sequence", "not_done"]
    side: str = ""
    other: str = ""
    proof: ToggleProof | None = None
    count: int = 0  # launches, of `total`, that have the proof
    total: int = 0
    id: str = ""  # of a run that is not done
    status: str = ""
    reason: str = ""  # of its record
    words: str = ""


class ComparisonCell(Value, frozen=True, kw_only=True):
    """A metric at a point, in two groups of launches."""

    metric: str
    params: dict[str, Scalar]
    unit: str
    better: Literal["lower", "higher"]
    # the median of the launches' medians in the first group; none if it has none
    base: float | None
    other: float | None  # in the second
    launches: tuple[int, int]
    # of their bounds that the two medians reach; none if no limit is known
    shares: tuple[float | None, float | None] = (None, None)
    ratio: float | None = None  # of the second group's medians to the first's
    interval: tuple[float, float] | None = None  # the ends of its 95 % confidence interval
    verdict: Verdict = "inconclusive"  # on the second group
    reason: CellReason | None = None
    why: str = ""  # the reason in words

    @property
    def is_common(self) -> bool:
        """Whether both groups measured it."""
        return self.base is not None and self.other is not None

    @property
    def speedup(self) -> float | None:
        """By what factor the second group is faster: the ratio, or its inverse for times."""
        if self.ratio is None:
            return None
        return self.ratio if self.better == "higher" else 1 / self.ratio

    @property
    def speedup_interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the speed-up."""
        if self.interval is None or self.better == "higher":
            return self.interval
        low, high = self.interval
        return (1 / high, 1 / low if low > 0 else math.inf)


class Comparison(Value, frozen=True, kw_only=True):
    """What differs between two groups of launches, and the verdicts."""

    base: str  # the name of the first group
    other: str  # the name of the second group, which the verdicts are about
    threshold: float  # the smallest relative difference that matters
    factors: tuple[Factor, ...]  # that differ
    cells: tuple[ComparisonCell, ...]  # every metric and point that either group has
    notes: tuple[ComparisonNote, ...] = ()
    headline: str = ""  # in words

    @property
    def is_possible(self) -> bool:
        """Whether the two groups have a data point in common, or neither has any."""
        return not self.cells or any(cell.is_common for cell in self.cells)


def group_by(launches: Iterable[Launch], key: str) -> tuple[Side, ...]:
    """Group launches by a factor such as `placement` (SpecError: it does not differ)."""
    by_value: dict[str, list[Launch]] = {}
    names: dict[str, None] = {}
    for launch in launches:
        values = dict(factors(launch.record))
        names |= dict.fromkeys(values)
        if key in values:
            by_value.setdefault(values[key], []).append(launch)
    if not by_value:
        raise SpecError(f"No run has a {key!r}.", remedy=f"There are: {', '.join(sorted(names))}")
    if len(by_value) == 1:
        raise SpecError(
            f"All runs have the same {key}: {next(iter(by_value))}.",
            remedy="Name runs that differ in it, or another factor: --by NAME",
        )
    return tuple(
        Side(name=value if key == "condition" else f"{key}={value}", launches=tuple(group))
        # only a group with values can be a base
        for value, group in sorted(
            by_value.items(), key=lambda g: not any(x.summaries for x in g[1])
        )
    )


def group_alike(launches: Iterable[Launch]) -> tuple[Side, ...]:
    """Group repetitions, whose records do not differ, under a condition or first run."""
    groups: dict[object, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(tuple(factors(launch.record)), []).append(launch)
    return tuple(
        Side(name=group[0].record.condition or group[0].record.id, launches=tuple(group))
        for group in groups.values()
    )


def compare(base: Side, other: Side, threshold: float = THRESHOLD) -> Comparison:
    """Compare two groups of launches; the verdicts are about the second, `other`.

    `threshold` is the smallest relative difference of practical interest (SpecError: not positive).
    """
    if not 0 < threshold < 1:
        raise SpecError(f"The threshold is {threshold:.4g}; it must be more than 0 and below 1.")
    pairs = _pairs(base, other)
    cells = [_cell(pair, (base, other), threshold) for pair in pairs]
    cells = _without_chance_verdicts(cells, pairs, base, other)
    # A variable of NCCL may have done nothing.
    proof = missing_proof(*([launch.toggle for launch in side.launches] for side in (base, other)))
    if proof is not None:
        reason = CellReason(kind="unproven" if proof.fault else "same_transports", proof=proof)
        cells = [
            msgspec.structs.replace(cell, verdict="inconclusive", reason=cell.reason or reason)
            for cell in cells
        ]
    return Comparison(
        base=base.name,
        other=other.name,
        threshold=threshold,
        factors=differing_factors(
            *(map(_record_of_measured, side.launches) for side in (base, other))
        ),
        cells=tuple(cells),
        notes=tuple(_notes(base, other)),
    )


def _record_of_measured(launch: Launch) -> Record:
    """Leave out the definitions of metrics that a run was stopped before it could measure."""
    metrics = {summary.metric for summary in launch.summaries}
    definitions = {k: d for k, d in launch.record.definitions.items() if d.metric in metrics}
    return msgspec.structs.replace(launch.record, definitions=definitions)


Pair = tuple[list[Summary], list[Summary]]


def _pairs(base: Side, other: Side) -> list[Pair]:
    # One run may have a metric with several definitions: two tools may use the same name.
    counts = (Counter(map(_place, x.summaries)) for side in (base, other) for x in side.launches)
    several = {place for of_run in counts for place, count in of_run.items() if count > 1}
    first, second = (
        [
            {(_place(s), s.definition if _place(s) in several else ""): s for s in launch.summaries}
            for launch in side.launches
        ]
        for side in (base, other)
    )
    keys = dict.fromkeys(key for table in (*first, *second) for key in table)
    return [
        ([t[key] for t in first if key in t], [t[key] for t in second if key in t]) for key in keys
    ]


def _place(summary: Summary) -> Place:
    return summary.metric, tuple(sorted(summary.params.items()))


def _cell(pair: Pair, groups: tuple[Side, Side], threshold: float) -> ComparisonCell:
    """Judge one cell, as if it were the only one."""
    from cluster.analysis.statistics.two_sample import median_ratio, ratio_interval  # noqa: PLC0415 - it imports NumPy

    summary = (pair[0] or pair[1])[0]
    medians = [[s.median for s in group] for group in pair]
    cell = ComparisonCell(
        metric=summary.metric,
        params=summary.params,
        unit=summary.unit,
        better=summary.better,
        base=median(medians[0]) if medians[0] else None,
        other=median(medians[1]) if medians[1] else None,
        launches=(len(pair[0]), len(pair[1])),
        shares=(_share(pair[0]), _share(pair[1])),
        reason=_incomparable(pair, groups),
    )
    if cell.reason:
        return cell
    estimate = median_ratio(medians[0], medians[1])
    if cell.launches == (1, 1):
        interval = _interval_of_two_launches(pair[0][0], pair[1][0])
    else:
        interval = ratio_interval(medians[0], medians[1])
    verdict, reason = _verdict(estimate, interval, threshold, summary.better)
    if min(cell.launches) < ENOUGH_LAUNCHES:
        base_count, other_count = cell.launches
        reason = CellReason(kind="too_few_launches", count=base_count, other_count=other_count)
        verdict = "inconclusive"
    return msgspec.structs.replace(
        cell, ratio=estimate, interval=interval, verdict=verdict, reason=reason
    )


def _share(group: Sequence[Summary]) -> float | None:
    shares = [summary.share for summary in group if summary.share is not None]
    return median(shares) if shares and len(shares) == len(group) else None


def _incomparable(pair: Pair, groups: tuple[Side, Side]) -> CellReason | None:
    for summaries, side in zip(pair, groups, strict=True):
        if not summaries:
            failures = dict.fromkeys(x.record.reason for x in side.launches if x.record.reason)
            return CellReason(kind="not_measured", side=side.name, names=tuple(failures))
    definitions = {summary.definition for summaries in pair for summary in summaries}
    if len(definitions) > 1:
        return CellReason(kind="definitions", names=tuple(sorted(definitions)))
    if not all(0 < s.median < math.inf for summaries in pair for s in summaries):
        return CellReason(kind="no_positive_median")
    return None


def _interval_of_two_launches(base: Summary, other: Summary) -> tuple[float, float] | None:
    """Compare one launch with another by their own intervals, which say nothing of the next one."""
    if base.ci is None or other.ci is None or not base.ci[0] > 0 or not base.ci[1] < math.inf:
        return None
    return other.ci[0] / base.ci[1], other.ci[1] / base.ci[0]


def _verdict(
    estimate: float, interval: tuple[float, float] | None, threshold: float, better: str
) -> tuple[Verdict, CellReason | None]:
    if interval is None:
        return "inconclusive", CellReason(kind="no_interval")
    low, high = interval
    if 1 / (1 + threshold) <= low and high <= 1 + threshold:
        return "equivalent", None
    if low <= 1 <= high:
        return "inconclusive", CellReason(kind="includes_one", threshold=threshold)
    if max(estimate, 1 / estimate) < 1 + threshold:
        return "inconclusive", CellReason(kind="small", threshold=threshold)
    return ("faster" if (estimate > 1) == (better == "higher") else "slower"), None


def _without_chance_verdicts(
    cells: Sequence[ComparisonCell], pairs: Sequence[Pair], base: Side, other: Side
) -> list[ComparisonCell]:
    """Withdraw verdicts that could be chance among so many cells."""
    from cluster.analysis.statistics.two_sample import permutation_p_values  # noqa: PLC0415 - it imports NumPy

    whole = (len(base.launches), len(other.launches))
    family = [i for i, cell in enumerate(cells) if cell.ratio and cell.launches == whole]
    results = list(cells)
    if not any(cell.verdict in ("faster", "slower") for cell in cells):
        return results
    first, second = ([[s.median for s in pairs[i][group]] for i in family] for group in (0, 1))
    likely = dict(zip(family, permutation_p_values(first, second), strict=True)) if family else {}
    for i, cell in enumerate(cells):
        if cell.verdict in ("faster", "slower") and likely.get(i, 1.0) > RARE:
            chance = CellReason(kind="chance", count=len(family))
            reason = chance if i in likely else CellReason(kind="value_missing")
            results[i] = msgspec.structs.replace(cell, verdict="inconclusive", reason=reason)
    return results


def _notes(base: Side, other: Side) -> Iterator[ComparisonNote]:
    for side in (base, other):
        launches = side.launches
        proofs = Counter(launch.toggle for launch in launches if launch.toggle)
        for proof, count in proofs.items():
            yield ComparisonNote(
                kind="proof", side=side.name, proof=proof, count=count, total=len(launches)
            )
        if any(launch.record.simulated for launch in launches):
            yield ComparisonNote(kind="simulated", side=side.name)
    if len(base.launches) == len(other.launches) == 1:
        yield ComparisonNote(kind="two_launches")
    if min(len(base.launches), len(other.launches)) >= ENOUGH_LAUNCHES:
        first, second = ([launch.record.at for launch in s.launches] for s in (base, other))
        if max(first) < min(second) or max(second) < min(first):
            yield ComparisonNote(kind="in_sequence", side=base.name, other=other.name)
    yield from (
        ComparisonNote(
            kind="not_done",
            side=side.name,
            id=x.record.id,
            status=x.record.status,
            reason=x.record.reason,
        )
        for side in (base, other)
        for x in side.launches
        if x.record.status != "done"
    )
