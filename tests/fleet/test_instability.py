"""Hosts that are good only some of the time: at other times again, and others beside them not."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from cluster.core.model.network.fleet import PairTest, Part
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.findings.instability import REPEATED
from cluster.fleet.gate import decide
from cluster.fleet.rounds import BESIDE, REPEATS, SurveyPlan, SurveyStep, survey
from tests.fleet.fleets import Simulated, blame


@pytest.mark.parametrize(
    ("background", "seed"),
    [(0.2, 2002), (0.2, 2004), (0.5, 2007), (0.5, 50021), (0.5, 50033), (0.2, 50173)],
)
def test_hosts_that_meet_the_traffic_of_others_are_not_unstable(
    background: float, seed: int
) -> None:
    """Each has low tests with several partners, and was taken for unstable by these alone."""
    fleet = Simulated("leafspine:2x4", seed=seed, background=background, grouped=False)

    assert fleet.check().verdict == "HEALTHY"


@pytest.mark.parametrize(
    ("fabric", "host", "share", "grouped", "seed"),
    [
        ("leafspine:2x4", 6, 0.2, False, 70053),
        ("leafspine:4x4", 15, 0.2, True, 70068),
        ("leafspine:4x4", 6, 0.2, False, 70069),
    ],
)
def test_a_host_that_flaps_beside_the_traffic_of_others_is_unstable(
    fabric: str,
    host: int,
    share: float,
    grouped: bool,  # noqa: FBT001 - a parameter of a test
    seed: int,
) -> None:
    fleet = Simulated(fabric, f"flap:{host}={share}", seed=seed, background=0.2, grouped=grouped)

    assert blame(fleet.check()) == [("UNSTABLE", f"host:{host}", "both")]


def test_a_host_that_seems_unstable_is_tested_again_beside_others() -> None:
    """Whom it meets does not depend on what it showed: any host, and at each time others alone."""
    fleet = Simulated("leafspine:2x4", "flap:6=0.2", seed=70053, background=0.2, grouped=False)
    tests = survey(fleet.fleet, SurveyPlan(), fleet.measure)
    repeats = [test for test in tests if test.port >= REPEATED]
    retests = [test for test in repeats if 6 in (test.source, test.target)]

    assert len({test.round for test in repeats}) == REPEATS
    assert len(retests) == 2 * REPEATS
    assert len(repeats) == 2 * REPEATS * (1 + BESIDE)
    assert {test.source for test in retests} == set(range(8))
    assert all(test.alone for test in repeats)


@pytest.mark.parametrize(("hosts", "alone"), [(5, 2), (5, 8), (8, 2), (16, 8)])
def test_a_host_that_sends_by_one_slow_queue_of_two_is_unstable(hosts: int, alone: int) -> None:
    """A flow takes a queue by its ports, so half of what it sends is slow; others share no link."""
    slow = hosts - 2

    class SlowQueue(Simulated):
        def measure(self, step: SurveyStep) -> list[PairTest]:
            chance = np.random.default_rng([self.simulator.seed, step.number, step.port])
            return [
                replace(t, value=0.1 * (t.value or 0.0))
                if t.source == slow and chance.random() < 0.5
                else t
                for t in super().measure(step)
            ]

    fleets = (SlowQueue(f"leafspine:1x{hosts}", seed=seed, grouped=False) for seed in range(10))
    words = Counter(word for fleet in fleets for word in blame(fleet.check(alone=alone)))

    assert words == {("UNSTABLE", f"host:{slow}", "tx"): 10}


@pytest.mark.parametrize("seed", [5, 7, 16, 17, 26, 31, 37])
def test_a_link_that_is_cut_does_not_make_its_hosts_unstable(seed: int) -> None:
    """One test in 50 dips by chance: with those of the cut pair, its hosts are low as no others."""

    class CutPair(Simulated):
        def measure(self, step: SurveyStep) -> list[PairTest]:
            chance = np.random.default_rng([seed, step.number, step.port, 7])
            dips = [
                (chance.random() < 0.02, chance.uniform(0.3, 0.9)) for _ in step.pairs for _ in "ab"
            ]
            return [
                replace(t, value=0.0, reason="timed out")
                if {t.source, t.target} == {2, 7}
                else replace(t, value=(share if dip else 1.0) * (t.value or 0.0))
                for t, (dip, share) in zip(super().measure(step), dips, strict=True)
            ]

    fleet = CutPair("leafspine:4x2", "host:5:rx=0.4", seed=seed, grouped=seed % 2 == 0)

    assert blame(fleet.check()) == [("BAD", "host:5", "rx"), ("LINK", "pair:2-7", "both")]


def test_a_host_alone_of_which_tests_lose_half_is_a_suspect() -> None:
    """Where small noise hides when it is low: no noise takes half from tests alone of one host."""
    fleet = Simulated("leafspine:1x5", grouped=False)
    pairs = ((3, 0), (3, 1), (1, 2), (0, 4))
    tests = [
        replace(test, value=(0.1 if test.source == 3 else 0.96) * (test.value or 0.0))
        if test.alone and test.source in (1, 3)
        else test
        for plan in (SurveyPlan(alone=0), SurveyPlan(pairs=pairs))
        for test in survey(fleet.fleet, plan, fleet.measure)
    ]
    (suspect,) = diagnose(fleet.fleet, tests).suspects

    assert (suspect.place, suspect.direction) == (Part(kind="host", host=3), "tx")


def test_a_host_that_was_not_tested_again_is_undecided() -> None:
    fleet = Simulated("leafspine:2x4", "flap:6=0.2", seed=70001, grouped=False)
    tests = survey(fleet.fleet, SurveyPlan(), fleet.measure)
    whole, once = (
        diagnose(fleet.fleet, subset)
        for subset in (tests, [test for test in tests if test.port < REPEATED])
    )
    gate = decide(once, 8)

    assert blame(whole) == [("UNSTABLE", "host:6", "both")]
    assert (once.verdict, once.reason.code, once.blamed) == ("UNDECIDED", "unexplained", ())
    assert [(s.place, s.direction) for s in once.suspects] == [(Part(kind="host", host=6), "both")]
    assert (gate.verdict, gate.code) == ("UNDECIDED", "unconfirmed")
