"""Fits t = alpha + size / beta to a sweep over sizes, in one to three pieces.

R. W. Hockney, "The communication challenge for MPP", 1994. Each piece is a protocol (such as eager
and rendezvous), so pieces need not meet. The fit minimises relative errors, so that 8 B count as
much as 4 MiB; the influence of outliers is limited (P. J. Huber, 1964). Another piece is accepted
only if it improves Schwarz's criterion (G. Schwarz, 1978). Times are predicted up to four times
beyond the measured sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cluster.analysis.statistics.compare import Launch, group_alike
from cluster.analysis.statistics.summarize import pool_launches
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Fit, FitPoint, Piece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.core.model.results.measurements import Summary
    from cluster.core.model.value import Scalar

    Values = NDArray[np.float64]

FEWEST_POINTS = 4  # of a piece
ENOUGH_POINTS = 6  # of a piece, for an interval
GRAIN = 0.003  # of a median: smaller errors do not count
HUBER = 1.345  # standard deviations beyond which an error counts linearly, not as its square
PER_SPREAD = 1.4826  # a normal distribution's standard deviation over its median deviation
NOISE = 0.03  # of a value: smaller errors are no reason for another piece
PER_CUT = 3  # parameters that a cut counts as: it is the best of many places (see the tests)
ROUNDS = 10  # of reweighting; a few suffice
DRAWS = 2000  # of the bootstrap
SEED = 20180626  # any number will do, if it is always the same


def sweeps(summaries: Iterable[Summary]) -> tuple[tuple[Summary, ...], ...]:
    by_point: dict[tuple[object, ...], dict[int, Summary]] = {}
    for summary in summaries:
        size = summary.params.get("size")
        if isinstance(size, int) and size > 0 and 0 < summary.median < math.inf:
            key = (summary.metric, summary.definition, *sorted(params_but_size(summary).items()))
            by_point.setdefault(key, {})[size] = summary
    several = (sweep for sweep in by_point.values() if len(sweep) > 1)
    return tuple(tuple(sweep[size] for size in sorted(sweep)) for sweep in several)


def params_but_size(summary: Summary) -> dict[str, Scalar]:
    return {key: value for key, value in summary.params.items() if key != "size"}


def fits(summaries: Iterable[Summary]) -> tuple[Fit, ...]:
    """Fit every sweep of a run: one per metric and point that has four sizes or more."""
    all_fits = (fit(sweep) for sweep in sweeps(summaries))
    return tuple(line for line in all_fits if line is not None)


def fit_launches(launches: Iterable[Launch]) -> tuple[Fit, ...]:
    """Fit every sweep of several runs: one fit for all runs that repeat one another.

    Runs that differ in any recorded setting are fitted separately, and never averaged.
    """
    return tuple(
        msgspec.structs.replace(line, of=side.name, launches=len(side.launches))
        for side in group_alike(launches)
        for line in fits(pool_launches([launch.summaries for launch in side.launches]))
    )


def fit(sweep: Sequence[Summary]) -> Fit | None:
    """Fit a sweep of times, or of rates as times per message; None below four sizes."""
    if len(sweep) < FEWEST_POINTS:
        return None
    sizes = [int(s.params["size"]) for s in sweep]
    points = tuple(
        FitPoint(size=size, seconds=size / s.median if s.unit == "B/s" else s.median)
        for size, s in zip(sizes, sweep, strict=True)
    )
    params = params_but_size(sweep[0])
    return Fit(metric=sweep[0].metric, params=params, points=points, pieces=pieces(points))


def pieces(points: Sequence[FitPoint]) -> tuple[Piece, ...]:
    """Fit one to three lines to a sweep of four sizes or more, by the criterion (SpecError)."""
    n = len(points)
    if n < FEWEST_POINTS:
        raise SpecError(f"{n} size(s) are too few for a fit; it needs {FEWEST_POINTS}.")
    sizes = np.array([point.size for point in points], dtype=np.float64)
    seconds = np.array([point.seconds for point in points])
    ends = [(i, j) for i in range(n) for j in range(i + FEWEST_POINTS, n + 1)]
    cost = dict(zip(ends, _costs(sizes, seconds, ends), strict=True))
    # The ways to cut n points into at most three pieces, each by the places of its cuts.
    cuts = range(FEWEST_POINTS, n - FEWEST_POINTS + 1)
    pairs = [(a, b) for a in cuts for b in cuts if b - a >= FEWEST_POINTS]
    ways: list[tuple[int, ...]] = [(), *((cut,) for cut in cuts), *pairs]
    best = min(ways, key=lambda way: _criterion(n, way, cost))
    return tuple(
        _piece(sizes[i:j], seconds[i:j]) for i, j in zip((0, *best), (*best, n), strict=True)
    )


def _criterion(n: int, cuts: tuple[int, ...], cost: dict[tuple[int, int], float]) -> float:
    """Compute Schwarz's criterion: two parameters per piece, and `PER_CUT` for each cut."""
    total = sum(cost[ends] for ends in zip((0, *cuts), (*cuts, n), strict=True))
    parameters = 2 * (len(cuts) + 1) + PER_CUT * len(cuts)
    return n * math.log(max(total / n, GRAIN**2)) + parameters * math.log(n)


def _costs(sizes: Values, seconds: Values, ends: Sequence[tuple[int, int]]) -> list[float]:
    """Return the sum of Huber's losses of the relative errors, for each range of points."""
    indices = np.arange(len(sizes))
    inside = np.array([(indices >= i) & (indices < j) for i, j in ends])
    error = np.abs(_errors(sizes, seconds, _lines(sizes, seconds, inside)[0]))
    losses = np.where(error <= NOISE, error**2, NOISE * (2 * error - NOISE))
    return [float(cost) for cost in (losses * inside).sum(axis=1)]


def _errors(sizes: Values, seconds: Values, lines: Values) -> Values:
    """Return the relative errors of each line at all points."""
    return np.asarray(1 - (lines[:, :1] + lines[:, 1:] * sizes) / seconds)


def _lines(sizes: Values, seconds: Values, inside: Values) -> tuple[Values, Values]:
    """Fit a line to the points of each range, by relative errors; sizes are in bytes.

    Return alpha and 1 / beta of each line, and each point's weight.
    """
    importance = inside / seconds**2
    weights = np.ones_like(importance)
    lines = _least_squares(sizes, seconds, importance)
    for _ in range(ROUNDS):
        error = np.abs(_errors(sizes, seconds, lines))
        sorted_errors = np.sort(np.where(inside, error, np.inf), axis=1)
        count = np.isfinite(sorted_errors).sum(axis=1)
        middle = np.stack([(count - 1) // 2, count // 2], axis=1)
        usual = np.asarray(np.take_along_axis(sorted_errors, middle, axis=1).mean(axis=1))
        most = np.maximum(GRAIN, HUBER * PER_SPREAD * usual)[:, None]
        weights = most / np.maximum(error, most)
        lines = _least_squares(sizes, seconds, importance * weights)
    return lines, weights


def _least_squares(sizes: Values, seconds: Values, importance: Values) -> Values:
    """Return alpha and 1 / beta of each line, computed about the means, as sizes differ so much."""
    total = importance.sum(axis=1, keepdims=True)
    size, second = (
        (importance * values).sum(axis=1, keepdims=True) / total for values in (sizes, seconds)
    )
    deviations = importance * (sizes - size)
    slope = (deviations * (seconds - second)).sum(axis=1, keepdims=True) / (
        deviations * (sizes - size)
    ).sum(axis=1, keepdims=True)
    return np.concatenate([second - slope * size, slope], axis=1)


def _piece(sizes: Values, seconds: Values) -> Piece:
    lines, (weights,) = _lines(sizes, seconds, np.ones((1, len(sizes))))
    line = lines[0]
    alpha, slope = float(line[0]), float(line[1])
    beta = 1 / slope if slope > 0 else math.inf
    alphas, slopes = _intervals(sizes, seconds, line, weights)
    betas = [1 / end if end > 0 else math.inf for end in reversed(slopes or ())]
    return Piece(
        first=int(sizes[0]),
        last=int(sizes[-1]),
        points=len(sizes),
        alpha=alpha,
        alpha_ci=alphas,
        beta=beta,
        beta_ci=(betas[0], betas[1]) if betas else None,
        half=alpha * beta if alpha > 0 and beta < math.inf else None,
        worst=float(np.abs(_errors(sizes, seconds, lines)).max()),
    )


def _intervals(
    sizes: Values, seconds: Values, line: Values, weights: Values
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return 95 % intervals of alpha and 1 / beta: a studentized bootstrap of the residuals.

    B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 12. With few
    points, its coverage is close to 95 %, and that of plain percentiles is lower.
    """
    n = len(sizes)
    if n < ENOUGH_POINTS:
        return None, None
    root = np.sqrt(weights)
    design = np.stack([1 / seconds, sizes / seconds], axis=1) * root[:, None]
    scale = design.max(axis=0)
    design = design / scale
    inverse = np.linalg.inv(design.T @ design)
    hat = design @ inverse @ design.T
    residuals = root - design @ (line * scale)
    pool = residuals / np.sqrt(np.maximum(1 - np.diag(hat), GRAIN))
    pool = pool - pool.mean()
    residual_spread = _spread(residuals[None, :], n)[0] / float((weights == 1).mean())
    draws = np.random.default_rng(SEED).choice(pool, size=(DRAWS, n))
    shifts = draws @ (inverse @ design.T).T
    spread = _spread(draws - shifts @ design.T, n)
    diagonal = np.sqrt(np.diag(inverse))
    has_spread = spread > 0
    pivots = shifts[has_spread] / (spread[has_spread, None] * diagonal)
    if not len(pivots):  # every point is on the line
        return (line[0], line[0]), (line[1], line[1])
    low, high = np.percentile(pivots, (2.5, 97.5), axis=0)
    error = residual_spread * diagonal / scale
    ends = np.stack([line - high * error, line - low * error], axis=1)
    return (float(ends[0, 0]), float(ends[0, 1])), (float(ends[1, 0]), float(ends[1, 1]))


def _spread(residuals: Values, n: int) -> Values:
    """Estimate the standard deviation of the errors from the residuals of a line."""
    return np.asarray(np.sqrt((residuals**2).sum(axis=1) / (n - 2)))
