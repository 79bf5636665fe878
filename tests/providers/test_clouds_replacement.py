"""`cluster check --replace`, in every cloud: new machines for bad ones, and nothing left."""

import json
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.core.errors import Capacity, Quota
from cluster.core.state import journal
from cluster.fleet.pair_measurements import pair_tests
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.orphans import remove
from cluster.orchestration.launch.replacement import finish_replacement
from cluster.providers._cloud.tags import EXPIRES, timestamp
from cluster.runs import store
from tests import killed_processes
from tests.clouds import AWS, GCP, NAME, World
from tests.conftest import LONG, answer, command
from tests.fakes import gcp
from tests.fakes.aws import Settings
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault
from tests.killed_processes import clear
from tests.orphans import find_orphans
from tests.providers.test_clouds_crashes import moments, ways_after
from tests.replacements import interrupted, replace_host, slow
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")
CODES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("aws", "capacity"): {"code": "InsufficientInstanceCapacity", "status": 500},
    ("aws", "quota"): {"code": "VcpuLimitExceeded", "status": 400},
    ("gcp", "capacity"): {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "operation": True},
    ("gcp", "quota"): {"code": "QUOTA_EXCEEDED", "operation": True},
}
WAYS = ("finish", "down", "gc", "gc without a journal")
CREATING = {"aws": "RunInstances", "gcp": "instances.bulkInsert"}
ENDING = {"aws": "TerminateInstances", "gcp": "instances.delete"}
DECIDED_WITHIN = 240.0  # seconds: a check beside other work may be UNDECIDED, and replaces nobody


def creations(cloud: Emulated[Any], world: World) -> int:
    """Count the calls that create machines, without mere questions."""
    calls = cloud.calls(CREATING[world.name])
    return len([call for call in calls if not call.params.get("DryRun")])


def launched(world: World) -> tuple[str, ...]:
    """Launch a cluster up to the first connection, as if it had been made; give its machines."""
    book = journal.for_cluster(NAME)
    provider = world.provider()
    price = provider.plan(world.spec).price
    intended = journal.Intended(spec=world.spec, at=time.time(), costs=True, price=price)
    with book.open_for_launch(intended), book.lock():
        machines = provider.create(world.spec, book)
        book.append(journal.Created(machines=machines, expires=time.time() + 3600))
        book.append(journal.LaunchFinished())
    return tuple(machine.id for machine in machines)


def in_cloud(world: World) -> set[str]:
    """Return the machines that the cloud has."""
    resources = world.provider().list_except(NAME, ())
    return {resource.id for resource in resources}


def template_of(world: World, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call has to ask for so that its machines are like those of another."""
    if world is GCP:
        template = params["instanceProperties"]
        names = ("machineType", "networkInterfaces", "resourcePolicies", "tags", "metadata")
        image = template["disks"][0]["initializeParams"]["sourceImage"]
        return {"zone": params["zone"], "image": image, **{name: template[name] for name in names}}
    skip = {"ClientToken", "MinCount", "MaxCount", "TagSpecifications", "UserData"}
    return {name: value for name, value in params.items() if name not in skip}


def test_one_call_creates_the_new_machine_and_only_the_bad_one_ends(
    snapshot: Snapshot, cloud: Emulated[Any], world: World
) -> None:
    """It has the place, the tags' owner, the groups and the end of those before."""
    before = cloud.things()
    old = launched(world)
    calls = creations(cloud, world)
    (swap,) = replace_host(NAME)
    cluster = attach(NAME)

    assert (swap.part, swap.name, swap.old) == ("host:1", f"1.mpi.{NAME}", old[1])
    assert tuple(m.id for m in cluster.machines) == (old[0], swap.new)
    assert in_cloud(world) == {old[0], swap.new}
    assert creations(cloud, world) == calls + 1
    first, second = cloud.calls(CREATING[world.name])[-2:]
    assert template_of(world, second.params) == template_of(world, first.params)
    snapshot(swap.evidence)
    receipt = cluster.receipt()
    assert receipt is not None
    assert receipt.hosts == 2
    assert cluster.state.extra_seconds > 0

    (again,) = replace_host(NAME, bad=0)
    assert in_cloud(world) == {again.new, swap.new}
    cluster = attach(NAME)
    cluster.down(reachable=False)
    assert cloud.things() == before


def test_a_new_machine_that_is_bad_too_is_ended_and_the_old_one_stays(
    cloud: Emulated[Any], world: World
) -> None:
    before = cloud.things()
    old = launched(world)
    (swap,) = replace_host(NAME, slow)

    assert swap.new == ""
    assert swap.evidence.count("50%") == 2
    assert in_cloud(world) == set(old)
    assert tuple(m.id for m in attach(NAME).machines) == old
    attach(NAME).down(reachable=False)
    assert cloud.things() == before


@pytest.mark.parametrize(("code", "error"), [("capacity", Capacity), ("quota", Quota)])
def test_where_there_is_no_room_nothing_is_ended(
    snapshot: Snapshot, cloud: Emulated[Any], world: World, code: str, error: type[Exception]
) -> None:
    old = launched(world)
    calls = creations(cloud, world)
    kind = gcp.Fault if world is GCP else Fault
    cloud.fail(kind(action=CREATING[world.name], **CODES[world.name, code]))
    with snapshot.raises(error):
        replace_host(NAME)

    assert creations(cloud, world) == calls + 1
    assert not cloud.calls(ENDING[world.name])
    assert in_cloud(world) == set(old)
    assert tuple(m.id for m in attach(NAME).machines) == old
    assert attach(NAME).state.machines_to_keep == ()


def test_a_replacement_that_is_killed_at_any_call_leaves_what_everybody_knows(
    cloud: Emulated[Any], world: World
) -> None:
    """After a call that changes something, every way out is taken, and with --long before it, too.

    Else one in turn, at each third other call. 30 s: each moment has a launch, a process that is
    killed, and a way out.
    """
    before = cloud.things()
    launched(world)
    since = len(cloud.calls())
    replace_host(NAME)
    calls = cloud.calls()[since:]
    attach(NAME).down(reachable=False)

    for turn, fault in enumerate(moments(calls)):
        if fault.action == "*" and turn % 3:
            continue
        ways = WAYS if LONG and fault.action != "*" else ways_after(fault, turn, WAYS)
        for way in ways:
            old = launched(world)
            cloud.fail(fault)
            status = killed_processes.status(killed_processes.replace, NAME)
            # It may have looked less often than we did before, and be done.
            assert status == -signal.SIGKILL or (status == 0 and fault.action == "*"), fault
            cloud.mend()
            _leave(world, way, old)
            assert cloud.things() == before, f"{fault}, then {way}"


@pytest.mark.parametrize("way", ["interrupted", "finish", "gc", "down"])
def test_a_replacement_that_ends_while_the_new_machine_is_tested_has_the_old_one(
    cloud: Emulated[Any], world: World, way: str
) -> None:
    """The new one is seen and ended, by whoever comes next."""
    before = cloud.things()
    old = launched(world)
    if way == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            replace_host(NAME, interrupted)
    else:
        status = killed_processes.status(killed_processes.replace_until_tests, NAME)
        assert status == -signal.SIGKILL
        (orphan,) = find_orphans()
        assert {resource.id for resource in orphan.resources} == in_cloud(world) - set(old)
        assert len(orphan.resources) == 1
        if way == "finish":
            finish_replacement(attach(NAME))
        elif way == "gc":
            remove(orphan)
    if way != "down":
        assert in_cloud(world) == set(old)
        assert tuple(machine.id for machine in attach(NAME).machines) == old
        assert not find_orphans()
    clear("down", NAME)
    assert cloud.things() == before


def _leave(world: World, way: str, old: tuple[str, ...]) -> None:
    """Let a cluster go, by one way; whoever finishes a replacement keeps as many machines."""
    if way == "finish":
        finish_replacement(attach(NAME))
    elif way == "gc":
        for orphan in find_orphans():
            remove(orphan)
    if way in ("finish", "gc"):
        machines = attach(NAME).machines
        assert in_cloud(world) == {machine.id for machine in machines}
        assert (machines[0].id, len(machines)) == (old[0], len(old))
        assert not find_orphans()
    clear("gc without a journal" if way == "gc without a journal" else "down", NAME)


@pytest.fixture
def hosts(world: World, request: pytest.FixtureRequest) -> Emulated[Any]:
    """The test cloud with a real host behind each instance, of links of 400 Mbit/s."""
    cloud: Emulated[Any] = request.getfixturevalue(f"{world.name}_hosts")
    cloud.set(rate="400mbit")
    return cloud


def up(world: World, hosts: int) -> list[str]:
    """Launch a cluster whose hosts answer; give the ids of its machines."""
    spec = world.spec
    words = ["--instance", str(spec.instance), *(["--zone", spec.zone] if spec.zone else [])]
    command(
        "up", NAME, "--provider", world.name, "--hosts", str(hosts), "--placement", "-y", *words
    )
    return machines()


def machines() -> list[str]:
    return [machine["id"] for machine in answer("ls", NAME)]


def host_of(cloud: Emulated[Any], machine: str) -> str:
    """Return the id of the host behind a machine."""
    assert cloud.hosts
    return machine.rpartition("/")[2]


@pytest.mark.timed
@pytest.mark.parametrize("world", [GCP], ids=["gcp"], indirect=True)
def test_a_slow_host_is_replaced_and_only_the_new_one_is_tested(
    world: World, hosts: Emulated[Any]
) -> None:
    """A6: one call more, pairs of the new host only; `check` goes on, and nothing is left.

    45 s: four real hosts are installed and checked three times. The calls are the same on both
    clouds in the tests above, so one of them is enough here.
    """
    before = hosts.things()
    hosts.set(rate="200mbit")  # which a busy machine carries, too
    old = up(world, 4)
    bad = 0  # the first host runs the jobs' scripts
    assert hosts.hosts
    hosts.hosts.slow(host_of(hosts, old[bad]), "25mbit")
    command("check", NAME, "--rounds", "4", "--replace", status=2)
    assert machines() == old
    assert creations(hosts, world) == 1

    deadline = time.monotonic() + DECIDED_WITHIN
    while True:
        verdict = answer("check", NAME, "--rounds", "4", "--replace", "--yes", status=None)
        if verdict["verdict"] != "UNDECIDED" or time.monotonic() > deadline:
            break
    assert len(verdict["replaced"]) == 1, verdict
    (swap,) = verdict["replaced"]
    assert (swap["part"], swap["name"]) == (f"host:{bad}", f"{bad}.mpi.{NAME}")
    assert swap["old"] == old[bad]
    assert machines() == [swap["new"] if n == bad else id_ for n, id_ in enumerate(old)]
    assert in_cloud(world) == set(machines())
    assert creations(hosts, world) == 2
    assert json.loads((Path(verdict["run"]) / store.VERDICT).read_text()) == verdict
    tests = tuple(pair_tests(store.read(Path(swap["run"])).measurements))
    assert {bad} < {end for test in tests for end in (test.source, test.target)}
    assert all(bad in (test.source, test.target) and test.alone for test in tests)

    again = answer("check", NAME, "--rounds", "4")
    assert again["blamed"] == []
    assert "0 left" in command("down", NAME).stdout
    assert hosts.things() == before


@pytest.mark.timed
@pytest.mark.parametrize("world", [AWS], ids=["aws"], indirect=True)
def test_a_host_that_hangs_is_tested_again_and_its_new_machine_too(
    world: World, hosts: Emulated[Any]
) -> None:
    """A new machine that is slow is ended, and the command says so and fails.

    60 s: real hosts, and the time until a dead one counts as hung.
    """
    before = hosts.things()
    old = up(world, 4)
    command("check", NAME, "--rounds", "3")  # so that the hosts are known
    assert hosts.hosts
    dead = hosts.hosts.find(host_of(hosts, old[1]))
    assert dead
    dead.end()
    hosts.set(rate="150mbit")  # of hosts from now on
    result = command("check", NAME, "--rounds", "3", "--replace", "--yes", status=1)

    assert "HUNG" in result.stdout
    assert f"host:1 (1.mpi.{NAME})" in result.stdout
    assert "1 of 1" in result.stderr
    assert machines() == old
    assert in_cloud(world) == set(old)
    assert "HUNG" in command("check", NAME, "--rounds", "3").stdout  # it is still left out
    command("down", NAME)
    assert hosts.things() == before


@pytest.mark.parametrize("network", ["default", "made by the launch"])
def test_a_new_machine_with_an_elastic_ip_leaves_none_of_the_old_one(
    aws: Emulated[Any], network: str
) -> None:
    """In the subnet of the others, also where the launch made it."""
    aws.reset(Settings(default_vpc=() if network != "default" else Settings().default_vpc))
    before = aws.things()
    options = {"efa": "1", "elastic_ip": "1"}
    spec = msgspec.structs.replace(AWS.spec, instance="p4d.24xlarge", options=options)
    world = msgspec.structs.replace(AWS, spec=spec)
    launched(world)
    kinds = Counter(thing.kind for thing in aws.things() - before)
    (swap,) = replace_host(NAME)

    assert swap.new
    assert Counter(thing.kind for thing in aws.things() - before) == kinds
    assert kinds["address"] == 2
    attach(NAME).down(reachable=False)
    assert aws.things() == before


def test_a_new_machine_ends_when_the_others_do(cloud: Emulated[Any], world: World) -> None:
    """Not when they were to end at first: a start of stopped machines makes it later."""
    launched(world)
    cluster = attach(NAME)
    expires = time.time() + 5 * 3600
    cluster.disk.record(journal.Created(machines=cluster.machines, expires=expires))
    replace_host(NAME)

    tags = [tag for thing in cloud.things(foreign=False) for tag in thing.tags]
    ends = {tag.partition("=")[2] for tag in tags if tag.startswith(EXPIRES)}
    assert len(ends) == 2
    in_words = {timestamp(expires + late) for late in range(-3, 4)}
    assert ends & (in_words | {f"{expires + late:.0f}" for late in range(-3, 4)})
    assert attach(NAME).expires == expires
