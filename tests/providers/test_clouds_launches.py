"""Launches of a name that exists, in every cloud."""

from typing import Any

import pytest

from cluster.core.errors import SpecError
from cluster.core.state import journal
from tests.clouds import NAME, World, machines
from tests.fakes.cloud import Emulated
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")


def test_the_same_intent_again_gives_the_same_machines(world: World, cloud: Emulated[Any]) -> None:
    first = world.create(world.planned())

    assert world.provider().create(world.spec, journal.for_cluster(NAME)) == first
    assert len(machines(cloud)) == world.spec.hosts


def test_a_name_that_another_machine_has_taken(
    world: World, cloud: Emulated[Any], snapshot: Snapshot
) -> None:
    del cloud
    world.create(world.planned())
    journal.for_cluster(NAME).forget()

    with snapshot.raises(SpecError):
        world.provider().plan(world.spec)


def test_two_launches_of_a_name_at_once_do_not_hurt_one_another(
    world: World, cloud: Emulated[Any]
) -> None:
    """The second one has planned before the first one made anything."""
    late = world.planned()
    world.create(world.planned())
    machine_ids = machines(cloud)
    journal.for_cluster(NAME).forget()

    with pytest.raises(SpecError, match="already"):
        world.create(late)
    assert machines(cloud) == machine_ids
