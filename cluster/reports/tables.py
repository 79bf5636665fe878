"""Results of the analysis as tables of text, for any report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.statistics.launches import spread
from cluster.core.units import format_point, format_size, format_value
from cluster.reports.table import Table
from cluster.reports.words.comparison import headline, note_words, reason_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cluster.analysis.models.efficiency import Efficiency, Scaling
    from cluster.analysis.models.predict import MeasuredCollective, Prediction
    from cluster.analysis.statistics.compare import Comparison, ComparisonCell
    from cluster.core.model.fits import Fit, Piece
    from cluster.core.model.measurements import Summary

STRIP = 21  # characters; the middle one means equally fast
LINE = (
    "alpha is the time of an empty message, beta the rate that large messages approach, n_1/2 the "
    "size at which half of beta is reached. A line is valid for its sizes only; for a rate, it is "
    "fitted to the time per message."
)
PREDICTED = "Predicted: the fastest known algorithm, without arithmetic, on unshared links."
FAR = (
    "None: the operation uses messages more than four times beyond the measured sizes, where the "
    "fit is not valid."
)
SAME_FLAGS = (
    "Runs are compared where both have the same metric, size and other parameters. Measure both "
    "with the same flags."
)
WIDEST = 1.0  # the largest span of the strip to each side, in powers of two


def comparison_tables(comparison: Comparison) -> tuple[Table, Table]:
    cells = _cells(comparison) if comparison.is_possible else _nothing_in_common(comparison)
    return _differing(comparison), cells


def _nothing_in_common(comparison: Comparison) -> Table:
    """Show what each of two groups measured, if they have no data point in common."""
    metrics = dict.fromkeys(cell.metric for cell in comparison.cells)
    return Table(
        title=headline(comparison),
        columns=("measured", comparison.base, comparison.other),
        rows=tuple(
            (
                metric,
                _points(c for c in comparison.cells if c.metric == metric and c.base is not None),
                _points(c for c in comparison.cells if c.metric == metric and c.other is not None),
            )
            for metric in metrics
        ),
        notes=(SAME_FLAGS, *map(note_words, comparison.notes)),
        left_aligned=("measured", comparison.base, comparison.other),
    )


def _points(cells: Iterable[ComparisonCell], alone: str = "yes") -> str:
    """Name the points of a metric, the first and the last of many; one alone has no parameter."""
    points = [format_point(cell.params) or alone for cell in cells]
    if len(points) < 3:  # noqa: PLR2004 - more have a beginning and an end
        return "; ".join(points) if points else "-"
    return f"{points[0]} .. {points[-1]} ({len(points)} data points)"


def _differing(comparison: Comparison) -> Table:
    nothing = "What differs: nothing that was recorded"
    return Table(
        title="What differs" if comparison.factors else nothing,
        columns=("factor", comparison.base, comparison.other),
        rows=tuple((factor.name, factor.base, factor.other) for factor in comparison.factors),
        left_aligned=("factor", comparison.base, comparison.other),
    )


def _cells(comparison: Comparison) -> Table:
    span = _span(comparison.cells)
    header = f"slower {2**span:.2f} x faster"
    columns = ("metric", "parameters", "verdict", "ratio", "95% CI of ratio", header)
    bounded = any(share is not None for cell in comparison.cells for share in cell.shares)
    bounds = (f"{comparison.base}, of limit", f"{comparison.other}, of limit")
    return Table(
        title=headline(comparison),
        columns=(*columns, comparison.base, comparison.other, *(bounds if bounded else ())),
        rows=tuple(_cell(cell, span, bounded=bounded) for cell in comparison.cells),
        notes=(
            *_inconclusive(comparison),
            *_explained(comparison),
            *map(note_words, comparison.notes),
        ),
        left_aligned=("metric", "parameters", "verdict", header),
        spare=(bounds, (header,), (comparison.base, comparison.other)),
    )


def _inconclusive(comparison: Comparison) -> Iterator[str]:
    """Return each reason for no verdict once, with the data points that it is about."""
    for reason in dict.fromkeys(cell.reason for cell in comparison.cells if cell.reason):
        cells = [cell for cell in comparison.cells if cell.reason == reason]
        metrics = dict.fromkeys(cell.metric for cell in cells)
        points = ((m, _points([c for c in cells if c.metric == m], alone="")) for m in metrics)
        named = ", ".join(" ".join(filter(None, point)) for point in points)
        yield f"Inconclusive: {named}: {reason_words(reason)}."


def _explained(comparison: Comparison) -> tuple[str, ...]:
    limit = f"{comparison.threshold:.1%}"
    single = all(cell.launches == (1, 1) for cell in comparison.cells if cell.is_common)
    estimator = (
        f"The ratio is the median of {comparison.other} divided by that of {comparison.base}"
        if single
        else f"The ratio is the median of all ratios of a launch of {comparison.other} to a launch "
        f"of {comparison.base} (Hodges and Lehmann); beside it are the medians over launches, and "
        "their own ratio may differ a little"
    )
    verdicts = (
        "Faster or slower: the 95% confidence interval of the ratio excludes 1, the ratio is "
        f"beyond {limit}, and chance among so many data points does not explain it. Equivalent: "
        f"the whole interval is within {limit}. In the drawing, faster is to the right."
    )
    return f"{estimator}.", verdicts


def _cell(cell: ComparisonCell, span: float, *, bounded: bool) -> tuple[str, ...]:
    shares = tuple("none" if share is None else f"{share:.1%}" for share in cell.shares)
    medians = ("-" if m is None else format_value(m, cell.unit) for m in (cell.base, cell.other))
    interval = "none"
    if cell.interval is not None:
        interval = " .. ".join(map(_ratio, cell.interval))
    return (
        cell.metric,
        format_point(cell.params),
        cell.verdict,
        "-" if cell.ratio is None else _ratio(cell.ratio),
        interval,
        interval_strip(cell.speedup, cell.speedup_interval, span),
        *medians,
        *(shares if bounded else ()),
    )


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:#.4g}"  # noqa: PLR2004 - four digits


def _span(cells: Sequence[ComparisonCell]) -> float:
    """Return the span of a strip to each side, in powers of two: as much as most cells need."""
    ends = [abs(math.log2(end)) for cell in cells for end in cell.interval or () if end > 0]
    return min(WIDEST, max([0.05, *ends]))


def interval_strip(ratio: float | None, interval: tuple[float, float] | None, span: float) -> str:
    """Draw an interval around its ratio on a line with 1 in its middle: `.....|.--*--...`."""
    line = ["."] * STRIP
    line[STRIP // 2] = "|"
    if ratio is None or interval is None:
        return "".join(line)
    low, middle, high = (_place(value, span) for value in (interval[0], ratio, interval[1]))
    line[low : high + 1] = "-" * (high + 1 - low)
    line[middle] = "*"
    return "".join(line)


def _place(value: float, span: float) -> int:
    part = math.log2(value) / span if value > 0 else -1.0
    return round((min(1.0, max(-1.0, part)) + 1) / 2 * (STRIP - 1))


def fits_table(fits: Sequence[Fit]) -> Table:
    intervals = ("alpha", "95% CI", "beta", "95% CI of beta", "n_1/2", "worst error")
    unfit = any(piece.misfit for fit in fits for piece in fit.pieces)
    conditions = any(fit.of for fit in fits)
    return Table(
        title="t = alpha + size / beta",
        columns=(
            "metric",
            *(("condition",) if conditions else ()),
            *("launches", "sizes", "points", *intervals),
            *(("remark",) if unfit else ()),
        ),
        rows=tuple(
            (
                ", ".join(filter(None, [fit.metric, format_point(fit.params)])),
                *((fit.of,) if conditions else ()),
                *_piece(fit, piece),
                *((piece.misfit,) if unfit else ()),
            )
            for fit in fits
            for piece in fit.pieces
        ),
        notes=(LINE,),
        left_aligned=("metric", "condition", "sizes", "remark"),
        spare=(("points", "launches"), ("95% CI of beta", "95% CI"), ("n_1/2",), ("worst error",)),
    )


def _piece(fit: Fit, piece: Piece) -> tuple[str, ...]:
    return (
        str(fit.launches),
        f"{format_size(piece.first)} .. {format_size(piece.last)}",
        str(piece.points),
        format_value(piece.alpha, "s"),
        _interval(piece.alpha_ci, "s"),
        format_value(piece.beta, "B/s"),
        _interval(piece.beta_ci, "B/s"),
        "none" if piece.half is None else format_value(piece.half, "B"),
        f"{piece.worst:.1%}",
    )


def _interval(ends: tuple[float, float] | None, unit: str) -> str:
    if ends is None:
        return "none"
    return " .. ".join(format_value(end, unit) for end in ends)


def predictions_table(
    predictions: Sequence[Prediction],
    beyond: Sequence[MeasuredCollective] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Show measured collective operations beside the times predicted from single messages."""
    return Table(
        title="Collective operations, predicted from the messages they consist of",
        columns=(
            "collective",
            "ranks",
            "size",
            "algorithm",
            "predicted",
            "measured",
            "measured / p.",
        ),
        rows=tuple(
            (
                p.collective,
                str(p.ranks),
                format_size(p.size),
                p.algorithm,
                format_value(p.predicted, "s"),
                format_value(p.measured, "s"),
                f"{p.ratio:.2f}",
            )
            for p in predictions
        )
        + tuple(_unpredicted(collective) for collective in beyond),
        notes=(PREDICTED, *([FAR] if beyond else []), *notes),
        left_aligned=("collective", "algorithm"),
    )


def _unpredicted(collective: MeasuredCollective) -> tuple[str, ...]:
    size, seconds = format_size(collective.size), format_value(collective.seconds, "s")
    return (collective.collective, str(collective.ranks), size, "none", "-", seconds, "-")


def scaling_table(scaling: Scaling) -> Table:
    bounded = any(row.most is not None for row in scaling.rows)
    printed = any(row.printed is not None for row in scaling.rows)
    columns = ("ranks", "rate", "speedup", "efficiency", "95% CI", "view")
    base = f"{scaling.base} rank(s) at {format_value(scaling.base_rate, scaling.unit)}"
    return Table(
        title=f"{scaling.name}: efficiency over {base}",
        columns=(
            *columns,
            *(("no overlap", "all overlap") if bounded else ()),
            *(("printed",) if printed else ()),
        ),
        rows=tuple(_scaled(row, scaling.unit, bounded, printed) for row in scaling.rows),
        notes=tuple(_doubtful(scaling)),
        left_aligned=("view", "printed"),
        spare=(("view",), ("speedup",), ("95% CI",)),
    )


def _doubtful(scaling: Scaling) -> Iterator[str]:
    for row in scaling.rows:
        if not row.follows:
            yield (
                f"The printed {row.printed:.0%} of {row.ranks} ranks does not follow from its row: "
                f"{row.efficiency:.1%}."
            )
        if row.least is not None and row.efficiency < row.least:
            yield (
                f"{row.ranks} ranks are slower than without any overlap of computation and "
                f"exchange ({row.least:.1%}): the exchange is slower than this link, or ranks wait "
                "for something else."
            )
        if row.most is not None and row.efficiency > row.most * BELIEVABLE:
            yield (
                f"{row.ranks} ranks are faster than possible ({row.most:.1%}): the result is "
                "wrong, or the batch, the exchange or the link is not as given."
            )


def _scaled(row: Efficiency, unit: str, bounded: bool, printed: bool) -> tuple[str, ...]:  # noqa: FBT001
    interval = "none"
    if row.interval is not None:
        interval = " .. ".join(f"{end:.1%}" for end in row.interval)
    bounds = ("-" if part is None else f"{part:.1%}" for part in (row.least, row.most))
    claim = "" if row.printed is None else f"{row.printed:.0%}"
    return (
        str(row.ranks),
        format_value(row.rate, unit),
        f"{row.speedup:.2f} x",
        f"{row.efficiency:.1%}",
        interval,
        bar(row.efficiency),
        *(tuple(bounds) if bounded else ()),
        *((claim if row.follows else f"{claim} does not follow",) if printed else ()),
    )


def bar(part: float) -> str:
    """Draw a share, from 0 to 1, as a bar of ten characters such as `########..`."""
    full = min(10, max(0, round(part * 10)))
    return "#" * full + "." * (10 - full)


def launches_table(pooled: Sequence[Summary], launches: int, notes: Sequence[str] = ()) -> Table:
    """Show the medians over several launches, of `pool_launches`: a row per data point."""
    bounded = any(summary.share is not None for summary in pooled)
    sure = any(summary.ci is not None for summary in pooled)
    return Table(
        title=f"Median over {launches} launches",
        columns=(
            *("metric", "parameters", "median"),
            *(("95% CI over launches",) if sure else ()),
            *("lowest .. highest", "spread"),
            *(("of limit",) if bounded else ()),
        ),
        rows=tuple(_row(summary, bounded=bounded, sure=sure) for summary in pooled),
        notes=tuple(notes),
        left_aligned=("metric", "parameters"),
        spare=(("lowest .. highest",), ("spread",)) if sure else (("spread",),),
    )


def _row(summary: Summary, *, bounded: bool, sure: bool) -> tuple[str, ...]:
    shape, value_spread = summary.shape, spread(summary)
    return (
        summary.metric,
        format_point(summary.params),
        format_value(summary.median, summary.unit),
        *((_ends(summary.ci, summary.unit),) if sure else ()),
        _ends(None if shape is None else (shape.minimum, shape.maximum), summary.unit),
        "-" if value_spread is None else f"{value_spread:.0%}",
        *(("-" if summary.share is None else f"{summary.share:.1%}",) if bounded else ()),
    )


def _ends(ends: tuple[float, float] | None, unit: str) -> str:
    return "-" if ends is None else " .. ".join(format_value(end, unit) for end in ends)
