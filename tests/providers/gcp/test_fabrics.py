"""The networks between GPUs: made with a launch and gone with it, or taken by name."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from cluster.core.errors import ProvisionError, Quota, SpecError
from tests import killed_processes
from tests.fakes.gcp import Fault, Settings
from tests.killed_processes import WAYS, clear
from tests.providers.gcp.conftest import BULK, asked, create, kinds, provider, spec_of
from tests.providers.test_clouds_crashes import moments

if TYPE_CHECKING:
    from cluster.core.model.spec import ClusterSpec
    from tests.fakes.gcp import Cloud

pytestmark = pytest.mark.usefixtures("soon")
NETWORKS = "networks.insert"


def with_fabric(instance: str, zone: str = "us-central1-b", **options: str) -> ClusterSpec:
    zone = "us-central1-a" if instance in ("a3-highgpu-8g", "a3-megagpu-8g") else zone
    return spec_of(instance=instance, zone=zone, placement=False, options=options)


@pytest.mark.parametrize(
    ("instance", "gvnics", "rdma", "networks", "mtu"),
    [
        ("a3-highgpu-8g", 5, 0, 4, 8244),
        ("a3-megagpu-8g", 9, 0, 8, 8244),
        ("a3-ultragpu-8g", 2, 8, 2, 8896),
    ],
)
def test_the_fabric_is_made_with_the_launch_and_gone_with_it(
    gcp: Cloud, instance: str, gvnics: int, rdma: int, networks: int, mtu: int
) -> None:
    before = gcp.things()
    create(with_fabric(instance))
    made = [call.params for call in gcp.calls(NETWORKS)]
    nics = asked(gcp)["networkInterfaces"]

    assert [nic["nicType"] for nic in nics] == ["GVNIC"] * gvnics + ["MRDMA"] * rdma
    assert [bool(nic.get("accessConfigs")) for nic in nics] == [True] + [False] * (len(nics) - 1)
    assert len(made) == networks
    assert {network["mtu"] for network in made} == {mtu}
    assert [network.get("networkProfile", "").rpartition("/")[2] for network in made][-1] == (
        "us-central1-b-vpc-roce" if rdma else ""
    )
    assert len(gcp.calls("subnetworks.insert")) == len(nics) - 1
    clear("down", "c5")
    assert gcp.things() == before


def test_a_fabric_takes_as_many_calls_for_more_hosts(gcp: Cloud) -> None:
    create(with_fabric("a3-ultragpu-8g"))
    few = len(gcp.mutating())
    clear("down", "c5")
    since = len(gcp.mutating())
    spec = spec_of(instance="a3-ultragpu-8g", zone="us-central1-b", placement=False, hosts=6)
    create(spec)

    assert len(gcp.mutating()) - since == few
    clear("down", "c5")


def test_a_plan_says_what_is_made_and_what_programs_need(gcp: Cloud) -> None:
    lines = provider().plan(with_fabric("a3-megagpu-8g")).lines
    without = provider().plan(with_fabric("a3-megagpu-8g", fabric="0")).lines

    [line] = [line for line in lines if line.startswith("fabric: GPUDirect-TCPXO, 8 more")]
    assert "FasTrak" in line
    assert [line for line in without if "one interface, for TCP" in line]
    create(with_fabric("a3-megagpu-8g", fabric="0"))
    assert len(asked(gcp)["networkInterfaces"]) == 1
    assert "networks" not in kinds(gcp)


def test_a_zone_without_the_network_profile_is_refused_or_passed_over(gcp: Cloud) -> None:
    with pytest.raises(SpecError, match="us-central1-a has no network profile") as refused:
        provider().plan(with_fabric("a3-ultragpu-8g", "us-central1-a"))
    lines = provider().plan(with_fabric("a3-ultragpu-8g", "us-central1")).lines

    assert "--option fabric=0" in refused.value.remedy
    assert [line for line in lines if "in us-central1-b, " in line]
    assert not gcp.mutating()


def test_networks_beyond_the_quota_are_refused_before_any_is_made(gcp: Cloud) -> None:
    gcp.reset(Settings(quotas={"NETWORKS": 6}))
    with pytest.raises(Quota, match="8 NETWORKS are needed; of 6"):
        provider().plan(with_fabric("a3-megagpu-8g"))

    assert not gcp.mutating()


@pytest.mark.parametrize("action", [NETWORKS, "subnetworks.insert", BULK])
def test_a_fabric_that_is_refused_halfway_leaves_nothing(gcp: Cloud, action: str) -> None:
    before = gcp.things()
    gcp.fail(Fault(action=action, code="forbidden", status=403, skip=int(action != BULK), times=1))
    with pytest.raises(ProvisionError):
        create(with_fabric("a3-ultragpu-8g"))

    assert gcp.things() == before


def test_a_launch_with_a_fabric_that_is_killed_leaves_nothing(gcp: Cloud) -> None:
    """Before and after each call that makes a network, a subnet or a rule of it, by each way."""
    before = gcp.things()
    spec = with_fabric("a3-highgpu-8g")
    new = (NETWORKS, "subnetworks.insert")
    faults: list[Any] = []
    create(spec)
    calls = gcp.calls()
    clear("down", "c5")
    for fault in moments(calls):
        last = {action: sum(call.action == action for call in calls) - 1 for action in new}
        if fault.action in new and fault.skip in (0, 1, last[fault.action]):
            faults.append(fault)
    assert len(faults) == 2 * 3 * len(new)
    for turn, fault in enumerate(faults):
        gcp.fail(fault)
        assert killed_processes.status(killed_processes.launch, spec) == -signal.SIGKILL, fault
        gcp.mend()
        clear(WAYS[turn % len(WAYS)], "c5")
        assert gcp.things() == before, (fault, WAYS[turn % len(WAYS)])
