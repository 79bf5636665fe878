"""The record of experiments that founding document 002 asks for, filled in from facts."""

import re
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.core.model.results.records import ExpectedResult
from cluster.core.text.units import parse_expected
from cluster.reports.logbook import COLUMNS
from tests.conftest import answer, command
from tests.reports.test_page import saved
from tests.snapshots import Snapshot

LOG = "1 training examples\n" + "".join(
    f"{step}\timages/sec: {rate} +/- 0.1 (jitter = 0.2)\t7.1\n"
    for step, rate in ((10, 188.1), (20, 188.3), (30, 188.5))
)


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


QUESTION = "Is | a pipe slow?"


def rows(*words: str) -> list[dict[str, str]]:
    lines = command("runs", "--markdown", *words).stdout.splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    head, _, *body = cells
    assert head == [column.name for column in COLUMNS]
    return [dict(zip(head, row, strict=True)) for row in body]


def test_a_run_is_recorded_with_what_was_expected(tools: None) -> None:
    command(
        *("bench", "p2p", "lb", "--metrics", "latency", "--sizes", "8", "--iterations"),
        *("30", "--describe", QUESTION, "--expect", "1ns"),
    )
    (row,) = rows()

    assert row["Description"] == QUESTION.replace("|", "&#124;")
    assert row["Workload"].startswith("p2p, iterations 30, metrics latency, sizes 8, ")
    assert row["Cluster"] == "lb (local)"
    assert row["Servers"] == "2: 127.0.0.1"
    assert "cores" in row["Server nodes"]
    assert "GiB" in row["Server nodes"]
    disk = re.fullmatch(r"servers: (\S+) on (\S+); the run: \S+-p2p", row["Storage"])
    assert disk, row["Storage"]
    assert any(f" - {disk[1]} {disk[2]} " in line for line in mounts().splitlines())
    assert row["Expected"] == "1.000 ns"
    assert row["Results"].startswith("latency, 8 B: ")
    assert "Expected 1.000 ns: latency, 8 B: " in row["Summary"]
    assert "is 0." in row["Summary"]
    (run,) = answer("runs")
    assert run["description"] == QUESTION
    assert run["expected"] == {"value": 1e-9, "unit": "s"}


def test_an_imported_log_against_what_was_expected(home: Path, snapshot: Snapshot) -> None:
    (home / "log").write_text(LOG)
    output = command("import", "log", "--describe", "1 node, 1 GPU", "--expect", "220").stdout
    (row,) = rows()

    snapshot(output)
    assert row["Description"] == "1 node, 1 GPU"
    assert row["Expected"] == "220"
    assert "85.6%" in row["Summary"]


def test_a_run_that_failed_says_why_and_one_without_words_is_named_by_its_condition(
    snapshot: Snapshot,
) -> None:
    saved("one", status="failed", reason="A rank died.", condition="links=4")
    (row,) = rows()

    assert row["Description"] == "links=4"
    snapshot(row["Summary"])
    snapshot(row["Storage"])
    assert row["Expected"] == ""
    assert row["Time (GMT)"] == "2001-09-09 01:46:40"
    assert row["Servers"][:2] in ("no", "2:")


def test_a_shorter_time_is_more_than_was_expected(snapshot: Snapshot) -> None:
    saved("one", expected=ExpectedResult(value=2e-6, unit="s"))
    output = command("show", "one").stdout

    snapshot(output)


def test_an_expectation_in_a_unit_that_was_not_measured_is_said(snapshot: Snapshot) -> None:
    saved("one", expected=ExpectedResult(value=220, unit="images/s"))

    snapshot(command("show", "one").stdout)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("220", 220.0, ""),
        ("220 images/s", 220.0, "images/s"),
        ("1.1GB/s", 1.1e9, "B/s"),
        ("64 MiB/s", 64 * 2**20, "B/s"),
        ("10gbit", 1.25e9, "B/s"),
        ("12us", 12e-6, "s"),
    ],
)
def test_what_may_be_expected(text: str, value: float, unit: str) -> None:
    result = parse_expected(text)

    assert result.value == pytest.approx(value)
    assert result.unit == unit


@pytest.mark.parametrize("text", ["", "much", "-3", "0", "1e400", "nan"])
def test_what_cannot_be_expected(text: str, snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        parse_expected(text)


def test_a_wrong_expectation_is_refused_before_anything_is_made(snapshot: Snapshot) -> None:
    message = command("bench", "p2p", "--run-local", "--expect", "much", status=2).stderr

    snapshot(message)
    assert answer("ls") == []


def test_the_library_says_it_too(tools: None) -> None:
    with cluster.launch("lib", provider="local", hosts=2) as c:
        run = c.bench(
            "p2p", metrics="latency", sizes=8, iterations=5, describe=QUESTION, expect="10us"
        )

    assert run.record.description == QUESTION
    assert run.record.expected == ExpectedResult(value=1e-5, unit="s")
