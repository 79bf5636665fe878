"""Ratios with their intervals: of the points of a comparison, and of a scaling over ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.analysis.models.efficiency import Scaling
from cluster.core.errors import SpecError
from cluster.core.text.units import format_point, format_value
from cluster.reports.plots.picture import (
    LABELLED,
    Format,
    Picture,
    differing_names,
    finish,
    marker,
    name_line,
    new_figure,
    scale_ratios,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cluster.analysis.statistics.compare import Comparison, ComparisonCell

PER_ROW = 0.26  # inches, of a data point
MOST_ROWS = 60
FARTHEST = 4  # speed-up up to which a limit is drawn: one farther away would squeeze the rest
VERDICTS = {  # colour and marker
    "faster": ("#2e9e4f", ">"),
    "slower": ("#d0453b", "<"),
    "equivalent": ("#3b82c4", "o"),
    "inconclusive": ("#8a8a8a", "D"),
}
MOST_TICKS = 9  # of ranks


def comparison(result: Comparison, kind: Format = "svg", prefix: str = "p") -> Picture:
    """Draw the speed-up of each point, with its interval (SpecError: none can be compared)."""
    cells = [cell for cell in result.cells if cell.ratio][:MOST_ROWS]
    if not cells:
        raise SpecError(
            f"{result.other} and {result.base} have no data point that can be compared.",
            remedy="Compare runs of the same metrics and sizes.",
        )
    figure, axes = new_figure(height=1.0 + PER_ROW * max(3, len(cells)))
    limit = result.threshold
    axes.axvspan(
        1 / (1 + limit), 1 + limit, color="#3b82c4", alpha=0.12, label=f"within {limit:.1%}"
    )
    axes.axvline(1, color="black", lw=0.8)
    tips = {}
    for verdict, (colour, shape) in VERDICTS.items():
        rows = [(row, cell) for row, cell in enumerate(cells) if cell.verdict == verdict]
        if not rows:
            continue
        for row, cell in rows:
            _, low, high = _speed_ups(cell)
            axes.plot([low, high], [row, row], "-", color=colour, lw=2)
        (line,) = axes.plot(
            [_speed_ups(cell)[0] for _, cell in rows],
            [row for row, _ in rows],
            *(shape,),
            color=colour,
            ms=5,
            label=verdict,
        )
        tips[name_line(line, f"{prefix}-{verdict}")] = tuple(_words(cell) for _, cell in rows)
    ends = [end for cell in cells for end in _speed_ups(cell) if 0 < end < math.inf]
    scale_ratios(axes, min(ends), max(ends))
    _draw_limits(axes, cells)
    axes.set_yticks(
        range(len(cells)), [f"{cell.metric} {format_point(cell.params)}" for cell in cells]
    )
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xlabel("speed-up: faster to the right; bars: 95% CI")
    title = f"{result.other} against {result.base}"
    counts = sorted({count for cell in cells for count in cell.launches})
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    caption = (
        f"Each point says how many times as fast {result.other} is as {result.base}: right of "
        f"1, it is faster. Its bar is the 95% confidence interval, from {n} launch(es) of each; in "
        f"the band, the two differ by less than {result.threshold:.1%}."
    )
    return finish(figure, title, kind, tips, caption)


def _draw_limits(axes: Axes, cells: Sequence[ComparisonCell]) -> None:
    ratios = [(1 / share, row) for row, cell in enumerate(cells) if (share := cell.shares[0])]
    near = [(ratio, row) for ratio, row in ratios if 1 / FARTHEST <= ratio <= FARTHEST]
    if near:
        places, rows = zip(*near, strict=True)
        axes.plot(places, rows, "|", color="black", ms=11, label="limit")
        low, high = axes.get_xlim()
        scale_ratios(axes, min(low, *places), max(high, *places))
    else:
        away = f"the limits are more than {FARTHEST} x away"
        axes.plot([], [], " ", label=away if ratios else "no limit is known")


def _speed_ups(cell: ComparisonCell) -> tuple[float, float, float]:
    ratio = cell.ratio or 1.0
    low, high = cell.interval or (ratio, ratio)
    if cell.better == "higher":
        return ratio, low, high
    return 1 / ratio, 1 / high if high else math.inf, 1 / low if low else math.inf


def _words(cell: ComparisonCell) -> str:
    ends = f" ({cell.interval[0]:.4f} .. {cell.interval[1]:.4f})" if cell.interval else ""
    shares = [f"{share:.1%}" for share in cell.shares if share is not None]
    bound = f", {' and '.join(shares)} of the limit" if shares else ""
    point = f"{cell.metric} {format_point(cell.params)}"
    return f"{point}: ratio {cell.ratio:.4f}{ends}, {cell.verdict}{bound}"


def scaling(scalings: Sequence[Scaling], kind: Format = "svg", prefix: str = "p") -> Picture:
    figure, axes = new_figure()
    from matplotlib import ticker  # noqa: PLC0415 - it is slow to import

    tips = {}
    names = differing_names([f"{curve.name} (base: {curve.base})" for curve in scalings])
    for number, curve in enumerate(scalings):
        ranks = [row.ranks for row in curve.rows]
        values = [100 * row.efficiency for row in curve.rows]
        label = names[number] if number < LABELLED else "_"
        (line,) = axes.plot(ranks, values, f"{marker(number)}-", ms=4, lw=1.2, label=label)
        spans = [row.interval or (row.efficiency, row.efficiency) for row in curve.rows]
        for rank, (low, high) in zip(ranks, spans, strict=True):
            axes.plot([rank, rank], [100 * low, 100 * high], "-", color=line.get_color(), lw=1.2)
        rows = [(r.ranks, 100 * r.least, 100 * r.most) for r in curve.rows if r.least and r.most]
        if rows:
            places, least, most = zip(*rows, strict=True)
            axes.fill_between(places, least, most, color=line.get_color(), alpha=0.12)
        tips[name_line(line, f"{prefix}-{number}")] = tuple(
            f"{curve.name}, {row.ranks} ranks: {format_value(row.rate, curve.unit)}, "
            f"{row.efficiency:.1%} of {curve.base} rank(s)"
            for row in curve.rows
        )
    axes.axhline(100, color="black", lw=0.8, ls=":")
    axes.set_xscale("log", base=2)
    counts = sorted({row.ranks for curve in scalings for row in curve.rows})
    step = math.ceil(len(counts) / MOST_TICKS)
    axes.xaxis.set_major_locator(ticker.FixedLocator(counts[::step]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel("efficiency, % of the base's rate per rank")
    return finish(figure, "Efficiency over ranks", kind, tips)
