"""What analysis finds, as tables."""

import msgspec
import pytest

from cluster.analysis.statistics.compare import compare
from cluster.reports.formats.markdown import table_markdown
from cluster.reports.formats.terminal import table_text
from cluster.reports.tables import comparison_tables, interval_strip
from tests.analysis.test_compare import STEADY, side, summary, times
from tests.snapshots import Snapshot


def test_what_differs_comes_first_then_the_verdicts(snapshot: Snapshot) -> None:
    base = times("before", *STEADY)
    other = side("after", *([summary(2 * s), summary(1.0, size=64)] for s in STEADY), software="2")
    differs, cells = comparison_tables(compare(base, other))

    assert differs.rows == (("cluster", "1", "2"),)
    snapshot(cells.title)
    assert cells.rows[0][:5] == ("latency", "8 B", "slower", "2.000", "1.994 .. 2.006")
    assert cells.rows[0][6:] == ("1.002 s", "2.004 s")
    assert cells.rows[1][6] == "-"
    snapshot(cells.notes[0])


def test_a_metric_without_parameters_is_named_alone(snapshot: Snapshot) -> None:
    bare = msgspec.structs.replace(summary(1.0), params={})
    other = side("after", *([summary(s), bare] for s in STEADY))
    _, cells = comparison_tables(compare(times("before", *STEADY), other))

    snapshot(cells.notes[0])


def test_a_narrow_screen_leaves_out_the_medians_and_says_so(snapshot: Snapshot) -> None:
    """80 columns hold the verdict, the ratio and its interval; none of them wraps."""
    _, cells = comparison_tables(compare(times("mca:btl=self,sm", *STEADY), times("tcp", *STEADY)))
    lines = table_text(cells, 80).splitlines()

    assert max(map(len, lines)) <= 80
    snapshot(" ".join(lines[2].split()))
    assert lines[4].split()[:5] == ["latency", "8", "B", "equivalent", "1.000"]
    left_out = "Not shown at this width: slower 1.04 x faster, mca:btl=self,sm, tcp."
    assert left_out in " ".join(line.strip() for line in lines)


def test_the_tables_as_text_and_as_markdown(snapshot: Snapshot) -> None:
    _, cells = comparison_tables(compare(times("a", *STEADY), times("b", *STEADY)))
    text, markdown = table_text(cells), table_markdown(cells)

    snapshot(text)
    assert "equivalent" in text.splitlines()[4]
    snapshot(markdown)
    note = "Note: The ratio is the median of all ratios of a launch of b to a launch of a"
    assert note in text
    assert note in markdown


def test_the_note_of_two_launches_is_about_their_two_medians(snapshot: Snapshot) -> None:
    _, cells = comparison_tables(compare(times("a", 1.0), times("b", 2.0)))

    snapshot(cells.notes[1])


@pytest.mark.parametrize("rate", [False, True], ids=["times", "rates"])
def test_faster_is_drawn_to_the_right(*, rate: bool) -> None:
    """Of a time and of a rate alike."""
    faster = 2.0 if rate else 0.5
    base = times("a", *STEADY, rate=rate)
    # What `times` takes is a time, so that a rate of it is the inverse.
    other = times("b", *(s / 2 for s in STEADY), rate=rate)
    compared = compare(base, other)
    _, cells = comparison_tables(compared)

    assert compared.cells[0].verdict == "faster"
    assert compared.cells[0].ratio == pytest.approx(faster)
    assert compared.cells[0].speedup == pytest.approx(2.0)
    strip = cells.rows[0][5]
    assert strip.index("*") > strip.index("|")
    assert cells.columns[5] == "slower 2.00 x faster"


def test_nothing_that_differs_is_said_without_a_table(snapshot: Snapshot) -> None:
    differs, _ = comparison_tables(compare(times("a", *STEADY), times("b", *STEADY)))

    snapshot(table_text(differs))


@pytest.mark.parametrize(
    ("ratio", "interval", "strip"),
    [
        (None, None, "..........|.........."),
        (1.0, (1.0, 1.0), "..........*.........."),
        (1.25, (1.1, 1.5), "..........|--*---...."),
        (0.25, (0.2, 0.3), "*.........|.........."),
        (8.0, (0.1, 90.0), "--------------------*"),
    ],
)
def test_a_strip_shows_where_an_interval_lies(
    ratio: float | None, interval: tuple[float, float] | None, strip: str
) -> None:
    assert interval_strip(ratio, interval, 1.0) == strip
