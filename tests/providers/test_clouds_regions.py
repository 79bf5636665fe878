"""Several regions, in every cloud: the first that has room, and nothing left in the others."""

import signal
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from cluster.core.errors import Capacity, ClusterError, SpecError
from cluster.core.state import journal
from cluster.core.text.units import price_line
from cluster.orchestration.cluster import attach
from cluster.providers._cloud.provider import CloudProvider
from tests import killed_processes
from tests.clouds import AWS, GCP, NAME, WORLDS, World
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault, Thing
from tests.killed_processes import WAYS, clear
from tests.providers.test_clouds_crashes import moments

pytestmark = pytest.mark.usefixtures("soon")
REGIONS = {"aws": ("us-east-1", "us-west-2"), "gcp": ("us-central1", "us-east1")}
LACKING = {"aws": "ap-southeast-5", "gcp": "europe-west9"}


def spread(world: World, *places: str, **options: str) -> World:
    """The world, with a cluster that may be in several places of it."""
    values = {"regions": ",".join(places), **options}
    spec = msgspec.structs.replace(world.spec, zone=None, options=values)
    return msgspec.structs.replace(world, spec=spec)


def fill(cloud: Emulated[Any], *zones: str) -> None:
    cloud.set(capacity=dict.fromkeys(zones, 0))


class Spread(NamedTuple):
    """A launch over two regions, of which the first has no room."""

    first: str
    second: str
    launch: World
    provider: CloudProvider[Any, Any, Any]  # it has planned
    before: frozenset[Thing]  # what there is in both regions


@pytest.fixture
def spread_launch(cloud: Emulated[Any], world: World) -> Spread:
    first, second = REGIONS[world.name]
    fill(cloud, *all_zones(first))
    launch = spread(world, first, second)
    provider = launch.planned()  # it looks at both regions
    return Spread(first, second, launch, provider, cloud.things())


def places_of(cloud: Emulated[Any], before: frozenset[Thing]) -> set[str]:
    """The regions, or zones, of the new instances."""
    return {t.region for t in cloud.things() - before if t.kind.startswith("instance")}


def all_zones(region: str) -> list[str]:
    letters = "abcdef"
    return [f"{region}{dash}{letter}" for letter in letters for dash in ("", "-")]


def test_the_first_region_with_room_gets_the_cluster(
    cloud: Emulated[Any], spread_launch: Spread
) -> None:
    """All behind the launch finds it there: its state, its replacement, and its end."""
    _, second, launch, provider, before = spread_launch
    machines = launch.create(provider)

    assert {place.startswith(second) for place in places_of(cloud, before)} == {True}
    assert launch.provider().states(NAME, machines) == ("running", "running")
    new = launch.provider().add(launch.spec, machines[0], (2,), journal.for_cluster(NAME))
    assert len(new) == 1
    assert {place.startswith(second) for place in places_of(cloud, before)} == {True}
    assert launch.provider().topology(launch.spec, machines).layers is not None
    clear("down", NAME)
    assert cloud.things() == before


def test_a_second_region_whose_machines_are_reclaimed_is_asked_again(
    cloud: Emulated[Any], spread_launch: Spread
) -> None:
    """By the same launch, which has not connected yet: the first region has none of its names."""
    first, second, launch, provider, before = spread_launch
    machines = launch.create(provider)
    cast("Any", cloud).end(machines[0].id.rpartition("/")[2])

    since = len(cloud.mutating())
    entries = journal.for_cluster(NAME)
    with suppress(ClusterError):  # as it says, that machine is over
        provider.create(launch.spec, entries)
    assert not [call for call in cloud.mutating()[since:] if first in str(call)]
    assert all(place.startswith(second) for place in places_of(cloud, before))
    clear("down", NAME)
    assert cloud.things() == before


def test_a_plan_says_where_and_what_a_region_lacks(cloud: Emulated[Any], world: World) -> None:
    first, second = REGIONS[world.name]
    launch = spread(world, first, LACKING[world.name], second)
    lines = launch.provider().plan(launch.spec).lines

    assert [line for line in lines if line.startswith(f"make 2 x {world.spec.instance} in {first}")]
    [other] = [line for line in lines if line.startswith(f"else {second}: make 2 x")]
    offer = next(iter(launch.provider()._choices(launch.spec).possible[1].offers.values()))
    assert other.endswith(price_line(offer.price, launch.spec.hosts, offer.ttl))
    assert [line for line in lines if LACKING[world.name] in line]
    assert not cloud.mutating()


def test_what_no_region_has_is_refused_with_the_reason_of_each(
    cloud: Emulated[Any], world: World
) -> None:
    launch = spread(world, LACKING[world.name], REGIONS[world.name][0])
    spec = msgspec.structs.replace(launch.spec, image="none/at-all")
    with pytest.raises(SpecError) as refused:
        launch.provider().plan(spec)

    assert all(f"{place}: " in refused.value.means for place in spec.options["regions"].split(","))


@pytest.mark.parametrize(
    ("world", "wrong", "nearest"),
    [
        (AWS, "us-east-1a", "us-east-1"),
        (AWS, "us-east1", "us-east-1"),
        (GCP, "us-central1-a", "us-central1"),
        (GCP, "us-centrall", "us-central1"),
    ],
)
def test_what_is_no_region_is_refused_with_the_nearest(
    cloud: Emulated[Any], world: World, wrong: str, nearest: str
) -> None:
    second = REGIONS[world.name][1]
    with pytest.raises(SpecError) as refused:
        world.provider().plan(spread(world, wrong, second).spec)

    assert f"--option regions={wrong},{second} names {wrong}, which" in refused.value.what
    assert refused.value.remedy.endswith(f"--option regions={nearest},{second}")
    assert not cloud.mutating()


def test_who_may_not_list_the_regions_has_a_plan(cloud: Emulated[Any], world: World) -> None:
    cloud.fail(
        Fault(action={"aws": "DescribeRegions"}.get(world.name, "regions.list"), **world.denied)
    )
    assert world.provider().plan(spread(world, *REGIONS[world.name]).spec).lines


@pytest.mark.parametrize("fields", [{"zone": "us-east-1a"}, {"options": {"zones": "a"}}])
def test_zones_and_regions_are_not_asked_for_together(
    cloud: Emulated[Any], world: World, fields: dict[str, Any]
) -> None:
    spec = spread(world, *REGIONS[world.name], **fields.get("options", {})).spec
    spec = msgspec.structs.replace(spec, zone=fields.get("zone"))
    with pytest.raises(SpecError) as refused:
        world.provider().plan(spec)

    assert "--option regions=" in refused.value.remedy


def test_no_room_in_any_region_is_said_of_all_and_leaves_nothing(
    cloud: Emulated[Any], world: World
) -> None:
    regions = REGIONS[world.name]
    fill(cloud, *(zone for region in regions for zone in all_zones(region)))
    launch = spread(world, *regions)
    provider, before = launch.planned(), cloud.things()
    with pytest.raises(Capacity, match=", ".join(regions)):
        launch.create(provider)

    assert cloud.things() == before


def test_a_launch_over_regions_that_is_killed_at_any_call_leaves_nothing(
    cloud: Emulated[Any], world: World, spread_launch: Spread
) -> None:
    """Before and after each that changes something, by each way in turn, from the first refusal."""
    _, _, launch, provider, before = spread_launch
    since = len(cloud.calls())
    launch.create(provider)
    calls = cloud.calls()
    machines = world.making[-1]
    refused = next(n for n, call in enumerate(calls) if n >= since and call.action == machines)
    clear("down", NAME)
    assert cloud.things() == before

    # how often somebody looks while a region is left is a matter of time
    faults = [fault for fault in moments(calls, refused) if fault.action != "*"]
    assert sum(fault.action in world.making for fault in faults) >= 2 * len(world.making)
    for turn, fault in enumerate(faults):
        cloud.fail(fault)
        status = killed_processes.status(killed_processes.launch, launch.spec)
        assert status == -signal.SIGKILL, fault
        cloud.mend()
        clear(WAYS[turn % len(WAYS)], NAME)
        assert cloud.things() == before, (fault, WAYS[turn % len(WAYS)])


def test_a_launch_killed_in_the_second_region_goes_on_there(
    cloud: Emulated[Any], world: World, spread_launch: Spread
) -> None:
    """It asks the first region for nothing again."""
    first, second, launch, planner, before = spread_launch
    sites = planner._choices(launch.spec).possible[0].offer.sites
    dry_runs = 2 * (world.name == "aws")  # whether it is permitted, in each region
    machines = world.making[-1]
    cloud.fail(Fault(action=machines, kill="after", skip=len(sites) + dry_runs, times=1))
    assert killed_processes.status(killed_processes.launch, launch.spec) == -signal.SIGKILL
    cloud.mend()
    since = len(cloud.mutating())
    provider = launch.provider()
    entries = journal.for_cluster(NAME)
    assert len(provider.create(launch.spec, entries)) == launch.spec.hosts

    assert {c.action for c in cloud.mutating()[since:]} <= set(world.making)
    assert not [c for c in cloud.mutating()[since:] if first in str(c)]
    assert {place.startswith(second) for place in places_of(cloud, before)} == {True}
    attach(NAME).down(reachable=False)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"aws": {"scores": {"us-east-1a": 3, "us-east-1b": 9}}}, "9 of 10 in the best zone"),
        ({"aws": {}}, "none is given"),
        ({"gcp": {"obtainable": {"us-central1": 0.7, "us-east1": 0.1}}}, "0.7 of 1"),
        ({"gcp": {}}, "no advice"),
    ],
)
def test_a_plan_of_spot_machines_says_how_likely_they_are_to_be_had(
    settings: dict[str, Any], text: str, request: pytest.FixtureRequest
) -> None:
    """Somebody who may not ask for it gets a plan all the same."""
    [(name, values)] = settings.items()
    world = next(world for world in WORLDS if world.name == name)
    cloud: Emulated[Any] = request.getfixturevalue(name)
    cloud.set(**values)
    spec = msgspec.structs.replace(world.spec, spot=True)
    lines = world.provider().plan(spec).lines
    action = {"aws": "GetSpotPlacementScores", "gcp": "advice.capacity"}[name]
    cloud.fail(Fault(action=action, **world.denied))
    denied_lines = world.provider().plan(spec).lines

    start = {"aws": "spot placement score: ", "gcp": "likely to be had"}[name]
    [line] = [line for line in lines if line.startswith(start)]
    [unknown] = [line for line in denied_lines if line.startswith(start)]
    assert text in line
    assert "not known" in unknown
    assert not cloud.mutating()
