"""How the values of a run are distributed, and what a training step is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cluster.analysis.models.step_limits import PART_METRICS, TIMED_STEP
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Summary
from cluster.core.text.units import format_tick, format_value
from cluster.reports.plots.picture import (
    Format,
    Picture,
    differing_names,
    finish,
    name_line,
    new_figure,
    scale_log,
    with_common,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAIL = 0.999  # the share of values that is drawn; a label gives the largest of the others
MOST_STEPS = 400  # of a curve
GAP = 0.075  # share of the axis between the labels of two curves
DECADE = 10
COLOURS = ("#d0453b", "#e8924a", "#c9c04b", "#2e9e4f", "#3b82c4", "#8a6bb8")  # of the parts
PER_BAR = 0.45  # inches
WORDS = {"resident": "data resident", "memory": "data in memory", "disk": "data on disk"}


def distribution(
    title: str,
    unit: str,
    series: Mapping[str, Sequence[float]],
    bounds: Mapping[str, float],
    kind: Format = "svg",
) -> Picture:
    """Draw the cumulative distribution of values: the share of them that is at most x.

    The colours follow the order of the series, such as growing sizes; names are at the ends of the
    curves. A curve ends at its 99.9th percentile, with a mark if there are larger values. `bounds`,
    of some series, are in the same unit (SpecError: there are no finite values).
    """
    finite = {name: sorted(v for v in values if v < math.inf) for name, values in series.items()}
    curves = {name: values for name, values in finite.items() if values}
    if not curves:
        raise SpecError("There are no values to draw.", remedy="Name another metric: --metric NAME")
    figure, axes = new_figure()
    from matplotlib import colormaps  # noqa: PLC0415 - it is slow to import
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - it is slow to import

    colours = colormaps["viridis"]
    ends, outliers = [], []
    for number, (name, values) in enumerate(curves.items()):
        colour = colours(0.85 * number / max(1, len(curves) - 1))
        inner = [value for value in values if value <= _last(values)]
        n = len(inner)
        places = sorted({round(k * (n - 1) / MOST_STEPS) for k in range(MOST_STEPS + 1)})
        shares = [(place + 1) / len(values) for place in places]
        axes.plot([inner[i] for i in places], shares, drawstyle="steps-post", lw=1.2, color=colour)
        if n < len(values):
            axes.plot([inner[-1]], [n / len(values)], ">", color=colour, ms=4)
            outliers.append(values[-1])
        ends.append((inner[-1], colour))
        if name in bounds:
            axes.axvline(bounds[name], color=colour, ls=":", lw=1.2)
    axes.plot([], [], ":", color="black", label="limit" if bounds else "no limit is known")
    if outliers:
        words = f"beyond p99.9: up to {format_value(max(outliers), unit)}"
        axes.plot([], [], ">", color="black", ms=4, label=words)
    extremes = [end for v in curves.values() for end in (v[0], _last(v))]
    if 0 < DECADE * min(extremes) <= max(extremes):
        scale_log(axes.xaxis, min(extremes), max(extremes), unit)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.xaxis.set_major_formatter(lambda x, _: format_tick(x, unit))
    axes.tick_params(axis="x", rotation=30)
    _name_ends(axes, differing_names(list(curves)), ends)
    axes.set_ylabel("share of all values")
    return finish(figure, with_common(title, list(curves)), kind, {})


def _last(values: Sequence[float]) -> float:
    """Return the value at which a curve ends: the 99.9th percentile, by nearest rank."""
    return values[math.ceil(TAIL * len(values)) - 1]


def _name_ends(axes: Axes, names: Sequence[str], ends: Sequence[tuple[float, object]]) -> None:
    """Write the names above the ends of the curves, moved apart where they would overlap."""
    positions = sorted((_part(axes, x), i) for i, (x, _) in enumerate(ends))
    height = -1.0
    for place, i in positions:
        height = max(place, height + GAP)
        x, colour = ends[i]
        axes.annotate(
            names[i],
            (x, 1.0),
            (height, 1.06),
            textcoords="axes fraction",
            rotation=50,
            fontsize=7,
            color="black",
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.8},
            annotation_clip=False,
        )


def _part(axes: Axes, x: float) -> float:
    """Return the position of a value along the x axis, from 0 to 1."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log":
        return math.log(x / low) / math.log(high / low)
    return (x - low) / (high - low)


def step_parts(summaries: Sequence[Summary]) -> dict[str, dict[str, float]]:
    """Return the median seconds of each part of a training step, by where data were."""
    parts: dict[str, dict[str, float]] = {}
    for summary in summaries:
        if summary.metric in (*PART_METRICS.values(), TIMED_STEP) and "data" in summary.params:
            parts.setdefault(str(summary.params["data"]), {})[summary.metric] = summary.median
    order = sorted(parts, key=lambda data: (data not in WORDS, [*WORDS, data].index(data)))
    return {data: parts[data] for data in order if TIMED_STEP in parts[data]}


def steps(
    parts: Mapping[str, Mapping[str, float]], kind: Format = "svg", prefix: str = "p"
) -> Picture:
    figure, axes = new_figure(height=1.0 + PER_BAR * len(parts))
    rows = list(range(len(parts)))
    starts = [0.0] * len(parts)
    for metric, colour in zip(PART_METRICS.values(), COLOURS, strict=True):
        widths = [1e3 * times.get(metric, 0.0) for times in parts.values()]
        label = metric.replace("_", " ")
        axes.barh(rows, widths, left=starts, color=colour, label=label, height=0.6)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    whole = [1e3 * times[TIMED_STEP] for times in parts.values()]
    (line,) = axes.plot(whole, rows, "k|", ms=16, label="step")
    tips = {
        name_line(line, f"{prefix}-0"): tuple(
            ", ".join(f"{metric} {format_value(times[metric], 's')}" for metric in times)
            for times in parts.values()
        )
    }
    axes.set_yticks(rows, [WORDS.get(data, f"data in {data}") for data in parts])
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.set_xlabel("ms per step, medians")
    caption = (
        "Each second of a step is in one part. The parts and the step, the black line, are medians "
        "of their own, which add up only where steps are alike."
    )
    return finish(figure, "What a step is made of", kind, tips, caption)
