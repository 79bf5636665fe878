"""Verdicts of checks as files: a damaged one is none."""

from pathlib import Path

import pytest

from cluster.runs import store


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"verdict": "FAULTY"', '{"verdict": "X"}'])
def test_a_damaged_verdict_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / store.VERDICT).write_text(text)

    assert store.verdict(tmp_path) is None
