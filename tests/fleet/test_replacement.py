"""Which hosts are replaced, which tests their new machines get, and when these are good."""

from __future__ import annotations

import pytest

from cluster.core.model.fleet import FleetFinding, FleetVerdict, PairMetric, PairTest
from cluster.fleet.replacement import hosts_at_fault, judge_new_hosts, pairs_to_test


def verdict(
    *blamed: FleetFinding,
    observations: tuple[FleetFinding, ...] = (),
    undecided: tuple[str, ...] = (),
    groups: tuple[int, ...] = (),
    metric: PairMetric = "bandwidth",
) -> FleetVerdict:
    return FleetVerdict(
        verdict="FAULTY", rounds=10, answer="", blamed=blamed, observations=observations,
        undecided=undecided, groups=groups,
        reference=100.0, tolerance=0.05, metric=metric,
    )  # fmt: skip


def pair_of(tx: float | None, rx: float | None, nic: int = 0) -> list[PairTest]:
    """Test the new host 1 with host 0, once in each direction."""
    return [
        PairTest(round=0, source=1, target=0, value=tx, alone=True, nic=nic, reason="cut"),
        PairTest(round=0, source=0, target=1, value=rx, alone=True, nic=nic, reason="cut"),
    ]


def test_only_hosts_that_are_bad_by_themselves_are_replaced() -> None:
    found = verdict(
        FleetFinding(part="host:1", kind="BAD", direction="rx"),
        FleetFinding(part="nic:2.3", kind="BAD", direction="tx"),
        FleetFinding(part="host:3", kind="HUNG"),
        FleetFinding(part="host:4", kind="UNSTABLE"),
        FleetFinding(part="pair:6-7", kind="LINK"),
        FleetFinding(part="group:0", kind="GROUP"),
        FleetFinding(part="link:3-5", kind="LINK"),
        undecided=("host:8 rx: its 2 low tests could be chance",),
    )

    assert list(hosts_at_fault(found)) == [1, 2, 3]


def test_new_hosts_meet_good_ones_of_their_group_and_nobody_in_doubt() -> None:
    found = verdict(
        FleetFinding(part="host:1", kind="BAD"),
        FleetFinding(part="pair:0-9", kind="LINK"),
        observations=(FleetFinding(part="host:2", kind="UNTESTED"),),
        undecided=("host:3 rx or host:4 rx: the same tests speak against each of them",),
        groups=(0, 0, 0, 0, 0, 0, 1, 1, 1, 1),
    )

    assert pairs_to_test(found, {1}, 10) == ((1, 5), (1, 6), (1, 7))
    assert pairs_to_test(found, {1, 5, 6, 7, 8}, 10)[:2] == ((1, 0), (1, 9))  # better than none
    assert pairs_to_test(found, set(range(10)), 10) == ()


@pytest.mark.parametrize(
    ("tx", "rx", "good", "said"),
    [
        (99.0, 96.0, True, "sends 99% and receives 96% of the usual"),
        (99.0, 40.0, False, "receives 40%"),
        (40.0, 99.0, False, "sends 40%"),
        (99.0, 0.0, False, "receives 0%"),
        (0.0, 0.0, False, "nothing arrives in 2 tests with 0: cut"),
        (None, None, False, "nothing arrives"),
    ],
)
def test_a_new_host_is_good_if_both_directions_are(
    tx: float | None, rx: float | None, *, good: bool, said: str
) -> None:
    found = judge_new_hosts(verdict(), pair_of(tx, rx), {1})[1]

    assert found.good is good
    assert said in found.evidence


def test_one_good_test_speaks_for_a_new_host_and_one_bad_nic_against_it() -> None:
    lucky = [*pair_of(50.0, 50.0), *pair_of(99.0, 99.0)]
    half = [*pair_of(99.0, 99.0), *pair_of(99.0, 50.0, nic=1)]

    assert judge_new_hosts(verdict(), lucky, {1})[1].good
    assert not judge_new_hosts(verdict(), half, {1})[1].good


def test_a_latency_is_good_if_it_is_short() -> None:
    assert judge_new_hosts(verdict(metric="latency"), pair_of(90.0, 104.0), {1})[1].good
    assert not judge_new_hosts(verdict(metric="latency"), pair_of(90.0, 200.0), {1})[1].good


def test_a_host_without_tests_is_not_good() -> None:
    assert not judge_new_hosts(verdict(), [], {1})[1].good
