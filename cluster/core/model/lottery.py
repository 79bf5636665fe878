"""Machines drawn several times: what a draw costs, and what the best of several is worth."""

from __future__ import annotations

from typing import Literal

from cluster.core.model.value import Scalar, Value

Better = Literal["lower", "higher"]


class BestOfDraws(Value, frozen=True, kw_only=True):
    """What is expected of the best of several draws.

    Args:
        draws: how many.
        measured: the mean of the best measured value, in the unit of the series.
        gain: by how much the best draw is better than one draw, as a share: it is less than was
            measured, as the best draw is in part that with the luckiest jobs.
        dollars: what the draws cost, if the price is known.
        hours: of a job that is bound by this metric, after which its gain has paid for the draws
            beyond the first; none if nothing is gained.
    """

    draws: int
    measured: float
    gain: float
    dollars: float | None = None
    hours: float | None = None


class DrawnSeries(Value, frozen=True, kw_only=True):
    """A series over several draws.

    Args:
        metric: its name.
        params: the point.
        unit: of the values.
        better: which direction is better.
        draws: the medians of the jobs of each draw.
        mean: of all jobs.
        between: standard deviation of draws beyond that of jobs.
        within: standard deviation of jobs of one draw.
        chance: that draws differ as much by chance.
        differs: whether draws differ: by chance, less than one in 20 commands would say so of any
            of its series.
        best: of 1, 2, ... draws.
    """

    metric: str
    params: dict[str, Scalar]
    unit: str
    better: Better
    draws: tuple[tuple[float, ...], ...]
    mean: float
    between: float
    within: float
    chance: float
    differs: bool
    best: tuple[BestOfDraws, ...]


class DrawCost(Value, frozen=True, kw_only=True):
    """What one draw takes."""

    seconds: float  # that its machines existed
    dollars: float | None = None  # for all of them, if the price is known
