"""Efficiency of training over ranks, between no overlap of its exchange and full overlap."""

import pytest

from cluster.analysis.models.efficiency import training_scaling
from cluster.analysis.statistics.compare import Launch
from cluster.core.model.results.measurements import Summary
from cluster.core.model.spec import ClusterSpec
from cluster.reports.page import ReportRun, report_page
from tests.plain_values import plain_record
from tests.snapshots import Snapshot


def summary(metric: str, median: float, **params: str) -> Summary:
    return Summary(
        metric=metric, unit="samples/s", better="higher", params=dict(params), n=1, median=median,
        ci=None, p5=median, p95=median, p99=median, converged=False,
    )  # fmt: skip


def launch(ranks: int, rate: float, exchange: float = 0.0, benchmark: str = "training") -> Launch:
    """A run with data in a store, which took twice as long as with data in memory."""
    exchanges = (summary("exchange_rate", exchange),) if exchange else ()
    return Launch(
        record=plain_record(
            id=f"r{ranks}", benchmark=benchmark, spec=ClusterSpec(name="train", hosts=ranks)
        ),
        summaries=(
            summary("samples_rate", 2 * rate, data="memory"),
            summary("samples_rate", rate, data="store"),
            *exchanges,
        ),
    )  # fmt: skip


def test_rows_have_the_bounds_of_their_own_exchange() -> None:
    """Two ranks could train on 200 samples/s; an exchange that allows 100 alone halves that."""
    result = training_scaling([launch(1, 100), launch(2, 90, 100), launch(4, 300, 4_000)])

    assert result is not None
    assert [row.ranks for row in result.rows] == [1, 2, 4]
    assert [row.efficiency for row in result.rows] == pytest.approx([1.0, 0.45, 0.75])
    assert [row.most for row in result.rows] == pytest.approx([1.0, 0.5, 1.0])
    assert [row.least for row in result.rows] == pytest.approx([1.0, 1 / 3, 1 / 1.1])


def test_without_a_run_of_one_rank_there_are_no_bounds() -> None:
    result = training_scaling([launch(2, 90, 100), launch(4, 120, 100)])

    assert result is not None
    assert [(row.least, row.most) for row in result.rows] == [(None, None)] * 2


def test_one_number_of_ranks_and_other_benchmarks_do_not_scale() -> None:
    assert training_scaling([launch(2, 90, 100)]) is None
    assert training_scaling([launch(n, 90, benchmark="p2p") for n in (1, 2)]) is None


def test_a_report_shows_it(snapshot: Snapshot) -> None:
    runs = [
        ReportRun(name=f"r{n}", record=run.record, summaries=run.summaries)
        for n, run in enumerate((launch(1, 100), launch(2, 90, 100)))
    ]
    titles = [section.title for section in report_page(runs, no_plots="no matplotlib").sections]

    snapshot(titles)
    snapshot(
        [section.title for section in report_page(runs[:1], no_plots="no matplotlib").sections]
    )
