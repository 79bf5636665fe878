"""Google's reservations: used as they are, and refused before anything is made."""

from typing import Any

import msgspec
import pytest

from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.providers.gcp import request
from cluster.providers.gcp.options import GcpOffer
from tests.fakes.gcp import Cloud, Fault, Settings
from tests.fakes.gcp.values import Reserved
from tests.providers.gcp.conftest import create, own_things, properties_of, provider, spec_of
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")
HOUR = 3600.0
OWN = Reserved(name="own", instance="c2-standard-60", zone="us-central1-b")
DENSE = Reserved(name="dense", instance="a3-highgpu-8g", dense=True, ends=HOUR)
LATER = Reserved(name="later", instance="c2-standard-60", status="CREATING")
SHORT = Reserved(name="short", instance="c2-standard-60", ends=300)
ANY = Reserved(name="any", instance="c2-standard-60", specific=False)


@pytest.fixture
def reserved(gcp: Cloud) -> Cloud:
    gcp.reset(Settings(reservations=(OWN, DENSE, LATER, SHORT, ANY)))
    return gcp


def reserving(name: str = "own", **fields: Any) -> ClusterSpec:
    values = {"placement": False, "zone": "us-central1", **fields}
    return spec_of(options={"reservation": name}, **values)


def test_machines_come_out_of_the_reservation_in_its_zone(
    snapshot: Snapshot, reserved: Cloud
) -> None:
    machines = create(reserving())

    assert properties_of(reserved)["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["own"],
    }
    assert properties_of(reserved)["scheduling"]["provisioningModel"] == "STANDARD"
    assert {machine.id.partition("/")[0] for machine in machines} == {"us-central1-b"}
    with snapshot.raises(SpecError):
        provider().plan(msgspec.structs.replace(reserving(hosts=3), name="c6"))


def test_a_dense_reservation_binds_its_machines_and_cuts_their_time(reserved: Cloud) -> None:
    spec = reserving("dense", instance=None, accelerator="h100:8")
    plan = provider().plan(spec)
    create(spec)
    scheduling = properties_of(reserved)["scheduling"]

    assert plan.ttl == pytest.approx(HOUR, abs=60)
    assert [line for line in plan.lines if "dense" in line]
    assert scheduling["provisioningModel"] == "RESERVATION_BOUND"
    assert scheduling["onHostMaintenance"] == "TERMINATE"


@pytest.mark.parametrize(
    ("fields", "text", "remedy"),
    [
        ({"name": "mine"}, "no capacity reservation 'mine'", "--option reservation=own: c2-"),
        ({"spot": True}, "not spot", "Leave --spot out"),
        ({"placement": True}, "new placement group", "Leave --placement out"),
        ({"instance": "c2-standard-30"}, "is of c2-standard-60", "--instance c2-standard-60"),
        ({"zone": "us-central1-a"}, "own is in us-central1-b", "--zone us-central1-b"),
        ({"name": "later"}, "later is creating", "name another"),
        ({"name": "short"}, "short ends in", "Choose another"),
        ({"name": "any"}, "cannot be named", "Leave --option reservation out"),
        ({"hosts": 5}, "4 of 4 instances free; 5 were", "--hosts 4"),
    ],
)
def test_what_does_not_fit_is_refused(
    reserved: Cloud, fields: dict[str, Any], text: str, remedy: str
) -> None:
    with pytest.raises(SpecError, match=text) as refused:
        provider().plan(reserving(**fields))

    assert remedy in refused.value.remedy
    assert not reserved.mutating()


def test_of_several_reservations_of_a_name_that_in_the_zone_is_used(gcp: Cloud) -> None:
    zones = ("us-central1-a", "us-central1-b")
    twins = [Reserved(name="same", instance="c2-standard-60", zone=zone) for zone in zones]
    gcp.reset(Settings(reservations=tuple(twins)))
    machines = create(reserving("same", zone="us-central1-b"))

    assert {machine.id.partition("/")[0] for machine in machines} == {"us-central1-b"}
    with pytest.raises(SpecError, match="same is in us-central1-"):
        provider().plan(reserving("same", zone="us-central1-c"))


def test_a_plan_lists_what_is_paid_for(snapshot: Snapshot, reserved: Cloud) -> None:
    lines = provider().plan(spec_of(placement=False)).lines
    reserved.fail(Fault(action="reservations.aggregatedList", code="forbidden", status=403))
    denied_lines = provider().plan(spec_of(placement=False)).lines

    costs = [line for line in lines if "also paid for" in line]
    assert sorted(line.partition(":")[2].split()[1] for line in costs) == [
        "reservation=later:",
        "reservation=own:",
        "reservation=short:",
    ]
    snapshot(denied_lines)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"values": ["mine"]}, "Could not find the given reservation"),
        ({"values": ["later"]}, "READY state"),
        ({"values": ["any"]}, "specificReservationRequired"),
        ({"values": ["dense"]}, "incorrect for the requested resources"),
        ({"values": ["full"]}, "sufficient capacity"),
    ],
)
def test_what_google_refuses_after_the_plan_leaves_nothing(
    reserved: Cloud, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], text: str
) -> None:
    """The reservation was changed between the plan and the launch."""
    reservation = Reserved(name="full", instance="c2-standard-60", zone="us-central1-b", count=1)
    copies = [msgspec.structs.replace(item, zone="us-central1-b") for item in (LATER, ANY, DENSE)]
    reserved.reset(Settings(reservations=(OWN, reservation, *copies)))
    original = request.affinity

    def affinity(offer: GcpOffer) -> dict[str, Any]:
        return {"reservation_affinity": {**original(offer)["reservation_affinity"], **change}}

    monkeypatch.setattr(request, "affinity", affinity)
    with pytest.raises(ProvisionError, match=text) as refused:
        create(reserving())
    assert "--plan" in refused.value.remedy

    assert own_things(reserved) == frozenset()
