"""Tests of other tools: a bad host is named, and a healthy one never is, whatever ran at once."""

from collections import Counter
from itertools import combinations

import pytest

from cluster.core.model.network.fleet import Fleet, FleetVerdict, PairTest, Reason
from cluster.fleet.foreign import diagnose_foreign
from cluster.fleet.rounds import SurveyStep, first_rounds, tournament
from cluster.reports.words.fleet import part_name, with_words
from tests.fleet.fleets import Simulated


def judge(
    fabric: str,
    fault: str = "",
    *,
    seed: int = 1,
    rounds: int = 0,
    alone: bool = True,
    oversubscription: float = 1.0,
    directed: bool = False,
) -> FleetVerdict:
    """Judge what another tool would have logged; all pairs, or a few rounds of them."""
    sim = Simulated(fabric, fault, seed=seed, oversubscription=oversubscription)
    hosts = len(sim.fleet.names)
    plan = first_rounds((0,) * hosts, rounds) if rounds else tournament(hosts)
    tests: dict[tuple[int, int], float] = {}
    for number, pairs in enumerate(plan):
        for test in sim.measure(SurveyStep(number, pairs, alone=alone, port=0, purpose="named")):
            ends = test.source, test.target
            key = ends if directed else (min(ends), max(ends))
            tests[key] = min(tests.get(key, 1e99), test.value or 0.0)
    fleet = Fleet(names=sim.fleet.names, groups=(0,) * hosts, directed=directed, foreign=True)
    log = [PairTest(round=0, source=a, target=b, value=value) for (a, b), value in tests.items()]
    return diagnose_foreign(fleet, log)


def bad(verdict: FleetVerdict) -> list[str]:
    return [
        f"{part_name(b.place)} {b.direction}".strip() for b in verdict.blamed if b.kind == "BAD"
    ]


@pytest.mark.parametrize("fabric", ["leafspine:1x8", "leafspine:2x4", "leafspine:4x4"])
@pytest.mark.parametrize("rounds", [0, 5])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("oversubscription", [1.0, 3.0])
def test_no_healthy_host_is_blamed(
    *, fabric: str, rounds: int, alone: bool, oversubscription: float
) -> None:
    verdicts = [
        judge(fabric, seed=s, rounds=rounds, alone=alone, oversubscription=oversubscription)
        for s in range(1, 9)
    ]
    assert [bad(verdict) for verdict in verdicts] == [[]] * 8
    assert not alone or {verdict.verdict for verdict in verdicts} == {"HEALTHY"}


@pytest.mark.parametrize("fabric", ["leafspine:1x8", "leafspine:4x4"])
@pytest.mark.parametrize(
    ("fault", "part"),
    [("host:7=0.6", "host:7 both"), ("host:3:tx=0.8", "host:3 tx"), ("host:7:rx=0.4", "host:7 rx")],
)
def test_a_bad_host_is_named_if_all_pairs_were_tested(fabric: str, fault: str, part: str) -> None:
    assert bad(judge(fabric, fault)) == [part.partition(" ")[0]]
    assert bad(judge(fabric, fault, directed=True)) == [part]


def test_a_few_rounds_are_too_few_to_blame_a_host() -> None:
    verdict = judge("leafspine:4x4", "host:7=0.4", rounds=5)

    assert (verdict.verdict, bad(verdict)) == ("UNDECIDED", [])
    (suspect,) = verdict.suspects
    assert (suspect.place.host, suspect.reason) == (7, Reason(code="chance", low=5))


def test_a_bad_host_in_groups_that_share_links_is_named_beside_them() -> None:
    rates = {True: 23.5e9, False: 14e9}
    tests = [
        PairTest(
            round=0, source=a, target=b, value=rates[a % 2 == b % 2] * (0.4 if 3 in (a, b) else 1)
        )
        for a, b in combinations(range(12), 2)
    ]
    fleet = Fleet(
        names=tuple(f"n{host}" for host in range(12)),
        groups=(0,) * 12,
        directed=False,
        foreign=True,
    )
    verdict = diagnose_foreign(fleet, tests)

    (blamed,), (shared,) = verdict.blamed, verdict.observations
    assert (blamed.place.host, blamed.kind) == (3, "BAD")
    assert (shared.place.kind, shared.kind) == ("fabric", "SHARED")
    assert sorted(Counter(verdict.groups).values()) == [1, 5, 6]


def test_a_group_that_is_slow_to_all_others_is_named_if_groups_are_known() -> None:
    groups = tuple(host // 4 for host in range(16))
    tests = [
        PairTest(
            round=0,
            source=a,
            target=b,
            value=10e9 * (0.4 if a // 4 != b // 4 and 1 in (a // 4, b // 4) else 1),
        )
        for a, b in combinations(range(16), 2)
    ]
    names = tuple(f"n{host}" for host in range(16))
    verdict = diagnose_foreign(
        Fleet(names=names, groups=groups, directed=False, foreign=True), tests
    )

    assert [(part.place.number, part.kind, part.direction) for part in verdict.blamed] == [
        (1, "GROUP", "")
    ]


@pytest.mark.parametrize(
    ("limit", "words"),
    [(12e9, "(83% of the limit)"), (125e6, "(more than 125.0 MB/s, which cannot be their limit)")],
)
def test_a_limit_that_all_pairs_exceed_is_none(limit: float, words: str) -> None:
    tests = [
        PairTest(round=0, source=a, target=b, value=1e10) for a, b in combinations(range(6), 2)
    ]
    fleet = Fleet(names=tuple("abcdef"), groups=(0,) * 6, limit=limit, directed=False, foreign=True)

    assert words in with_words(diagnose_foreign(fleet, tests), fleet, tests).answer
