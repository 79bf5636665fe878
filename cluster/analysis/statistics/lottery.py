"""Machines drawn several times: how much luck there is in a launch, and what it is worth.

A cloud puts machines anywhere, so a launch of machines is a draw. Jobs on the machines of one draw
differ, too; only what draws differ by beyond that can be won by drawing again.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cluster.core.model.results.measurements import (
    BestOfDraws,
    Better,
    DrawCost,
    DrawnSeries,
    Summary,
)
from cluster.core.text.units import HOUR

SHUFFLES = 4000  # of the jobs among the draws
SIGNIFICANT = 0.05  # chance below which draws differ, of all series together


class VarianceSplit(NamedTuple):
    """The variance of jobs, split into that of draws and that within them."""

    mean: float
    between: float  # standard deviation of draws, without what jobs add; 0 if it is not above that
    within: float
    reliability: float  # the share of the variance of the draws' means that is not from jobs
    chance: float  # that jobs dealt to the draws at random would differ as much between them


def split(draws: Sequence[Sequence[float]]) -> VarianceSplit | None:
    """Split the variance of jobs by the draws that they ran on.

    One-way analysis of variance with random effects, also of draws with different numbers of jobs
    (S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components", 1992, section 3.6). Its
    chance is that of a permutation test, which assumes no distribution. None with fewer than two
    draws, or with one job in each.
    """
    counts = np.array([len(jobs) for jobs in draws])
    jobs, draw_count = int(counts.sum()), len(counts)
    if draw_count < 2 or jobs <= draw_count or not counts.all():  # noqa: PLR2004 - two differ
        return None
    values = np.array([value for draw in draws for value in draw])
    squares = float(((values - values.mean()) ** 2).sum())
    between_jobs = float(_between_squares(values[None, :], counts)[0])
    within = max(squares - between_jobs, 0.0) / (jobs - draw_count)
    typical = (jobs - float((counts**2).sum()) / jobs) / (draw_count - 1)  # jobs of a draw
    between = max(0.0, (between_jobs / (draw_count - 1) - within) / typical)
    total = between + within / typical
    # The share of random deals that differ as much between draws, this one included.
    deals = np.random.default_rng(0).permuted(np.tile(values, (SHUFFLES, 1)), axis=1)
    hits = (_between_squares(deals, counts) >= between_jobs * (1 - 1e-9)).sum()
    return VarianceSplit(
        mean=float(values.mean()),
        between=math.sqrt(between),
        within=math.sqrt(within),
        reliability=between / total if total else 0.0,
        chance=float(hits + 1) / (SHUFFLES + 1),
    )


def _between_squares(rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the sum of squares between draws of each row, whose jobs are in the order of draws."""
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means = np.add.reduceat(rows, starts, axis=1) / counts
    squares: np.ndarray = (counts * (means - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return squares


def least_chance(jobs: Sequence[int]) -> float:
    """Return the smallest chance that any values can have: that of the deals that differ most.

    Draws with this many jobs cannot be said to differ beyond it.
    """
    symmetries = math.prod(math.factorial(count) for count in Counter(jobs).values())
    deals = math.factorial(sum(jobs)) // math.prod(map(math.factorial, jobs))
    return max(symmetries / deals, 1 / (SHUFFLES + 1))


def expected_best(values: Sequence[float], draws: int, better: Better) -> float:
    """Return the mean of the best of some draws over all ways to choose them from those measured.

    It is unbiased for draws from the same distribution, as each choice is a sample of it; hence not
    for more draws than there were.
    """
    worst_first = sorted(values, reverse=better == "lower")
    ways = math.comb(len(values), draws)
    return sum(value * math.comb(rank, draws - 1) / ways for rank, value in enumerate(worst_first))


def drawn_series(
    draws: Sequence[Sequence[Sequence[Summary]]], costs: Sequence[DrawCost]
) -> tuple[DrawnSeries, ...]:
    series = [(summary, _medians(summary, draws)) for summary in draws[0][0]]
    whole = [(summary, medians) for summary, medians in series if all(medians)]
    parts = [(summary, medians, split(medians)) for summary, medians in whole]
    with_parts = [(summary, medians, part) for summary, medians, part in parts if part is not None]
    limit = SIGNIFICANT / max(1, len(with_parts))
    return tuple(
        DrawnSeries(
            metric=summary.metric,
            params=summary.params,
            unit=summary.unit,
            better=summary.better,
            draws=medians,
            mean=part.mean,
            between=part.between,
            within=part.within,
            chance=part.chance,
            differs=part.chance <= limit,
            best=tuple(_best(medians, summary.better, part, costs)),
        )
        for summary, medians, part in with_parts
    )


def _medians(
    target: Summary, draws: Sequence[Sequence[Sequence[Summary]]]
) -> tuple[tuple[float, ...], ...]:
    """Return the median of each job's series, for each draw."""
    return tuple(
        tuple(
            summary.median
            for job in jobs
            for summary in job
            if (summary.metric, summary.params) == (target.metric, target.params)
        )
        for jobs in draws
    )


def _best(
    draws: tuple[tuple[float, ...], ...],
    better: Better,
    part: VarianceSplit,
    costs: Sequence[DrawCost],
) -> Iterator[BestOfDraws]:
    """Return what is expected of the best of 1, 2, ... draws."""
    means = [math.fsum(jobs) / len(jobs) for jobs in draws]
    usual = math.fsum(means) / len(means)
    seconds = math.fsum(cost.seconds for cost in costs) / len(costs)
    dollars = [cost.dollars for cost in costs if cost.dollars is not None]
    mean_cost = math.fsum(dollars) / len(dollars) if len(dollars) == len(costs) else None
    for count in range(1, len(means) + 1):
        best = expected_best(means, count, better)
        # The best draw is expected at its share of the distance that is not from jobs.
        gain = part.reliability * abs(best - usual) / abs(usual) if usual else 0.0
        savings = gain if better == "lower" else gain / (1 + gain)
        yield BestOfDraws(
            draws=count,
            measured=best,
            gain=gain,
            dollars=None if mean_cost is None else count * mean_cost,
            hours=(count - 1) * seconds / HOUR / savings if savings else None,
        )
