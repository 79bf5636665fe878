"""What counters say of a slow host: what went up in its low tests, and in no good ones."""

from itertools import permutations
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.agent.hardware.counters import read_counters, trouble
from cluster.benchmarks.pairs import BANDWIDTH
from cluster.core.model.hosts import Interface
from cluster.core.model.network.fleet import (
    FleetFinding,
    FleetVerdict,
    PairTest,
    Part,
    Reason,
    Suspect,
)
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.evidence import causes, counter_changes, drifts
from cluster.fleet.pair_measurements import measurements_of, pair_tests
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from tests.fleet.fleets import Simulated
from tests.plain_values import plain_facts

LOST = "tcp.retransmitted"
LOSSES = {"tcp.retransmitted": 0.04}
SLOW = 3
BLAMED = FleetFinding(
    kind="BAD", direction="both", place=Part(kind="host", host=SLOW), reason=Reason(code="slow")
)
VERDICT = FleetVerdict(
    verdict="FAULTY",
    rounds=1,
    blamed=(BLAMED,),
    reference=97.0,
    tolerance=0.05,
    reason=Reason(code="faults"),
)


def check(
    sends: dict[str, float],
    receives: dict[str, float],
    spread: float = 0.0,
    verdict: FleetVerdict = VERDICT,
) -> list[str]:
    """Return the counters of what is blamed, if one host is slow and these go up beside it.

    Every host has some errors and steal that are usual here; `spread` is of the low rates.
    """
    tests = [
        PairTest(
            round=number,
            source=a,
            target=b,
            value=40.0 * (1 + spread * (number % 29 / 7 - 2))
            if SLOW in (a, b)
            else 99.0 - number / 9,
            source_counters={"eth0.rx_errors": 1.0} | (sends if SLOW in (a, b) else {}),
            target_counters={"cpu.steal": 0.06} | (receives if b == SLOW else {}),
        )
        for number, (a, b) in enumerate(permutations(range(6), 2))
    ]
    read = pair_tests(measurements_of(tests, BANDWIDTH, "h" * 6))
    return [change.counter for change in counter_changes(verdict, read)[0]]


@pytest.mark.parametrize(("busy", "places"), [(0.01, [0]), (0.0, [])])
def test_a_rate_limits_where_counters_were_read_and_all_are_0(
    busy: float, places: list[int]
) -> None:
    tests = [
        PairTest(
            round=n, source=a, target=b, value=40.0 if SLOW in (a, b) else 99.0, source_busy=busy
        )
        for n, (a, b) in enumerate(permutations(range(6), 2))
    ]
    changes = counter_changes(VERDICT, tests)

    assert list(changes) == places
    assert [change.counter for row in changes.values() for change in row] == ["rate"] * len(places)


@pytest.mark.parametrize(
    ("rates", "counters"),
    [  # Mbit/s in a lab: a link of 23.4 whose queue was full at first; a wire that loses segments
        ((17.1, 12.8, 22.04, 22.03, 22.03, 22.04, 22.03, 22.04, 13.5, 17.1), ["rate", LOST]),
        ((27.38, 27.42, 27.51, 27.58, 27.59, 27.6, 27.6, 28.9, 29.2, 30.3), ["rate", LOST]),
        ((15.7, 17.1, 15.9, 21.97, 15.9, 21.96, 22.01, 22.0, 22.01, 16.1), ["rate", LOST]),
        ((17.1, 12.8, 22.04, 22.0, 22.03, 19.8, 18.4, 21.0, 13.5, 17.1), [LOST]),
        ((17.1, 12.8, 24.1, 21.3, 26.9, 22.0, 19.2, 23.1, 13.5, 17.1), [LOST]),
    ],
)
def test_a_link_sets_the_rate_that_many_tests_reach(
    rates: tuple[float, ...], counters: list[str]
) -> None:
    values = iter(rates)
    tests = [
        PairTest(
            round=n,
            source=a,
            target=b,
            value=next(values) if SLOW in (a, b) else 99.0,
            source_counters={LOST: 0.05} if SLOW in (a, b) else {},
        )
        for n, (a, b) in enumerate(permutations(range(6), 2))
    ]

    assert [change.counter for change in counter_changes(VERDICT, tests)[0]] == counters


@pytest.mark.parametrize(
    ("sends", "receives", "spread", "counters"),
    [
        ({}, {}, 0.01, ["rate"]),
        ({}, {}, 0.2, []),
        (LOSSES, {}, 0.2, ["tcp.retransmitted"]),
        ({"tcp.retransmitted": 0.01}, {}, 0.01, ["rate"]),  # as senders find the rate of a link
        # a shaper may lose as many, but no losses leave rates so equal
        ({"tcp.retransmitted": 0.05}, {}, 0.005, ["rate", "tcp.retransmitted"]),
        ({"tcp.retransmitted": 0.05}, {}, 0.04, ["tcp.retransmitted"]),
        ({}, LOSSES, 0.2, []),  # what a receiver sends again is no loss of the test
        ({}, {"cpu.throttled": 0.8}, 0.01, ["cpu.throttled"]),
        ({"cpu.steal": 0.5}, {"cpu.steal": 0.5}, 0.01, ["cpu.steal"]),
        ({"cpu.steal": 0.1}, {"cpu.steal": 0.1}, 0.2, []),
        ({"eth0.rx_errors": 50}, {"eth0.rx_errors": 50}, 0.2, ["eth0.rx_errors"]),
        ({"eth0.rx_errors": 2}, {"eth0.rx_errors": 2}, 0.2, []),
        ({"tcp.receive_buffer": 0.9}, {}, 0.01, ["tcp.receive_buffer"]),
    ],
)
def test_what_slows_a_host(
    sends: dict[str, float], receives: dict[str, float], spread: float, counters: list[str]
) -> None:
    assert check(sends, receives, spread) == counters


@pytest.mark.parametrize(("low", "good", "counters"), [(2, 1, ["queue.eth0:2"]), (1, 1, [])])
def test_one_slow_queue_is_that_of_the_low_tests_of_a_host(
    low: int, good: int, counters: list[str]
) -> None:
    """Good tests of other hosts pass queues of these numbers, too."""
    tests = [
        PairTest(
            round=number,
            source=a,
            target=b,
            value=(value := 40.0 + number if a == SLOW and number % 2 else 99.0),
            source_busy=0.1,
            source_counters={f"queue.eth0:{low if value < 90 else good if a == SLOW else 2}": 0.98},
        )
        for number, (a, b) in enumerate([*permutations(range(6), 2)] * 2)
    ]
    sends = replace(VERDICT, blamed=(replace(BLAMED, direction="tx"),))

    assert [change.counter for change in counter_changes(sends, tests)[0]] == counters


def test_what_slows_a_host_that_is_only_suspected() -> None:
    suspect = Suspect(place=BLAMED.place, reason=Reason(code="chance"))
    undecided = replace(VERDICT, blamed=(), suspects=(suspect,))

    assert check(LOSSES, {}, 0.2, undecided) == ["tcp.retransmitted"]


def test_a_host_that_is_gone_has_no_other_cause() -> None:
    hung = replace(VERDICT, blamed=(replace(BLAMED, kind="HUNG"),))
    test = PairTest(round=0, source=0, target=1, value=99.0, source_counters=LOSSES)
    low = replace(test, target=SLOW, value=40.0)

    assert 0 in counter_changes(VERDICT, [test, low] * 3)
    assert counter_changes(hung, [test, low] * 3) == {}


def test_without_counters_nothing_is_said() -> None:
    test = PairTest(round=0, source=0, target=1, value=4.0)
    tests = [replace(test, source=a, target=b) for a, b in permutations(range(4), 2)]

    assert counter_changes(VERDICT, tests) == {}


def at_half_rate(counters: dict[str, float]) -> FleetVerdict:
    """Check a simulated fleet whose host 7 receives half, and reads these counters meanwhile."""
    fleet = Simulated("leafspine:2x8", "host:7:rx=0.5", noise="loss:0.03")

    def measure(step: SurveyStep) -> list[PairTest]:
        return [
            replace(test, source_busy=0.1, target_counters=counters if test.target == 7 else {})
            for test in fleet.measure(step)
        ]

    tests = survey(fleet.fleet, SurveyPlan(), measure)
    verdict = diagnose(fleet.fleet, tests)
    (blamed,) = verdict.blamed
    return replace(verdict, blamed=(replace(blamed, counters=counter_changes(verdict, tests)[0]),))


def test_steal_that_a_host_reads_is_the_cause_of_its_half_rate(tmp_path: Path) -> None:
    """Of 1,000 ticks, the machine gave 400 to other guests."""
    stat = tmp_path / "proc/stat"
    stat.parent.mkdir()
    stat.write_text("cpu  100 0 0 900 0 0 0 10\n")
    before = read_counters(tmp_path)
    stat.write_text("cpu  300 0 0 1300 0 0 0 410\n")
    (blamed,) = at_half_rate(trouble(before, read_counters(tmp_path))).blamed
    (change,) = blamed.counters

    assert (blamed.place.host, blamed.direction) == (7, "rx")
    assert (change.counter, change.own, change.usual) == ("cpu.steal", 0.4, 0.0)


def test_half_duplex_is_the_cause_of_a_host_at_half_rate() -> None:
    (blamed,) = at_half_rate({}).blamed
    facts = {
        host: plain_facts(
            interfaces=(
                Interface(
                    name="eth0", address=f"10.0.0.{host}", prefix=24, mtu=9001,
                    duplex="half" if host == 7 else "full",
                ),
            )
        )
        for host in range(16)
    }  # fmt: skip

    assert [cause.setting for cause in causes(blamed, drifts(facts))] == ["duplex of eth0"]
