"""Picture, and what all plots share: figure, legend, markers, ticks, file."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from cluster.core.errors import SpecError
from cluster.core.extras import require
from cluster.core.model.value import Value
from cluster.core.text.units import format_size, format_tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Format = Literal["svg", "png", "pdf"]
WIDTH, HEIGHT = 4.6, 3.4  # inches
DPI = 160  # of a PNG
LABELLED = 8  # series with a label of their own; more would hide the picture
LINE_OF_LEGEND = 0.17  # inches
LONG_NAME = 24  # from this number of characters, the legend has one column
IMPOSSIBLE = "#d0453b"
MARKERS = "osD^vP*X"
STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a dollar sign in a name is not mathematics
    "svg.fonttype": "none",  # text is stored as text: it is small, and can be searched
    "svg.hashsalt": "cluster",  # the same picture gives the same file
    "font.size": 8.5,
    "font.family": "sans-serif",
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}
UNDATED: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Metadata of each format that would make two files of one picture differ."""


class Picture(Value, frozen=True, kw_only=True):
    """A picture, with a tooltip for each of its points."""

    title: str
    image: bytes
    # for each group of points, by its id in an SVG, the tooltip of each point
    tips: dict[str, tuple[str, ...]]
    form: Format = "svg"
    caption: str = ""  # an explanation of points, bars and lines; empty if the title is enough

    def __repr__(self) -> str:
        return f"<Picture {self.title!r}: {len(self.image)} bytes of {self.form}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str | bytes]:
        if self.form == "svg":
            return {"text/plain": repr(self), "image/svg+xml": self.image.decode()}
        kind = {"png": "image/png", "pdf": "application/pdf"}[self.form]
        return {"text/plain": repr(self), kind: base64.b64encode(self.image).decode()}


def require_matplotlib() -> None:
    """Check that plots can be drawn here (SpecError: matplotlib is not installed)."""
    require("matplotlib", "plot", "A plot")


def why_no_plots() -> str:
    """Return why no plot can be drawn here; empty if plots can be drawn."""
    try:
        require_matplotlib()
    except SpecError as error:
        return str(error)
    return ""


def new_figure(height: float = HEIGHT) -> tuple[Figure, Axes]:
    """Make a figure without a window or shared state; inches `height`, less the legend's."""
    require_matplotlib()
    from matplotlib import rc_context  # noqa: PLC0415 - it is slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height))
        return figure, figure.add_subplot()


def marker(number: int) -> str:
    """Return the marker of a condition: not everybody can tell lines apart by their colours."""
    return MARKERS[number % len(MARKERS)]


def name_line(line: Any, name: str) -> str:  # noqa: ANN401 - of matplotlib
    """Return a line of points an id, by which a page finds them in an SVG."""
    line.set_gid(name)
    return name


def differing_names(names: Sequence[str]) -> list[str]:
    """Shorten names, for a legend, to the parts in which they differ."""
    parts = [name.split(", ") for name in names]
    common = _common_parts(names)
    return [", ".join(part for part in words if part not in common) or words[0] for words in parts]


def with_common(title: str, names: Sequence[str]) -> str:
    """Add to a title the parts that all names have: `latency over size: allreduce`."""
    common = _common_parts(names)
    return f"{title}: {', '.join(common)}" if common else title


def _common_parts(names: Sequence[str]) -> list[str]:
    parts = [name.split(", ") for name in names]
    if len(parts) < 2:  # noqa: PLR2004 - a single one differs from nothing
        return []
    return [part for part in parts[0] if all(part in words for words in parts)]


def finish(
    figure: Figure, title: str, kind: Format, tips: dict[str, tuple[str, ...]], caption: str = ""
) -> Picture:
    """Put the legend below the axes, and make the file."""
    from matplotlib import rc_context  # noqa: PLC0415 - it is slow to import

    out = io.BytesIO()
    axes, *_ = figure.axes  # a bar of colours is another
    figure.suptitle(title, fontsize=9, wrap=True)
    _, labels = axes.get_legend_handles_labels()
    if labels:
        columns = 1 if max(map(len, labels)) > LONG_NAME else 2
        lines = -(-len(labels) // columns)
        figure.set_figheight(figure.get_figheight() + LINE_OF_LEGEND * lines)
        figure.legend(loc="outside lower left", ncols=columns, fontsize=7, frameon=False)
    with rc_context(STYLE):
        figure.savefig(out, format=kind, dpi=DPI, metadata=UNDATED.get(kind))
    return Picture(title=title, image=out.getvalue(), tips=tips, form=kind, caption=caption)


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
