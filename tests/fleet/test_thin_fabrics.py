"""Fabrics that are slow while all send: what a host reaches is seen in tests alone."""

import pytest

from cluster.core.model.network.fabric import Routing
from tests.fleet.dragonflies import Dragonfly
from tests.fleet.fleets import RATE, Simulated, blame

SHAPES = [(9, 4, 2), (5, 4, 4)]
FAULTS: list[tuple[str, list[tuple[str, ...]]]] = [
    ("", []),
    ("host:7:rx=0.4", [("BAD", "host:7", "rx")]),
    ("host:7:tx=0.4", [("BAD", "host:7", "tx")]),
    ("host:7=0", [("HUNG", "host:7", "both")]),
]


@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "unknown"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("fault", "parts"), FAULTS)
def test_a_dragonfly_is_healthy_and_a_bad_host_of_it_is_named_alone(
    shape: tuple[int, int, int], fault: str, parts: list[tuple[str, ...]], *, grouped: bool
) -> None:
    for seed in (1, 2):
        verdict = Dragonfly(*shape, fault, seed=seed, grouped=grouped, detours=seed > 1).check()

        assert verdict.verdict == ("FAULTY" if fault else "HEALTHY")
        assert blame(verdict) == parts
        assert fault or (verdict.reference or 0.0) > 0.9 * RATE


def test_hosts_that_are_slow_only_while_all_send_are_not_said_to_be_low() -> None:
    """All reach at most half at once, and the sample the whole rate alone: others may, too."""
    verdict = Simulated(
        "leafspine:16x16", oversubscription=3.0, routes="leastloaded", grouped=False, seed=5810
    ).check()

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert (verdict.reference or 0.0) > 0.9 * RATE


@pytest.mark.parametrize(
    ("seed", "routes", "noise", "background"),
    [
        (5560, "ecmp", "loss:0.01", 0.5),
        (5562, "ecmp", "loss:0.03", 0.2),
        (5610, "leastloaded", "tails:0.03", 0.2),
        (7598, "leastloaded", "loss:0.03", 0.2),  # repeats of the same pairs
        (7602, "leastloaded", "both:0.01", 0.5),
    ],
)
def test_no_host_is_blamed_for_the_traffic_of_others_that_most_tests_alone_met(
    seed: int, routes: Routing, noise: str, background: float
) -> None:
    verdict = Simulated(
        seed=seed, routes=routes, noise=noise, background=background, oversubscription=3.0,
        grouped=False,
    ).check()  # fmt: skip

    assert (verdict.verdict, blame(verdict)) == ("UNDECIDED", [])


def test_a_host_that_is_blamed_by_tests_at_once_is_tested_alone_before_other_suspects() -> None:
    """Routes by the target's number put the same traffic beside all tests of a host at once."""
    verdict = Simulated(
        "leafspine:16x16", seed=6849, oversubscription=3.0, routes="dmodk", grouped=False,
        noise="loss:0.03",
    ).check()  # fmt: skip

    assert (verdict.verdict, blame(verdict)) == ("UNDECIDED", [])


@pytest.mark.parametrize(
    ("seed", "routes", "grouped", "noise"),
    [(8609, "leastloaded", False, "tails:0.03"), (9624, "dmodk", True, "tails:0.01")],
)
def test_a_host_that_is_blamed_by_little_is_tested_at_another_time(
    seed: int, routes: Routing, noise: str, *, grouped: bool
) -> None:
    """Losses of a heavy tail fell into two tests of a host that showed what it reaches."""
    verdict = Simulated(
        seed=seed, oversubscription=3.0, routes=routes, grouped=grouped, noise=noise
    ).check()

    assert (verdict.verdict, blame(verdict)) == ("HEALTHY", [])
