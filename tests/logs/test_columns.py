"""Tables that are read at once, and kept in columns: the same as row by row, in less memory."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

import pytest

from cluster.logs.columns import Columns, Points, SeriesPoint
from cluster.logs.parsers import Parser, ResultBuilder
from cluster.logs.parsers.nccl_tests import NcclTests
from cluster.logs.parsers.osu import Osu
from cluster.logs.reader import read
from tests.logs.samples import LOGS
from tests.plain_values import plain_definition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cluster.core.model.measurements import Measurement

TIME, RATE = (
    plain_definition(metric=metric, unit=unit) for metric, unit in (("time", "s"), ("rate", "B/s"))
)
ROWS = "".join(
    f"{2**n:12}{2**n // 4:12}   float     sum      -1   {2**n / 1e4 + 20:7.1f}"
    f"{2**n / (2**n / 1e4 + 20) / 1e3:8.2f}{2**n / (2**n / 1e4 + 20) / 1e3:8.2f}    {{}}"
    f"   {2**n / 1e4 + 20:7.1f}{2**n / (2**n / 1e4 + 20) / 1e3:8.2f}{0.0:8.2f}    N/A\n"
    for n in range(2, 30)
)
HEAD = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"


def values(found: Sequence[Measurement]) -> list[tuple[str, int, tuple[float, ...]]]:
    return [(m.metric, m.bytes, m.values) for m in found]


def test_columns_are_a_sequence_of_measurements() -> None:
    points = [SeriesPoint({"size": 8}, 0, 8), SeriesPoint({"size": 16}, 3, 16)]
    found = Columns((TIME, RATE), bytes((0, 1)), points, array("d", (1, 2, 3)), array("Q", (2, 3)))
    first, second = found

    assert (first.metric, first.values, first.params) == ("time", (1.0, 2.0), {"size": 8})
    assert (second.unit, second.values, second.rank, second.bytes) == ("B/s", (3.0,), 3, 16)
    assert (len(found), found[-1], found[:1]) == (2, second, (first,))
    assert found == (first, second) != (second, first)
    with pytest.raises(IndexError):
        _ = found[2]


def test_rows_and_single_values_join_the_same_series() -> None:
    points = Points()
    sheet = ResultBuilder("any", 1)
    for sizes in ((8, 16), (16, 32), (8,)):
        row = points.over({"a": 1}, sizes, (True, True))
        sheet.add_rows((TIME, RATE), row, array("d", range(len(row))))
    sheet.add(RATE, 9.0, {"a": 1, "size": 8}, size=8)
    row = points.over({"a": 1}, (32,), (True, True))
    sheet.add_rows((TIME, RATE), row, array("d", (5, 6)))

    assert values(sheet.parsed().measurements) == [
        ("time", 8, (0, 0)),
        ("rate", 8, (1, 1, 9)),
        ("time", 16, (2, 0)),
        ("rate", 16, (3, 1)),
        ("time", 32, (2, 5)),
        ("rate", 32, (3, 6)),
    ]


def test_forgotten_values_leave_nothing() -> None:
    sheet = ResultBuilder("any", 1)
    sheet.add(TIME, 1.0)
    sheet.add(TIME, 2.0)
    sheet.clear()
    assert sheet.empty
    sheet.add(RATE, 3.0)

    assert values(sheet.parsed().measurements) == [("rate", 0, (3,))]


@pytest.mark.parametrize("wrong", ["0", "N/A", "7"])
def test_a_table_at_once_is_what_its_rows_are(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a row in the middle contradicts itself, and its neighbours do not."""
    rows = ROWS.format(*["0"] * 13, wrong, *["0"] * 14).splitlines(keepends=True)
    rows[20] = rows[20].replace(" float ", " 9 ")
    text = (HEAD + "".join(rows) + "# Avg bus bandwidth : 1\n") * 2
    at_once = read([text.encode()])
    monkeypatch.setattr(NcclTests, "take_rows", Parser.take_rows)

    assert read([text.encode()]) == at_once
    assert len(at_once.results[0].measurements) == 27 * 2 * 3
    assert bool(at_once.results[0].failures) == (wrong == "7")


@pytest.mark.parametrize("path", sorted(LOGS.glob("osu.*.txt")), ids=lambda path: path.stem)
def test_osu_at_once_is_what_its_rows_are(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = read([path.read_bytes()])
    monkeypatch.setattr(Osu, "take_rows", Parser.take_rows)

    assert read([path.read_bytes()]) == at_once


def test_a_value_in_a_large_log_takes_three_numbers_at_most() -> None:
    """What is kept of tests that repeat their sizes: the value, its point, a byte of its metric."""
    rows = ROWS.format(*["0"] * 28)
    found = read([(HEAD + rows * 200 + "# Avg bus bandwidth : 1\n").encode()])
    (result,) = found.results
    assert isinstance(result.measurements, Columns)
    kept = sum(len(m.values) for m in result.measurements)

    assert kept == 200 * 28 * 2 * 3
    assert result.measurements.nbytes <= 3 * 8 * kept
    assert sys.getsizeof(result.measurements) < 100
