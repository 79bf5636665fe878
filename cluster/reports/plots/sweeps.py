"""A metric over message sizes, of one condition or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from cluster.analysis.limits.link import BELIEVABLE
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Fit, Summary
from cluster.core.model.value import Value
from cluster.core.text.units import format_point, format_rate, format_value
from cluster.reports.plots import picture
from cluster.reports.plots.picture import scale_log, scale_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STEPS = 40  # of a fitted line
SAME_LIMIT = 0.1  # limits that differ by less are drawn as one
MOST_NAMED = 2  # pieces of a fit that have a line in the legend


class Curve(Value, frozen=True, kw_only=True):
    """A sweep of one condition."""

    name: str
    summaries: tuple[Summary, ...]
    launches: int = 1
    fit: Fit | None = None

    @property
    def points(self) -> tuple[Summary, ...]:
        """The summaries that can be drawn on a logarithmic axis."""
        return tuple(s for s in self.summaries if 0 < s.median < math.inf)

    def bar(self, summary: Summary) -> tuple[float, float] | None:
        """Return ends of a point's bar: an interval, or the range of too few launches for one."""
        if summary.ci is None and self.launches > 1 and summary.shape is not None:
            return summary.shape.minimum, summary.shape.maximum
        return summary.ci


def sweep(
    curves: Sequence[Curve],
    kind: picture.Format = "svg",
    prefix: str = "p",
    given_bound: float | None = None,
) -> picture.Picture:
    """Draw a metric over sizes, of one condition or several, on logarithmic axes.

    Medians have intervals, fits their ranges, and values above their bound a mark. `given_bound` is
    the bandwidth that the user gave, in bytes per second (SpecError: no value can be drawn).
    """
    lines = [curve for curve in curves if curve.points]
    if not lines:
        raise SpecError("No value can be drawn: each is 0, or too fast for the clock.")
    figure, axes = picture.new_figure()
    first = lines[0].summaries[0]
    tips: dict[str, tuple[str, ...]] = {}
    colours: list[str] = []
    names = picture.differing_names([curve.name for curve in lines])
    for number, curve in enumerate(lines):
        launches = "" if curve.launches == 1 else f" ({curve.launches} launches)"
        shares = [s.share for s in curve.summaries if s.share is not None and len(lines) == 1]
        suffix = f", up to {max(shares):.1%} of the limit" if shares else ""
        label = f"{names[number]}{launches}{suffix}" if number < picture.LABELLED else "_"
        line = _with_bars(axes, curve, picture.marker(number), label)
        tips[picture.name_line(line, f"{prefix}-{number}")] = tuple(
            _tip(curve, s) for s in curve.points
        )
        colours.append(line.get_color())
        if curve.fit is not None:
            _draw_fit(axes, curve.fit, first.unit, line.get_color())
    points = [s for curve in lines for s in curve.points]
    _ring_impossible(axes, points)
    bounds = _draw_limits(axes, lines, colours, given_bound)
    scale_sizes(axes, list(map(_size, points)))
    values = [s.median for s in points] + bounds
    scale_log(axes.yaxis, min(values), max(values), first.unit)
    axes.set_xlabel("message size; bars: " + _bar_words(lines))
    axes.set_ylabel(f"{first.metric}, {first.unit} ({first.better} is better)")
    axes.tick_params(axis="x", rotation=30)
    title = picture.with_common(
        f"{first.metric} over message size", [curve.name for curve in lines]
    )
    return picture.finish(figure, title, kind, tips, _caption(lines, is_bounded=bool(bounds)))


def _caption(curves: Sequence[Curve], *, is_bounded: bool) -> str:
    first = curves[0].summaries[0]
    values = _count_words([c for c in curves if c.launches == 1], "value", "values")
    launches = _count_words([c for c in curves if c.launches > 1], "launch", "launches")
    samples = " or ".join(filter(None, [values, launches]))
    bound = (
        "no point can be beyond the dotted line, its limit" if is_bounded else "no limit is known"
    )
    has_fit = any(curve.fit and not all(p.misfit for p in curve.fit.pieces) for curve in curves)
    fit = "; dashed: alpha + size / beta" if has_fit else ""
    return (
        f"Each point is {samples} of {first.metric} "
        f"({first.better} is better), its bar the {_bar_words(curves)}; {bound}{fit}."
    )


def _count_words(curves: Sequence[Curve], noun: str, plural: str) -> str:
    """Say how many values, or launches, each point summarizes: `one value`, or their median."""
    counts = sorted({s.n for curve in curves for s in curve.points})
    if not counts or counts[-1] == 1:
        return f"one {noun}" if counts else ""
    least = "" if len(counts) == 1 else f"{counts[0]:,} to "
    return f"the median of {least}{counts[-1]:,} {plural}"


def _size(summary: Summary) -> int:
    return int(summary.params["size"])


def _bar_words(curves: Sequence[Curve]) -> str:
    """Explain the bars: a range for too few launches, else a confidence interval."""
    bars = [(curve, s) for curve in curves for s in curve.summaries if curve.bar(s)]
    ranges = any(s.ci is None for _, s in bars)
    if ranges:
        return "lowest and highest launch"
    single = all(curve.launches == 1 for curve in curves)
    return f"95% CI of the median{', this launch' if single else ''}"


def _with_bars(axes: Axes, curve: Curve, shape: str, label: str) -> Any:  # noqa: ANN401 - of matplotlib
    points = curve.points
    places, medians = [_size(s) for s in points], [s.median for s in points]
    bars = [curve.bar(s) or (s.median, s.median) for s in points]
    low = [middle - ends[0] for middle, ends in zip(medians, bars, strict=True)]
    up = [ends[1] - middle for middle, ends in zip(medians, bars, strict=True)]
    high = [length if length < math.inf else 0.0 for length in up]
    (line,) = axes.plot(places, medians, f"{shape}-", ms=3.5, lw=1, label=label)
    axes.errorbar(
        *(places, medians, [low, high]),
        fmt="none",
        ecolor=line.get_color(),
        elinewidth=1.2,
        capsize=2,
    )
    return line


def _draw_fit(axes: Axes, fit: Fit, unit: str, colour: str) -> None:
    """Draw the lines over their sizes only, and mark where the protocol changes."""
    unfit = [piece for piece in fit.pieces if piece.misfit]
    for number, piece in enumerate(piece for piece in fit.pieces if not piece.misfit):
        ratio = (piece.last / piece.first) ** (1 / STEPS)
        sizes = [piece.first * ratio**k for k in range(STEPS + 1)]
        times = [piece.seconds(size) for size in sizes]
        values = times if unit == "s" else [s / t for s, t in zip(sizes, times, strict=True)]
        words = f"{format_value(piece.alpha, 's')} + size / ({format_value(piece.beta, 'B/s')})"
        label = words if number < MOST_NAMED else "_"
        axes.plot(sizes, values, "--", lw=0.9, color=colour, alpha=0.7, label=label)
    if unfit:
        axes.plot([], [], " ", label=f"alpha + size / beta {unfit[0].misfit}")
    for before, after in pairwise(fit.pieces):
        axes.axvline(math.sqrt(before.last * after.first), color=colour, lw=0.8, ls=":", alpha=0.7)


def _ring_impossible(axes: Axes, points: Sequence[Summary]) -> None:
    if outliers := [(_size(s), s.median) for s in points if (s.share or 0.0) > BELIEVABLE]:
        (ring,) = axes.plot(
            *zip(*outliers, strict=True), "o", color=picture.IMPOSSIBLE, label="beyond its limit"
        )
        ring.set(ms=9, mfc="none", mew=1.6)


def _draw_limits(
    axes: Axes, curves: Sequence[Curve], colours: Sequence[str], given_bound: float | None
) -> list[float]:
    """Draw the limits, in the colours of the curves where they differ; return their values."""
    groups: list[tuple[str, dict[int, float]]] = []
    for curve, colour in zip(curves, colours, strict=True):
        by_size = {_size(s): s.bound for s in curve.summaries if s.bound}
        equal = next((limits for _, limits in groups if _is_same_limit(limits, by_size)), None)
        if equal is not None:
            equal.update({size: bound for size, bound in by_size.items() if size not in equal})
        elif by_size:
            groups.append((colour, by_size))
    if not groups:
        axes.plot([], [], " ", label="no limit is known")
        return []
    label = "limit" if given_bound is None else f"limit: {format_rate(given_bound)}, as given"
    for number, (colour, limits) in enumerate(groups):
        sizes, bounds = zip(*sorted(limits.items()), strict=True)
        single = len(groups) == 1
        words = label if single else "limits, in the colors of the lines"
        ink = "black" if single else colour
        axes.plot(sizes, bounds, ":", color=ink, lw=1.2, label="_" if number else words)
    return [bound for _, limits in groups for bound in limits.values()]


def _is_same_limit(limits: dict[int, float], other: dict[int, float]) -> bool:
    """Say whether two limits are one line: a copy in memory is measured by each run."""
    if not other:
        return False
    pairs = [(limits[size], other[size]) for size in other if size in limits]
    middles = pairs or [(median(limits.values()), median(other.values()))]
    return all(abs(first - second) <= SAME_LIMIT * max(first, second) for first, second in middles)


def _tip(curve: Curve, summary: Summary) -> str:
    unit = summary.unit
    words = [curve.name, format_point(summary.params), format_value(summary.median, unit)]
    if summary.ci is not None:
        words.append(f"95% CI {' .. '.join(format_value(end, unit) for end in summary.ci)}")
    if summary.share is not None:
        words.append(f"{summary.share:.1%} of the limit")
    n = f"n = {summary.n}" if curve.launches == 1 else f"{summary.n} launches"
    return ", ".join(filter(None, [*words, n]))
