"""Which hosts are replaced, which tests their new machines get, and when these are good."""

import pytest

from cluster.core.model.network.fleet import (
    FindingKind,
    FleetFinding,
    FleetVerdict,
    PairMetric,
    PairTest,
    Part,
    Reason,
    Suspect,
    Way,
)
from cluster.fleet.replacement import hosts_at_fault, judge_new_hosts, pairs_to_test


def finding(place: Part, kind: FindingKind, direction: Way = "") -> FleetFinding:
    return FleetFinding(place=place, kind=kind, direction=direction, reason=Reason(code="slow"))


def host(number: int) -> Part:
    return Part(kind="host", host=number)


def verdict(
    *blamed: FleetFinding,
    observations: tuple[FleetFinding, ...] = (),
    suspects: tuple[Suspect, ...] = (),
    groups: tuple[int, ...] = (),
    metric: PairMetric = "bandwidth",
) -> FleetVerdict:
    return FleetVerdict(
        verdict="FAULTY", rounds=10, blamed=blamed, observations=observations,
        suspects=suspects, groups=groups, reason=Reason(code="faults"),
        reference=100.0, tolerance=0.05, metric=metric,
    )  # fmt: skip


def pair_of(tx: float | None, rx: float | None, nic: int = 0) -> list[PairTest]:
    """Test the new host 1 with host 0, once in each direction."""
    return [
        PairTest(round=0, source=1, target=0, value=tx, alone=True, nic=nic, reason="cut"),
        PairTest(round=0, source=0, target=1, value=rx, alone=True, nic=nic, reason="cut"),
    ]


def test_only_hosts_that_are_bad_by_themselves_are_replaced() -> None:
    result = verdict(
        finding(host(1), "BAD", "rx"),
        finding(Part(kind="nic", host=2, nic=3), "BAD", "tx"),
        finding(host(3), "HUNG"),
        finding(host(4), "UNSTABLE"),
        finding(Part(kind="pair", host=6, peer=7), "LINK"),
        finding(Part(kind="group", number=0), "GROUP"),
        finding(Part(kind="link", number=3, upper=5), "LINK"),
        suspects=(Suspect(place=host(8), reason=Reason(code="chance", low=2)),),
    )

    assert list(hosts_at_fault(result)) == [1, 2, 3]


def test_new_hosts_meet_good_ones_of_their_group_and_nobody_in_doubt() -> None:
    result = verdict(
        finding(host(1), "BAD"),
        finding(Part(kind="pair", host=0, peer=9), "LINK"),
        observations=(finding(host(2), "UNTESTED"),),
        suspects=(
            Suspect(place=host(3), reason=Reason(code="same_tests"), twins=((host(4), "rx"),)),
        ),
        groups=(0, 0, 0, 0, 0, 0, 1, 1, 1, 1),
    )

    assert pairs_to_test(result, {1}, 10) == ((1, 5), (1, 6), (1, 7))
    assert pairs_to_test(result, {1, 5, 6, 7, 8}, 10)[:2] == ((1, 0), (1, 9))  # better than none
    assert pairs_to_test(result, set(range(10)), 10) == ()


@pytest.mark.parametrize(
    ("tx", "rx", "good", "shares"),
    [
        (99.0, 96.0, True, (0.99, 0.96)),
        (99.0, 40.0, False, (0.99, 0.4)),
        (40.0, 99.0, False, (0.4, 0.99)),
        (99.0, 0.0, False, (0.99, 0.0)),
        (0.0, 0.0, False, (None, None)),
        (None, None, False, (None, None)),
    ],
)
def test_a_new_host_is_good_if_both_directions_are(
    tx: float | None, rx: float | None, *, good: bool, shares: tuple[float | None, float | None]
) -> None:
    result = judge_new_hosts(verdict(), pair_of(tx, rx), {1})[1]

    assert result.good is good
    assert (result.sent, result.received) == shares
    assert (result.tests, result.partners) == (2, (0,))
    assert result.message == ("" if result.sent is not None else "cut")


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
