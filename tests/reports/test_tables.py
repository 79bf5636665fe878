"""What analysis finds, as tables."""

from __future__ import annotations

import pytest

from cluster.analysis.compare import compare
from cluster.reports.formats.markdown import table_markdown
from cluster.reports.formats.terminal import table_text
from cluster.reports.tables import comparison_tables, interval_strip
from tests.analysis.test_compare import STEADY, side, summary, times


def test_what_differs_comes_first_then_the_verdicts() -> None:
    base = times("before", *STEADY)
    other = side("after", *([summary(2 * s), summary(1.0, size=64)] for s in STEADY), software="2")
    differs, cells = comparison_tables(compare(base, other))

    assert differs.title == "What differs"
    assert differs.rows == (("cluster", "1", "2"),)
    assert cells.title == "after against before: 1 slower, 1 inconclusive"
    assert cells.rows[0][:5] == ("latency", "8 B", "slower", "2.0000", "1.9940 .. 2.0060")
    assert cells.rows[0][6:] == ("1.002 s", "2.004 s", "")
    assert cells.rows[1][6] == "-"
    assert cells.rows[1][-1] == "not measured in before"


def test_the_tables_as_text_and_as_markdown() -> None:
    _, cells = comparison_tables(compare(times("a", *STEADY), times("b", *STEADY)))
    text, markdown = table_text(cells), table_markdown(cells)

    assert text.startswith("b against a: equivalent\n")
    assert "equivalent" in text.splitlines()[4]
    assert markdown.startswith("**b against a: equivalent**\n\n| metric | parameters |")
    assert "Note: The ratio is that of b to a" in text
    assert "Note: The ratio is that of b to a" in markdown


def test_nothing_that_differs_is_said_without_a_table() -> None:
    differs, _ = comparison_tables(compare(times("a", *STEADY), times("b", *STEADY)))

    assert table_text(differs) == "What differs: nothing that was recorded\n"


@pytest.mark.parametrize(
    ("ratio", "interval", "drawn"),
    [
        (None, None, "..........|.........."),
        (1.0, (1.0, 1.0), "..........*.........."),
        (1.25, (1.1, 1.5), "..........|--*---...."),
        (0.25, (0.2, 0.3), "*.........|.........."),
        (8.0, (0.1, 90.0), "--------------------*"),
    ],
)
def test_a_strip_shows_where_an_interval_lies(
    ratio: float | None, interval: tuple[float, float] | None, drawn: str
) -> None:
    assert interval_strip(ratio, interval, 1.0) == drawn
