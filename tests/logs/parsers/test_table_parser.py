"""Parsers that are declarations: what each kind of line and each name of a group does."""

from collections.abc import Mapping

import pytest

from cluster.core.model.logs import Parsed
from cluster.logs.parsers import MICRO, SizeColumn, TableParser, define, size_of

DEFINITIONS = TIME, RATE = define(
    "copies",
    """
    time (s): one copy; printed in us
    rate (B/s): bytes over the time
    """,
    clock="that of the host",
    synchronisation="none",
    warm_up="none",
)


class Copies(TableParser):
    """Copies of a made-up program."""

    marks = ("copies",)
    definitions = DEFINITIONS
    title = "copies"
    start = r"copies v(?P<_version>\S+) of (?P<_ranks>\d+) ranks"
    header = r"from (?P<source>\w+)$"
    rows = r"""
        (?P<size>\d+[kM]?): (?P<time>\S+) us(?: at (?P<rate>\S+) B/s)?
            (?: of (?P<burst>\d+))?(?: on (?P<_rank>\d+))?$
        total (?P<rate>\S+)$
    """
    counts = ("burst",)
    columns = (SizeColumn(TIME, over=MICRO),)
    failure = "lost (.*)"
    remarks = "bye"
    end = "---"

    def agrees(self, size: int, row: Mapping[str, str]) -> bool:
        return "time" not in row or float(row["time"]) < size


class Rows(Copies):
    """The same, whose rows stand alone."""

    needs_start = False


START = "copies v1.2 of 4 ranks"


def read(
    *lines: str, kind: type[TableParser] = Copies
) -> tuple[tuple[Parsed, ...], tuple[bool, ...]]:
    """Return what is read of lines, and which of them were understood."""
    parser = kind()
    answers = tuple(parser.take(line, lineno) for lineno, line in enumerate(lines, 1))
    return parser.results(), answers


def test_groups_are_figures_parameters_and_facts() -> None:
    [result], answers = read(START, "from gpu", "1k: 25.5 us at 4e7 B/s of 8 on 3", "total 5e7")

    assert all(answers)
    assert (result.title, result.ranks) == ("copies 1.2", 4)
    assert [(m.metric, m.params, m.rank, m.bytes, m.values) for m in result.measurements] == [
        ("time", {"source": "gpu", "size": 1024, "burst": 8}, 3, 1024, (25.5e-6,)),
        ("rate", {"source": "gpu", "size": 1024, "burst": 8}, 3, 1024, (4e7,)),
        ("rate", {"source": "gpu"}, 0, 0, (5e7,)),
    ]


def test_a_count_of_zero_is_no_parameter() -> None:
    [result], _ = read(START, "64: 2 us of 0")

    assert [m.params for m in result.measurements] == [{"size": 64}]


def test_a_start_forgets_what_was_above() -> None:
    results, _ = read("from gpu", "64: 2 us", START, "64: 2 us")

    assert [m.params for r in results for m in r.measurements] == [
        {"source": "gpu", "size": 64},
        {"size": 64},
    ]


def test_lines_belong_to_an_open_run() -> None:
    assert read("64: 2 us", "bye", "lost 64")[1] == (False, False, False)
    assert read("64: 2 us", "bye", kind=Rows)[1] == (True, True)
    assert read(START, "bye", "---", "bye", "64: 2 us")[1] == (True, True, True, False, False)


def test_rows_that_do_not_agree_are_not_understood() -> None:
    assert read("64: 99 us", "64: . us", kind=Rows) == ((), (False, False))


def test_a_failed_line_fails_the_run() -> None:
    [result], _ = read(START, "64: 2 us", "lost 64")

    assert result.failures == ("64",)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64", 64), ("1.5k", 1536), ("1.5 KiB", 1536), ("2GiB", 2**31), ("2 MB", 2_000_000)],
)
def test_a_size_has_powers_of_1024_except_with_a_b(text: str, size: int) -> None:
    assert size_of(text) == size
