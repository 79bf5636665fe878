"""Markdown tables: units as the columns say, ratios are no rates, rows are not pooled."""

from pathlib import Path

import pytest

from cluster.analysis.models.published_tables import series
from cluster.logs.reader import read

LOG = Path(__file__).parent.parent / "tables.settings.txt"


@pytest.mark.parametrize(
    "column", ["Speedup", "Throughput speedup", "Throughput ratio", "Relative throughput", "Gain %"]
)
def test_a_ratio_is_no_rate(column: str) -> None:
    text = f"| GPUs | images/s | {column} |\n|---|---|---|\n| 8 | 9000.5 | 7.5 |\n"
    (result,) = read([text.encode()]).results

    assert [m.values for m in result.measurements] == [(9000.5,)]


def test_scaling_sees_bare_numbers_and_nodes_of_several_gpus() -> None:
    first, second, third = series(LOG.read_text())

    assert [(t.ranks, t.rate) for t in first.throughputs] == [(8, 12000.5), (16, 23000.5)]
    assert [(t.ranks, t.rate) for t in second.throughputs] == [(16, 25000.5), (16, 24000.5)]
    assert [(t.ranks, t.rate) for t in third.throughputs] == [(8, 9000.5), (16, 17800.5)]
    assert (first.unit, third.unit) == ("tok/s", "images/s")
    assert "4" in first.name
    assert "7B" in first.name


def test_thousands_in_cells() -> None:
    page = (
        "| GPUs | tok/s | tok/s/GPU |\n|---|---|---|\n| 8 | 112K | 14.0k |\n"
        "| 16 | 0.22M | 13.8K |\n"
    )
    (result,) = read([page.encode()]).results
    rates = [(m.metric, m.values) for m in result.measurements]

    assert rates == [
        ("token_rate", (112e3,)),
        ("rate_per_gpu", (14.0e3,)),
        ("token_rate", (0.22e6,)),
        ("rate_per_gpu", (13.8e3,)),
    ]
    (scaling,) = series(page)
    assert [t.rate for t in scaling.throughputs] == [112e3, 220e3]


def test_a_batch_that_grows_with_the_ranks_is_the_same_work() -> None:
    weak = "| GPUs | Batch | img/s |\n|---|---|---|\n| 8 | 256 | 2914 |\n| 16 | 512 | 5612 |\n"
    other = weak.replace("512", "256")

    assert [(s.name, len(s.throughputs)) for s in series(weak)] == [("batch 32 per rank", 2)]
    assert [(s.name, len(s.throughputs)) for s in series(other)] == [("256", 2)]
    assert len(series(weak.replace("512", "128"))) == 2
