"""The decision of a gate, and tests that end in their time, on simulated fleets."""

import numpy as np
import pytest
from msgspec.structs import replace

from cluster.core.model.hosts import Link, Machine
from cluster.core.model.network.fleet import Fleet, FleetVerdict, PairTest, Part, Reason, Suspect
from cluster.core.model.network.gate import Gate
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.evidence import confirmations
from cluster.fleet.findings.hosts import PARTNERS
from cluster.fleet.gate import decide
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.orchestration.fleet_check import _with_own_links
from tests.conftest import tries
from tests.fleet.fleets import RATE, Simulated

BATCH = 0.7  # seconds that both directions take


class Timed:
    """A gate of a simulated fleet whose tests take simulated time."""

    def __init__(self, fleet: Simulated, seconds: float, skip: tuple[int, ...] = ()) -> None:
        self.steps: list[SurveyStep] = []
        self.spent = 0.0
        self._fleet = fleet
        plan = SurveyPlan(confirm=True, seconds=seconds, skip=skip)
        self.tests = survey(
            fleet.fleet, plan, self._measure, remaining=lambda: seconds - self.spent
        )
        self.verdict = diagnose(fleet.fleet, self.tests)
        confirmed = confirmations(self.verdict, self.tests)
        blamed = (
            replace(finding, holds=finding.place in confirmed and confirmed[finding.place].holds)
            for finding in self.verdict.blamed
        )
        self.verdict = replace(self.verdict, blamed=tuple(blamed))
        self.gate = decide(self.verdict, len(fleet.fleet.names), skip)

    def _measure(self, step: SurveyStep) -> list[PairTest]:
        self.steps.append(step)
        self.spent += BATCH * (len(step.pairs) if step.alone else 1)
        return self._fleet.measure(step)


def answer_of(fleet: Simulated, seconds: float = 60.0) -> Gate:
    return Timed(fleet, seconds).gate


@pytest.mark.parametrize(
    ("share", "word", "code"),
    [
        (1.0, "PROVEN", "proven"),
        (0.9, "PROVEN", "proven"),
        (0.6, "BAD", "below_limit"),
        (0.5, "BAD", "below_limit"),
    ],
)
def test_a_fleet_is_held_against_its_own_limit(share: float, word: str, code: str) -> None:
    """The rate is the same each time: a fixed threshold would give one answer to all."""
    gate = answer_of(Simulated(limit=RATE / share))

    assert (gate.verdict, gate.code, gate.bad) == (word, code, ())


def test_a_suspicion_keeps_a_fleet_unproven_also_if_hosts_are_skipped() -> None:
    run = Timed(Simulated(), 60.0, skip=(15,))
    suspect = Suspect(place=Part(kind="host", host=3), reason=Reason(code="chance"))
    verdict = replace(run.verdict, suspects=(suspect,))

    assert (run.gate.verdict, run.verdict.reason.code) == ("PROVEN", "untested")
    gate = decide(verdict, len(run._fleet.fleet.names), (15,))
    assert (gate.verdict, gate.code) == ("UNDECIDED", "unconfirmed")


def test_without_a_limit_nothing_is_proven() -> None:
    fleet = Simulated()
    fleet.fleet = replace(fleet.fleet, limit=None)

    assert answer_of(fleet).code == "no_limit"


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        ("host:7:rx=0.9", "BAD host:7"),
        ("host:7:both=0.3", "BAD host:7"),
        ("host:7=0", "HUNG host:7"),
        ("leaf:3=0.5", "GROUP group:3"),
    ],
)
def test_a_planted_fault_is_bad_and_nothing_else_is(fault: str, part: str) -> None:
    gate = answer_of(Simulated(fault=fault))
    parts = [f"{f.kind} {f.place.kind}:{max(f.place.host, f.place.number)}" for f in gate.bad]

    assert (gate.verdict, parts) == ("BAD", [part])
    assert all(finding.holds for finding in gate.bad)


@pytest.mark.parametrize("seed", range(1, 1 + tries(10)))
@pytest.mark.parametrize("fault", ["host:7:rx=0.4", "host:7:tx=0.6"])
def test_doubtful_pairs_leave_the_time_to_confirm_a_slow_host(fault: str, seed: int) -> None:
    gate = Timed(Simulated(fault=fault, seed=seed, noise="tails:0.03", grouped=False), 60.0)

    assert [finding.place.host for finding in gate.gate.bad] == [7]
    assert len(gate.steps[-1].pairs) == PARTNERS
    assert gate.spent <= 60.0


@pytest.mark.parametrize("seconds", [0.5, 3.0, 8.0, 20.0, 60.0])
@pytest.mark.parametrize("fault", ["", "host:7:rx=0.4", "host:7=0"])
def test_the_time_is_never_overrun(seconds: float, fault: str) -> None:
    """No step begins that would not fit; the first one has nothing to go by."""
    gate = Timed(Simulated(fault=fault), seconds)

    assert gate.spent <= max(seconds, BATCH)
    assert gate.steps[0].purpose == "round"


def test_a_blame_that_was_not_seen_again_is_undecided() -> None:
    verdict = Timed(Simulated(fault="host:7:rx=0.4"), 60.0).verdict
    once = replace(verdict, blamed=tuple(replace(f, holds=False) for f in verdict.blamed))
    gate = decide(once, 64)

    assert (gate.verdict, gate.code, gate.bad) == ("UNDECIDED", "unconfirmed", ())
    assert [finding.place.host for finding in gate.suspected] == [7]


def test_a_good_test_stays_good_if_the_check_was_cut_off() -> None:
    verdict: FleetVerdict = Timed(Simulated(), 60.0).verdict

    assert decide(replace(verdict, verdict="UNDECIDED"), 64).verdict == "PROVEN"


def test_hosts_that_are_left_out_are_neither_proven_nor_tested() -> None:
    skip = tuple(range(8, 64))
    gate = Timed(Simulated(), 60.0, skip)
    hosts = {int(host) for step in gate.steps for pair in step.pairs for host in pair}

    assert hosts == set(range(8))
    assert (gate.gate.verdict, gate.gate.proven, gate.gate.skipped) == ("PROVEN", 8, skip)


@pytest.mark.parametrize("noise", ["loss:0.03", "both:0.03", "tails:0.03"])
@pytest.mark.parametrize("seed", range(1, 1 + tries(5)))
def test_a_noisy_fleet_between_neighbours_is_never_bad(noise: str, seed: int) -> None:
    for grouped in (True, False):
        fleet = Simulated(
            seed=seed, noise=noise, background=0.5, oversubscription=3.0, grouped=grouped
        )
        assert answer_of(fleet).verdict != "BAD"


@pytest.mark.parametrize("seed", [9, 12, 24])
def test_hosts_are_not_all_slow_where_one_reached_its_limit(seed: int) -> None:
    """Flows of neighbours on uplinks at a third keep most pairs, and not their hosts, slow."""
    fleet = Simulated(
        seed=seed, noise="tails:0.03", background=0.5, oversubscription=3.0, grouped=False
    )
    gate = Timed(fleet, 60.0)

    assert (gate.verdict.reference or 0.0) < 0.8 * RATE <= gate.verdict.best
    assert (gate.gate.verdict, gate.gate.code) == ("UNDECIDED", "few_rounds")


@pytest.mark.parametrize("grouped", [True, False])
def test_low_tests_alone_confirm_nothing_where_most_others_are_as_low(
    grouped: bool,  # noqa: FBT001 - a parameter of a test
) -> None:
    """With known groups, a host is confirmed with hosts of its own, through no shared uplink."""
    timed = Timed(Simulated(fault="host:7:rx=0.4", grouped=grouped), 60.0)
    (blamed,) = timed.verdict.blamed
    sample = min(test.round for test in timed.tests if test.alone)
    copies = [
        replace(test, value=test.value and test.value / 2) if test.round == sample else test
        for test in timed.tests
    ]

    assert confirmations(timed.verdict, timed.tests)[blamed.place].holds
    assert confirmations(timed.verdict, copies)[blamed.place].holds == grouped


def test_processors_that_limit_all_tests_say_nothing_about_links() -> None:
    verdict = Timed(Simulated(limit=10 * RATE), 60.0).verdict

    assert decide(verdict, 64).code == "below_limit"
    assert decide(replace(verdict, limited=verdict.tests), 64).code == "processor"


@pytest.mark.parametrize(("hosts", "share", "most"), [(5, 0.3, 1), (3, 0.5, 2), (5, 0.0, 12)])
def test_few_hosts_of_which_one_is_low_at_times_are_hardly_ever_proven(
    hosts: int, share: float, most: int
) -> None:
    """All directions of its repeats count together; what is left has so few low tests by chance."""
    fleet = Fleet(names=tuple(f"n{n}" for n in range(hosts)), groups=(0,) * hosts, limit=RATE)

    def proven(seed: int) -> bool:
        rng = np.random.default_rng(seed)

        def measure(step: SurveyStep) -> list[PairTest]:
            return [
                PairTest(
                    round=step.number, source=source, target=target, alone=step.alone,
                    port=step.port, value=RATE * (1 + 0.004 * rng.standard_normal())
                    * (0.6 if 0 in (source, target) and rng.random() < share else 1.0),
                )
                for a, b in step.pairs.tolist() for source, target in ((a, b), (b, a))
            ]  # fmt: skip

        tests = survey(fleet, SurveyPlan(rounds=0, confirm=True), measure)
        return decide(diagnose(fleet, tests), hosts).verdict == "PROVEN"

    count = sum(map(proven, range(12)))
    assert count <= most
    assert share or count == most


def test_a_limit_that_most_hosts_exceed_is_none() -> None:
    assert answer_of(Simulated(limit=RATE / 1.2)).code == "proven"
    absurd = answer_of(Simulated(limit=RATE / 950))

    assert (absurd.verdict, absurd.code) == ("UNDECIDED", "no_limit")


def test_hosts_are_proven_against_their_own_links_where_these_differ() -> None:
    """Some have a link of 2.5 times the rate that all reach; one of them has no equal partner."""
    timed = Timed(Simulated("leafspine:2x4"), 60.0)
    usual, fast = (Link(rate=rate, mtu=9000, source="") for rate in (RATE, 2.5 * RATE))

    def unproven(*fast_hosts: int) -> tuple[int, ...]:
        machines = [
            Machine(
                name=f"h{host}", id="", address="", shell="", folder="", bin="",
                link=fast if host in fast_hosts else usual,
            )
            for host in range(8)
        ]  # fmt: skip
        return _with_own_links(timed.verdict, machines, timed.tests).unproven

    assert unproven() == unproven(3) == ()
    assert unproven(1, 5) == (1, 5)


def test_what_is_blamed_is_not_proven() -> None:
    """A host may be good for a while, and gone then."""
    verdict = Timed(Simulated(fault="host:7:tx=0.4"), 60.0).verdict
    gate = decide(replace(verdict, unproven=()), 64)

    assert [finding.place.host for finding in gate.bad] == [7]
    assert (gate.proven, gate.unproven) == (63, (7,))


@pytest.mark.parametrize("seed", [2, 3])
def test_pairs_that_are_low_each_time_are_no_pass_however_many_they_are(seed: int) -> None:
    """A slow spine switch: low pairs count against each other, and none of them is blamed."""
    fleet = Simulated("leafspine:4x8", "spine:1=0.3", seed=seed)
    timed = Timed(fleet, 60.0)

    assert timed.verdict.verdict != "HEALTHY"
    assert timed.gate.verdict == "UNDECIDED"
    parts = (*timed.gate.doubtful, *(finding.place for finding in timed.gate.suspected))
    assert {part.kind for part in parts} == {"pair"}
