"""Run folders that are torn, foreign, older or newer: read as far as they go, or refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.runs import store
from tests.conftest import ROOT, command
from tests.reports.test_page import saved

READERS = (
    ("show", "bad"),
    ("show", "bad", "--json"),
    ("compare", "bad", "good"),
    ("plot", "--fit", "bad"),
    ("more", "scaling", "bad", "good"),
    ("plot", "bad"),
    ("report", "bad"),
)


def torn(folder: Path) -> None:
    """Cut the last line, as a full disk or a crash does."""
    file = folder / store.MEASUREMENTS
    file.write_bytes(file.read_bytes()[:-20])


def garbled(folder: Path) -> None:
    lines = (folder / store.MEASUREMENTS).read_text().splitlines()
    (folder / store.MEASUREMENTS).write_text("\n".join([lines[0], "\x00\x01", *lines[1:]]) + "\n")


def half(folder: Path) -> None:
    text = (folder / store.RECORD).read_text()
    (folder / store.RECORD).write_text(text[: len(text) // 2])


def foreign(folder: Path) -> None:
    """Make it what another tool calls run.json."""
    (folder / store.RECORD).write_text('{"name": "llama", "loss": [3.1, 2.9]}')


def newer(folder: Path) -> None:
    fields = json.loads((folder / store.RECORD).read_text())
    (folder / store.RECORD).write_text(json.dumps({**fields, "version": 99}))


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_run_whose_last_line_is_cut_is_read_without_it(words: tuple[str, ...]) -> None:
    saved("good")
    torn(saved("bad", when=1e9 + 1))
    result = command(*words, status=2 if "scaling" in words else 0)

    assert "Traceback" not in result.stderr
    if words[0] == "show":
        assert "measurements.jsonl" in result.stdout


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (garbled, "Line 2 of"),
        (half, "run.json cannot be read"),
        (foreign, "run.json cannot be read"),
        (newer, "has version 99 of the format; this is 1"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(
    words: tuple[str, ...], damage: Callable[[Path], None], message: str
) -> None:
    saved("good")
    damage(saved("bad", when=1e9 + 1))
    refused = command(*words, status=1).stderr

    assert message in refused
    assert "Traceback" not in refused


def test_a_run_of_an_older_version_is_shown_as_it_was() -> None:
    output = command("show", str(ROOT / "tests" / "plain_run")).stdout

    assert "latency" in output
    assert "(done)" in output
