"""Verdicts of checks as files: those in words, from before reasons had codes, are still read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cluster.core.model.fleet import Part
from cluster.runs import verdict_files

if TYPE_CHECKING:
    from pathlib import Path

FINDING = {"kind": "BAD", "direction": "rx", "tests": 7, "evidence": "receives at most 6.185 GB/s"}


def in_words(part: str) -> dict[str, object]:
    return {
        "verdict": "FAULTY",
        "rounds": 15,
        "blamed": [{**FINDING, "part": part}],
        "undecided": ["host:3: seen once"],
        "answer": "FAULTY: one part.",
    }


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("host:7", Part(kind="host", host=7)),
        ("nic:7.3", Part(kind="nic", host=7, nic=3)),
        ("pair:3-5", Part(kind="pair", host=3, peer=5)),
        ("link:3-5", Part(kind="link", number=3, upper=5)),
        ("group:2", Part(kind="group", number=2)),
        ("spine:4", Part(kind="spine", number=4)),
        ("fabric", Part(kind="fabric")),
        ("gpu:GPU3", Part(kind="device", device="GPU3")),
    ],
)
def test_a_verdict_in_words_is_read_with_its_parts(tmp_path: Path, name: str, part: Part) -> None:
    (tmp_path / verdict_files.VERDICT).write_text(json.dumps(in_words(name)))
    read = verdict_files.verdict(tmp_path)

    assert read is not None
    assert (read.verdict, read.answer, read.rounds) == ("FAULTY", "FAULTY: one part.", 15)
    assert read.undecided == ("host:3: seen once",)
    assert read.blamed[0].place == part
    assert read.blamed[0].evidence == FINDING["evidence"]
    assert read.blamed[0].reason.code == read.reason.code == "recorded"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"verdict": "FAULTY"', '{"verdict": "X"}'])
def test_a_damaged_verdict_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / verdict_files.VERDICT).write_text(text)

    assert verdict_files.verdict(tmp_path) is None
