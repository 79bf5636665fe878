"""What Google is asked for by a launch, and what is waited for."""

import pytest

from cluster.core.errors import ProvisionError, Timeout
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from tests.fakes.gcp import Cloud, Settings
from tests.fakes.gcp.catalog import PROJECT
from tests.providers.gcp.conftest import (
    BULK,
    book_of,
    create,
    instances,
    kinds,
    live_names,
    own_things,
    properties_of,
    provider,
    spec_of,
)
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")
MOST = 6  # mutating calls of a launch


def test_the_number_of_calls_does_not_depend_on_the_number_of_machines(gcp: Cloud) -> None:
    for number, hosts in enumerate((2, 64, 500)):
        before = len(gcp.mutating())
        machines = create(spec_of(f"n{number}", hosts=hosts))
        call_names = [call.action for call in gcp.mutating()[before:]]
        assert [m.name for m in machines] == [f"{n}.mpi.n{number}" for n in range(hosts)]
        assert len({m.address for m in machines}) == hosts
        assert call_names == [*["firewalls.insert"] * 3, "resourcePolicies.insert", BULK]
        assert len(call_names) <= MOST
        provider().destroy(f"n{number}")
        assert own_things(gcp) == frozenset()


def test_everything_that_matters_travels_in_the_creating_call(gcp: Cloud) -> None:
    create(spec_of(ttl=600.0, options={"threads_per_core": "1", "tier1": "1"}))
    call = gcp.calls(BULK)[-1]
    properties = properties_of(gcp)

    assert call.params["count"] == "2"
    assert "minCount" not in call.params
    assert properties["scheduling"]["maxRunDuration"] == {"seconds": "600"}
    assert properties["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert properties["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert properties["networkInterfaces"][0]["nicType"] == "GVNIC"
    assert properties["networkPerformanceConfig"] == {"totalEgressBandwidthTier": "TIER_1"}
    assert properties["shieldedInstanceConfig"]["enableSecureBoot"] is True
    assert properties["advancedMachineFeatures"] == {"threadsPerCore": 1}
    assert "serviceAccounts" not in properties
    assert properties["labels"]["cluster"] == "c5"
    assert properties["disks"][0]["initializeParams"]["labels"] == properties["labels"]
    report = {item["key"]: item["value"] for item in properties["metadata"]["items"]}
    assert report["ssh-keys"].startswith("cluster:ssh-ed25519 ")
    assert report["enable-oslogin"] == "FALSE"
    assert (state_folder() / "c5" / "key").stat().st_mode & 0o777 == 0o600


def test_ssh_is_open_to_the_caller_only_also_in_a_network_that_is_open(gcp: Cloud) -> None:
    create(spec_of())
    ssh, inside, deny = [call.params for call in gcp.calls("firewalls.insert")]

    assert ssh["sourceRanges"] == [f"{gcp.caller}/32"]
    assert ssh["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert inside["sourceTags"] == inside["targetTags"] == ssh["targetTags"]
    assert deny["denied"] == [{"IPProtocol": "all"}]
    assert ssh["priority"] == inside["priority"] < deny["priority"] < 65534


def test_accelerators_come_with_drivers_and_cannot_move(gcp: Cloud) -> None:
    create(spec_of(accelerator="v100:2", placement=False))
    [gpus] = properties_of(gcp)["guestAccelerators"]
    assert (gpus["acceleratorType"], gpus["acceleratorCount"]) == ("nvidia-tesla-v100", 2)
    disk = properties_of(gcp)["disks"][0]["initializeParams"]
    assert disk["sourceImage"].endswith("common-cu129-ubuntu-2404-nvidia-580-v20261020")
    assert properties_of(gcp)["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert properties_of(gcp)["shieldedInstanceConfig"]["enableSecureBoot"] is False
    provider().destroy("c5")
    journal.for_cluster("c5").forget()

    create(spec_of(accelerator="a100:2"))
    assert properties_of(gcp)["machineType"] == "a2-highgpu-2g"
    assert "guestAccelerators" not in properties_of(gcp)


def test_a_subnet_says_which_network(gcp: Cloud) -> None:
    network = f"projects/{PROJECT}/global/networks/own"
    gcp.resources[network] = {"name": "own", "autoCreateSubnetworks": False, "mtu": 8896}
    gcp.resources[f"projects/{PROJECT}/regions/us-central1/subnetworks/inside"] = {
        "name": "inside",
        "network": network,
        "ipCidrRange": "10.1.0.0/24",
        "region": "us-central1",
    }
    machines = create(spec_of(options={"subnet": "inside"}))

    assert properties_of(gcp)["networkInterfaces"][0]["subnetwork"].endswith("/subnetworks/inside")
    assert {call.params["network"] for call in gcp.calls("firewalls.insert")} == {
        "global/networks/own"
    }
    assert machines[0].link
    assert machines[0].link.mtu == 8896


def test_tier_1_is_asked_for_only_if_it_is_wanted(gcp: Cloud) -> None:
    """It costs extra, which no plan knows."""
    create(spec_of())

    assert "networkPerformanceConfig" not in properties_of(gcp)


def test_spot_and_private_addresses(gcp: Cloud) -> None:
    machines = create(spec_of(spot=True, placement=False, options={"public": "0"}))

    assert properties_of(gcp)["scheduling"]["provisioningModel"] == "SPOT"
    assert "accessConfigs" not in properties_of(gcp)["networkInterfaces"][0]
    assert all(m.access and m.access.host == m.address for m in machines)


def test_the_link_is_what_google_says(gcp: Cloud) -> None:
    extra = create(spec_of("extra", options={"tier1": "1"}))[0].link
    usual = create(spec_of("usual"))[0].link

    assert extra
    assert usual
    assert (extra.rate, usual.rate) == (100e9 / 8, 32e9 / 8)
    assert extra.mtu == 1460


def test_a_project_without_a_default_network_gets_one_that_goes_again(
    snapshot: Snapshot, gcp: Cloud
) -> None:
    gcp.reset(Settings(default_network=False))
    before = gcp.things()
    snapshot(provider().plan(spec_of()).lines[0])
    assert len(create(spec_of())) == 2
    assert {"networks", "subnetworks"} <= kinds(gcp)
    assert len(gcp.calls("firewalls.insert")) == 2

    provider().destroy("c5")
    assert gcp.things() == before


def test_names_that_google_would_not_take(gcp: Cloud) -> None:
    for name in ("mpi_test", "MPI-test", "Mpi_Test_with_29_letters_or_so"):
        create(spec_of(name))
    assert live_names() == ["MPI-test", "Mpi_Test_with_29_letters_or_so", "mpi_test"]

    provider().destroy("MPI-test")
    assert live_names() == ["Mpi_Test_with_29_letters_or_so", "mpi_test"]


# Waiting.


def test_what_takes_time_is_waited_for(gcp: Cloud) -> None:
    gcp.set(operation=0.3, provisioning=0.3, guest=1.0)

    assert all(machine.address for machine in create(spec_of()))
    known_hosts = (state_folder() / "c5" / "known_hosts").read_text()
    assert known_hosts.count("ssh-ed25519") == 2


def test_provisioning_for_ever(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(provisioning=3600.0)

    with pytest.raises(Timeout, match=r"0\.mpi\.c5 \(us-central1-a/cluster-c5-.* PROVISIONING"):
        create(spec_of(options={"wait": "0.5"}))
    assert gcp.things() == before


def test_host_keys_that_never_come(snapshot: Snapshot, gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(guest=3600.0)

    with snapshot.raises(Timeout):
        create(spec_of(options={"wait": "1.5"}))
    assert gcp.things() == before


def test_machines_that_end_right_after_their_start(snapshot: Snapshot, gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(provisioning=3600.0, second=0.0001, stopping=1.0)

    with snapshot.raises(ProvisionError):
        create(spec_of())
    assert gcp.things() == before


def test_what_a_launch_brought_is_in_the_journal(gcp: Cloud) -> None:
    create(spec_of(hosts=3))

    answers = [e for e in book_of(spec_of()).entries() if isinstance(e, journal.Answered)]
    assert list(answers[-1].ids) == instances(gcp)
    walls = [thing.id for thing in own_things(gcp) if thing.kind == "firewalls"]
    assert sorted(id_ for answer in answers for id_ in answer.ids if id_ in walls) == sorted(walls)
