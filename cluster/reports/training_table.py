"""Training on 1, 2, 4 ... ranks: expected against got, with what limits each row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from cluster.analysis.models.efficiency import Efficiency, Series, Throughput, Work, scaling
from cluster.analysis.models.step_limits import PART_METRICS, TIMED_STEP
from cluster.analysis.statistics.compare import Comparison, ComparisonCell
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Summary
from cluster.core.text.units import format_value
from cluster.reports.table import Column, Columns, Table, make_table

T = TypeVar("T", Summary, ComparisonCell)
RATE = "samples_rate"
GRADIENTS = "gradient_bytes"
BUSY = "gpu_busy"
FLAGGED = 0.9  # of the rate expected; a row below is flagged


def training_table(
    runs: Mapping[int, tuple[Sequence[Summary], str]],
    batch: int,
    link: float | None = None,
    ranks_per_host: int = 1,
) -> Table:
    """Show how training scales (SpecError: a run has no rate).

    `link` is what a host's network carries in each direction, in bytes per second, for
    `ranks_per_host` ranks; if it is not known, all ranks are expected to be as fast as those of the
    base.
    """
    rates = {ranks: _rate_of(summaries) for ranks, (summaries, _) in runs.items()}
    all_summaries = [summary for summaries, _ in runs.values() for summary in summaries]
    work = None
    if link is not None:
        traffic = max(summary.median for summary in all_summaries if summary.metric == GRADIENTS)
        work = Work(batch=batch, payload=traffic, rate=link, ranks_per_host=ranks_per_host)
    curve = scaling(
        Series(
            name="training",
            unit="samples/s",
            throughputs=tuple(
                Throughput(ranks=ranks, rate=summary.median, interval=summary.ci)
                for ranks, summary in rates.items()
            ),
        ),
        work,
    )
    base = curve.base_rate / curve.base
    gpus = any(summary.metric == BUSY for summary in all_summaries)

    def expected(row: Efficiency) -> float:
        return base * row.ranks * (row.most or 1.0)

    columns: Columns[Efficiency] = (
        Column("ranks", lambda row: str(row.ranks)),
        Column("expected", lambda row: format_value(expected(row), "samples/s")),
        Column("got", lambda row: format_value(row.rate, "samples/s")),
        Column("efficiency", lambda row: f"{row.efficiency:.1%}"),
        Column("computing", lambda row: f"{_computing(runs[row.ranks][0]):.0%}"),
        Column("GPU busy", lambda row: _busy(runs[row.ranks][0]), show=gpus),
        Column("flag", lambda e: "" if e.rate >= FLAGGED * expected(e) else "SLOW", words=True),
        Column("verdict", lambda row: runs[row.ranks][1], words=True, spare=1),
    )
    title = f"training: efficiency over {curve.base} rank(s)"
    return make_table(title, curve.rows, columns, (_reading(gpus=gpus, has_link=work is not None),))


def conditions_table(comparisons: Mapping[int, Comparison]) -> Table:
    """Show how training scales under two conditions (SpecError: a run has no rate)."""
    cells = {
        ranks: _rate_of(cell for cell in comparison.cells if cell.is_common)
        for ranks, comparison in sorted(comparisons.items())
    }
    base = min(cells)
    names = comparisons[base].base, comparisons[base].other

    def rate_text(rate: Callable[[ComparisonCell], float], ranks: int) -> str:
        return format_value(rate(cells[ranks]), "samples/s")

    def efficiency(rate: Callable[[ComparisonCell], float], ranks: int) -> str:
        return f"{rate(cells[ranks]) / ranks / (rate(cells[base]) / base):.1%}"

    columns: list[Column[int]] = [Column("ranks", str)]
    first, other = attrgetter("base"), attrgetter("other")
    for name, rate in zip(names, (first, other), strict=True):
        columns += [
            Column(name, partial(rate_text, rate)),
            Column(f"{name} efficiency", partial(efficiency, rate)),
        ]
    columns.append(Column("ratio", lambda n: f"{other(cells[n]) / first(cells[n]):.3f}"))
    columns.append(Column("verdict", lambda ranks: cells[ranks].verdict, words=True))
    title = f"training: efficiency over {base} rank(s) of the same condition"
    note = f"The ratio is of {names[1]} to {names[0]}; the verdict is on {names[1]}."
    return make_table(title, list(cells), tuple(columns), (note,))


def _rate_of(points: Iterable[T]) -> T:
    """Find the rate with data from where they were asked for."""
    rates = {str(point.params["data"]): point for point in points if point.metric == RATE}
    if not rates:
        raise SpecError("A run has no rate of samples.", remedy="See why: cluster show latest")
    return next(rates[data] for data in ("store", "disk", "memory") if data in rates)


def _reading(*, gpus: bool, has_link: bool) -> str:
    busy = ", and busy: in which the GPU does" if gpus else ""
    expected = ", which is what the link allows if all of the exchange overlaps" if has_link else ""
    return (
        f"Computing: the share of a step in which a rank computes{busy}; it says nothing about how "
        f"well. Flagged: below 90% of what is expected{expected}."
    )


def _computing(summaries: Sequence[Summary]) -> float:
    data = _rate_of(summaries).params["data"]
    seconds = {s.metric: s.median for s in summaries if s.params.get("data") == data}
    return seconds[PART_METRICS["compute"]] / seconds[TIMED_STEP]


def _busy(summaries: Sequence[Summary]) -> str:
    """Return how busy the driver called the GPUs; a run too short for it has no such value."""
    data = _rate_of(summaries).params["data"]
    shares = [s.median for s in summaries if s.metric == BUSY and s.params.get("data") == data]
    return f"{shares[0]:.0f}%" if shares else ""
