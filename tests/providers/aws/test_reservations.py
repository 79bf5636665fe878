"""Reservations and Capacity Blocks: used as they are, and refused before anything is made."""

import time
from typing import Any

import msgspec
import pytest

from cluster.core.errors import Capacity, ProvisionError, Quota, SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.providers._cloud.launch import zones_without_capacity
from cluster.providers._cloud.reservations import Reservation
from cluster.providers.aws.plan import block_end
from tests.fakes.aws import Cloud, Settings
from tests.fakes.aws.values import Reserved
from tests.providers.aws.conftest import create, own_things, provider, spec_of
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")
HOUR = 3600.0
OWN = Reserved(id="cr-0own", instance="c5.large", zone="us-east-1b")
BLOCK = Reserved(id="cr-0block", instance="c5.large", zone="us-east-1c", block=True, end=HOUR)
RED_HAT = Reserved(id="cr-0hat", instance="c5.large", platform="Red Hat Enterprise Linux")
DEDICATED = Reserved(id="cr-0alone", instance="c5.large", tenancy="dedicated")
LATER = Reserved(id="cr-0later", instance="c5.large", state="scheduled", start=HOUR + 1800)


@pytest.fixture
def reserved(aws: Cloud) -> Cloud:
    aws.reset(Settings(reservations=(OWN, BLOCK, LATER, RED_HAT, DEDICATED)))
    return aws


def reserving(hosts: int = 2, **options: str) -> ClusterSpec:
    return spec_of(instance="c5.large", hosts=hosts, placement=False, options=options)


def test_machines_come_out_of_the_reservation_in_its_zone(
    snapshot: Snapshot, reserved: Cloud
) -> None:
    machines = create(reserving(reservation="cr-0own"))
    params = reserved.calls("RunInstances")[-1].params

    assert params["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0own"},
    }
    assert "InstanceMarketOptions" not in params
    region = reserved.region("us-east-1")
    zones = {region.lives[m.id].instance.placement.zone for m in machines}
    assert zones == {"us-east-1b"}
    with snapshot.raises(SpecError):
        provider().plan(reserving(3, reservation="cr-0own"))


def test_a_block_cuts_the_time_to_live_and_costs_nothing_more(reserved: Cloud) -> None:
    plan = provider().plan(reserving(block="cr-0block"))

    assert plan.ttl == pytest.approx(HOUR - 1800, abs=30)
    assert plan.price is None
    assert [line for line in plan.lines if "cr-0block" in line]
    create(reserving(block="cr-0block"))
    params = reserved.calls("RunInstances")[-1].params
    assert params["InstanceMarketOptions"] == {"MarketType": "capacity-block"}


@pytest.mark.parametrize(
    ("fields", "options", "text"),
    [
        ({}, {"reservation": "cr-0none"}, "There is no capacity reservation 'cr-0none'"),
        ({}, {"reservation": "cr-0block"}, "cr-0block is a Capacity Block"),
        ({}, {"block": "cr-0own"}, "cr-0own is a capacity reservation"),
        ({}, {"reservation": "cr-0own", "block": "cr-0block"}, "not both"),
        ({}, {"reservation": "cr-0later"}, "cr-0later is scheduled. It begins in 1 h "),
        ({"placement": True}, {"reservation": "cr-0own"}, "cannot be put into a new placement"),
        ({"spot": True}, {"reservation": "cr-0own"}, "is paid for already, and not spot"),
        ({"zone": "us-east-1a"}, {"reservation": "cr-0own"}, "is in us-east-1b, and not in"),
        ({"instance": "c5.xlarge"}, {"reservation": "cr-0own"}, "is of c5.large, and --instance"),
        ({}, {"reservation": "cr-0hat"}, "cr-0hat is of Red Hat Enterprise Linux, and the image"),
        ({}, {"reservation": "cr-0alone"}, "cr-0alone is of dedicated tenancy"),
        ({"hosts": 5}, {"reservation": "cr-0own"}, "has 4 of 4 instances free"),
    ],
)
def test_what_cannot_be_is_refused_in_plan(
    reserved: Cloud, fields: dict[str, object], options: dict[str, str], text: str
) -> None:
    values: dict[str, Any] = {"instance": "c5.large", "placement": False, "hosts": 2, **fields}
    with pytest.raises(SpecError) as error:
        provider().plan(spec_of(options=options, **values))

    assert text in error.value.what
    assert error.value.remedy
    assert not reserved.mutating()


@pytest.mark.parametrize(
    ("change", "error", "code", "text"),
    [
        ({"total": 1}, Capacity, "ReservationCapacityExceeded", "fewer free instances"),
        ({"state": "expired"}, ProvisionError, "InvalidCapacityReservationState", "not active"),
        ({"id": "cr-0other"}, ProvisionError, "InvalidCapacityReservationId.NotFound", "not exist"),
        ({"instance": "c5.xlarge"}, ProvisionError, "InvalidParameterValue", ""),
        ({"platform": "SUSE Linux"}, ProvisionError, "InvalidParameterValue", ""),
        ({"tenancy": "dedicated"}, ProvisionError, "InvalidParameterValue", ""),
        ({"block": True}, ProvisionError, "InvalidParameterCombination", ""),
    ],
)
def test_what_changed_after_the_plan_is_refused_by_amazon_and_leaves_nothing(
    reserved: Cloud, change: dict[str, Any], error: type[ProvisionError], code: str, text: str
) -> None:
    spec = reserving(reservation="cr-0own")
    book = journal.for_cluster(spec.name)
    book.append(journal.Intended(spec=spec, at=time.time()))
    amazon = provider()
    amazon.plan(spec)
    reserved.set(reservations=(msgspec.structs.replace(OWN, **change),))
    with pytest.raises(error) as excinfo:
        amazon.create(spec, book)

    assert type(excinfo.value) is error
    assert code in excinfo.value.means
    assert text in excinfo.value.means
    assert bool(text) == ("cluster up NAME --plan" in excinfo.value.remedy)
    assert own_things(reserved) == set()
    assert not zones_without_capacity("c5.large")


@pytest.mark.parametrize(
    ("instance", "before"),
    [("p5.48xlarge", 1800), ("p6e-gb200.36xlarge", 3600), ("trn2u.48xlarge", 3600)],
)
def test_machines_of_an_ultraserver_end_an_hour_before_their_block(
    instance: str, before: float
) -> None:
    row = Reservation(
        id="cr-0", instance=instance, zone="", state="active", free=4, total=4, is_block=True,
        end=2 * HOUR,
    )  # fmt: skip

    assert block_end(row, 0.0) == 2 * HOUR - before


def test_machines_of_a_block_count_towards_no_quota(reserved: Cloud) -> None:
    reserved.set(vcpus=0)
    create(reserving(block="cr-0block"))
    other = msgspec.structs.replace(reserving(), name="c6")
    with pytest.raises(Quota):
        provider().plan(other)
    reserved.set(vcpus=12)  # strangers use 8
    assert provider().plan(other).ttl


def test_a_block_that_is_nearly_over_is_refused(aws: Cloud) -> None:
    aws.reset(
        Settings(
            reservations=(Reserved(id="cr-0old", instance="c5.large", block=True, end=2000.0),)
        )
    )
    with pytest.raises(SpecError, match="33 min"):
        provider().plan(reserving(block="cr-0old"))


def test_a_plan_names_what_is_paid_for_and_not_used(reserved: Cloud) -> None:
    lines = provider().plan(reserving()).lines

    assert [line for line in lines if "cr-0own" in line and "4 of 4 free" in line]
    assert not reserved.mutating()
