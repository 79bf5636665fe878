"""Tables that are read at once, and kept in columns: the same as row by row, in less memory."""

from __future__ import annotations

import gc
import sys
from array import array
from typing import TYPE_CHECKING

import pytest

from cluster.core import plugins
from cluster.core.errors import ParseError
from cluster.logs.columns import CellPoints, Columns, Points, SeriesPoint
from cluster.logs.parsers import Parser, ResultBuilder
from cluster.logs.parsers.iperf2 import Iperf2
from cluster.logs.parsers.iperf3 import Iperf3
from cluster.logs.parsers.nccl_tests import NcclTests
from cluster.logs.reader import read
from cluster.logs.series import TableCells
from tests.logs.samples import LOGS
from tests.plain_values import plain_definition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.core.model.logs import Reading
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


def test_cells_and_single_values_join_the_same_series() -> None:
    """A table that is repeated, and a value of one of its cells, in any order."""
    points = CellPoints()
    cells = TableCells(
        (TIME, RATE),
        ((0, points.at("time", {"row": 0}, 8)), (1, points.at("rate", {"row": 0}, 16))),
    )
    for order in ("ctsc", "tcsc", "cscs", "scct"):
        sheet = ResultBuilder("any", 1)
        for step in order:
            if step == "c":
                sheet.add_cells(cells, array("d", (1, 2)))
            elif step == "t":
                sheet.extend(TIME, (5, 6), {"row": 1}, size=32)
            else:
                sheet.add(RATE, 9, {"row": 0}, size=16)
        found = {(metric, size): kept for metric, size, kept in values(sheet.parsed().measurements)}

        assert len(found) == 2 + ("t" in order), order
        assert found["time", 8] == (1,) * order.count("c"), order
        rates = [value for step in order for value in {"c": (2,), "s": (9,)}.get(step, ())]
        assert found["rate", 16] == tuple(rates), order
        assert found.get(("time", 32), (5, 6)) == (5, 6), order


def test_rows_are_told_apart_by_what_their_points_say() -> None:
    """Also after a single value, where a parser does not keep the points that it gave."""
    sheet = ResultBuilder("any", 1)
    sheet.add(RATE, 1.0)
    for size in range(1, 9):
        sheet.add_rows((TIME,), [SeriesPoint({"size": size}, 0, size)], array("d", [size]))
    found = [(m.params.get("size"), m.values) for m in sheet.parsed().measurements]

    assert found == [(None, (1,)), *((size, (size,)) for size in range(1, 9))]


def test_each_row_of_a_table_counts_as_a_line_that_was_read() -> None:
    rows = ROWS.format(*["0"] * 28).splitlines(keepends=True)
    lines = [read([(HEAD + "".join(rows[:count])).encode()]).lines for count in range(1, 6)]

    assert lines == list(range(lines[0], lines[0] + 5))


def test_results_alike_keep_their_own_values_in_the_order_of_their_tables() -> None:
    """What a result measured is looked up from the second on; its values are not."""
    points = CellPoints()
    tables = [
        TableCells((metric,), [(0, points.at(metric.metric, {"row": 0}, 8))])
        for metric in (TIME, RATE)
    ]
    for result in range(3):
        sheet = ResultBuilder("any", 1)
        for number, table in enumerate(tables):
            sheet.add_cells(table, array("d", [10 * result + number]))

        assert values(sheet.parsed().measurements) == [
            ("time", 8, (10 * result,)),
            ("rate", 8, (10 * result + 1,)),
        ]


def test_results_alike_keep_the_types_of_their_parameters() -> None:
    """1, 1.0 and True are equal, and a lookup takes one for another."""
    for is_on in (1, True, 1.0):
        sheet = ResultBuilder("any", 1)
        sheet.add(TIME, 2.0, {"is_on": is_on})
        (found,) = sheet.parsed().measurements

        assert type(found.params["is_on"]) is type(is_on)


def test_the_collector_runs_again_after_a_log_was_read_or_refused() -> None:
    assert gc.isenabled()
    read([b"# OSU MPI Latency Test v5.9\n# Size   Latency (us)\n1   1.50\n"])
    with pytest.raises(ParseError):
        read([b"nothing that is known\n"])

    assert gc.isenabled()


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


AT_ONCE = {  # nccl-tests has a test of its own
    name: parser
    for name in plugins.names(Parser)
    if (parser := plugins.find(Parser, name)).take_rows is not Parser.take_rows
    and name != "nccl_tests"
}


@pytest.mark.parametrize(
    "path",
    [path for name in AT_ONCE for path in sorted(LOGS.glob(f"{name}.*.txt"))],
    ids=lambda path: path.stem,
)
def test_rows_at_once_are_what_each_of_them_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of logs without their ends, of which the rates of intervals are all that is left."""
    lines = path.read_bytes().splitlines(keepends=True)
    logs = [lines, lines[:-3], lines[:-5], lines[4:], lines[::2]]
    at_once = [_read_or_refused(log) for log in logs]
    parser = AT_ONCE[path.name.partition(".")[0]]
    monkeypatch.setattr(parser, "take_rows", Parser.take_rows)

    assert [_read_or_refused(log) for log in logs] == at_once


@pytest.mark.parametrize("streams", [["5"], ["5", "7"], ["5", "7", "SUM"]])
@pytest.mark.parametrize("end", ["sec", " sec"], ids=["iperf2", "iperf3"])
def test_intervals_at_once_are_what_each_of_them_is(
    streams: list[str], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one and of several streams, and with a line that is cut and one of another program."""
    log = [
        f"[{name:>3}] {second:>3}.00-{second + 1}.00 {end}  {1.05 * share:.2f} GBytes  "
        f"{9.02 * share:.2f} Gbits/sec{'' if second % 3 else '    7   1.2 MBytes'}\n"
        for second in range(12)
        for name in streams
        for share in (len(streams) - 1 if name == "SUM" else 1,)
    ]
    logs = [
        [line.encode() for line in text] for text in (log, [*log[:9], "[  5]  9.0\n", *log[9:]])
    ]
    offered = 0

    def count(parser: Parser, line: str, number: int) -> bool:
        nonlocal offered
        offered += 1
        return taken[type(parser)](parser, line, number)

    taken: dict[type[Parser], Callable[..., bool]] = {p: p.take for p in (Iperf2, Iperf3)}
    with monkeypatch.context() as counted:
        for parser in taken:
            counted.setattr(parser, "take", count)
        at_once = [_read_or_refused(lines) for lines in logs]
    assert offered < sum(
        map(len, logs)
    )  # the others were read at once, by the parser that took one
    for parser in taken:
        monkeypatch.setattr(parser, "take_rows", Parser.take_rows)

    assert [_read_or_refused(lines) for lines in logs] == at_once
    assert at_once[0] is not None
    assert len(at_once[0].results[0].measurements[0].values) == 12


def _read_or_refused(lines: list[bytes]) -> Reading | None:
    try:
        return read([b"".join(lines)])
    except ParseError:
        return None


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
