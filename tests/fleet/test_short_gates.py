"""A gate of few hosts and little time, on simulated fleets."""

from __future__ import annotations

import pytest

from tests.fleet.fleets import Simulated
from tests.fleet.test_gate import Timed


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("seconds", [7.0, 8.0, 10.0, 12.0])
def test_one_of_four_hosts_at_a_tenth_is_bad(seconds: float, seed: int) -> None:
    """Good pairs are tested beside it: only they say how rare such a low test is."""
    small = Simulated("leafspine:1x4", "host:2:both=0.1", seed=seed, grouped=False)
    gate = Timed(small, seconds)

    assert (gate.gate.verdict, [f.place.host for f in gate.gate.bad]) == ("BAD", [2])
    assert gate.spent <= seconds
