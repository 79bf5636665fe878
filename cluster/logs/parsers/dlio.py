"""DLIO and MLPerf Storage: `summary.json`, of which each figure is computed again where it can be.

DLIO's accelerator utilisation (AU) is a mean of the percentages of ranks and of epochs, not of sums
(dlio_benchmark/utils/statscounter.py, `end_run`), and its accelerator sleeps: it takes no core from
the readers. What it prints as MB and GB are MiB and GiB.
"""

import re
from collections.abc import Callable, Sequence
from math import dist, sqrt
from statistics import fmean

import msgspec

from cluster.logs.parsers import MIB, ResultBuilder, RunParser, decode, define

_KEY = re.compile(r'\s*"(?:train|eval)_(?:au|throughput|io)_\w+":')
CLOSE = 1e-6  # relative: figures are written with all their digits
MOST = 100.0  # percent
UTILISATION, SAMPLES, READ = DEFINITIONS = define(
    "dlio",
    """
    accelerator_utilisation (%, mean of ranks): time that the emulated accelerators sleep for their
        computing over the time of the steps, of an epoch; a mean of the ranks' percentages, not of
        their sums
    samples_rate (samples/s): samples of an epoch per second, the sum of the ranks' own rates
    read_rate (B/s): mean samples per second times the size of a record; printed in MiB/s as MB
    """,
    clock="time.time of each rank",
    synchronisation="none between the steps of ranks",
    warm_up="the first step of each epoch is left out, unless told otherwise",
    aggregation="all ranks",
)


class _Metric(msgspec.Struct):
    train_au_percentage: list[float] = []
    train_au_mean_percentage: float | None = None
    train_au_stdev_percentage: float | None = None
    train_throughput_samples_per_second: list[float] = []
    train_throughput_mean_samples_per_second: float | None = None
    train_throughput_stdev_samples_per_second: float | None = None
    train_io_mean_MB_per_second: float | None = None  # noqa: N815 - DLIO's name


class _Summary(msgspec.Struct):
    metric: _Metric
    num_accelerators: int
    potential_caching: list[int] | bool = False


class Dlio(RunParser):
    """DLIO's summary.json: utilisation, samples per second, and which of them hold."""

    marks = ("train_au_percentage", "train_au_mean_percentage")
    definitions = DEFINITIONS

    title = "DLIO"
    _is_cut = False

    def take(self, line: str, lineno: int) -> bool:
        if not _KEY.match(line):
            return False
        if not self._is_cut:
            self._is_cut = True
            self._begin(lineno).fail("the summary is cut off: none of its figures is used")
        return True

    def take_document(self, text: str, lineno: int) -> bool:
        summary = decode(text, _Summary) if self.marks[0] in text else None
        if summary is None:
            return False
        builder = self._begin(lineno)
        metric, point = summary.metric, {"accelerators": summary.num_accelerators}
        for share in metric.train_au_percentage:
            builder.add(UTILISATION, share, point)
        for rate in metric.train_throughput_samples_per_second:
            builder.add(SAMPLES, rate, point)
        if metric.train_io_mean_MB_per_second is not None:
            builder.add(READ, metric.train_io_mean_MB_per_second * MIB, point)
        _note_doubts(builder, summary)
        return True

    def _finish(self, run: ResultBuilder) -> None:
        """A summary may have no figures."""


def _note_doubts(run: ResultBuilder, summary: _Summary) -> None:
    metric = summary.metric
    shares, rates = metric.train_au_percentage, metric.train_throughput_samples_per_second
    rates_mean = metric.train_throughput_mean_samples_per_second
    rates_stdev = metric.train_throughput_stdev_samples_per_second
    _note_unlike(run, "train_au mean", metric.train_au_mean_percentage, shares, fmean)
    _note_unlike(run, "train_au stdev", metric.train_au_stdev_percentage, shares, _deviation)
    _note_unlike(run, "train_throughput mean", rates_mean, rates, fmean)
    _note_unlike(run, "train_throughput stdev", rates_stdev, rates, _deviation)
    pairs = zip(shares, rates, strict=False)
    for epoch, (utilisation, rate) in enumerate(pairs, 1):
        if utilisation > MOST or utilisation < 0:
            run.note("impossible_au", epoch, utilisation)
        elif utilisation == 0 and rate > 0:
            run.note("no_step_counted", epoch, rate)
    caching = summary.potential_caching
    if any(caching) if isinstance(caching, list) else caching:
        run.note("data_fit_memory")
    run.note("emulated_accelerators")


def _deviation(values: Sequence[float]) -> float:
    """Return standard deviation of a population: `statistics.pstdev` is thirty times as slow."""
    return dist(values, [fmean(values)] * len(values)) / sqrt(len(values))


def _note_unlike(
    run: ResultBuilder,
    name: str,
    figure: float | None,
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
) -> None:
    if figure is None or not values:
        return
    result = statistic(values)
    if abs(figure - result) > CLOSE * max(abs(figure), abs(result), 1):
        run.note("other_mean", name, figure, result)
