"""Google, as the strict test cloud plays it: what is asked, what is refused, what is left."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from cluster.core import journal, plugins
from cluster.core.errors import (
    Capacity,
    ClusterError,
    Denied,
    ProvisionError,
    Quota,
    SpecError,
    Timeout,
)
from cluster.core.model.spec import ClusterSpec
from cluster.providers import Provider
from cluster.providers._cloud import capacity_cache
from tests.clouds import GCP
from tests.conftest import answer, command, until
from tests.fakes.gcp import Fault, Settings
from tests.fakes.gcp.catalog import PROJECT

if TYPE_CHECKING:
    from cluster.core.model.hosts import Machine
    from tests.fakes.gcp import Cloud, Thing

pytestmark = pytest.mark.usefixtures("soon")
INSTANCE, ZONE, NEXT = "c2-standard-60", "us-central1-a", "us-central1-b"
MOST = 6  # mutating calls of a launch
BULK = "instances.bulkInsert"
NO_ROOM = "ZONE_RESOURCE_POOL_EXHAUSTED"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Google be consistent after a second: the test cloud is."""
    monkeypatch.setenv("CLUSTER_LATE", "1")
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", 3.0)
    monkeypatch.setattr("cluster.providers.gcp.create.POLL", 0.05)
    monkeypatch.setattr("cluster.providers.gcp.delete.LOOK_AGAIN", 0.1)


def spec_of(name: str = "c5", **fields: Any) -> ClusterSpec:
    given = {"provider": "gcp", "zone": ZONE, "placement": True, **fields}
    if "accelerator" not in given:
        given.setdefault("instance", INSTANCE)
    return ClusterSpec(name=name, **given)


def provider() -> Provider:
    return plugins.load(Provider, "gcp")


def create(spec: ClusterSpec) -> tuple[Machine, ...]:
    """Do what a launch does, up to the first connection."""
    chosen = provider()
    chosen.plan(spec)
    return chosen.create(spec, book_of(spec))


def book_of(spec: ClusterSpec) -> journal.Journal:
    book = journal.for_cluster(spec.name)
    if not book.entries():
        with book.open_for_launch(journal.Intended(spec=spec, at=time.time())):
            pass
    return book


def ours(cloud: Cloud) -> frozenset[Thing]:
    return cloud.things(theirs=False)


def kinds(cloud: Cloud) -> set[str]:
    return {thing.kind for thing in ours(cloud)}


def instances(cloud: Cloud) -> list[str]:
    return sorted(thing.id for thing in ours(cloud) if thing.kind == "instances")


def seen() -> list[str]:
    return [one.name for one in provider().live()]


def asked(cloud: Cloud) -> dict[str, Any]:
    """Give the properties that the last machines were asked for with."""
    found: dict[str, Any] = cloud.calls(BULK)[-1].params["instanceProperties"]
    return found


# What is shown before anything exists.


def test_a_plan_shows_what_will_be_and_makes_nothing(gcp: Cloud) -> None:
    lines = "\n".join(provider().plan(spec_of()).lines)
    extra = "\n".join(provider().plan(spec_of(options={"tier1": "1"})).lines)

    assert "make 2 x c2-standard-60 in us-central1-a, 1 compact placement policy" in lines
    assert f"SSH from {gcp.caller}/32 only" in lines
    assert "ubuntu-2404-noble-amd64-v20261101" in lines
    assert "32 Gbit/s, packets of 1460 B" in lines
    assert "100 Gbit/s, packets of 1460 B, Tier_1 (costs extra" in extra
    assert "120 C2_CPUS needed, 0 in use" in lines
    assert "ends by itself 2 h 0 min after its start" in lines
    assert "2 x $2.76 = $5.52 an hour, at most $11.04 in 2 h 0 min" in lines
    assert "Cloud Billing catalog, on demand, 2026-11-20" in lines
    assert not gcp.mutating()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"instance": None}, 'instance="c2-standard-60"'),
        ({"instance": "c2-standard-61"}, "c2-standard-61 is not offered in us-central1-a"),
        ({"zone": "mars"}, "zone mars is not a zone"),
        ({"zone": None}, 'zone="us-central1-a"'),
        ({"zone": "us-east1-c"}, "It is in: europe-west4-a, us-central1-a"),
        ({"instance": "e2-standard-4"}, "no compact placement for the family e2"),
        ({"instance": "n1-standard-8"}, "no compact placement for the family n1"),
        ({"accelerator": "t4:1"}, 'a2-highgpu-1g: accelerator="a100:1"'),
        ({"accelerator": "t4:3", "placement": False}, "Ask for 1, 2, 4 of them"),
        ({"accelerator": "gtx"}, "there are: t4, v100, l4, a100, h100"),
        ({"accelerator": "l4", "instance": "n1-standard-8"}, 'instance="g2-standard-4"'),
        ({"image": "ubuntu"}, "Write PROJECT/FAMILY"),
        ({"image": "ubuntu-os-cloud/ubuntu-0004"}, "no image ubuntu-os-cloud/ubuntu-0004"),
        ({"image": "ubuntu-os-cloud/ubuntu-2404-lts-arm64"}, "is for ARM64 machines, not X86_64"),
        ({"options": {"allow": "everybody"}}, "is not a network"),
        ({"options": {"network": "nowhere"}}, "no network 'nowhere'"),
        ({"options": {"network": "own"}}, 'Say which: options={"subnet": "NAME"}'),
        ({"options": {"subnet": "nowhere"}}, "no subnet 'nowhere' in us-central1"),
    ],
)
def test_refusals_come_before_any_change(gcp: Cloud, fields: dict[str, Any], said: str) -> None:
    gcp.resources[f"projects/{PROJECT}/global/networks/own"] = {
        "name": "own",
        "autoCreateSubnetworks": False,
    }
    with pytest.raises(SpecError) as refused:
        provider().plan(spec_of(**fields))

    assert said in str(refused.value)
    assert not gcp.mutating()


def test_a_k80_is_refused_before_anybody_is_asked_anything(gcp: Cloud) -> None:
    with pytest.raises(SpecError) as refused:
        provider().plan(spec_of(accelerator="k80:2", hosts=3, placement=False))

    assert "took its K80s away on 2024-05-01" in str(refused.value)
    assert "T4 on N1, which is the same shape; L4 on G2; A100 on A2" in str(refused.value)
    command_line = "cluster up c5 --provider gcp --hosts 3 --zone us-central1-a --accelerator t4:2"
    assert f"Type: {command_line}\n" in str(refused.value)
    assert not gcp.calls()


def test_a_k80_is_asked_for_where_there_may_be_some(gcp: Cloud) -> None:
    gcp.reset(Settings(retired=True))

    create(spec_of(accelerator="k80:2", placement=False, options={"allow_retired": "1"}))

    [gpus] = asked(gcp)["guestAccelerators"]
    assert gpus == {"acceleratorType": "nvidia-tesla-k80", "acceleratorCount": 2}
    assert asked(gcp)["machineType"] == "n1-standard-8"


def test_a_quota_is_no_matter_of_capacity(gcp: Cloud) -> None:
    gcp.set(quotas={"us-central1 C2_CPUS": 100})

    with pytest.raises(Quota, match="120 C2_CPUS are needed; of 100 in us-central1, 0 are in use"):
        provider().plan(spec_of())
    assert not gcp.mutating()


@pytest.mark.parametrize("metric", ["us-central1 NVIDIA_T4_GPUS", "GPUS_ALL_REGIONS"])
def test_accelerators_have_two_quotas(gcp: Cloud, metric: str) -> None:
    gcp.set(quotas={metric: 1})

    with pytest.raises(Quota, match=f"2 {metric.rpartition(' ')[2]} are needed"):
        provider().plan(spec_of(accelerator="t4:1", placement=False))


def test_prices_of_spare_machines_and_of_accelerators(gcp: Cloud) -> None:
    spare = provider().plan(spec_of(spot=True)).price
    gpus = provider().plan(spec_of(accelerator="t4:2", placement=False)).price
    both = provider().plan(spec_of(accelerator="t4:2", placement=False, spot=True)).price

    assert spare
    assert gpus
    assert both
    assert both.hourly == pytest.approx(8 * 0.010 + 30 * 0.001 + 2 * 0.1)
    assert spare.hourly == pytest.approx(60 * 0.010 + 240 * 0.001)
    assert gpus.hourly == pytest.approx(8 * 0.030 + 30 * 0.004 + 2 * 0.35)


@pytest.mark.parametrize(
    "fields", [{"instance": "n2-standard-80"}, {"instance": "e2-standard-4", "placement": False}]
)
def test_a_price_of_which_a_part_is_missing_is_unknown(gcp: Cloud, fields: dict[str, Any]) -> None:
    plan = provider().plan(spec_of(**fields))

    assert plan.price is None
    assert "price: unknown" in plan.lines


def test_a_price_that_cannot_be_had_is_unknown(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING", f"{gcp.url}/nothing")

    assert "price: unknown" in provider().plan(spec_of()).lines
    assert gcp.gaps.pop()


def test_one_project_more_than_there_is(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with pytest.raises(SpecError, match="No project of Google is chosen"):
        provider().plan(spec_of())
    with pytest.raises(Denied, match="permission for 'projects/other'"):
        provider().plan(spec_of(options={"project": "other"}))
    provider().plan(spec_of(options={"project": PROJECT}))


# What is asked for.


def test_the_number_of_calls_does_not_depend_on_the_number_of_machines(gcp: Cloud) -> None:
    for number, hosts in enumerate((2, 64, 500)):
        before = len(gcp.mutating())
        machines = create(spec_of(f"n{number}", hosts=hosts))
        made = [call.action for call in gcp.mutating()[before:]]
        assert [m.name for m in machines] == [f"{n}.mpi.n{number}" for n in range(hosts)]
        assert len({m.address for m in machines}) == hosts
        assert made == [*["firewalls.insert"] * 3, "resourcePolicies.insert", BULK]
        assert len(made) <= MOST
        provider().destroy(f"n{number}")
        assert ours(gcp) == frozenset()


def test_everything_that_matters_travels_in_the_creating_call(gcp: Cloud) -> None:
    create(spec_of(ttl=600.0, options={"threads_per_core": "1", "tier1": "1"}))
    call = gcp.calls(BULK)[-1]
    properties = asked(gcp)

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
    told = {one["key"]: one["value"] for one in properties["metadata"]["items"]}
    assert told["ssh-keys"].startswith("cluster:ssh-ed25519 ")
    assert told["enable-oslogin"] == "FALSE"
    assert (journal.root() / "c5" / "key").stat().st_mode & 0o777 == 0o600


def test_ssh_is_open_to_the_caller_only_also_in_a_network_that_is_open(gcp: Cloud) -> None:
    create(spec_of())
    ssh, inside, nothing = [call.params for call in gcp.calls("firewalls.insert")]

    assert ssh["sourceRanges"] == [f"{gcp.caller}/32"]
    assert ssh["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert inside["sourceTags"] == inside["targetTags"] == ssh["targetTags"]
    assert nothing["denied"] == [{"IPProtocol": "all"}]
    assert ssh["priority"] == inside["priority"] < nothing["priority"] < 65534


def test_accelerators_come_with_drivers_and_cannot_move(gcp: Cloud) -> None:
    create(spec_of(accelerator="v100:2", placement=False))
    [gpus] = asked(gcp)["guestAccelerators"]
    assert (gpus["acceleratorType"], gpus["acceleratorCount"]) == ("nvidia-tesla-v100", 2)
    disk = asked(gcp)["disks"][0]["initializeParams"]
    assert disk["sourceImage"].endswith("common-cu129-ubuntu-2404-nvidia-580-v20261020")
    assert asked(gcp)["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert asked(gcp)["shieldedInstanceConfig"]["enableSecureBoot"] is False
    provider().destroy("c5")
    journal.for_cluster("c5").forget()

    create(spec_of(accelerator="a100:2"))
    assert asked(gcp)["machineType"] == "a2-highgpu-2g"
    assert "guestAccelerators" not in asked(gcp)


def test_a_subnet_says_which_network(gcp: Cloud) -> None:
    own = f"projects/{PROJECT}/global/networks/own"
    gcp.resources[own] = {"name": "own", "autoCreateSubnetworks": False, "mtu": 8896}
    gcp.resources[f"projects/{PROJECT}/regions/us-central1/subnetworks/inside"] = {
        "name": "inside",
        "network": own,
        "ipCidrRange": "10.1.0.0/24",
        "region": "us-central1",
    }
    machines = create(spec_of(options={"subnet": "inside"}))

    assert asked(gcp)["networkInterfaces"][0]["subnetwork"].endswith("/subnetworks/inside")
    assert {call.params["network"] for call in gcp.calls("firewalls.insert")} == {
        "global/networks/own"
    }
    assert machines[0].link
    assert machines[0].link.mtu == 8896


def test_tier_1_is_asked_for_only_if_it_is_wanted(gcp: Cloud) -> None:
    """It costs extra, which no plan knows."""
    create(spec_of())

    assert "networkPerformanceConfig" not in asked(gcp)


def test_spot_and_private_addresses(gcp: Cloud) -> None:
    machines = create(spec_of(spot=True, placement=False, options={"public": "0"}))

    assert asked(gcp)["scheduling"]["provisioningModel"] == "SPOT"
    assert "accessConfigs" not in asked(gcp)["networkInterfaces"][0]
    assert all(m.access and m.access.host == m.address for m in machines)


def test_the_link_is_what_google_says(gcp: Cloud) -> None:
    extra = create(spec_of("extra", options={"tier1": "1"}))[0].link
    usual = create(spec_of("usual"))[0].link

    assert extra
    assert usual
    assert (extra.rate, usual.rate) == (100e9 / 8, 32e9 / 8)
    assert extra.mtu == 1460


def test_a_project_without_a_default_network_gets_one_that_goes_again(gcp: Cloud) -> None:
    gcp.reset(Settings(default_network=False))
    before = gcp.things()
    assert "there is no default one" in provider().plan(spec_of()).lines[0]
    assert len(create(spec_of())) == 2
    assert {"networks", "subnetworks"} <= kinds(gcp)
    assert len(gcp.calls("firewalls.insert")) == 2

    provider().destroy("c5")
    assert gcp.things() == before


def test_names_that_google_would_not_take(gcp: Cloud) -> None:
    for name in ("mpi_test", "MPI-test", "Mpi_Test_with_29_letters_or_so"):
        create(spec_of(name))
    assert seen() == ["MPI-test", "Mpi_Test_with_29_letters_or_so", "mpi_test"]

    provider().destroy("MPI-test")
    assert seen() == ["Mpi_Test_with_29_letters_or_so", "mpi_test"]


# Operations.


@pytest.mark.parametrize("status", [503, 0])
@pytest.mark.parametrize("shortage_", ["error", "ghost", "vanish", "short"])
def test_no_room_in_a_zone_leads_to_the_next_however_it_shows(
    gcp: Cloud, monkeypatch: pytest.MonkeyPatch, shortage_: str, status: int
) -> None:
    """It is found out at once, and not because something is not listed for long."""
    monkeypatch.setenv("CLUSTER_LATE", "600")
    gcp.set(
        capacity={f"{ZONE} {INSTANCE}": 1},
        shortage=shortage_,
        status=bool(status),
        details=bool(status),
        operation=0.2,
        provisioning=0.2,
    )
    machines = create(spec_of(options={"zones": "a,b"}))

    assert all(machine.id.startswith(NEXT) for machine in machines)
    assert [call.region for call in gcp.calls(BULK)] == [ZONE, NEXT]
    assert len(instances(gcp)) == 2
    assert capacity_cache.zones(INSTANCE) == {ZONE}
    where = spec_of("next", options={"zones": "a,b"})
    assert f"in {NEXT}" in provider().plan(where).lines[0]


def test_no_room_anywhere(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(capacity={ZONE: 1, NEXT: 1})

    with pytest.raises(Capacity, match="does not have enough resources") as refused:
        create(spec_of(options={"zones": "a,b"}))
    assert 'options={"zones": "a,b"}' in str(refused.value)
    assert "Nothing is left" in str(refused.value)
    assert gcp.things() == before


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("QUOTA_EXCEEDED", Quota),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", Capacity),
        ("PERMISSIONS_ERROR", Denied),
        ("UNSUPPORTED_OPERATION", ProvisionError),
        ("INTERNAL_ERROR", ProvisionError),
    ],
)
@pytest.mark.parametrize("status", [503, 0])
def test_errors_of_operations_are_read_and_what_they_leave_goes(
    gcp: Cloud, code: str, status: int, error: type[ClusterError]
) -> None:
    before = gcp.things()
    gcp.set(status=bool(status), operation=0.2)
    gcp.fail(Fault(action=BULK, code=code, operation=True, made=1))

    with pytest.raises(error) as refused:
        create(spec_of())
    assert type(refused.value) is error
    assert code in str(refused.value)
    assert gcp.things() == before


@pytest.mark.parametrize("action", ["firewalls.insert", "resourcePolicies.insert"])
def test_errors_of_what_machines_need(gcp: Cloud, action: str) -> None:
    before = gcp.things()
    gcp.fail(Fault(action=action, code="QUOTA_EXCEEDED", operation=True))

    with pytest.raises(Quota):
        create(spec_of())
    assert gcp.things() == before


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("quotaExceeded", 403, Quota),
        ("forbidden", 403, Denied),
        ("authError", 401, Denied),
        ("rateLimitExceeded", 403, Timeout),
        ("rateLimitExceeded", 429, Timeout),
        ("internalError", 500, Timeout),
        ("backendError", 503, Timeout),
        ("somethingNew", 400, ProvisionError),
    ],
)
def test_each_refusal_has_its_class_and_leaves_nothing(
    gcp: Cloud, code: str, status: int, error: type[ClusterError]
) -> None:
    before = gcp.things()
    gcp.fail(Fault(action=BULK, code=code, status=status))

    with pytest.raises(error) as refused:
        create(spec_of())
    assert type(refused.value) is error
    assert refused.value.what
    assert refused.value.means
    assert refused.value.remedy
    assert gcp.things() == before


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize(
    "action",
    ["firewalls.insert", "resourcePolicies.insert", BULK, "instances.list", "zoneOperations.get"],
)
def test_what_passes_is_tried_again_with_the_same_request(
    gcp: Cloud, action: str, status: int
) -> None:
    gcp.set(operation=0.2)
    gcp.fail(Fault(action=action, code="backendError", status=status, times=2))
    assert len(create(spec_of())) == 2

    requests = {call.params["requestId"] for call in gcp.mutating()}
    assert len(requests) == 5
    assert len(instances(gcp)) == 2


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_reply_makes_nothing_twice(gcp: Cloud, moment: Any) -> None:
    gcp.fail(Fault(action="mutating", drop=moment, times=1))
    gcp.fail(Fault(action=BULK, drop=moment, times=1))
    gcp.fail(Fault(action="resourcePolicies.insert", drop=moment, times=1))
    gcp.fail(Fault(action="instances.getGuestAttributes", drop=moment, times=1))
    assert len(create(spec_of())) == 2

    assert len({call.params["requestId"] for call in gcp.calls(BULK)}) == 1
    assert len(gcp.calls(BULK)) == 2
    assert len(instances(gcp)) == 2


def test_a_reply_that_hangs(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.providers.gcp.api.TIMEOUT", 0.5)
    gcp.fail(Fault(action=BULK, delay=2.0, times=1))

    assert len(create(spec_of())) == 2
    assert len(instances(gcp)) == 2


# Waiting.


def test_what_takes_time_is_waited_for(gcp: Cloud) -> None:
    gcp.set(operation=0.3, provisioning=0.3, guest=1.0)

    assert all(machine.address for machine in create(spec_of()))
    known = (journal.root() / "c5" / "known_hosts").read_text()
    assert known.count("ssh-ed25519") == 2


def test_provisioning_for_ever(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(provisioning=3600.0)

    with pytest.raises(Timeout, match=r"0\.mpi\.c5 \(cluster-c5-.*is not ready .* PROVISIONING"):
        create(spec_of(options={"wait": "0.5"}))
    assert gcp.things() == before


def test_host_keys_that_never_come(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(guest=3600.0)

    with pytest.raises(Timeout, match="has not reported its host keys") as late:
        create(spec_of(options={"wait": "1.5"}))
    assert "guest agent" in str(late.value)
    assert gcp.things() == before


def test_machines_that_end_right_after_their_start(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(provisioning=3600.0, second=0.0001, stopping=1.0)

    with pytest.raises(ProvisionError, match="ended right after its start: STOPPING"):
        create(spec_of())
    assert gcp.things() == before


# Taking it away.


def test_the_same_intent_again_gives_the_same_machines(gcp: Cloud) -> None:
    first = create(spec_of())

    assert create(spec_of()) == first
    assert len(instances(gcp)) == 2


def test_everything_goes_and_nothing_of_others(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not what another user of the project has under the same name."""
    monkeypatch.setenv("CLOUDSDK_CORE_ACCOUNT", "somebody@example.com")
    create(spec_of())
    journal.for_cluster("c5").forget()
    monkeypatch.setenv("CLOUDSDK_CORE_ACCOUNT", "me@example.com")
    before = gcp.things()
    create(spec_of())
    gcp.set(stopping=0.5, operation=0.2)
    provider().destroy("c5")

    assert gcp.things() == before
    assert provider().find("c5") == ()
    assert seen() == []


def test_a_policy_that_somebody_else_uses_holds_up_the_end_until_it_is_free(gcp: Cloud) -> None:
    create(spec_of())
    [policy] = [thing.id for thing in ours(gcp) if thing.kind == "resourcePolicies"]
    stranger = gcp.resources[f"projects/{PROJECT}/zones/{ZONE}/instances/c5-0001"]
    path = f"projects/{PROJECT}/regions/us-central1/resourcePolicies/{policy}"
    stranger["resourcePolicies"] = [path]
    held: list[set[str]] = []

    def free() -> None:
        held.append(kinds(gcp))
        stranger["resourcePolicies"] = []

    timer = threading.Timer(1.5, free)
    timer.start()
    provider().destroy("c5")

    assert held == [{"resourcePolicies"}]
    assert ours(gcp) == frozenset()


def test_a_name_that_another_machine_has_taken(gcp: Cloud) -> None:
    create(spec_of())
    journal.for_cluster("c5").forget()

    with pytest.raises(SpecError, match="cluster 'c5' of yours in the project") as refused:
        provider().plan(spec_of())
    assert "cluster down c5" in str(refused.value)


def test_two_launches_of_a_name_at_once_do_not_hurt_one_another(gcp: Cloud) -> None:
    """The second one has planned before the first one made anything."""
    late = provider()
    late.plan(spec_of())
    create(spec_of())
    alive = instances(gcp)
    journal.for_cluster("c5").forget()

    with pytest.raises(SpecError, match="already"):
        late.create(spec_of(), book_of(spec_of()))
    assert instances(gcp) == alive


def test_down_from_labels_alone(gcp: Cloud) -> None:
    before = gcp.things()
    create(spec_of())
    journal.for_cluster("c5").forget()
    said = command("down", "c5", "--region", "us-central1").stdout

    assert "0 left (looked for instances, disks, placement policies" in said
    assert gcp.things() == before


def test_an_expired_cluster_of_another_machine_is_forgotten(gcp: Cloud) -> None:
    create(spec_of())
    journal.for_cluster("c5").forget()

    assert "c5" in command("gc").stdout
    command("gc", "-y")
    assert ours(gcp) == frozenset()


def test_machines_end_by_themselves(gcp: Cloud) -> None:
    create(spec_of(ttl=60.0))
    stay = instances(gcp)
    gcp.set(second=0.05)
    create(spec_of("short", ttl=60.0))

    until(lambda: instances(gcp) == stay, "their time is over")


def test_a_cluster_is_seen_from_everywhere(gcp: Cloud) -> None:
    create(spec_of(ttl=600.0))
    journal.for_cluster("c5").forget()

    [row] = answer("ls")
    assert (row["name"], row["hosts"], row["region"]) == ("c5", 2, f"projects/{PROJECT}")
    assert row["status"].startswith("running, of ")
    assert 0 < row["dollars"] < 5.52
    assert 0 < row["expires"] - time.time() < 600


def test_what_a_launch_brought_is_in_the_journal(gcp: Cloud) -> None:
    create(spec_of(hosts=3))

    [answered] = [e for e in book_of(spec_of()).entries() if isinstance(e, journal.Answered)]
    assert list(answered.ids) == instances(gcp)


def test_a_teardown_that_is_refused_says_what_remains(gcp: Cloud) -> None:
    gcp.fail(Fault(action=BULK, code="QUOTA_EXCEEDED", operation=True))
    gcp.fail(Fault(action="firewalls.delete", code="forbidden"))

    with pytest.raises(Denied, match=r"may still exist, and cost money.*cluster down c5"):
        create(spec_of())


def test_a_launch_that_came_to_nothing_is_begun_anew(gcp: Cloud) -> None:
    """Google would answer the same requests with what they did, which is not there any more."""
    gcp.fail(Fault(action=BULK, code="QUOTA_EXCEEDED", operation=True, times=1))
    with pytest.raises(Quota):
        create(spec_of())

    assert len(create(spec_of())) == 2


def test_an_answer_that_is_no_json_is_asked_for_again(gcp: Cloud) -> None:
    """Whatever its status says; the call has its id, and makes nothing twice."""
    gcp.fail(Fault(action="instances.bulkInsert", body="<html>", status=200, times=1))
    create(spec_of())

    assert len(instances(gcp)) == 2
    assert len(gcp.calls("instances.bulkInsert")) == 2


@pytest.mark.parametrize("summary", ["first", "parts"])
def test_a_stock_out_behind_a_summary_leads_to_the_next_zone(gcp: Cloud, summary: str) -> None:
    """`VM_MIN_COUNT_NOT_REACHED` says nothing of the cause, which one of the machines has."""
    gcp.set(summary=summary, capacity={"us-central1-a": 1})
    machines = create(spec_of(placement=False, zone=None, options={"zones": "us-central1-a,b"}))

    assert [machine.id.partition("/")[0] for machine in machines] == ["us-central1-b"] * 2
    assert len(gcp.calls("instances.bulkInsert")) == 2


@pytest.mark.parametrize("summary", ["first", "parts"])
def test_a_quota_behind_a_summary_is_a_quota(gcp: Cloud, summary: str) -> None:
    """The next zone has the same, so it is not asked."""
    chosen = provider()
    spec = spec_of(placement=False, zone=None, options={"zones": "us-central1-a,b"})
    chosen.plan(spec)
    gcp.set(summary=summary, quotas={"us-central1 C2_CPUS": 100})
    book = journal.for_cluster(spec.name)
    book.append(journal.Intended(spec=spec, at=time.time()))

    with pytest.raises(Quota, match="Quota 'C2_CPUS' exceeded"):
        chosen.create(spec, book)
    assert len(gcp.calls("instances.bulkInsert")) == 1
    assert gcp.things(theirs=False) == frozenset()


def test_a_summary_alone_is_a_lack_of_capacity(gcp: Cloud) -> None:
    gcp.fail(Fault(action="instances.bulkInsert", operation=True, code="VM_MIN_COUNT_NOT_REACHED"))

    with pytest.raises(Capacity):
        create(spec_of())


@pytest.mark.parametrize("call", GCP.making)
def test_what_google_itself_fails_to_do_is_begun_anew(gcp: Cloud, call: str) -> None:
    """With another id: the same one would only show the same operation."""
    gcp.fail(Fault(action=call, operation=True, code="INTERNAL_ERROR", times=2))
    create(spec_of())

    tokens = [one.params["requestId"] for one in gcp.calls(call)]
    assert len(tokens) == len(set(tokens)) >= 3
    assert len(instances(gcp)) == 2


def test_what_google_fails_to_do_for_good_is_said_and_leaves_nothing(gcp: Cloud) -> None:
    gcp.fail(Fault(action="instances.bulkInsert", operation=True, code="INTERNAL_ERROR"))

    with pytest.raises(ProvisionError, match="INTERNAL_ERROR"):
        create(spec_of())
    assert len(gcp.calls("instances.bulkInsert")) == 3
    assert gcp.things(theirs=False) == frozenset()


@pytest.mark.parametrize(
    ("fields", "spare", "normal"),
    [
        ({}, "PREEMPTIBLE_CPUS", "C2_CPUS"),
        ({"accelerator": "t4:1", "instance": None}, "PREEMPTIBLE_NVIDIA_T4_GPUS", "NVIDIA_T4_GPUS"),
    ],
)
def test_spot_without_a_quota_of_its_own_counts_as_the_others(
    gcp: Cloud, fields: dict[str, Any], spare: str, normal: str
) -> None:
    """A limit of 0 is the usual one, and refuses nobody."""
    spec = spec_of(spot=True, placement=False, **fields)
    gcp.set(quotas={f"us-central1 {spare}": 0})
    assert any(f" {normal} needed" in line for line in provider().plan(spec).lines)
    create(spec)
    provider().destroy("c5")

    gcp.set(quotas={f"us-central1 {spare}": 0, f"us-central1 {normal}": 1})
    with pytest.raises(Quota, match=f" {normal} are needed"):
        provider().plan(spec)
    gcp.set(quotas={f"us-central1 {spare}": 1})
    with pytest.raises(Quota, match=f" {spare} are needed"):
        provider().plan(spec)
