"""The median of a series with its interval, and its drift, modes, tail and outliers.

The interval is of order statistics: no distribution is assumed. It does not show the rest, of which
each is a reason to look closer: a series that drifts has no single median, and a series with two
modes was two different things at different times (T. Hoefler, R. Belli, "Scientific benchmarking of
parallel computing systems", SC15, rules 5 to 8). No value is ever left out: outliers are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster.core.model.results.measurements import Distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]


LEVEL = 0.95
FIRST_PERCENTILE = 0.01
ENOUGH_VALUES = 20  # for a series to be called converged
PRECISE = 0.025  # half of the interval over the median, to be called converged


@cache  # the series of a run, and of a thousand runs, have few lengths
def median_interval_ranks(n: int, level: float = LEVEL) -> tuple[int, int] | None:
    """Return the narrowest pair of ranks, from 1, of order statistics that enclose the median.

    The number of values below the median is binomial with p = 1/2, so the ranks l < u enclose it
    with probability P(l <= B <= u - 1): terms are added from the middle outwards, the larger first,
    until the level is reached. No distribution of the values is assumed. None if even the extremes
    do not reach the level (n < 6 for 95 %).
    """
    low = high = n // 2
    sum_ = _half(n, low) if n > 1 else 0.0
    while sum_ < level:
        low_term = _half(n, low - 1) if low > 1 else 0.0
        high_term = _half(n, high + 1) if high < n - 1 else 0.0
        if low_term == high_term == 0.0:
            return None
        if low_term > high_term:
            low, sum_ = low - 1, sum_ + low_term
        else:
            high, sum_ = high + 1, sum_ + high_term
    return low, high + 1


def _half(n: int, k: int) -> float:
    """Return the binomial probability of k out of n at p = 1/2."""
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log - n * math.log(2))


def median_interval(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the median of sorted values; None for fewer than 6."""
    ranks = median_interval_ranks(len(values))
    if ranks is None:
        return None
    return float(values[ranks[0] - 1]), float(values[ranks[1] - 1])


def is_precise(values: Sequence[float] | NDArray[np.float64]) -> bool:
    """Tell whether the median of a series is known precisely enough.

    It has at least 20 values, a median above 0, and half of its interval is at most 2.5 % of it.
    """
    sorted_values = np.sort(np.asarray(values, dtype=np.float64))
    interval = median_interval(sorted_values)
    if interval is None or len(sorted_values) < ENOUGH_VALUES:
        return False
    median = middle(sorted_values)
    return median > 0 and (interval[1] - interval[0]) / 2 <= PRECISE * median


def middle(values: NDArray[np.float64]) -> float:
    """Return the median of values that are sorted already; there is at least one."""
    half = len(values) // 2
    value = float(values[half])
    return value if len(values) % 2 else (float(values[half - 1]) + value) / 2


MATTERS = 0.03  # of a value: a smaller difference is of no practical interest
FAR = 3.0  # quartile ranges beyond a quartile: "far out" (J. W. Tukey, 1977)
ENOUGH_FOR_MODES = 50  # values
SMALLEST_MODE = 0.10  # of all values
FEWEST = 15  # values in a mode: in a long tail, fewer can cluster by chance
SAME = 1e-9  # of a value: rounding errors of one step of a clock are smaller
VALLEY = 0.5  # of the lower of two peaks: a valley above this may be chance
BANDWIDTH = 0.9  # of the kernel: B. W. Silverman, "Density Estimation", 1986, equation 3.31
NARROWEST = 0.01  # of a value: the smallest bandwidth; closer modes do not matter
KERNEL = 4  # bandwidths, to each side
STEPS = 3  # of the grid, per bandwidth
COARSEST, FINEST = 64, 8192  # steps of the whole grid


def statistics(series: Values, values: Values, *, slow: bool) -> dict[str, Any]:
    """Return what of a summary a series, given also sorted, decides; the tail is high if `slow`."""
    p1, p5, p95, p99 = (quantile(values, part) for part in (FIRST_PERCENTILE, 0.05, 0.95, 0.99))
    median = middle(values)
    high, low = (p99, median) if slow else (median, p1)
    return {
        "n": len(values),
        "median": median,
        "ci": median_interval(values),
        "p5": p5,
        "p95": p95,
        "p99": p99,
        "converged": has_converged(series),
        "shape": shape(series, values, tail=high / low if low > 0 else 1.0),
    }


def shape(series: Values, values: Values, *, tail: float) -> Distribution:
    """Describe a series, given also sorted, beyond its median.

    `tail` is how many times slower than the median the slowest 1 % of values are.
    """
    p25, p75 = quantile(values, 0.25), quantile(values, 0.75)
    change, real = drift(series)
    return Distribution(
        minimum=float(values[0]),
        p25=p25,
        p75=p75,
        maximum=float(values[-1]),
        outliers=outliers(values, p25, p75),
        drift=change,
        drifts=real,
        modes=modes(values),
        tail=tail,
    )


def quantile(values: Values, part: float) -> float:
    """Return what a share `part` of sorted values is below, as NumPy's `percentile`."""
    place = part * (len(values) - 1)
    low = int(place)
    start, end = float(values[low]), float(values[min(low + 1, len(values) - 1)])
    return start + (end - start) * (place - low)


def outliers(values: Values, p25: float, p75: float) -> int:
    """Count sorted values that are more than three quartile ranges beyond the quartiles."""
    reach = FAR * (p75 - p25)
    low_count = np.searchsorted(values, p25 - reach, side="left")
    upto = np.searchsorted(values, p75 + reach, side="right")
    return int(low_count + len(values) - upto)


def drift(series: Values) -> tuple[float | None, bool]:
    """Compare the two halves of a series.

    Return how much the median of the second half is above that of the first, relative to it (None
    if there are too few values), and whether that is a drift: by 3 % or more, and the two medians'
    95 % intervals do not overlap.
    """
    half = len(series) // 2
    if not half:
        return None, False
    first, second = np.sort(series[:half]), np.sort(series[half:])
    base = quantile(first, 0.5)
    if not base > 0:
        return None, False
    change = quantile(second, 0.5) / base - 1
    before, after = median_interval(first), median_interval(second)
    if before is None or after is None or abs(change) < MATTERS:
        return change, False
    return change, before[1] < after[0] or after[1] < before[0]


def has_converged(series: Sequence[float] | Values) -> bool:
    """Tell whether a series has enough values: the rule by which an adaptive run stops.

    The median of 20 values or more is known to 2.5 %, and does not drift: a drifting one can be
    known precisely, and yet describe no moment of the run. So measuring continues, and the summary
    says at the end that the series did not converge.
    """
    values = np.asarray(series, dtype=np.float64)
    return is_precise(values) and not drift(values)[1]


def modes(values: Values) -> tuple[float, ...]:
    """Return the values that sorted ones cluster around, if there are several.

    The density of the values' logarithms is estimated with a Gaussian kernel, no narrower than the
    clock's step and than 1 %. Two peaks are two modes if the density between them falls to half of
    the lower one or less, and a tenth of all values, 15 or more, belong to each. Fewer than 50
    values have none.
    """
    if len(values) < ENOUGH_FOR_MODES or values[0] <= 0:
        return ()
    logs = np.log(values)
    low, high = quantile(logs, 0.005), quantile(logs, 0.995)
    # Silverman's bandwidth for the logarithms, but at least 1 % and the clock's step
    quartiles = quantile(logs, 0.75) - quantile(logs, 0.25)
    spread = min(float(np.std(logs)), quartiles / 1.349)  # of a normal distribution: 1.349
    # The clock's step is estimated as the distance from the middle value to the next ones.
    middle = float(values[len(values) // 2])
    predecessor = values[: np.searchsorted(values, middle * (1 - SAME), side="left")][-1:]
    successor = values[np.searchsorted(values, middle * (1 + SAME), side="right") :][:1]
    gaps = [abs(float(value) - middle) for value in (*predecessor, *successor)]
    clock = min(gaps, default=0.0) / quantile(values, 0.5)
    silverman: float = BANDWIDTH * spread * len(values) ** -0.2
    width = max(silverman, NARROWEST, clock)
    if high - low < width:
        return ()
    steps = int(np.clip((high - low) / width * STEPS, COARSEST, FINEST))
    counts, edges = np.histogram(logs, bins=steps, range=(low, high))
    step = (high - low) / steps
    reach = max(1, math.ceil(KERNEL * width / step))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    density = np.convolve(counts, kernel)  # wider than the counts by the width of the kernel
    places = np.concatenate([np.zeros(reach), counts, np.zeros(reach)])
    # merge neighbouring peaks until each valley is deep, and each peak has enough values
    inner = density[1:-1]
    tops = [int(i) + 1 for i in np.flatnonzero((inner > density[:-2]) & (inner >= density[2:]))]
    while len(tops) > 1:
        valleys = [a + int(np.argmin(density[a:b])) for a, b in pairwise(tops)]
        weak = _weakest(density, places, tops, valleys)
        if weak is None:
            break
        tops.remove(weak)
    if len(tops) < 2:  # noqa: PLR2004 - one mode is the normal case
        return ()
    return tuple(float(math.exp(edges[0] + (top - reach + 0.5) * step)) for top in tops)


def _weakest(density: Values, counts: Values, tops: list[int], valleys: list[int]) -> int | None:
    """Find the lowest peak that is not a mode of its own, if there is one."""
    shallow = [
        min(pair, key=lambda top: density[top])
        for pair, valley in zip(pairwise(tops), valleys, strict=True)
        if density[valley] > VALLEY * min(density[top] for top in pair)
    ]
    if shallow:
        return min(shallow, key=lambda top: density[top])
    masses = [float(part.sum()) for part in np.split(counts, valleys)]
    mass, top = min(zip(masses, tops, strict=True))
    return top if mass < max(FEWEST, SMALLEST_MODE * float(counts.sum())) else None
