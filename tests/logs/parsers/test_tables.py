"""Markdown tables: units as the columns say, ratios are no rates, rows are not pooled."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.analysis.published_tables import series
from cluster.logs.parsers import Parser
from cluster.logs.parsers.tables import Tables
from cluster.logs.reader import read

LOG = Path(__file__).parent.parent / "tables.settings.txt"


def test_units_and_settings_of_rows() -> None:
    tokens, images = read([LOG.read_bytes()]).results
    found = [(m.metric, m.unit, dict(m.params), m.values) for m in tokens.measurements]
    row = {"model": "7B", "gpus": 16, "batch/gpu": 8}

    assert found[0] == (
        "token_rate",
        "tokens/s",
        {"model": "7B", "gpus": 8, "batch/gpu": 4, "column": "throughput (tok/s)"},
        (12000.5,),
    )
    assert [metric for metric, *_ in found] == ["token_rate", "rate_per_gpu"] * 4
    assert found[4][2] == {**row, "column": "throughput (tok/s)"}
    assert found[6][2] == {**row, "row": 2, "column": "throughput (tok/s)"}
    assert [m.values for m in images.measurements] == [(9000.5,), (17800.5,)]
    assert images.measurements[1].params == {"nodes": 2, "gpus/node": 8}


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


@pytest.mark.parametrize(
    "cell",
    [
        *("16 / 2", "a/ s", "img/s", "images/s", "200 images/s", "95%", "", "|", "x" * 9000),
        *("[log](logs/s-8.txt)", "[log](s)/s", "[Images](x)/s", "Thr[ough](x)put per s"),
        *("Through**put** per s", "#Throughput", "Throughput is 5 images/s, expected 6"),
    ],
)
@pytest.mark.parametrize("rate", ["8.5", "007", "1,234.5", "**8.5**", "12 (x)", "5 images/s", "٣"])
def test_rows_at_once_are_what_each_row_is(
    cell: str, rate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a row in the middle is a header, or has a figure with its unit."""
    rows = [f"| {gpus} | x | {gpus}.5 | 1 |\n" for gpus in (8, 16, 8, 8, 32)]
    odd = f"| 8 | {cell} | {rate} | 1 |\n"
    text = "".join(["| GPUs | Notes | images/s | Speedup |\n", *rows, odd, *rows, odd])
    offered: list[int] = []
    taken = Tables.take

    def count(tables: Tables, line: str, number: int) -> bool:
        offered.append(number)
        return taken(tables, line, number)

    monkeypatch.setattr(Tables, "take", count)
    at_once = read([text.encode()])

    assert len(offered) < 9  # of 13 lines: five rows at least are read at once
    monkeypatch.setattr(Tables, "take_rows", Parser.take_rows)

    assert read([text.encode()]) == at_once


def test_thousands_in_cells() -> None:
    page = (
        "| GPUs | tok/s | tok/s/GPU |\n|---|---|---|\n| 8 | 112K | 14.0k |\n"
        "| 16 | 0.22M | 13.8K |\n"
    )
    (result,) = read([page.encode()]).results
    found = [(m.metric, m.values) for m in result.measurements]

    assert found == [
        ("token_rate", (112e3,)),
        ("rate_per_gpu", (14.0e3,)),
        ("token_rate", (0.22e6,)),
        ("rate_per_gpu", (13.8e3,)),
    ]
    (scaled,) = series(page)
    assert [t.rate for t in scaled.throughputs] == [112e3, 220e3]


def test_a_batch_that_grows_with_the_ranks_is_the_same_work() -> None:
    weak = "| GPUs | Batch | img/s |\n|---|---|---|\n| 8 | 256 | 2914 |\n| 16 | 512 | 5612 |\n"
    other = weak.replace("512", "256")

    assert [(s.name, len(s.throughputs)) for s in series(weak)] == [("batch 32 per rank", 2)]
    assert [(s.name, len(s.throughputs)) for s in series(other)] == [("256", 2)]
    assert len(series(weak.replace("512", "128"))) == 2
