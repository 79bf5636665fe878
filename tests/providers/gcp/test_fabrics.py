"""The networks between GPUs: made with a launch and gone with it, or taken by name."""

import signal
from collections.abc import Sequence
from typing import Any

import pytest

from cluster.core.errors import ProvisionError, Quota, SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from cluster.providers._cloud.launch import SHORTAGES
from cluster.providers._cloud.tags import new_tags
from cluster.providers.gcp import fabrics
from tests import killed_processes
from tests.fakes.gcp import Cloud, Fault, Settings
from tests.fakes.gcp.catalog import PROJECT
from tests.fakes.values import Moment
from tests.killed_processes import WAYS, clear
from tests.providers.gcp.conftest import BULK, create, kinds, properties_of, provider, spec_of
from tests.providers.test_clouds_crashes import moments
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")
NETWORKS = "networks.insert"


def with_fabric(instance: str, zone: str = "us-central1-b", **options: str) -> ClusterSpec:
    zone = "us-central1-a" if instance in ("a3-highgpu-8g", "a3-megagpu-8g") else zone
    return spec_of(instance=instance, zone=zone, placement=False, options=options)


@pytest.mark.parametrize(
    ("instance", "kinds_", "networks", "mtu", "profile"),
    [
        ("a3-highgpu-8g", ["GVNIC"] * 5, 4, 8244, ""),
        ("a3-megagpu-8g", ["GVNIC"] * 9, 8, 8244, ""),
        ("a3-ultragpu-8g", ["GVNIC"] * 2 + ["MRDMA"] * 8, 2, 8896, "us-central1-b-vpc-roce"),
        ("a4-highgpu-8g", ["GVNIC"] * 2 + ["MRDMA"] * 8, 2, 8896, "us-central1-b-vpc-roce"),
        ("a4x-highgpu-4g", ["GVNIC"] * 2 + ["MRDMA"] * 4, 2, 8896, "us-central1-b-vpc-roce"),
        ("h4d-standard-192", ["GVNIC", "IRDMA"], 1, 8896, "us-central1-b-vpc-falcon"),
    ],
)
def test_the_fabric_is_made_with_the_launch_and_gone_with_it(
    gcp: Cloud, instance: str, kinds_: list[str], networks: int, mtu: int, profile: str
) -> None:
    before = gcp.things()
    create(with_fabric(instance))
    requests = [call.params for call in gcp.calls(NETWORKS)]
    nics = properties_of(gcp)["networkInterfaces"]

    disk = properties_of(gcp)["disks"][0]["initializeParams"]
    assert ("arm64" in disk["sourceImage"]) == (instance == "a4x-highgpu-4g")
    assert [nic["nicType"] for nic in nics] == kinds_
    assert [bool(nic.get("accessConfigs")) for nic in nics] == [True] + [False] * (len(nics) - 1)
    assert len(requests) == networks
    assert {network["mtu"] for network in requests} == {mtu}
    assert requests[-1].get("networkProfile", "").rpartition("/")[2] == profile
    assert len(gcp.calls("subnetworks.insert")) == len(nics) - 1
    clear("down", "c5")
    assert gcp.things() == before


def test_a_fabric_takes_as_many_calls_for_more_hosts(gcp: Cloud) -> None:
    create(with_fabric("a3-ultragpu-8g"))
    count = len(gcp.mutating())
    clear("down", "c5")
    since = len(gcp.mutating())
    spec = spec_of(instance="a3-ultragpu-8g", zone="us-central1-b", placement=False, hosts=6)
    create(spec)

    assert len(gcp.mutating()) - since == count
    clear("down", "c5")


@pytest.mark.parametrize("instance", ["a3-ultragpu-8g", "h4d-standard-192"])
def test_networks_of_a_zone_without_room_are_gone_before_the_next_is_tried(
    gcp: Cloud, instance: str
) -> None:
    """They count against the quota: it has room for those of one zone at a time."""
    first, second = "us-central1-a", "us-central1-b"
    fabric = fabrics.fabric_of(instance)
    assert fabric
    profiles = {f"{zone}-{fabric.profile}" for zone in (first, second)}
    for name in profiles:
        gcp.resources[f"projects/{PROJECT}/global/networkProfiles/{name}"] = {"name": name}
    before = gcp.things()
    gcp.set(capacity={first: 0}, quotas={"NETWORKS": 2 + fabric.networks})
    machines = create(spec_of(instance=instance, zone="us-central1", placement=False))
    names = [call.params["name"] for call in gcp.calls(NETWORKS)]

    assert {machine.id.partition("/")[0] for machine in machines} == {second}
    assert len(names) == 2 + 2 * fabric.networks
    clear("down", "c5")
    assert gcp.things() == before


@pytest.mark.parametrize("action", ["subnetworks.delete", "networks.delete"])
def test_a_launch_that_is_killed_while_it_leaves_a_zone_leaves_nothing(
    gcp: Cloud, action: str
) -> None:
    """By each way in turn; or it goes on in the next zone."""
    profile = f"projects/{PROJECT}/global/networkProfiles/us-central1-a-vpc-falcon"
    assert profile in gcp.resources
    before = gcp.things()
    gcp.set(capacity={"us-central1-a": 0}, quotas={"NETWORKS": 2})
    spec = spec_of(instance="h4d-standard-192", zone="us-central1", placement=False)
    kills: tuple[Moment, ...] = ("before", "after", "before", "after")
    for way, moment in zip((*WAYS, ""), kills, strict=True):
        (state_folder() / SHORTAGES).unlink(missing_ok=True)
        gcp.fail(Fault(action=action, kill=moment, times=1))
        assert killed_processes.status(killed_processes.launch, spec) == -signal.SIGKILL
        gcp.mend()
        if way:
            clear(way, "c5")
        else:
            with journal.for_cluster("c5").lock():
                machines = provider().create(spec, journal.for_cluster("c5"))
            assert {machine.id.partition("/")[0] for machine in machines} == {"us-central1-b"}
            clear("down", "c5")
        assert gcp.things() == before, (way, moment)


def test_a_plan_says_what_is_made_and_what_programs_need(gcp: Cloud) -> None:
    lines = provider().plan(with_fabric("a3-megagpu-8g")).lines
    rest = provider().plan(with_fabric("a3-megagpu-8g", fabric="0")).lines

    [line] = [line for line in lines if line.startswith("fabric: GPUDirect-TCPXO, 8 more")]
    assert "FasTrak" in line
    assert [line for line in rest if "TCP" in line]
    create(with_fabric("a3-megagpu-8g", fabric="0"))
    assert len(properties_of(gcp)["networkInterfaces"]) == 1
    assert "networks" not in kinds(gcp)


def test_another_kind_of_interface_than_that_of_the_network_is_refused(
    snapshot: Snapshot, gcp: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test cloud does, as Google does: RoCE takes MRDMA only, Falcon IRDMA only."""
    monkeypatch.setattr(fabrics, "FALCON", "another")
    before = gcp.things()
    with snapshot.raises(ProvisionError):
        create(with_fabric("h4d-standard-192"))

    assert gcp.things() == before


def test_a_zone_without_the_network_profile_is_refused_or_passed_over(
    snapshot: Snapshot, gcp: Cloud
) -> None:
    with snapshot.raises(SpecError):
        provider().plan(with_fabric("a3-ultragpu-8g", "us-central1-a"))
    lines = provider().plan(with_fabric("a3-ultragpu-8g", "us-central1")).lines

    assert [line for line in lines if "in us-central1-b, " in line]
    assert not gcp.mutating()


def test_networks_beyond_the_quota_are_refused_before_any_is_made(
    snapshot: Snapshot, gcp: Cloud
) -> None:
    gcp.reset(Settings(quotas={"NETWORKS": 6}))
    with snapshot.raises(Quota):
        provider().plan(with_fabric("a3-megagpu-8g"))

    assert not gcp.mutating()


def put_network(cloud: Cloud, name: str, ranges: Sequence[str], profile: str = "") -> None:
    """Make a network that somebody else has, with a subnet for each range of addresses."""
    network = f"projects/{PROJECT}/global/networks/{name}"
    subnets = {
        f"projects/{PROJECT}/regions/us-central1/subnetworks/{name}-{number}": cidr
        for number, cidr in enumerate(ranges)
    }
    body = {"name": name, "autoCreateSubnetworks": False, "mtu": 8896, "subnetworks": [*subnets]}
    if profile:
        body["networkProfile"] = f"projects/{PROJECT}/global/networkProfiles/{profile}"
    cloud.resources[network] = body
    for path, cidr in subnets.items():
        subnet = {"name": path.rpartition("/")[2], "network": network, "ipCidrRange": cidr}
        cloud.resources[path] = {**subnet, "region": "us-central1"}


@pytest.fixture
def rdma_gcp(gcp: Cloud) -> Cloud:
    """Return a cloud with networks for RoCE and Falcon that somebody else has made."""
    put_network(gcp, "sys", ["172.16.0.0/24"])
    put_network(gcp, "same", ["172.16.0.0/25"])
    rails = [f"172.17.{number}.0/24" for number in range(9)]
    put_network(gcp, "roce", rails, "us-central1-b-vpc-roce")
    put_network(gcp, "falcon", ["172.18.0.0/24"], "us-central1-b-vpc-falcon")
    return gcp


def test_a_subnet_in_the_ranges_of_a_fabric_is_refused_in_the_plan(gcp: Cloud) -> None:
    """No two interfaces of a machine may overlap; without a fabric, it has one."""
    put_network(gcp, "office", ["192.168.64.0/24"])
    fields = {"network": "office", "subnet": "office-0"}
    with pytest.raises(SpecError) as refused:
        provider().plan(with_fabric("a3-megagpu-8g", **fields))

    assert "fabric=0" in refused.value.remedy
    assert not gcp.mutating()
    provider().plan(with_fabric("a3-megagpu-8g", **fields, fabric="0"))


def test_networks_for_rdma_have_a_name_for_each_zone_and_kind() -> None:
    tags = new_tags("x", "me", 0.0)
    pair = fabrics.fabric_of("a4x-highgpu-4g"), fabrics.fabric_of("h4d-standard-192")
    zones = "us-central1-a", "us-central1-ai1a"
    layouts = [fabrics.nics(fabric, tags, zone) for fabric in pair if fabric for zone in zones]

    rdma = {nic.network for nics in layouts for nic in nics if nic.kind != fabrics.GVNIC}
    assert len(rdma) == len(layouts) == 2 * len(zones)


@pytest.mark.parametrize(
    ("instance", "names", "subnets", "rules"),
    [
        ("a3-ultragpu-8g", "sys,roce", ["sys-0", *(f"roce-{rail}" for rail in range(8))], ["sys"]),
        ("a3-ultragpu-8g", "roce,sys", ["sys-0", *(f"roce-{rail}" for rail in range(8))], ["sys"]),
        ("h4d-standard-192", "falcon", ["falcon-0"], []),
    ],
)
def test_networks_are_taken_by_name_and_stay(
    rdma_gcp: Cloud, instance: str, names: str, subnets: list[str], rules: list[str]
) -> None:
    before = rdma_gcp.things()
    spec = with_fabric(instance, "us-central1", fabric=names)
    create(spec)
    nics = properties_of(rdma_gcp)["networkInterfaces"][1:]
    walls = [c.params["network"].rpartition("/")[2] for c in rdma_gcp.calls("firewalls.insert")]

    assert [nic["subnetwork"].rpartition("/")[2] for nic in nics] == subnets
    assert not rdma_gcp.calls(NETWORKS)
    assert not rdma_gcp.calls("subnetworks.insert")
    assert [name for name in walls if name != "default"] == rules
    [line] = [line for line in provider().plan(spec).lines if line.startswith("fabric: ")]
    assert all(name in line for name in names.split(","))
    clear("down", "c5")
    assert rdma_gcp.things() == before


@pytest.mark.parametrize(
    ("instance", "zone", "names", "why"),
    [
        ("a3-ultragpu-8g", "us-central1-b", "sys,absent", "There is no network 'absent'"),
        ("a3-ultragpu-8g", "us-central1-b", "sys", "cannot be the RoCE networks"),
        ("a3-ultragpu-8g", "us-central1-b", "sys,falcon", "cannot be the RoCE networks"),
        ("a3-ultragpu-8g", "us-central1-a", "sys,roce", "networks in us-central1-a"),
        ("h4d-standard-192", "us-central1-b", "falcon,falcon", "cannot be the Falcon networks"),
        ("a3-megagpu-8g", "us-central1-a", ",".join(["sys", "same"] * 4), "may overlap"),
        ("a3-ultragpu-8g", "us-central1-b", "default,roce", "There is no network 'default' beside"),
        ("c2-standard-60", "us-central1-a", "sys", "c2-standard-60 has one interface"),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_anything_is_made(
    rdma_gcp: Cloud, instance: str, zone: str, names: str, why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        provider().plan(with_fabric(instance, zone, fabric=names))

    assert not rdma_gcp.mutating()


@pytest.mark.parametrize("moment", [0, 1])
def test_a_launch_into_networks_of_others_that_is_killed_leaves_only_theirs(
    rdma_gcp: Cloud, moment: int
) -> None:
    before = rdma_gcp.things()
    spec = with_fabric("a3-ultragpu-8g", fabric="sys,roce")
    create(spec)
    calls = rdma_gcp.calls()
    clear("down", "c5")
    faults = [fault for fault in moments(calls) if fault.action in ("firewalls.insert", BULK)]
    for turn, fault in enumerate(faults[moment::2]):
        rdma_gcp.fail(fault)
        assert killed_processes.status(killed_processes.launch, spec) == -signal.SIGKILL, fault
        rdma_gcp.mend()
        clear(WAYS[turn % len(WAYS)], "c5")
        assert rdma_gcp.things() == before, fault


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
