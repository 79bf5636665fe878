"""Sweeps, comparisons, scalings and distributions as pictures, drawn by matplotlib.

Each has the bound where one is known, and intervals as bars; a fitted line is drawn over its range
only (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems", SC15,
rules 11 and 12). Pictures are narrow: they are read on phones too.
"""

from __future__ import annotations

import io
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from cluster.analysis.fit import Fit
from cluster.core.extras import require
from cluster.core.model.measurements import Summary
from cluster.core.model.value import Value
from cluster.core.units import format_point, format_rate, format_size, format_tick, format_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cluster.analysis.compare import Comparison, ComparisonCell
    from cluster.analysis.scaling import Scaling

Format = Literal["svg", "png"]
WIDTH, HEIGHT = 4.6, 3.4  # inches
DPI = 160  # of a PNG
PER_ROW = 0.26  # inches, of a comparison's cell
MOST_ROWS = 60  # of a comparison
FARTHEST = 4  # ratio at which a comparison still draws a bound, which would squeeze the rest
DECADE = 10
MOST_STEPS = 400  # of a distribution's curve
LABELLED = 8  # series with a name of their own; more would hide the picture
STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a dollar is a dollar
    "svg.fonttype": "none",  # text stays text: small, and it can be searched
    "svg.hashsalt": "cluster",  # the same picture twice is the same file
    "font.size": 8.5,
    "font.family": "sans-serif",
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}
UNSAID: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
VERDICT_COLOURS = {
    "faster": "#1b7f3b",
    "slower": "#b3261e",
    "equivalent": "#1f5fa8",
    "inconclusive": "#777777",
}


class Curve(Value, frozen=True, kw_only=True):
    """A sweep of one condition.

    Args:
        name: of it.
        summaries: of one metric, by size; of several launches, those of their medians.
        launches: how many there were.
        fit: of it, if one is to be drawn.

    """

    name: str
    summaries: tuple[Summary, ...]
    launches: int = 1
    fit: Fit | None = None

    def bar(self, summary: Summary) -> tuple[float, float] | None:
        """Give the ends of a point's bar: too few launches for an interval have a range."""
        if summary.ci is None and self.launches > 1 and summary.shape is not None:
            return summary.shape.minimum, summary.shape.maximum
        return summary.ci


class Picture(Value, frozen=True, kw_only=True):
    """A picture, and what each of its points says.

    Args:
        title: of it.
        image: the file.
        tips: for each group of points, by its id in an SVG, what each point says.

    """

    title: str
    image: bytes
    tips: dict[str, tuple[str, ...]]


def sweep(
    curves: Sequence[Curve],
    kind: Format = "svg",
    prefix: str = "p",
    given_bound: float | None = None,
) -> Picture:
    """Draw a metric over sizes, of one condition or several, on logarithmic axes.

    Args:
        curves: of one metric.
        kind: of file.
        prefix: of ids, which differ within a page.
        given_bound: the bandwidth that the user gave as the bound, in bytes per second.

    Returns:
        The picture: medians with their intervals, fits over their ranges, and the bound.

    """
    figure, axes = _figure()
    first = curves[0].summaries[0]
    tips: dict[str, tuple[str, ...]] = {}
    for number, curve in enumerate(curves):
        points = [s for s in curve.summaries if 0 < s.median < math.inf]
        sizes = [float(s.params["size"]) for s in points]
        line = _with_bars(axes, sizes, points, curve, _legend_words(number, curve))
        tips[_named(line, f"{prefix}-{number}")] = tuple(_tip(curve, s) for s in points)
        if curve.fit is not None:
            _draw_fit(axes, curve.fit, first.unit, line.get_color())
    _draw_bounds(axes, [s for curve in curves for s in curve.summaries], given_bound)
    _scale_sizes(axes, [int(s.params["size"]) for curve in curves for s in curve.summaries])
    axes.set_yscale("log")
    axes.set_xlabel("message size; bars: " + _bar_words(curves))
    axes.set_ylabel(f"{first.metric}, {first.unit} ({first.better} is better)")
    axes.tick_params(axis="x", rotation=30)
    axes.yaxis.set_major_formatter(lambda y, _: format_tick(y, first.unit))
    axes.yaxis.set_minor_formatter(lambda *_: "")
    _legend(axes)
    return _picture(figure, f"{first.metric} over message size", kind, tips)


def _scale_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """Count sizes by powers of two if they are some, else by powers of ten."""
    binary = all(size.bit_count() == 1 for size in sizes)
    axes.set_xscale("log", base=2 if binary else 10)
    axes.xaxis.set_major_formatter(
        lambda x, _: format_size(round(x)) if binary and x >= 1 else format_tick(x, "B")
    )
    axes.xaxis.set_minor_formatter(lambda *_: "")


def _legend_words(number: int, curve: Curve) -> str:
    if number >= LABELLED:
        return "_"
    launches = "" if curve.launches == 1 else f" ({curve.launches} launches)"
    shares = [s.share for s in curve.summaries if s.share is not None]
    reached = f", up to {max(shares):.1%} of the bound" if shares else ""
    return f"{curve.name}{launches}{reached}"


def _bar_words(curves: Sequence[Curve]) -> str:
    """Say what the bars are, which differs between launches that are few and many values."""
    drawn = [(curve, s) for curve in curves for s in curve.summaries if curve.bar(s)]
    ranges = any(s.ci is None for _, s in drawn)
    return "lowest and highest launch" if ranges else "95% CI of the median"


def _with_bars(
    axes: Axes, places: Sequence[float], points: Sequence[Summary], curve: Curve, label: str
) -> Any:  # noqa: ANN401 - of matplotlib
    """Draw medians, and their intervals as bars."""
    medians = [s.median for s in points]
    bars = [curve.bar(s) or (s.median, s.median) for s in points]
    low = [s.median - ends[0] for s, ends in zip(points, bars, strict=True)]
    high = [
        ends[1] - s.median if ends[1] < math.inf else 0.0
        for s, ends in zip(points, bars, strict=True)
    ]
    (line,) = axes.plot(places, medians, "o-", ms=2.8, lw=1, label=label)
    axes.errorbar(
        places,
        medians,
        yerr=[low, high],
        fmt="none",
        ecolor=line.get_color(),
        elinewidth=1.2,
        capsize=2,
    )
    return line


def _draw_fit(axes: Axes, fit: Fit, unit: str, colour: str) -> None:
    """Draw the lines over their sizes only, and mark where the protocol changes."""
    for number, piece in enumerate(fit.pieces):
        steps = 40
        ratio = (piece.last / piece.first) ** (1 / steps)
        sizes = [piece.first * ratio**k for k in range(steps + 1)]
        times = [piece.seconds(size) for size in sizes]
        if min(times) <= 0:
            continue
        values = times if unit == "s" else [s / t for s, t in zip(sizes, times, strict=True)]
        beta = format_value(piece.beta, "B/s")
        label = f"{format_value(piece.alpha, 's')} + size / ({beta})"
        label = label if number < 2 else "_"  # noqa: PLR2004 - the picture stays readable
        axes.plot(sizes, values, "--", lw=0.9, color=colour, alpha=0.7, label=label)

    for before, after in pairwise(fit.pieces):
        axes.axvline(math.sqrt(before.last * after.first), color=colour, lw=0.8, ls=":", alpha=0.7)


def _draw_bounds(axes: Axes, summaries: Sequence[Summary], given_bound: float | None) -> None:
    """Draw each bound over the sizes, and say so if none is known."""
    known = sorted({(float(s.params["size"]), s.bound) for s in summaries if s.bound is not None})
    label = "bound" if given_bound is None else f"bound: {format_rate(given_bound)}, as given"
    if known:
        sizes, bounds = zip(*known, strict=True)
        axes.plot(sizes, bounds, ":", color="black", lw=1.2, label=label)
    else:
        axes.plot([], [], " ", label="no bound is known")


def _tip(curve: Curve, summary: Summary) -> str:
    unit = summary.unit
    words = [curve.name, format_point(summary.params), format_value(summary.median, unit)]
    if summary.ci is not None:
        words.append(f"95% CI {' .. '.join(format_value(end, unit) for end in summary.ci)}")
    if summary.share is not None:
        words.append(f"{summary.share:.1%} of the bound")
    n = f"n = {summary.n}" if curve.launches == 1 else f"{summary.n} launches"
    return ", ".join(filter(None, [*words, n]))


def comparison(compared: Comparison, kind: Format = "svg", prefix: str = "p") -> Picture:
    """Draw the ratio of each cell, with its interval, beside what does not matter.

    Args:
        compared: two groups of launches.
        kind: of file.
        prefix: of ids, which differ within a page.

    Returns:
        The picture.

    """
    require_matplotlib()
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - it is slow to import

    cells = [cell for cell in compared.cells if cell.ratio is not None][:MOST_ROWS]
    ratios = [cell.ratio or 1.0 for cell in cells]
    figure, axes = _figure(height=1.2 + PER_ROW * max(3, len(cells)))
    limit = compared.threshold
    axes.axvspan(1 / (1 + limit), 1 + limit, color="#1f5fa8", alpha=0.10, label="practically equal")
    axes.axvline(1, color="black", lw=0.8)
    for row, (cell, ratio) in enumerate(zip(cells, ratios, strict=True)):
        low, high = cell.interval or (ratio, ratio)
        colour = VERDICT_COLOURS[cell.verdict]
        axes.plot([low, high], [row, row], "-", color=colour, lw=2)
    (line,) = axes.plot(ratios, range(len(cells)), "o", color="black", ms=3.5)
    _draw_limits(axes, cells)
    axes.set_yticks(
        range(len(cells)), [f"{cell.metric} {format_point(cell.params)}" for cell in cells]
    )
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_xlabel(f"ratio of {compared.other} to {compared.base}", wrap=True)
    _legend(axes)
    words = [
        f"{c.metric} {format_point(c.params)}: {_ratio_words(c.ratio, c.interval)}, {c.verdict}"
        f"{_share_words(c)}"
        for c in cells
    ]
    title = f"{compared.other} against {compared.base}"
    return _picture(figure, title, kind, {_named(line, f"{prefix}-0"): tuple(words)})


def _draw_limits(axes: Axes, cells: Sequence[ComparisonCell]) -> None:
    """Mark by what ratio the second group would be at its bound, if the picture reaches so far."""
    known = [
        (row, share if cell.better == "lower" else 1 / share)
        for row, cell in enumerate(cells)
        if (share := cell.shares[0])
    ]
    near = [(ratio, row) for row, ratio in known if 1 / FARTHEST <= ratio <= FARTHEST]
    if near:
        places, rows = zip(*near, strict=True)
        axes.plot(places, rows, "|", color="black", ms=11, label="bound")
    elif known:
        axes.plot([], [], " ", label=f"bounds are more than {FARTHEST} x away")
    else:
        axes.plot([], [], " ", label="no bound is known")


def _share_words(cell: ComparisonCell) -> str:
    shares = [f"{share:.1%}" for share in cell.shares if share is not None]
    return f", {' and '.join(shares)} of the bound" if shares else ""


def _ratio_words(ratio: float | None, interval: tuple[float, float] | None) -> str:
    ends = f" ({interval[0]:.4f} .. {interval[1]:.4f})" if interval else ""
    return f"{ratio:.4f}{ends}"


def scaling(scalings: Sequence[Scaling], kind: Format = "svg", prefix: str = "p") -> Picture:
    """Draw efficiencies over ranks, with their bounds.

    Args:
        scalings: of several works.
        kind: of file.
        prefix: of ids, which differ within a page.

    Returns:
        The picture.

    """
    figure, axes = _figure()
    tips = {}
    for number, one in enumerate(scalings):
        ranks = [row.ranks for row in one.rows]
        values = [100 * row.efficiency for row in one.rows]
        label = f"{one.name} (base: {one.base})" if number < LABELLED else "_"
        (line,) = axes.plot(ranks, values, "o-", ms=4, lw=1.2, label=label)
        spans = [row.interval or (row.efficiency, row.efficiency) for row in one.rows]
        for rank, (low, high) in zip(ranks, spans, strict=True):
            axes.plot([rank, rank], [100 * low, 100 * high], "-", color=line.get_color(), lw=1.2)
        known = [(r.ranks, 100 * r.least, 100 * r.most) for r in one.rows if r.least and r.most]
        if known:
            places, least, most = zip(*known, strict=True)
            axes.fill_between(places, least, most, color=line.get_color(), alpha=0.12)
        tips[_named(line, f"{prefix}-{number}")] = tuple(
            f"{one.name}, {row.ranks} ranks: {format_value(row.rate, one.unit)}, "
            f"{row.efficiency:.1%} of {one.base} rank(s)"
            for row in one.rows
        )
    axes.axhline(100, color="black", lw=0.8, ls=":")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel("efficiency, % of the base's rate per rank")
    _legend(axes)
    return _picture(figure, "Efficiency over ranks", kind, tips)


def distribution(
    title: str,
    unit: str,
    series: Mapping[str, Sequence[float]],
    bounds: Mapping[str, float],
    kind: Format = "svg",
) -> Picture:
    """Draw how values are distributed: which share of them is at most so much.

    Args:
        title: of the picture.
        unit: of the values.
        series: raw values, by name.
        bounds: of those series that have one, in the same unit.
        kind: of file.

    Returns:
        The picture: one curve per series, without bins that could hide anything.

    """
    figure, axes = _figure()
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - it is slow to import

    for number, (name, values) in enumerate(series.items()):
        ordered, n = sorted(values), len(values)
        places = sorted({round(k * (n - 1) / MOST_STEPS) for k in range(MOST_STEPS + 1)})
        shares = [(place + 1) / n for place in places]
        label = name if number < LABELLED else "_"
        (line,) = axes.plot(
            [ordered[i] for i in places], shares, drawstyle="steps-post", lw=1.2, label=label
        )
        if name in bounds:
            axes.axvline(bounds[name], color=line.get_color(), ls=":", lw=1.2)
    axes.plot([], [], ":", color="black", label="bound" if bounds else "no bound is known")
    ends = [end for values in series.values() for end in (min(values), max(values))]
    if 0 < DECADE * min(ends) <= max(ends):  # else no power of ten might be there to be labelled
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter(lambda x, _: format_tick(x, unit))
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.tick_params(axis="x", rotation=30)
    axes.set_ylabel("share of all values")
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)  # curves are everywhere inside
    return _picture(figure, title, kind, {})


def require_matplotlib() -> None:
    """Check that plots can be drawn here.

    Raises:
        SpecError: matplotlib is not installed.

    """
    require("matplotlib", "plot", "A plot")


def _figure(height: float = HEIGHT) -> tuple[Figure, Axes]:
    """Make a figure of its own: no window, and no state that pictures would share."""
    require_matplotlib()
    from matplotlib import rc_context  # noqa: PLC0415 - it is slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        return figure, figure.add_subplot()


def _named(line: Any, name: str) -> str:  # noqa: ANN401 - of matplotlib
    line.set_gid(name)
    return name


def _legend(axes: Axes) -> None:
    _, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(fontsize=7, framealpha=0.85)


def _picture(figure: Figure, title: str, kind: Format, tips: dict[str, tuple[str, ...]]) -> Picture:
    from matplotlib import rc_context  # noqa: PLC0415 - it is slow to import

    out = io.BytesIO()
    figure.axes[0].set_title(title, fontsize=9, wrap=True)
    with rc_context(STYLE):
        figure.savefig(
            out, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None
        )
    return Picture(title=title, image=out.getvalue(), tips=tips)
