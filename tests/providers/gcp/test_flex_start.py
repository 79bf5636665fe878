"""Flex-start: machines that wait in Google's queue, all at once or not at all."""

import signal
import time
from typing import Any

import msgspec
import pytest

from cluster.core.errors import Capacity, ProvisionError, Quota, SpecError
from cluster.core.model.spec import ClusterSpec, Group
from cluster.core.state import journal
from cluster.orchestration.cluster import attach
from tests import killed_processes
from tests.conftest import until
from tests.fakes.gcp import Cloud, Fault, Settings
from tests.fakes.gcp.values import Reserved
from tests.killed_processes import WAYS, clear
from tests.providers.gcp.conftest import (
    BULK,
    book_of,
    create,
    instances,
    kinds,
    own_things,
    provider,
    spec_of,
)
from tests.providers.test_clouds_crashes import by_each_way, moments, ways_after

pytestmark = pytest.mark.usefixtures("soon")
REQUEST = "instanceGroupManagerResizeRequests.insert"
MAKING = ("instanceTemplates.insert", "instanceGroupManagers.insert", REQUEST)
QUEUED = {"instanceTemplates", "instanceGroupManagers", "resizeRequests"}
NEVER = 1e6  # seconds


def queued(wait: str = "2h", *, fabric: str = "0", **fields: Any) -> ClusterSpec:
    options = {"flex_start": wait, "fabric": fabric, **fields.pop("options", {})}
    values = {"instance": "a3-highgpu-8g", "placement": False, **fields}
    return spec_of(options=options, **values)


def changes(cloud: Cloud, since: int = 0) -> list[str]:
    return [call.action for call in cloud.mutating()[since:]]


def in_queue(cloud: Cloud) -> bool:
    return {"ACCEPTED"} == {
        item["state"] for path, item in cloud.resources.items() if "/resizeRequests/" in path
    }


def test_machines_come_all_at_once_by_as_many_calls_for_any_number(gcp: Cloud) -> None:
    before = gcp.things()
    machines = create(queued())
    calls = changes(gcp)
    ids, names = [machine.id for machine in machines], instances(gcp)
    clear("down", "c5")
    assert gcp.things() == before
    since = len(gcp.mutating())
    create(queued(hosts=6))

    assert ids == [f"us-central1-a/{name}" for name in names]
    assert len(instances(gcp)) == 6
    assert changes(gcp, since) == calls
    assert calls[-3:] == list(MAKING)
    assert not gcp.calls(BULK)
    clear("down", "c5")
    assert gcp.things() == before


def test_what_is_asked_for_is_what_google_takes(gcp: Cloud) -> None:
    create(queued(ttl=3600.0))
    ends = [e.expires for e in journal.for_cluster("c5").entries() if isinstance(e, journal.Owned)]
    properties = gcp.calls("instanceTemplates.insert")[-1].params["properties"]
    group = gcp.calls("instanceGroupManagers.insert")[-1].params

    assert properties["scheduling"] == {
        "automaticRestart": False,
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": "3600"},
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "FLEX_START",
    }
    assert properties["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert ends == pytest.approx([time.time() + 3 * 3600, time.time() + 3600], abs=100)
    assert group["targetSize"] == 0
    assert group["instanceLifecyclePolicy"] == {"defaultActionOnFailure": "DO_NOTHING"}
    clear("down", "c5")


def test_a_plan_says_how_long_it_waits_and_the_price_at_most(gcp: Cloud) -> None:
    plan = provider().plan(queued())
    on_demand = provider().plan(spec_of(instance="a3-highgpu-8g", placement=False))

    [line] = [line for line in plan.lines if line.startswith("flex-start: ")]
    assert "2 h" in line
    assert plan.price == on_demand.price
    assert [line for line in plan.lines if "quota: 16 PREEMPTIBLE_NVIDIA_H100_GPUS" in line]


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({"spot": True}, "--spot"),
        ({"placement": True}, "--placement"),
        ({"options": {"reservation": "own"}}, "--option reservation="),
        ({"instance": "c2-standard-60"}, "--instance a3-highgpu-8g"),
        ({"instance": "a4x-highgpu-4g", "zone": "us-central1-b"}, "--instance a3-highgpu-8g"),
        ({"ttl": 300.0}, "--ttl 2h"),
        ({"ttl": 8 * 86400.0}, "--ttl 2h"),
        ({"wait": "soon"}, "2h"),
        ({"wait": "0s"}, "2h"),
        (
            {
                "groups": {
                    "a": Group(hosts=1, instance="a3-highgpu-8g"),
                    "b": Group(hosts=1, instance="a3-highgpu-8g"),
                }
            },
            "groups",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_google_excludes_is_refused_before_anything_is_made(
    gcp: Cloud, fields: dict[str, Any], remedy: str
) -> None:
    reservation = Reserved(name="own", instance="a3-highgpu-8g")
    gcp.reset(Settings(reservations=(reservation,)))
    with pytest.raises(SpecError) as refused:
        provider().plan(queued(**fields))

    assert remedy in refused.value.remedy
    assert not gcp.mutating()


def test_the_state_is_shown_while_it_waits(gcp: Cloud) -> None:
    """Also why, until there is room."""
    gcp.set(capacity={"us-central1-a": 0})
    states: list[tuple[str, str]] = []

    def show(name: str, state: str) -> None:
        states.append((name, state))
        if "EXHAUSTED" in state:
            gcp.set(capacity={})

    spec = queued()
    machines = provider().create(spec, book_of(spec), show)

    reason = "in Google's queue: accepted (ZONE_RESOURCE_POOL_EXHAUSTED)"
    assert {("0.mpi.c5", reason), ("1.mpi.c5", reason)} <= set(states)
    assert states[-1][1] == "running"
    assert len(machines) == 2
    clear("down", "c5")


def test_without_room_in_time_the_next_zone_is_tried_and_nothing_stays_in_the_queue(
    gcp: Cloud,
) -> None:
    before = gcp.things()
    gcp.set(capacity={"us-central1-a": 0})
    machines = create(queued("1s", zone="us-central1"))
    groups = [thing for thing in own_things(gcp) if thing.kind == "instanceGroupManagers"]

    assert {machine.id.partition("/")[0] for machine in machines} == {"us-central1-b"}
    assert [thing.region for thing in groups] == ["us-central1-b"]
    clear("down", "c5")
    assert gcp.things() == before


def test_without_room_in_any_zone_nothing_is_left(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(capacity={"us-central1-a": 0})
    with pytest.raises(Capacity, match="ZONE_RESOURCE_POOL_EXHAUSTED"):
        create(queued("1s"))

    assert gcp.things() == before


def test_a_lack_of_quota_in_the_queue_is_one_of_the_quota(gcp: Cloud) -> None:
    """Google lets such a request wait; no other zone of the region is tried."""
    before = gcp.things()
    spec = queued("1s", zone="us-central1")
    google = provider()
    google.plan(spec)
    gcp.set(quotas={"us-central1 PREEMPTIBLE_NVIDIA_H100_GPUS": 8})
    with pytest.raises(Quota) as refused:
        google.create(spec, book_of(spec))

    assert "QUOTA_EXCEEDED" in refused.value.what
    assert len(gcp.calls(REQUEST)) == 1
    assert gcp.things() == before


@pytest.mark.parametrize(
    ("code", "error"), [("QUOTA_EXCEEDED", "Quota"), ("PERMISSIONS_ERROR", "Denied")]
)
def test_a_request_that_fails_says_why_and_nothing_is_left(
    gcp: Cloud, code: str, error: str
) -> None:
    before = gcp.things()
    gcp.set(queue_ends=code)
    with pytest.raises(ProvisionError) as failed:
        create(queued())

    assert type(failed.value).__name__ == error
    assert gcp.things() == before


def test_a_request_that_somebody_takes_away_is_no_room(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(queue=NEVER)

    def take(_: str, state: str) -> None:
        if "accepted" in state:
            with gcp.lock:
                for path in [path for path in gcp.resources if "/resizeRequests/" in path]:
                    gcp.queue.pop(path)
                    del gcp.resources[path]

    spec = queued()
    with pytest.raises(Capacity, match="is deleted"):
        provider().create(spec, book_of(spec), take)

    assert gcp.things() == before


def test_ctrl_c_in_the_queue_leaves_nothing_in_it(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(queue=NEVER)

    def interrupt(_: str, state: str) -> None:
        if "accepted" in state:
            raise KeyboardInterrupt

    spec = queued()
    with pytest.raises(KeyboardInterrupt):
        provider().create(spec, book_of(spec), interrupt)

    assert gcp.things() == before


@pytest.mark.parametrize("way", WAYS)
def test_a_launch_that_is_killed_in_the_queue_leaves_nothing(gcp: Cloud, way: str) -> None:
    before = gcp.things()
    gcp.set(queue=NEVER)
    with killed_processes.begun(killed_processes.launch, queued()) as process:
        until(lambda: in_queue(gcp), "the request is accepted")
        process.kill()
    assert kinds(gcp) >= QUEUED
    clear(way, "c5")

    assert gcp.things() == before


def test_a_launch_that_is_killed_in_the_queue_goes_on_at_its_place(gcp: Cloud) -> None:
    before = gcp.things()
    gcp.set(queue=NEVER)
    with killed_processes.begun(killed_processes.launch, queued()) as process:
        until(lambda: in_queue(gcp), "the request is accepted")
        process.kill()
    place = {thing for thing in own_things(gcp) if thing.kind in QUEUED}
    spec = queued()
    launch = provider()

    def room(_: str, state: str) -> None:
        if "accepted" in state and gcp.settings.queue:
            assert {thing for thing in own_things(gcp) if thing.kind in QUEUED} == place
            gcp.set(queue=0.0)

    with book_of(spec).lock():
        machines = launch.create(spec, book_of(spec), room)

    assert len(machines) == 2
    clear("down", "c5")
    assert gcp.things() == before


@by_each_way
def test_a_launch_that_is_killed_at_any_call_leaves_nothing(
    gcp: Cloud, ways: tuple[str, ...]
) -> None:
    """Before and after each call that makes something, and before each look at the queue."""
    before = gcp.things()
    gcp.set(queue=0.3, operation=0.2, looks=1)
    launch = provider()
    spec = queued()
    launch.plan(spec)
    planned = len(gcp.calls())
    launch.create(spec, book_of(spec))
    calls = gcp.calls()
    clear("down", "c5")
    looked = False
    for turn, fault in enumerate(moments(calls, planned)):
        action = fault.action if fault.action != "*" else calls[fault.skip].action
        is_new = action in MAKING or (action == "instanceGroupManagerResizeRequests.get")
        if not is_new or (looked and action not in MAKING):
            continue
        looked = looked or action not in MAKING
        for way in ways_after(fault, turn, ways):
            gcp.fail(fault)
            status = killed_processes.status(killed_processes.launch, spec)
            assert status == -signal.SIGKILL, fault
            gcp.mend()
            clear(way, "c5")
            assert gcp.things() == before, f"{fault}, then {way}"


def test_what_lost_its_description_is_found_by_the_journal(gcp: Cloud) -> None:
    before = gcp.things()
    create(queued())
    gcp.lose_tags()
    clear("down", "c5")

    assert gcp.things() == before


@pytest.mark.parametrize("action", MAKING)
def test_a_call_that_is_refused_halfway_leaves_nothing(gcp: Cloud, action: str) -> None:
    before = gcp.things()
    gcp.fail(Fault(action=action, code="forbidden", status=403, times=1))
    with pytest.raises(ProvisionError):
        create(queued())

    assert gcp.things() == before


def test_groups_that_may_not_be_listed_do_not_keep_machines_from_their_end(gcp: Cloud) -> None:
    spec = spec_of(placement=False)
    create(spec)
    gcp.fail(Fault(action="instanceGroupManagers.aggregatedList", code="forbidden", status=403))
    with pytest.raises(ProvisionError):
        clear("down", "c5")

    assert not instances(gcp)
    gcp.mend()
    clear("down", "c5")


def test_a_replacement_in_the_queue_that_is_given_up_leaves_it(gcp: Cloud) -> None:
    """The machines that stay keep their group."""
    spec = queued()
    machines = create(spec)
    gcp.set(queue=NEVER)

    def interrupt(_: str, state: str) -> None:
        if "accepted" in state:
            raise KeyboardInterrupt

    book = journal.for_cluster("c5")
    with pytest.raises(KeyboardInterrupt):
        provider().add(spec, machines[0], (1,), book, interrupt)
    assert in_queue(gcp) is False  # there are two requests, and one has its machines
    provider().delete_except("c5", machines)
    groups = [thing.id for thing in own_things(gcp) if thing.kind == "instanceGroupManagers"]

    assert len(groups) == 1
    assert len(instances(gcp)) == 2
    clear("down", "c5")
    assert not own_things(gcp)


def test_a_cluster_in_the_queue_is_shown(gcp: Cloud) -> None:
    gcp.set(queue=NEVER)
    with killed_processes.begun(killed_processes.launch, queued()) as process:
        until(lambda: in_queue(gcp), "the request is accepted")
        assert [(cluster.name, cluster.states) for cluster in provider().live()] == [("c5", ())]
        process.kill()
    attach("c5").down(reachable=False)
    assert msgspec.to_builtins(list(own_things(gcp))) == []
