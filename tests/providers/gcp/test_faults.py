"""What goes wrong at Google, and in which ways it shows: one error for each, and nothing left."""

import time

import pytest

from cluster.core.errors import Capacity, ClusterError, Denied, ProvisionError, Quota, Timeout
from cluster.core.state import journal
from cluster.providers._cloud.launch import zones_without_capacity
from tests.clouds import GCP
from tests.fakes.gcp import Cloud, Fault
from tests.providers.gcp.conftest import (
    BULK,
    INSTANCE,
    NEXT,
    ZONE,
    create,
    instances,
    provider,
    spec_of,
)
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")


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
    assert zones_without_capacity(INSTANCE) == {ZONE}
    spec = spec_of("next", options={"zones": "a,b"})
    assert f"in {NEXT}" in provider().plan(spec).lines[0]


def test_no_room_anywhere(snapshot: Snapshot, gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(capacity={ZONE: 1, NEXT: 1})

    with snapshot.raises(Capacity):
        create(spec_of(options={"zones": "a,b"}))
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
        ("insufficientCapacity", 503, Capacity),
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


def test_a_reply_that_hangs(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.providers.gcp.api.TIMEOUT", 0.5)
    gcp.fail(Fault(action=BULK, delay=2.0, times=1))

    assert len(create(spec_of())) == 2
    assert len(instances(gcp)) == 2


def test_a_teardown_that_is_refused_says_what_remains(snapshot: Snapshot, gcp: Cloud) -> None:
    gcp.fail(Fault(action=BULK, code="QUOTA_EXCEEDED", operation=True))
    gcp.fail(Fault(action="firewalls.delete", code="forbidden"))

    with snapshot.raises(Denied):
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
def test_a_quota_behind_a_summary_is_a_quota(snapshot: Snapshot, gcp: Cloud, summary: str) -> None:
    """The next zone has the same, so it is not asked."""
    google = provider()
    spec = spec_of(placement=False, zone=None, options={"zones": "us-central1-a,b"})
    google.plan(spec)
    gcp.set(summary=summary, quotas={"us-central1 C2_CPUS": 100})
    book = journal.for_cluster(spec.name)
    book.append(journal.Intended(spec=spec, at=time.time()))

    with snapshot.raises(Quota):
        google.create(spec, book)
    assert len(gcp.calls("instances.bulkInsert")) == 1
    assert gcp.things(foreign=False) == frozenset()


def test_a_summary_alone_is_a_lack_of_capacity(gcp: Cloud) -> None:
    gcp.fail(Fault(action="instances.bulkInsert", operation=True, code="VM_MIN_COUNT_NOT_REACHED"))

    with pytest.raises(Capacity):
        create(spec_of())


@pytest.mark.parametrize("call", GCP.making)
def test_what_google_itself_fails_to_do_is_begun_anew(gcp: Cloud, call: str) -> None:
    """With another id: the same one would only show the same operation."""
    gcp.fail(Fault(action=call, operation=True, code="INTERNAL_ERROR", times=2))
    create(spec_of())

    tokens = [request.params["requestId"] for request in gcp.calls(call)]
    assert len(tokens) == len(set(tokens)) >= 3
    assert len(instances(gcp)) == 2


def test_what_google_fails_to_do_for_good_is_said_and_leaves_nothing(gcp: Cloud) -> None:
    gcp.fail(Fault(action="instances.bulkInsert", operation=True, code="INTERNAL_ERROR"))

    with pytest.raises(ProvisionError, match="INTERNAL_ERROR"):
        create(spec_of())
    assert len(gcp.calls("instances.bulkInsert")) == 3
    assert gcp.things(foreign=False) == frozenset()
