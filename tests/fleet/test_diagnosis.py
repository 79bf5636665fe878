"""Each fault that can be planted is named, and a healthy fleet is left in peace."""

from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.core.model.network.fabric import Routing
from cluster.core.model.network.fleet import SILENT, Fleet, PairTest, Part, Reason
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.findings.groups import student_tail
from cluster.fleet.gate import decide
from cluster.fleet.rounds import SurveyPlan, SurveyStep, first_rounds, survey
from tests.fleet.fleets import Simulated, Uncertain, blame

FAULTS = Path(__file__).with_name("faults.txt").read_text().splitlines()


@pytest.mark.parametrize("line", [line for line in FAULTS if not line.startswith("#")])
def test_a_planted_fault_is_named_by_its_kind(line: str) -> None:
    """Each line: the fabric, its options, the fault, and what is blamed."""
    planted, _, blamed = line.partition(" -> ")
    fabric, *options, fault = planted.split()
    how = dict(word.split("=") for word in options if "=" in word)
    shared = float(how.get("oversubscription", 1))
    verdict = Simulated(fabric, fault, seed=int(how.get("seed", 1)), oversubscription=shared).check(
        known_routes="routes" in options
    )

    assert sorted(map(" ".join, blame(verdict))) == sorted(blamed.split(", "))


@pytest.mark.parametrize(
    ("fabric", "fault", "grouped"),
    [
        ("leafspine:2x8", "leaf:1=0", True),
        ("leafspine:2x8", "leaf:1=0", False),
        ("leafspine:3x6", "leaf:1=0", False),
        ("leafspine:4x8", "spine:1=0", False),
    ],
)
def test_flows_by_which_nothing_ever_arrives_are_no_pass(
    fabric: str,
    fault: str,
    grouped: bool,  # noqa: FBT001 - a parameter of a test
) -> None:
    """Whichever part is dead: each host is good with others, and is not blamed."""
    fleet = Simulated(fabric, fault, grouped=grouped)
    verdict = fleet.check()
    (suspect,) = verdict.suspects

    assert (verdict.verdict, verdict.reason.code) == ("UNDECIDED", "silent_flows")
    assert suspect.reason == verdict.reason
    assert 0 < verdict.reason.low < verdict.reason.of
    assert decide(verdict, len(fleet.fleet.names)).verdict == "UNDECIDED"


def test_a_flow_that_was_silent_once_is_a_suspicion_and_twice_a_bad_link() -> None:
    fleet = Simulated("leafspine:2x8")
    tests = survey(fleet.fleet, SurveyPlan(), fleet.measure)
    failed = PairTest(round=99, source=1, target=9, port=77, value=0.0, reason=SILENT, alone=True)
    once = diagnose(fleet.fleet, [*tests, failed])
    twice = diagnose(fleet.fleet, [*tests, failed, replace(failed, round=100)])

    assert [(s.place.host, s.place.peer) for s in once.suspects] == [(1, 9)]
    assert (once.verdict, once.reason.code) == ("UNDECIDED", "unexplained")
    assert decide(once, 16).code == "unconfirmed"
    assert blame(twice) == [("LINK", "pair:1-9", "tx")]


def test_a_pair_that_carries_next_to_nothing_alone_is_no_pass() -> None:
    """Each pair was tested once: its hosts are good with others, and nothing was repeated."""
    fleet = Simulated("leafspine:1x5", grouped=False)
    pairs = tuple(combinations(range(5), 2))
    tests = survey(fleet.fleet, SurveyPlan(pairs=pairs), fleet.measure)
    slow = [
        replace(test, value=0.005 * (test.value or 0.0))
        if {test.source, test.target} == {2, 3}
        else test
        for test in tests
    ]
    verdict = diagnose(fleet.fleet, slow)
    (suspect,) = verdict.suspects

    assert diagnose(fleet.fleet, tests).verdict == "HEALTHY"
    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert (suspect.place.host, suspect.place.peer, suspect.direction) == (2, 3, "both")


@pytest.mark.parametrize(("factor", "answer"), [(1.5, "HEALTHY"), (20.0, "UNDECIDED")])
def test_a_pair_with_a_somewhat_higher_latency_once_is_a_pass(factor: float, answer: str) -> None:
    """Seconds are no rates: what is a tenth of the usual is a latency ten times as high."""
    fleet = replace(Simulated("leafspine:1x6", grouped=False).fleet, metric="latency")
    tests = [
        PairTest(round=0, source=a, target=b, alone=True,
                 value=2e-5 * (1 + (a + b) / 1000) * (factor if {a, b} == {2, 3} else 1))
        for a, b in permutations(range(6), 2)
    ]  # fmt: skip
    assert diagnose(fleet, tests).verdict == answer


def test_groups_that_reach_one_another_slowly_also_alone_are_low() -> None:
    """Of two groups, neither can be blamed; uplinks that are few do not slow a pair alone."""
    slow, few = (
        Simulated("leafspine:2x8", "leaf:1=0.3"),
        Simulated("leafspine:2x8", oversubscription=3),
    )
    verdict, gate = slow.check(), decide(slow.check(), 16)

    assert (verdict.verdict, verdict.reason.code) == ("LOW", "slow_alone")
    assert verdict.reason.share == pytest.approx(0.3, rel=0.05)
    assert (gate.verdict, gate.code) == ("BAD", "slow_alone")
    assert decide(few.check(), 16).verdict == "PROVEN"


@pytest.mark.parametrize("seed", [2, 4, 5, 7])
def test_two_hosts_with_one_address_are_named_and_no_link(seed: int) -> None:
    """What fails is explained by its ends, although all of it may have passed one link."""
    verdict = Simulated(fault="duplicate:7", seed=seed).check(known_routes=True)

    assert {b.place for b in verdict.blamed} == {Part(kind="host", host=n) for n in (7, 8)}
    assert all("another host has the same address" in b.reason.message for b in verdict.blamed[:2])


@pytest.mark.parametrize("seed", [2, 7, 8])
def test_one_slow_path_of_several_is_a_link_where_routes_are_not_known(seed: int) -> None:
    """A pair that is low alone by some ports, and good by others: its hosts are not blamed."""
    verdict = Simulated(fault="spine:1=0.4", seed=seed).check()
    links = verdict.blamed

    assert {b.kind for b in links} == {"LINK"}
    assert {b.place.kind for b in links} == {"pair"}
    assert links[0].reason.low < links[0].reason.of  # it is good in the rest


@pytest.mark.parametrize(
    ("fabric", "routes", "seed"), [("leafspine:8x8", "dmodk", 2), ("fattree:8", "ecmp", 83)]
)
def test_the_tail_of_the_noise_is_no_unstable_host(fabric: str, routes: Routing, seed: int) -> None:
    """Two tests of a host are just below the line."""
    assert Simulated(fabric, seed=seed, routes=routes).check(known_routes=True).verdict == "HEALTHY"


def test_the_answer_says_what_kind_of_fault_it_is() -> None:
    verdict = Simulated(fault="host:7:rx=0.4,host:9=0").check()

    assert blame(verdict) == [("HUNG", "host:9", "both"), ("BAD", "host:7", "rx")]
    assert [b.reason.code for b in verdict.blamed] == ["silent", "slow"]
    assert verdict.blamed[1].reason.share == pytest.approx(0.4, rel=0.02)


def test_a_host_that_starves_has_a_high_latency() -> None:
    verdict = Simulated(fault="cpu:4=0.5", metric="latency").check()

    assert blame(verdict) == [("BAD", "host:4", "both")]
    assert verdict.reference == pytest.approx(2.1e-6, rel=0.1)


def test_a_thin_fabric_is_a_finding_of_its_own_and_no_host_is_blamed() -> None:
    verdict = Simulated(oversubscription=4, routes="leastloaded").check()
    (shared,) = verdict.observations

    assert verdict.verdict == "HEALTHY"
    assert (shared.kind, shared.place.kind) == ("SHARED", "fabric")
    assert shared.reason.best == pytest.approx(0.25, abs=0.01)


def test_a_uniformly_slow_fleet_is_low_and_not_healthy() -> None:
    verdict = Simulated(limit=25e9).check()

    assert verdict.verdict == "LOW"
    assert verdict.reason.code == "below_limit"


def test_all_hosts_bad_is_low() -> None:
    fault = ",".join(f"host:{host}=0.5" for host in range(16))

    assert Simulated("leafspine:4x4", fault).check().verdict == "LOW"


def test_two_hosts_are_too_few_to_tell_the_ends_apart() -> None:
    verdict = Simulated("leafspine:1x2", "host:1:rx=0.4").check()

    assert verdict.verdict == "UNDECIDED"
    (suspect,) = verdict.suspects
    assert (suspect.place.host, suspect.direction) == (0, "tx")
    assert suspect.twins == ((Part(kind="host", host=1), "rx"),)


def test_unknown_groups_need_more_rounds_and_the_answer_says_so() -> None:
    verdict = Simulated("leafspine:32x8", grouped=False).check(alone=0)

    assert [b for b in verdict.blamed if b.kind in ("BAD", "HUNG")] == []


def test_routes_that_collide_in_each_round_are_shared_and_no_host_is_blamed() -> None:
    """By the target's number: the last host of a tournament meets the same traffic every time."""
    verdict = Simulated(routes="dmodk", grouped=False).check()
    (shared,) = verdict.observations

    assert verdict.verdict == "HEALTHY"
    assert (shared.kind, shared.place.kind) == ("SHARED", "routes")
    assert shared.reason.hosts == (63,)


@pytest.mark.parametrize(
    ("fault", "kind", "slow"),
    [("host:7:rx=0.4", "BAD", (7,)), ("leaf:3=0.7", "GROUP", tuple(range(48, 64)))],
)
def test_hosts_are_blamed_in_a_thin_fabric_if_others_reach_more_alone(
    fault: str, kind: str, slow: tuple[int, ...]
) -> None:
    """Alone, hosts behind a slow leaf switch reach 70%: more than anybody at once, 50%."""
    verdict = Simulated(
        "leafspine:16x16", fault, oversubscription=2, routes="dmodk", grouped=False
    ).check()
    (finding,) = verdict.blamed

    assert (finding.kind, finding.reason.hosts or (finding.place.host,)) == (kind, slow)


NOISES = ("both:0.03", "tails:0.03")
SLOW_RACK = ",".join(f"host:{host}=0.25" for host in range(24, 32))


@pytest.mark.parametrize("oversubscription", [1.0, 3.0])
@pytest.mark.parametrize(
    ("fault", "grouped", "code"),
    [
        ("leaf:3=0.5", False, "good_among_themselves"),
        ("leaf:3=0.5", True, "slow_group"),
        ("uplinks:3=0.5", True, "slow_group_at_once"),
        (SLOW_RACK, True, "slow_everywhere"),
    ],
)
def test_hosts_with_one_cause_are_one_finding(
    fault: str,
    grouped: bool,  # noqa: FBT001 - a column of the table
    code: str,
    oversubscription: float,
) -> None:
    verdict = Simulated(fault=fault, grouped=grouped, oversubscription=oversubscription).check()
    (finding,) = verdict.blamed

    assert (finding.kind, finding.reason.code, finding.direction) == ("GROUP", code, "both")
    assert finding.reason.hosts in ((), tuple(range(24, 32)))


def test_slow_hosts_of_one_kind_are_bad_if_they_are_slow_among_themselves() -> None:
    """Without groups, nothing says that they are of one kind."""
    verdict = Simulated(fault=SLOW_RACK, grouped=False).check()

    assert {(b.kind, b.place.host) for b in verdict.blamed} == {("BAD", h) for h in range(24, 32)}


@pytest.mark.parametrize(
    "disturbance",
    [
        *({"noise": noise, "grouped": grouped} for noise in NOISES for grouped in (True, False)),
        *({"background": 0.5, "grouped": grouped} for grouped in (True, False)),
        {"noise": "both:0.03", "background": 0.5, "oversubscription": 3.0},
    ],
)
def test_noise_and_the_traffic_of_others_are_no_fault(disturbance: dict[str, Any]) -> None:
    for seed in (1, 2, 3):
        assert Simulated(seed=seed, **disturbance).check().blamed == ()


@pytest.mark.parametrize("routes", ["ecmp", "leastloaded"])
def test_slow_hosts_do_not_hide_one_another_beside_much_traffic(routes: Routing) -> None:
    verdict = Simulated(
        "leafspine:4x4",
        "host:1=0.5,host:2=0.5,host:3=0.5",
        grouped=False,
        routes=routes,
        noise="tails:0.03",
        background=0.5,
    ).check()

    assert {(b.kind, b.place.host) for b in verdict.blamed} == {("BAD", h) for h in (1, 2, 3)}


def test_a_group_that_chance_makes_slow_is_undecided() -> None:
    """By traffic of others, one leaf of 63 fleets receives 5.7 standard errors less."""
    verdict = Simulated(seed=1058, background=0.5).check()

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert {(s.place.kind, s.place.number, s.direction) for s in verdict.suspects} == {
        ("group", 0, "rx")
    }


@pytest.mark.parametrize(
    ("value", "freedom", "chance"),
    [(3.499, 7, 0.005), (9.925, 2, 0.005), (63.657, 1, 0.005), (4.144, 10, 0.001), (0.0, 7, 0.5)],
)
def test_the_tail_of_student_is_that_of_the_tables(
    value: float, freedom: int, chance: float
) -> None:
    assert student_tail(value, freedom) == pytest.approx(chance, rel=1e-3)
    assert student_tail(-value, freedom) == pytest.approx(1 - chance, rel=1e-3)


def test_a_group_that_is_slow_in_one_round_is_undecided() -> None:
    verdict = Simulated("leafspine:8x8", "uplinks:1=0.5", oversubscription=4.0).check(rounds=4)

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert ("group", 1, tuple(range(8, 16))) in {
        (s.place.kind, s.place.number, s.reason.hosts) for s in verdict.suspects
    }


@pytest.mark.parametrize(
    ("fabric", "unlucky"),
    [
        ("2x4", {"seed": 8067, "noise": "tails:0.01", "background": 0.2, "grouped": False}),
        ("4x4", {"seed": 11228, "noise": "tails:0.01"}),
        ("4x4", {"seed": 205220, "noise": "loss:0.03", "background": 0.2}),
        (
            "8x8",
            {
                "seed": 10611,
                "noise": "tails:0.03",
                "background": 0.5,
                "grouped": False,
                "oversubscription": 3.0,
            },
        ),
    ],
    ids=["pair", "group", "host again", "host beside others"],
)
def test_nobody_is_blamed_for_one_unlucky_fleet_of_a_thousand(
    fabric: str, unlucky: dict[str, Any]
) -> None:
    routes: Routing = "ecmp" if fabric == "4x4" else "leastloaded"
    assert Simulated(f"leafspine:{fabric}", routes=routes, **unlucky).check().blamed == ()


FLEET = Fleet(names=("a", "b", "c", "d"), groups=(0, 0, 0, 0))


def test_no_test_at_all() -> None:
    verdict = diagnose(FLEET, ())

    assert verdict.verdict == "UNDECIDED"
    assert [b.kind for b in verdict.observations] == ["UNTESTED"] * 4
    assert verdict.blamed == ()


def test_all_pairs_failed() -> None:
    refused = "connection refused"
    tests = [
        PairTest(round=0, source=a, target=b, value=0.0, reason=refused)
        for a, b in permutations(range(4), 2)
    ]
    verdict = diagnose(FLEET, tests)

    assert verdict.verdict == "UNDECIDED"
    assert verdict.reason == Reason(code="no_values", message=refused)
    assert verdict.failed == 12


@pytest.mark.parametrize(("answers", "blamed"), [(2, 2), (1, 0), (0, 0)])
def test_where_most_hosts_do_not_answer_none_of_them_is_blamed(answers: int, blamed: int) -> None:
    tests = [
        PairTest(round=0, source=a, target=b, value=None, lost=lost, reason="it does not answer")
        for a, b in permutations(range(4), 2)
        for lost in [next((host for host in (a, b) if host >= answers), -1)]
    ]
    verdict = diagnose(FLEET, tests)

    assert verdict.verdict == "UNDECIDED"
    assert len(verdict.blamed) == blamed
    assert [f.kind for f in (*verdict.blamed, *verdict.observations)].count("HUNG") == 4 - answers


def test_a_host_that_could_not_be_tried_is_untested_with_its_reason() -> None:
    off = "d is off"
    tests = [
        PairTest(round=r, source=a, target=b, value=None if 3 in (a, b) else 1e9, reason=off)
        for r in range(3)
        for a, b in permutations(range(4), 2)
    ]
    verdict = diagnose(FLEET, tests)

    (untested,) = verdict.observations
    assert (untested.place.host, untested.kind) == (3, "UNTESTED")
    assert untested.reason == Reason(code="untried", message=off)
    assert verdict.verdict == "UNDECIDED"


def test_a_filter_between_two_good_hosts_is_a_link() -> None:
    """A cut pair: everybody else reaches both."""
    tests = [
        PairTest(
            round=r, source=a, target=b, value=0.0 if {a, b} == {1, 2} else 1e9, reason="no answer"
        )
        for r in range(4)
        for a, b in permutations(range(6), 2)
    ]
    verdict = diagnose(Fleet(names=tuple("abcdef"), groups=(0,) * 6), tests)

    assert blame(verdict) == [("LINK", "pair:1-2", "both")]


def test_the_same_seed_gives_the_same_verdict() -> None:
    """B6"""
    first, again = (Simulated(fault="flap:6=0.3", seed=9).check() for _ in range(2))

    assert first == again
    assert first != Simulated(fault="flap:6=0.3", seed=10).check()


def test_a_pair_that_was_repeated_counts_once_and_is_a_link() -> None:
    """Nothing arrives between 1 and 2, by any port; one other test of host 1 was low by chance."""
    tests = [
        PairTest(
            round=r,
            source=a,
            target=b,
            value=0.0 if {a, b} == {1, 2} else 5e8 if (r, a, b) == (0, 1, 5) else 1e9,
            reason="no answer",
        )
        for r in range(2)
        for a, b in permutations(range(12), 2)
    ]
    again = [
        PairTest(round=2 + n, source=a, target=b, value=0.0, reason="no answer", alone=True, port=n)
        for n in range(5)
        for a, b in ((1, 2), (2, 1))
    ]
    verdict = diagnose(Fleet(names=tuple("abcdefghijkl"), groups=(0,) * 12), [*tests, *again])

    assert blame(verdict) == [("LINK", "pair:1-2", "both")]


@pytest.mark.parametrize("low", [1, 2, 3])
def test_a_low_test_of_many_alone_is_chance_and_two_more_of_its_pair_are_a_link(low: int) -> None:
    """Any of the 66 pairs could have had it."""
    tests = [
        PairTest(
            round=r,
            source=a,
            target=b,
            value=5e8 if (a, b) == (1, 2) and r < low else 1e9,
            alone=True,
        )
        for r in range(low)
        for a, b in permutations(range(12), 2)
    ]
    verdict = diagnose(Fleet(names=tuple("abcdefghijkl"), groups=(0,) * 12), tests)

    assert blame(verdict) == ([("LINK", "pair:1-2", "tx")] if low > 2 else [])


@pytest.mark.parametrize(
    ("hosts", "leaves", "share", "seed"),
    [(8, 1, 0.2, 25), (8, 1, 0.5, 2), (8, 2, 0.2, 14), (8, 2, 0.3, 17)],
)
def test_a_host_that_is_low_at_random_has_no_bad_link(
    hosts: int, leaves: int, share: float, seed: int
) -> None:
    """Its low tests with one other, by several ports, are no more than those with all others."""
    fleet = Uncertain(hosts, leaves, share, seed)

    assert {part for _, part, _ in blame(fleet.check())} <= {f"host:{fleet.host}"}


@pytest.mark.parametrize(
    "fleet",
    [
        Simulated("leafspine:2x4", seed=1001, background=0.5, oversubscription=3.0, grouped=False),
        Simulated("leafspine:4x4", seed=1002, background=0.5),
        Simulated("leafspine:2x4", seed=1006, background=0.2, oversubscription=3.0, grouped=False),
    ],
)
def test_traffic_of_others_is_no_bad_link(fleet: Simulated) -> None:
    """A pair alone is low as often as the flows of others meet it, and so are all others."""
    assert [kind for kind, _, _ in blame(fleet.check()) if kind == "LINK"] == []


@pytest.mark.parametrize("pair", [(1, 2), (1, 5)])  # of one leaf switch, and of two
@pytest.mark.parametrize("ways", [1, 2])
def test_a_slow_pair_is_a_link_in_its_direction(pair: tuple[int, int], ways: int) -> None:
    fleet, measure = Simulated("leafspine:2x4"), Simulated("leafspine:2x4").measure
    slow = (pair, pair[::-1])[:ways]

    def measured(step: SurveyStep) -> list[PairTest]:
        return [
            replace(test, value=(test.value or 0.0) / 2)
            if (test.source, test.target) in slow
            else test
            for test in measure(step)
        ]

    verdict = diagnose(fleet.fleet, survey(fleet.fleet, SurveyPlan(), measured))

    assert blame(verdict) == [("LINK", f"pair:{pair[0]}-{pair[1]}", "both" if ways == 2 else "tx")]


def starve(host: int, share: float, busy: float) -> list[PairTest]:
    """Test 16 hosts in two groups, of which one reaches a share of what others do."""
    tests = []
    for number, pairs in enumerate(first_rounds([n // 8 for n in range(16)], 10)):
        for a, b in (*pairs.tolist(), *pairs[:, ::-1].tolist()):
            hit = host in (a, b)
            value = 1e9 * (share if hit else 1 - 0.01 * (a * b % 3))
            tests.append(
                PairTest(
                    round=number,
                    source=a,
                    target=b,
                    value=value,
                    source_busy=busy if a == host else 0.2,
                    target_busy=busy if b == host else 0.2,
                )
            )
    return tests


SIXTEEN = Fleet(names=tuple(f"n{n}" for n in range(16)), groups=tuple(n // 8 for n in range(16)))


def test_a_host_that_is_short_of_processor_time_is_not_blamed() -> None:
    """Its processes ran or waited for a core all the time, so its link was not the limit."""
    verdict = diagnose(SIXTEEN, starve(0, 0.4, busy=0.95))
    (short,) = verdict.observations

    assert (short.place.host, short.kind, short.direction) == (0, "UNTESTED", "both")
    assert (short.reason.code, short.reason.low) == ("busy", 20)
    assert verdict.reason == Reason(code="untested", low=1)


@pytest.mark.parametrize(("busy", "verdict"), [(0.2, "UNDECIDED"), (0.95, "HEALTHY")])
def test_a_host_that_a_control_group_limits_is_not_proven_by_its_few_good_tests(
    busy: float, verdict: str
) -> None:
    """Its burst of processor time is enough for one test of five, also alone.

    Where all hosts are short of time, such as those of a busy machine, it is as good as they are.
    """
    tests = [
        replace(
            test,
            alone=test.round > 4,
            value=1e9 if number % 5 == 0 else test.value,
            source_busy=0.95 if test.source == 0 else busy,
            target_busy=0.95 if test.target == 0 else busy,
        )
        for number, test in enumerate(starve(0, 0.4, busy=0.95))
    ]
    if busy > 0.5:
        tests = [
            replace(t, value=0.9e9 if n % 2 and t.alone else t.value) for n, t in enumerate(tests)
        ]
    result = diagnose(SIXTEEN, tests)

    assert result.verdict == verdict
    assert [(o.place.host, o.reason.code) for o in result.observations] == (
        [(0, "busy")] if verdict == "UNDECIDED" else []
    )


def test_a_slow_link_is_blamed_although_the_processor_does_other_work() -> None:
    """Its processes mostly wait for the link."""
    verdict = diagnose(SIXTEEN, starve(0, 0.4, busy=0.5))

    assert blame(verdict) == [("BAD", "host:0", "both")]


def test_good_tests_count_whatever_the_processor_did() -> None:
    assert diagnose(SIXTEEN, starve(0, 1.0, busy=0.99)).verdict == "HEALTHY"


def test_a_host_that_was_short_of_processor_time_is_tested_again_alone() -> None:
    """The overload may be over after the rounds; then it is good, and the fleet is healthy."""
    flows: list[tuple[int, int]] = []

    def measure(step: SurveyStep) -> list[PairTest]:
        flows.extend(map(tuple, step.pairs.tolist()) if step.alone else ())
        late = step.alone
        pairs = [*step.pairs.tolist(), *step.pairs[:, ::-1].tolist()]
        return [
            PairTest(
                round=step.number,
                source=a,
                target=b,
                alone=step.alone,
                value=0.3e9 if 0 in (a, b) and not late else 1e9,
                source_busy=0.95 if a == 0 and not late else 0.1,
                target_busy=0.95 if b == 0 and not late else 0.1,
            )
            for a, b in pairs
        ]

    tests = survey(SIXTEEN, SurveyPlan(alone=0), measure)

    assert {min(pair) for pair in flows} == {0}
    assert diagnose(SIXTEEN, tests).verdict == "HEALTHY"
