"""Ticks that can be read on every axis, also on one shorter than a decade."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cluster.core.units import format_size, format_tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 7  # labelled ticks of an axis
MOST_DECADES = 10  # of sizes, each with a label: they are short, and at an angle
MARGIN = 0.06  # of an axis, at each end
FEW_DECADES = 4.0  # on a shorter axis, powers of ten are too few ticks
OCTAVES = 2.0  # on a longer axis of ratios, ticks are powers of two


def scale_log(axis: Any, low: float, high: float, unit: str) -> None:  # noqa: ANN401 - of matplotlib
    """Make an axis of matplotlib logarithmic, with labels in a unit; `low` is more than 0."""
    from matplotlib import ticker  # noqa: PLC0415 - it is slow to import

    axis._set_axes_scale("log")  # noqa: SLF001 - as set_xscale and set_yscale do
    decades = math.log10(high / low) if high > low else 0.0
    if decades < 1:
        axis.set_major_locator(ticker.MaxNLocator(nbins=MOST - 1, steps=[1, 2, 2.5, 5, 10]))
    elif decades < FEW_DECADES:
        subs = (1.0, 2.0, 5.0) if decades < FEW_DECADES / 2 else (1.0, 3.0)
        axis.set_major_locator(ticker.LogLocator(subs=subs))
    else:
        axis.set_major_locator(ticker.LogLocator(numticks=MOST))
    axis.set_major_formatter(lambda value, _: format_tick(value, unit))
    axis.set_minor_formatter(lambda *_: "")


def scale_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """Put the ticks of sizes, in bytes, at powers of two if they are such, else of ten."""
    from matplotlib import ticker  # noqa: PLC0415 - it is slow to import

    binary = all(size.bit_count() == 1 for size in sizes)
    if not binary:
        scale_log(axes.xaxis, min(sizes), max(sizes), "B")
        axes.xaxis.set_major_locator(ticker.LogLocator(numticks=MOST_DECADES))
        return
    first, last = min(sizes).bit_length() - 1, max(sizes).bit_length() - 1
    step = max(1, math.ceil((last - first) / (MOST - 1)))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticker.FixedLocator([2**k for k in range(first, last + 1, step)]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: format_size(round(x)))


def scale_ratios(axes: Axes, low: float, high: float) -> None:
    """Make the x axis one of ratios above 0, with 1 inside and labels such as 1/4, 1/2, 1."""
    from matplotlib import ticker  # noqa: PLC0415 - it is slow to import

    low, high = min(low, 1.0), max(high, 1.0)
    wide = max(math.log2(high / low), 0.01)
    low, high = low / 2 ** (MARGIN * wide), high * 2 ** (MARGIN * wide)
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    if wide < OCTAVES:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=MOST - 1, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        return
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = math.ceil(len(powers) / MOST)
    places = [2.0**k for k in powers if k % step == 0]
    axes.xaxis.set_major_locator(ticker.FixedLocator(places))
    axes.xaxis.set_major_formatter(lambda x, _: str(Fraction(x).limit_denominator(2**20)))
