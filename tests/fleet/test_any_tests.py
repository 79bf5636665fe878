"""The solver ends, without an exception and with finite values, for any tests."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.core.model.network.fleet import Fleet, PairTest
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.foreign import diagnose_foreign
from cluster.fleet.pair_table import believable
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.fleet.simulation import max_min_rates
from cluster.fleet.solver import at_least
from cluster.reports.words.fleet import with_words
from tests.conftest import tries

MOST_HOSTS = 12
ODD = (None, 0.0, 5e-324, 1e-310, 1.7e308, math.nan, math.inf, -1.0, 0.25, 0.5, 0.73, 0.99, 1.0)
VALUES = st.one_of(st.sampled_from(ODD), st.floats(0, 1))


def grouped(hosts: int, size: int) -> Fleet:
    groups = tuple(host // size for host in range(hosts))
    return Fleet(names=tuple(map(str, range(hosts))), groups=groups)


def pair(number: int, source: int, target: int, value: float, *, alone: bool = False) -> PairTest:
    return PairTest(round=number, source=source, target=target, value=value, alone=alone)


@st.composite
def fleets_with_tests(draw: st.DrawFn) -> tuple[Fleet, list[PairTest]]:
    hosts = draw(st.integers(2, MOST_HOSTS))
    foreign = draw(st.booleans())
    fleet = Fleet(
        names=tuple(map(str, range(hosts))),
        groups=tuple(draw(st.lists(st.integers(0, 3), min_size=hosts, max_size=hosts))),
        nics=1 if foreign else draw(st.integers(1, 2)),
        limit=draw(st.sampled_from((None, 1.0))),
        metric=draw(st.sampled_from(("bandwidth", "latency", "allreduce"))),
        directed=draw(st.booleans()),
        foreign=foreign,
    )
    end = st.integers(0, hosts - 1)
    tests = st.builds(
        PairTest,
        round=st.integers(0, 8),
        source=end,
        target=end,
        value=VALUES,
        reason=st.sampled_from(("", "refused")),
        lost=st.sampled_from((-1, -1, 1)),
        alone=st.booleans(),
        nic=st.integers(0, fleet.nics - 1),
        source_busy=st.sampled_from((0.0, 0.9)),
        target_busy=st.sampled_from((0.0, 0.9)),
    )
    return fleet, draw(st.lists(tests, max_size=60))


@settings(max_examples=tries(200), deadline=None)
@given(fleets_with_tests())
def test_any_tests_give_a_verdict_of_finite_values(case: tuple[Fleet, list[PairTest]]) -> None:
    fleet, tests = case
    result = (diagnose_foreign if fleet.foreign else diagnose)(fleet, tests)
    verdict = with_words(result, fleet, tests)

    values = [verdict.reference, *(finding.capacity for finding in verdict.findings)]
    assert all(value is None or math.isfinite(value) for value in values)
    assert "inf" not in verdict.answer.split()
    assert verdict.verdict != "FAULTY" or verdict.blamed
    assert verdict.verdict not in ("HEALTHY", "LOW") or not verdict.blamed


@pytest.mark.parametrize(
    ("fleet", "tests"),
    [
        (
            grouped(16, 4),
            [pair(10, 15, 13, 1.0), pair(14, 8, 3, 0.73), pair(15, 15, 3, 0.5, alone=True)],
        ),
        (
            grouped(64, 8),
            [
                pair(0, 31, 24, 0.0816),
                pair(9, 38, 31, 0.0472),
                pair(9, 0, 57, 0.6737),
                pair(10, 32, 24, 0.2071, alone=True),
                pair(10, 0, 56, 0.9523, alone=True),
                pair(10, 49, 9, 0.9479, alone=True),
            ],
        ),
    ],
)
def test_a_low_test_that_speaks_against_neither_end_does_not_stop_the_solver(
    fleet: Fleet, tests: list[PairTest]
) -> None:
    verdict = diagnose(fleet, tests)

    assert verdict.verdict == "UNDECIDED"
    assert len(verdict.suspects) == verdict.reason.low
    assert {observation.kind for observation in verdict.observations} == {"UNTESTED"}


def uneven(seed: int) -> tuple[Fleet, list[PairTest]]:
    """Check hosts with several generations of NICs, whose leaves share few uplinks unevenly."""
    chance = np.random.default_rng(seed)
    size, leaves, uplinks = (int(chance.choice(sizes)) for sizes in ((4, 8), (2, 4, 8), (1, 2, 4)))
    hosts = size * leaves
    nics = chance.choice([1.0, 0.5, 0.25][: chance.integers(1, 4)], hosts)
    nics[chance.choice(hosts, chance.integers(0, hosts // 3), replace=False)] *= 0.3
    shares = np.full(2 * leaves * uplinks, size / uplinks / chance.choice([1.0, 1.5, 4.0]))
    capacities = np.concatenate([nics, nics, shares]) * 12.5e9

    def path(source: int, target: int) -> list[int]:
        up, down = (hosts * 2 + (end // size) * uplinks for end in (source, target))
        if up == down:
            return [source, hosts + target, -1, -1]
        ways = chance.integers(uplinks, size=2)
        return [source, hosts + target, up + ways[0], leaves * uplinks + down + ways[1]]

    def measure(step: SurveyStep) -> list[PairTest]:
        flows = [way for a, b in step.pairs for way in ((int(a), int(b)), (int(b), int(a)))]
        paths = np.array([path(*flow) for flow in flows])
        at_once = [paths[n : n + 1] for n in range(len(paths))] if step.alone else [paths]
        rates = np.concatenate([max_min_rates(batch, capacities) for batch in at_once])
        rates *= 1 - np.abs(chance.normal(0, 0.01, len(rates)))
        return [
            pair(step.number, *flow, float(rate), alone=step.alone)
            for flow, rate in zip(flows, rates, strict=True)
        ]

    fleet = grouped(hosts, size)
    return fleet, survey(fleet, SurveyPlan(rounds=10, alone=8), measure, None)


@pytest.mark.parametrize("seed", range(tries(40)))
def test_fleets_of_several_generations_with_uneven_links_get_a_verdict(seed: int) -> None:
    fleet, tests = uneven(seed)
    verdict = diagnose(fleet, tests)

    assert verdict.rounds
    assert all(part.tests for part in verdict.blamed if part.kind in ("BAD", "UNSTABLE", "GROUP"))


def test_the_chance_of_more_than_a_thousand_low_partners_is_a_number() -> None:
    assert at_least(600, 1100, 0.5) == pytest.approx(0.00142, rel=0.1)
    assert at_least(0, 3, 0.25) == pytest.approx(1.0)


def test_hosts_that_were_all_short_of_processor_time_have_no_reference() -> None:
    tests = [
        PairTest(round=0, source=0, target=0),
        PairTest(round=0, source=0, target=0, value=0.0, alone=True),
        PairTest(round=0, source=0, target=0, value=5e-324, alone=True, target_busy=0.9),
        PairTest(round=0, source=0, target=1, value=1.7e308, target_busy=0.9),
    ]
    fleet = Fleet(names=("0", "1"), groups=(0, 0), directed=False)
    assert diagnose(fleet, tests).reference is None


@pytest.mark.parametrize(("reason", "busy", "count"), [("", 0.98, 0), ("", 0.1, 1), ("e", 0.98, 1)])
def test_that_nothing_arrived_at_a_busy_processor_says_nothing_of_the_link(
    reason: str, busy: float, count: int
) -> None:
    test = pair(0, 0, 1, 0.0)
    (result,) = believable([replace(test, reason=reason, target_busy=busy)])

    assert (result.value is not None) == count
