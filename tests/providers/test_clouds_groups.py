"""Groups of hosts of several types, in every cloud: one network, and all machines or none."""

import importlib
import signal
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cluster.core import plugins
from cluster.core.errors import Capacity, Quota, SpecError
from cluster.core.model.spec import ClusterSpec, Group
from cluster.core.state import journal
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.orphans import remove
from cluster.providers import Provider
from tests import killed_processes
from tests.clouds import AWS, NAME, World
from tests.fakes.aws import Cloud
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault
from tests.orphans import find_orphans
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")
SMALL = {"aws": "c5.large", "gcp": "c2-standard-4"}
ZONES = {"aws": ("us-east-1a", "us-east-1b"), "gcp": ("us-central1-a", "us-central1-b")}
CREATE = {"aws": "RunInstances", "gcp": "instances.bulkInsert"}
SHARED = {"aws": ("CreateSecurityGroup", "ImportKeyPair"), "gcp": ("firewalls.insert",)}


def grouped(world: World, options: Mapping[str, str] | None = None) -> World:
    """Return the world of a cluster with one small host and two large ones in a placement group."""
    groups = {
        "ps": Group(hosts=1, instance=SMALL[world.name], placement=False),
        "worker": Group(hosts=2, instance=world.spec.instance, placement=True),
    }
    spec = ClusterSpec(
        name=NAME,
        provider=world.name,
        hosts=3,
        zone=world.spec.zone if not options else None,
        options=dict(options or {}),
        groups=groups,
    )
    return msgspec.structs.replace(world, spec=spec)


def real_calls(cloud: Emulated[Any], *actions: str) -> list[Any]:
    """Return the calls that were no mere question for permission."""
    return [
        call for call in cloud.calls() if call.action in actions and "DryRun" not in call.params
    ]


def test_groups_share_a_network_and_each_has_a_call_of_its_own(
    cloud: Emulated[Any], world: World
) -> None:
    before, world = cloud.things(), grouped(world)
    provider = world.planned()
    plan = provider.plan(world.spec)
    machines = world.create(provider)

    assert [machine.name for machine in machines] == [
        f"0.ps.{NAME}",
        f"1.worker.{NAME}",
        f"2.worker.{NAME}",
    ]
    assert len({machine.id for machine in machines}) == 3
    assert len(real_calls(cloud, CREATE[world.name])) == 2
    shared = {"aws": 2, "gcp": 3}[world.name]
    assert len(real_calls(cloud, *SHARED[world.name])) == shared
    prices = {group: price.hourly for group, price in plan.prices.items() if price}
    assert plan.price is not None
    assert plan.price.hourly == pytest.approx((prices["ps"] + 2 * prices["worker"]) / 3)
    assert prices["worker"] > 5 * prices["ps"]

    attach(NAME).down(reachable=False)
    assert cloud.things() == before


def test_a_zone_without_room_for_the_second_group_gets_nothing_of_the_first(
    snapshot: Snapshot, cloud: Emulated[Any], world: World
) -> None:
    """With another zone, all groups are there; without, nothing is left."""
    first, second = ZONES[world.name]
    large = world.spec.instance
    before = cloud.things()
    cloud.set(capacity={f"{first} {large}": 1})
    world = grouped(world, {"zones": f"{first},{second}"})
    provider = world.planned()
    world.create(provider)
    kinds = [thing.kind for thing in cloud.things() - before]
    assert sum(kind in ("instance", "instances") for kind in kinds) == 3
    attach(NAME).down(reachable=False)
    assert cloud.things() == before

    cloud.set(capacity={f"{first} {large}": 1, f"{second} {large}": 1})
    provider = world.planned()
    with snapshot.raises(Capacity):
        world.create(provider)
    assert cloud.things() == before


@pytest.mark.parametrize("way", ["down", "gc", "up"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_launch_that_is_killed_between_its_groups_leaves_nothing(
    cloud: Emulated[Any], world: World, way: str, moment: Any
) -> None:
    before, world = cloud.things(), grouped(world)
    skip = 1 + len([c for c in _planned(cloud, world) if c.action == CREATE[world.name]])
    cloud.fail(Fault(action=CREATE[world.name], kill=moment, skip=skip, times=1))
    assert killed_processes.status(killed_processes.launch, world.spec) == -signal.SIGKILL
    cloud.mend()
    assert len(attach(NAME).state.create_calls) == 2
    if way == "up":
        book = journal.for_cluster(NAME)
        with book.lock():
            machines = plugins.load(Provider, world.name).create(world.spec, book)
        assert len({machine.id for machine in machines}) == 3
        things = [t for t in cloud.things() - before if t.kind in ("instance", "instances")]
        assert len(things) == 3
    if way == "gc":
        for orphan in find_orphans():
            remove(orphan)
    else:
        attach(NAME).down(reachable=False)
    assert cloud.things() == before


def two_groups(world: World, hosts: int, **fields: Any) -> ClusterSpec:
    """Return the spec of two groups of as many small hosts each."""
    group = Group(hosts=hosts, instance=SMALL[world.name])
    zone = ZONES[world.name][0]
    return ClusterSpec(
        name=NAME, provider=world.name, hosts=2 * hosts, zone=zone, groups={"a": group, "b": group},
        **fields,
    )  # fmt: skip


@pytest.mark.parametrize(("hosts", "fits"), [(2, True), (3, False)])
def test_groups_of_one_reservation_are_counted_together(
    cloud: Emulated[Any], world: World, hosts: int, *, fits: bool
) -> None:
    values = importlib.import_module(f"tests.fakes.{world.name}.values")
    id_ = {"aws": "id", "gcp": "name"}[world.name]
    fields = {id_: "cr-own", "instance": SMALL[world.name], "zone": ZONES[world.name][0]}
    cloud.set(reservations=(values.Reserved(**fields),))  # 4 machines
    if world.name == "gcp":
        cloud.reset(cloud.settings)
    provider, spec = world.provider(), two_groups(world, hosts, options={"reservation": "cr-own"})
    if fits:
        assert provider.plan(spec).prices.keys() == {"a", "b"}
        return
    with pytest.raises(SpecError, match=r"need 6 instances of cr-own .* together; 4 are free"):
        provider.plan(spec)


def test_groups_are_counted_together_towards_a_quota(cloud: Emulated[Any], world: World) -> None:
    region = ZONES[world.name][0][:-2]
    settings: dict[str, Any] = {"vcpus": 15}  # strangers use 8
    cloud.set(**settings if world.name == "aws" else {"quotas": {f"{region} INSTANCES": 3}})
    assert world.provider().plan(two_groups(world, 1)).lines
    with pytest.raises(Quota, match="together"):
        world.provider().plan(two_groups(world, 2))
    assert not real_calls(cloud, CREATE[world.name])


def test_groups_are_counted_together_in_a_subnet(aws: Cloud) -> None:
    """Default subnets are of 4096 addresses: Amazon keeps five, and strangers have some."""
    groups = {name: Group(hosts=2500, instance="c5.large") for name in "ab"}
    spec = ClusterSpec(name=NAME, provider="aws", hosts=5000, groups=groups)
    with pytest.raises(SpecError, match=r"need 5000 addresses of subnet-.* together; 4087"):
        AWS.provider().plan(spec)
    assert not aws.mutating()


def _planned(cloud: Emulated[Any], world: World) -> tuple[Any, ...]:
    """Return the calls of a plan, which ask for permission under the names of real calls."""
    since = len(cloud.calls())
    world.planned()
    return cloud.calls()[since:]


def test_groups_without_a_zone_in_common_are_refused(
    snapshot: Snapshot, cloud: Emulated[Any], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ZONES[world.name]
    world = grouped(world, {"zones": f"{first},{second}"})
    answers = iter(({second}, {first}))
    monkeypatch.setattr(
        "cluster.providers._cloud.reservations.zones_without_capacity",
        lambda _: frozenset(next(answers)),
    )
    with snapshot.raises(SpecError):
        world.planned()
    assert not real_calls(cloud, CREATE[world.name])
