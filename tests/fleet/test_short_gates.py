"""A gate of few hosts and little time, on simulated fleets."""

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


@pytest.mark.parametrize("fabric", ["leafspine:4x8", "leafspine:8x8"])
@pytest.mark.parametrize(("seconds", "parts"), [(20.0, []), (60.0, ["GROUP"])])
def test_no_host_is_blamed_for_a_slow_leaf_that_nobody_named(
    fabric: str, seconds: float, parts: list[str]
) -> None:
    """Suspects are tested with one another before one of them is blamed, however short the time."""
    for seed in range(1, 6):
        gate = Timed(Simulated(fabric, "leaf:1=0.3", seed=seed, grouped=False), seconds)

        assert gate.gate.verdict == ("BAD" if parts else "UNDECIDED")
        assert [f.kind for f in gate.gate.bad] == parts
        assert {host for f in gate.gate.bad for host in f.reason.hosts} <= {*range(8, 16)}


@pytest.mark.parametrize("seed", [9, 32, 51, 59])
def test_flows_of_others_between_groups_are_no_slow_links(seed: int) -> None:
    """They take half of most pairs, also alone; where links are slow, all pairs reach the same."""
    fleet = Simulated(
        "leafspine:8x8", seed=seed, oversubscription=3.0, noise="tails:0.03", background=0.5
    )

    assert Timed(fleet, 60.0).gate.verdict == "PROVEN"
