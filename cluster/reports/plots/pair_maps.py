"""The pairs of a fleet as a map: rows are hosts that send, columns are hosts that receive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from cluster.core.text.units import format_value
from cluster.reports.plots.picture import IMPOSSIBLE, Picture, finish, new_figure

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from cluster.core.model.network.fleet import FleetVerdict, PairTest

SIDE = 3.9  # inches
MOST_SQUARES = 512  # in a row: more than the picture has pixels
MOST_LINES = 64  # between groups
LEAST = 0.5  # share of the reference at the lower end of the colours, if no pair is lower
# From slow to fast: all of them stand out from a light page and from a dark one, and no two look
# alike to people who see no red or no green.
COLOURS = ("#b3261e", "#f0903f", "#cdb96b", "#4a93c9")


def pair_map(
    tests: Sequence[PairTest], names: Sequence[str], verdict: FleetVerdict
) -> tuple[Picture, ...]:
    """Draw the worst value of each pair as a share of what most hosts reach, if there is any."""
    hosts = max([len(names), *(1 + max(test.source, test.target) for test in tests)])
    if not verdict.reference:
        return ()
    order = sorted(range(hosts), key=lambda host: (_group(verdict, host), host))
    together = math.ceil(hosts / MOST_SQUARES)
    shares = _shares(tests, order, verdict, together)
    end = len(shares) * together - 0.5
    figure, axes = new_figure(SIDE)
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - it is slow to import

    image = axes.imshow(
        shares,
        cmap=LinearSegmentedColormap.from_list("shares", COLOURS),
        vmin=_lowest(shares),
        vmax=1.0,
        interpolation="nearest",
        aspect="equal",
        extent=(-0.5, end, end, -0.5),
    )
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.ax.yaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    bar.ax.tick_params(labelsize="small")
    # mark the rows of hosts that are blamed as senders, and the columns of receivers
    hosts_blamed = (finding for finding in verdict.blamed if finding.place.kind == "host")
    bad = [(order.index(finding.place.host), finding.direction) for finding in hosts_blamed]
    rows = [number for number, direction in bad if direction != "rx"]
    columns = [number for number, direction in bad if direction != "tx"]
    axes.plot([-1.5] * len(rows), rows, ">", color=IMPOSSIBLE, ms=5, clip_on=False)
    axes.plot(columns, [-1.5] * len(columns), "v", color=IMPOSSIBLE, ms=5, clip_on=False)
    _separate_groups(axes, order, verdict)
    axes.set(xlim=(-0.5, hosts - 0.5), ylim=(hosts - 0.5, -0.5))
    axes.set(xlabel="host that receives", ylabel="host that sends")
    title = f"{verdict.metric} of {len(tests)} tests of pairs"
    return (finish(figure, title, "svg", {}, _caption(verdict, together)),)


def _lowest(shares: NDArray[np.float64]) -> float:
    """Return the share at the lower end of the colours: a tenth that no pair is below."""
    import numpy as np  # noqa: PLC0415 - it is slow to import

    return min(LEAST, math.floor(10 * float(np.nanmin(shares))) / 10)


def _separate_groups(axes: Axes, order: Sequence[int], verdict: FleetVerdict) -> None:
    if not _has_lines(verdict):
        return
    for index, (before, host) in enumerate(pairwise(order), 1):
        if _group(verdict, host) != _group(verdict, before):
            axes.axhline(index - 0.5, color="black", lw=0.4)
            axes.axvline(index - 0.5, color="black", lw=0.4)


def _has_lines(verdict: FleetVerdict) -> bool:
    return 1 < len(set(verdict.groups)) <= MOST_LINES


def _caption(verdict: FleetVerdict, together: int) -> str:
    unit = "B/s" if verdict.metric == "bandwidth" else "s"
    has_culprits = any(finding.place.kind == "host" for finding in verdict.blamed)
    reference = format_value(verdict.reference or 0.0, unit)
    pairs = "a pair" if together == 1 else f"all pairs of {together} and {together} hosts"
    sentences = (
        f"Each square is the worst {verdict.metric} of {pairs}; 100% is what most hosts reach, "
        + reference,
        "Pairs without a colour were not tested",
        "Lines separate groups" if _has_lines(verdict) else "",
        "Red marks: blamed as senders or as receivers" if has_culprits else "No host is blamed",
    )
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _group(verdict: FleetVerdict, host: int) -> int:
    return verdict.groups[host] if host < len(verdict.groups) else 0


def _shares(
    tests: Sequence[PairTest], order: Sequence[int], verdict: FleetVerdict, together: int
) -> NDArray[np.float64]:
    """Return the worst share of each pair; NaN where it was not tested, 0 where nothing arrived.

    The array has the shape (squares, squares): rows send, columns receive; `together` hosts share a
    row and a column.
    """
    import numpy as np  # noqa: PLC0415 - it is slow to import

    place = {host: index // together for index, host in enumerate(order)}
    squares = math.ceil(len(order) / together)
    shares = np.full((squares, squares), np.nan)
    reference = verdict.reference or 1.0
    for test in tests:
        if test.value is None:
            continue
        share = test.value / reference
        if verdict.metric != "bandwidth" and test.value:
            share = reference / test.value
        square = place[test.source], place[test.target]
        shares[square] = share if np.isnan(shares[square]) else min(shares[square], share)
    return shares
