"""Efficiencies over ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cluster.core.units import format_value
from cluster.reports.plots import picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.analysis.models.efficiency import Scaling

MOST_TICKS = 9


def scaling(
    scalings: Sequence[Scaling], kind: picture.Format = "svg", prefix: str = "p"
) -> picture.Picture:
    figure, axes = picture.new_figure()
    from matplotlib import ticker  # noqa: PLC0415 - it is slow to import

    tips = {}
    names = picture.differing_names([f"{scaled.name} (base: {scaled.base})" for scaled in scalings])
    for number, scaled in enumerate(scalings):
        ranks = [row.ranks for row in scaled.rows]
        values = [100 * row.efficiency for row in scaled.rows]
        label = names[number] if number < picture.LABELLED else "_"
        (line,) = axes.plot(ranks, values, f"{picture.marker(number)}-", ms=4, lw=1.2, label=label)
        spans = [row.interval or (row.efficiency, row.efficiency) for row in scaled.rows]
        for rank, (low, high) in zip(ranks, spans, strict=True):
            axes.plot([rank, rank], [100 * low, 100 * high], "-", color=line.get_color(), lw=1.2)
        rows = [(r.ranks, 100 * r.least, 100 * r.most) for r in scaled.rows if r.least and r.most]
        if rows:
            places, least, most = zip(*rows, strict=True)
            axes.fill_between(places, least, most, color=line.get_color(), alpha=0.12)
        tips[picture.named(line, f"{prefix}-{number}")] = tuple(
            f"{scaled.name}, {row.ranks} ranks: {format_value(row.rate, scaled.unit)}, "
            f"{row.efficiency:.1%} of {scaled.base} rank(s)"
            for row in scaled.rows
        )
    axes.axhline(100, color="black", lw=0.8, ls=":")
    axes.set_xscale("log", base=2)
    counts = sorted({row.ranks for scaled in scalings for row in scaled.rows})
    step = math.ceil(len(counts) / MOST_TICKS)
    axes.xaxis.set_major_locator(ticker.FixedLocator(counts[::step]))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel("efficiency, % of the base's rate per rank")
    return picture.finish(figure, "Efficiency over ranks", kind, tips)
