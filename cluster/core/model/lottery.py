"""Machines drawn several times: what a draw costs, and what the best of several is worth."""

from typing import Literal

from cluster.core.model.value import Scalar, Value

Better = Literal["lower", "higher"]


class BestOfDraws(Value, frozen=True, kw_only=True):
    """What is expected of the best of several draws."""

    draws: int  # how many
    measured: float  # the mean of the best measured value, in the unit of the series
    # by how much the best draw is better than one draw, as a share: it is less than was measured,
    # as the best draw is in part that with the luckiest jobs
    gain: float
    dollars: float | None = None  # what the draws cost, if the price is known
    # of a job that is bound by this metric, after which its gain has paid for the draws beyond the
    # first; none if nothing is gained
    hours: float | None = None


class DrawnSeries(Value, frozen=True, kw_only=True):
    """A series over several draws."""

    metric: str  # its name
    params: dict[str, Scalar]  # the point
    unit: str  # of the values
    better: Better  # which direction is better
    draws: tuple[tuple[float, ...], ...]  # the medians of the jobs of each draw
    mean: float  # of all jobs
    between: float  # standard deviation of draws beyond that of jobs
    within: float  # standard deviation of jobs of one draw
    chance: float  # that draws differ as much by chance
    # whether draws differ: by chance, less than one in 20 commands would say so of any of its
    # series
    differs: bool
    best: tuple[BestOfDraws, ...]  # of 1, 2, ... draws


class DrawCost(Value, frozen=True, kw_only=True):
    """What one draw takes."""

    seconds: float  # that its machines existed
    dollars: float | None = None  # for all of them, if the price is known
