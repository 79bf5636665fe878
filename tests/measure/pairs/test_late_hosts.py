"""Hosts whose agents are ready late: tests wait for them, and for none that is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.measure.pairs.coordinator import HostLinks
from tests.conftest import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

HURRY = 0.1  # seconds in which no agent is ready
PAIRS = [(0, 1)]


def test_a_host_that_is_ready_late_takes_part_from_then_on(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    late = ("sh", "-c", f'while [ ! -e {begun} ]; do sleep 0.05; done; exec "$@"', "late")
    with HostLinks(["127.0.0.1"] * 2, "", [(), late], HURRY) as links:
        assert 1 in links.late
        assert links.ready_pairs(PAIRS, 2 * HURRY) == []

        begun.touch()

        assert links.ready_pairs(PAIRS, PATIENCE) == PAIRS
        assert (links.late, links.lost) == (set(), {})


def test_a_host_that_ended_is_not_waited_for() -> None:
    with HostLinks(["127.0.0.1"] * 2, "", [(), ("false",)], HURRY) as links:
        assert links.ready_pairs(PAIRS, 1000 * PATIENCE) == []
        assert list(links.lost) == [1]
