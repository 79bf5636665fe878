"""How raw values are distributed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.units import format_tick, format_value
from cluster.reports.plots import picture
from cluster.reports.plots.ticks import scale_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAIL = 0.999  # the share of values that is drawn; a label gives the largest of the others
MOST_STEPS = 400  # of a curve
GAP = 0.075  # share of the axis between the labels of two curves
DECADE = 10


def distribution(
    title: str,
    unit: str,
    series: Mapping[str, Sequence[float]],
    bounds: Mapping[str, float],
    kind: picture.Format = "svg",
) -> picture.Picture:
    """Draw the cumulative distribution of values: the share of them that is at most x.

    The colours follow the order of the series, such as growing sizes; names are at the ends of the
    curves. A curve ends at its 99.9th percentile, with a mark if there are larger values. `bounds`,
    of some series, are in the same unit (SpecError: there are no finite values).
    """
    finite = {name: sorted(v for v in values if v < math.inf) for name, values in series.items()}
    drawn = {name: values for name, values in finite.items() if values}
    if not drawn:
        raise SpecError("There are no values to draw.", remedy="Name another metric: --metric NAME")
    figure, axes = picture.new_figure()
    from matplotlib import colormaps  # noqa: PLC0415 - it is slow to import

    colours = colormaps["viridis"]
    ends, beyond = [], []
    for number, (name, values) in enumerate(drawn.items()):
        colour = colours(0.85 * number / max(1, len(drawn) - 1))
        ends.append((_draw(axes, values, colour), colour))
        if values[-1] > _last(values):
            beyond.append(values[-1])
        if name in bounds:
            axes.axvline(bounds[name], color=colour, ls=":", lw=1.2)
    axes.plot([], [], ":", color="black", label="limit" if bounds else "no limit is known")
    if beyond:
        words = f"beyond p99.9: up to {format_value(max(beyond), unit)}"
        axes.plot([], [], ">", color="black", ms=4, label=words)
    _scale(axes, [end for v in drawn.values() for end in (v[0], _last(v))], unit)
    _name_ends(axes, picture.differing_names(list(drawn)), ends)
    axes.set_ylabel("share of all values")
    return picture.finish(figure, picture.with_common(title, list(drawn)), kind, {})


def _last(ordered: Sequence[float]) -> float:
    """Return the value at which a curve ends: the 99.9th percentile, by nearest rank."""
    return ordered[math.ceil(TAIL * len(ordered)) - 1]


def _draw(axes: Axes, ordered: Sequence[float], colour: object) -> float:
    drawn = [value for value in ordered if value <= _last(ordered)]
    n = len(drawn)
    places = sorted({round(k * (n - 1) / MOST_STEPS) for k in range(MOST_STEPS + 1)})
    shares = [(place + 1) / len(ordered) for place in places]
    axes.plot([drawn[i] for i in places], shares, drawstyle="steps-post", lw=1.2, color=colour)
    if n < len(ordered):
        axes.plot([drawn[-1]], [n / len(ordered)], ">", color=colour, ms=4)
    return drawn[-1]


def _scale(axes: Axes, ends: Sequence[float], unit: str) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - it is slow to import

    if 0 < DECADE * min(ends) <= max(ends):
        scale_log(axes.xaxis, min(ends), max(ends), unit)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.xaxis.set_major_formatter(lambda x, _: format_tick(x, unit))
    axes.tick_params(axis="x", rotation=30)


def _name_ends(axes: Axes, names: Sequence[str], ends: Sequence[tuple[float, object]]) -> None:
    """Write the names above the ends of the curves, moved apart where they would overlap."""
    positions = sorted((_part(axes, x), i) for i, (x, _) in enumerate(ends))
    at = -1.0
    for place, i in positions:
        at = max(place, at + GAP)
        x, colour = ends[i]
        axes.annotate(
            names[i],
            (x, 1.0),
            (at, 1.06),
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
