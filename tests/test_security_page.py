"""The page on security promises only what a test holds."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_every_promise_names_a_test_that_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    files = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    there = {
        name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)
    }

    assert len(named) > 15
    assert named - there == set()
