"""`cluster fit`, on a real sweep."""

from __future__ import annotations

import pytest

from tests.conftest import answer, command


@pytest.mark.usefixtures("tools")
def test_a_sweep_of_this_machine() -> None:
    answer("bench", "p2p", "--metrics=latency", "--sizes=8:256KiB", "--iterations=60")
    shown = command("fit", "p2p").stdout
    parsed = answer("fit", "p2p", "--metric", "latency")

    assert shown.startswith("t = alpha + size / beta\n")
    assert "latency" in shown
    [fit] = parsed["fits"]
    assert [piece["points"] for piece in fit["pieces"]]
    assert sum(piece["points"] for piece in fit["pieces"]) == 16
    assert 1e-8 < fit["pieces"][0]["alpha"] < 1e-2
    assert "no sweep to fit" in command("fit", "p2p", "--metric=gossip", status=2).stderr
    assert "| metric |" in command("fit", "p2p", "--format=markdown").stdout
    command("down", "p2p")
