"""Settings of hosts that differ: which, in which order, and what they explain."""

import pytest
from msgspec.structs import replace

from cluster.core.model.hosts import Facts, Interface, Tuning
from cluster.core.model.network.fleet import FleetFinding, Part, Reason
from cluster.fleet.evidence import causes, drifts
from cluster.reports.words.fleet import drift_words
from tests.plain_values import plain_facts
from tests.snapshots import Snapshot

ALIKE = plain_facts(
    kernel="Linux 6.1",
    interfaces=(Interface(name="eth0", address="10.0.0.1", prefix=24, mtu=9001),),
    tuning=Tuning(governor="performance", sysctls={"net.core.rmem_max": "212992"}),
)


def fleet(**odd: Facts) -> dict[int, Facts]:
    """64 hosts, some of which have other facts; each has a name, an address and a boot id."""
    return {
        host: replace(odd.get(f"host{host}", ALIKE), host=str(host), boot=str(host), reached="x")
        for host in range(64)
    }


def test_hosts_that_are_alike_do_not_differ_by_what_identifies_them() -> None:
    assert drifts(fleet()) == ()


def test_the_most_unusual_is_first_and_says_which_hosts(snapshot: Snapshot) -> None:
    small = replace(ALIKE.interfaces[0], mtu=1500)
    old = replace(ALIKE, kernel="Linux 5.15")
    changes = drifts(fleet(host17=replace(ALIKE, interfaces=(small,)), host3=old, host9=old))

    assert [drift.setting for drift in changes] == ["mtu of eth0", "kernel"]
    assert [(drift.path, drift.interface) for drift in changes] == [
        ("interfaces.mtu", "eth0"),
        ("kernel", ""),
    ]
    snapshot(drift_words(changes[0]))
    assert (changes[1].count, changes[1].hosts) == (62, (3, 9))
    assert [drift.slows for drift in changes] == [True, False]


def test_what_a_host_does_not_report_is_no_difference() -> None:
    silent = replace(ALIKE, tuning=Tuning(), kernel="")

    assert drifts(fleet(host5=silent)) == ()


def test_what_a_host_lacks_that_was_read_is_a_difference() -> None:
    port = Interface(name="ib0", address="10.1.0.1", prefix=24, mtu=2044)
    whole = replace(
        ALIKE, interfaces=(*ALIKE.interfaces, port), libraries={"nccl": "2.27"}, gpu_driver="580"
    )
    hosts = fleet(**{f"host{host}": whole for host in range(64) if host != 17})
    changes = drifts(hosts)

    assert {(drift.setting, drift.usual, drift.hosts, drift.values) for drift in changes} == {
        ("mtu of ib0", "2044", (17,), ("none",)),
        ("libraries.nccl", "2.27", (17,), ("none",)),
        ("gpu_driver", "580", (17,), ("none",)),
    }
    assert {drift.of for drift in changes} == {64}


def test_an_interface_that_few_hosts_have_is_no_difference() -> None:
    """Bridges of containers have a name of their own on each host, and slow none."""

    def add_bridge(name: str) -> Facts:
        bridge = Interface(name=name, address="172.17.0.1", prefix=16, mtu=1500)
        return replace(ALIKE, interfaces=(*ALIKE.interfaces, bridge))

    bridges = {f"host{host}": add_bridge(f"br-{host:012x}") for host in range(64)}

    assert drifts(fleet(**bridges | {"host2": add_bridge("docker0")})) == ()


def test_hosts_that_differ_without_a_majority_do_differ_and_none_is_to_blame() -> None:
    small = replace(ALIKE, interfaces=(replace(ALIKE.interfaces[0], mtu=1400),))
    (drift,) = drifts({0: ALIKE, 1: small})
    slow = FleetFinding(
        kind="BAD", place=Part(kind="host", host=1), reason=Reason(code="slow", share=0.4)
    )

    assert (drift.usual, drift.count, drift.of) == ("9001", 1, 2)
    assert (drift.hosts, drift.values) == ((1,), ("1400",))
    assert causes(slow, (drift,)) == ()
    assert causes(slow, drifts({0: ALIKE, 1: small, 2: ALIKE}))


def test_a_limit_of_the_control_group_is_a_difference() -> None:
    (drift,) = drifts(fleet(host7=replace(ALIKE, cgroup_cpus=2.0)))

    assert (drift.setting, drift.hosts, drift.values) == ("cgroup_cpus", (7,), ("2.0",))
    slow = FleetFinding(
        kind="BAD", place=Part(kind="host", host=7), reason=Reason(code="slow", share=0.4)
    )
    assert causes(slow, (drift,)) == (drift,)
    limited = replace(ALIKE, cgroup_cpus=2.0)
    (reverse,) = drifts({0: limited, 1: limited, 7: ALIKE})
    assert causes(slow, (reverse,)) == ()


def test_a_cable_at_half_duplex_is_a_difference() -> None:
    full, half = (
        replace(ALIKE, interfaces=(replace(ALIKE.interfaces[0], duplex=duplex),))
        for duplex in ("full", "half")
    )
    (drift,) = drifts({0: full, 1: half, 2: full})

    assert (drift.setting, drift.hosts, drift.slows) == ("duplex of eth0", (1,), True)


def test_a_cause_is_of_all_hosts_of_a_finding_and_can_slow_them() -> None:
    small = replace(ALIKE, interfaces=(replace(ALIKE.interfaces[0], mtu=1500),), kernel="Linux 5")
    changes = drifts(fleet(host17=small))
    slow = FleetFinding(
        kind="BAD", place=Part(kind="host", host=17), reason=Reason(code="slow", share=0.4)
    )
    other = replace(slow, place=Part(kind="host", host=3))
    group = replace(slow, reason=Reason(code="slow_everywhere", hosts=(16, 17)))

    hung = replace(slow, kind="HUNG", reason=Reason(code="lost", message="No route to host"))

    assert [cause.setting for cause in causes(slow, changes)] == ["mtu of eth0"]
    assert causes(hung, changes) == ()
    assert causes(other, changes) == causes(group, changes) == ()


def test_a_value_that_a_good_host_has_is_no_cause() -> None:
    small = replace(ALIKE, interfaces=(replace(ALIKE.interfaces[0], mtu=1500),))
    smaller = replace(ALIKE, interfaces=(replace(ALIKE.interfaces[0], mtu=1400),))
    slow = FleetFinding(
        kind="BAD", place=Part(kind="host", host=17), reason=Reason(code="slow", share=0.4)
    )
    shared, single = (
        drifts(fleet(host17=small, host3=small)),
        drifts(fleet(host17=smaller, host3=small)),
    )

    assert causes(slow, shared, {3, 4}) == ()
    assert causes(slow, shared, {4}) == causes(slow, shared) == shared
    assert causes(slow, single, {3, 4}) == single


@pytest.mark.parametrize("value", [0.5, 2.0])
@pytest.mark.parametrize("name", ["mtu", "speed", "usable_cores", "cgroup_cpus"])
def test_only_a_smaller_value_is_a_cause(name: str, value: float) -> None:
    link = replace(ALIKE.interfaces[0], mtu=4000, speed=1.25e9)
    usual = replace(ALIKE, interfaces=(link,), usable_cores=8, cgroup_cpus=8.0)
    if name in ("mtu", "speed"):
        figure = value * getattr(link, name)
        odd = replace(usual, interfaces=(replace(link, **{name: type(link.mtu)(figure)}),))
    else:
        odd = replace(usual, **{name: type(getattr(usual, name))(value * 8)})
    slow = FleetFinding(
        kind="BAD", place=Part(kind="host", host=1), reason=Reason(code="slow", share=0.4)
    )
    changes = drifts({0: usual, 1: odd, 2: usual})

    assert len(changes) == 1
    assert causes(slow, changes) == (changes if value < 1 else ())
