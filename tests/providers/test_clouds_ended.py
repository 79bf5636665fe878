"""Machines that the cloud ended: `ls`, `up` and the receipt ask for states."""

import time
from typing import Any

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import Price
from cluster.core.state import journal
from cluster.core.text.units import dollars
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from tests.clouds import NAME, World
from tests.conftest import answer, command, until
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault

pytestmark = pytest.mark.usefixtures("soon")
PRICE = Price(hourly=3.0, at="2026-11-01", source="a test")


@pytest.fixture
def machines(world: World, cloud: Emulated[Any]) -> tuple[Machine, ...]:
    """Launch a cluster whose machines nobody can reach."""
    book = journal.for_cluster(NAME)
    entry = journal.Intended(spec=world.spec, at=time.time(), costs=True, price=PRICE, ttl=7200.0)
    provider = world.planned()
    with book.open_for_launch(entry), book.lock():
        hosts = provider.create(world.spec, book)
    book.append(journal.Created(machines=hosts, expires=time.time() + 7200.0))
    book.append(journal.LaunchFinished())
    del cloud
    return hosts


def end(cloud: Any, machine: Machine) -> None:
    """End a machine as the cloud does, and wait until it is seen."""
    id_ = machine.id.rpartition("/")[2]
    cloud.end(id_)

    def is_over() -> bool:
        states = {t.state for t in cloud.things() if t.id == id_ and "instance" in t.kind}
        return states <= {"terminated", "shutting-down"}

    until(is_over, f"{id_} has ended")


def test_each_command_says_that_the_machines_have_ended(
    cloud: Emulated[Any], world: World, machines: tuple[Machine, ...]
) -> None:
    [row] = answer("ls")
    assert (row["ended"], row["status"]) == (0, "idle")
    end(cloud, machines[0])

    [row] = answer("ls")
    assert (row["ended"], row["status"]) == (1, "1 of 2 machines have ended")
    assert row["expires"]
    with pytest.raises(SpecError, match="1 of 2"):
        launch_spec(world.spec)
    end(cloud, machines[1])

    [row] = answer("ls")
    assert (row["ended"], row["expires"]) == (2, None)
    assert "$" in command("ls").stdout
    with pytest.raises(SpecError, match="2 of 2"):
        launch_spec(world.spec)
    output = command("down", NAME).stdout
    assert "at most $" in output
    assert "0 left" in output


def test_states_that_cannot_be_asked_for_are_not_guessed(
    cloud: Emulated[Any], world: World, machines: tuple[Machine, ...]
) -> None:
    del machines
    for call in world.after:
        cloud.fail(Fault(action=call, **world.denied))

    [row] = [row for row in answer("ls") if row["name"] == NAME]
    assert (row["ended"], row["status"]) == (0, "idle; machines not known")
    cloud.mend()
    assert "at most" not in command("down", NAME).stdout


def test_machines_end_by_themselves_before_they_cost_more(
    world: World, cloud: Emulated[Any]
) -> None:
    del cloud
    _, plan = plan_spec(msgspec.structs.replace(world.spec, max_cost=1.0))

    assert plan.price is not None
    assert plan.ttl is not None
    cost = dollars(plan.price, world.spec.hosts, plan.ttl)
    assert cost <= 1.0 < cost + dollars(plan.price, world.spec.hosts, 61.0)
