"""A third cloud: what it has to supply, and what it has then without a line of its own.

All of it is in this file: a client of 20 lines, a deletion of 20, a launch of 25, and a provider of
40. A real one has a file for each of its API, its errors, what it plans, what it makes and what it
takes away.
"""

# ruff: noqa: ARG002 - the arguments of an interface
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cluster.core.errors import Capacity, ClusterError, Denied
from cluster.core.model.hosts import Machine
from cluster.core.model.resources import Price, RemoteCluster, Resource
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.deletion import CloudResource, Deletion
from cluster.providers._cloud.launch import (
    CloudLaunch,
    CloudOffer,
    InstanceView,
    Intent,
    ListedMachine,
    Site,
)
from cluster.providers._cloud.options import TTL, CloudOptions
from cluster.providers._cloud.provider import CloudProvider
from cluster.providers._cloud.tags import Selection, Tags
from tests.snapshots import Snapshot

ZONES = ("north-a", "north-b")


class Toy:
    """The client of a cloud that is a dictionary."""

    name, account, user = "north", "account-1", ""

    def __init__(self) -> None:
        self.owner = "alice"
        self.instances: dict[str, Tags] = {}
        self.full: set[str] = set()

    def now(self) -> float:
        return time.time()

    def console(self, machine: str) -> str:
        return ""

    def run(self, zone: str, tags: Tags, count: int) -> tuple[str, ...]:
        if zone in self.full:
            raise Failure("capacity", operation="run", code="Full", message=f"{zone} is full")
        ids = tuple(f"{zone}-{tags.launch}-{number}" for number in range(count))
        self.instances |= dict.fromkeys(ids, tags)
        return ids


class ToyDeletion(Deletion[CloudResource]):
    """What exists in it, and its end."""

    kinds: ClassVar[str] = "machines"
    types: ClassVar[Sequence[Any]] = ()

    def _machines(self) -> Sequence[CloudResource]:
        items = self._client.instances.items()
        return [CloudResource(kind="machine", id=i, tags=t) for i, t in items if self._is_ours(t)]

    def _is_ours(self, tags: Tags) -> bool:
        if self._selection.launches:
            return tags.launch in self._selection.launches
        return tags.owner == self._selection.owner and self._selection.name in ("", tags.name)

    def _resources_of(self, type_: Any) -> Sequence[CloudResource]:
        raise AssertionError(f"it has no {type_}")

    def _late_resources(self) -> tuple[Resource, ...]:
        return ()

    def _delete(self, resources: Sequence[CloudResource]) -> None:
        for resource in resources:
            del self._client.instances[resource.id]


class ToyLaunch(CloudLaunch[Toy, CloudOptions, CloudOffer, str]):
    """How its machines are made."""

    provider: ClassVar[str] = "toy"
    operation: ClassVar[str] = "run"
    deletion: ClassVar[type[ToyDeletion]] = ToyDeletion

    def token(self, site: Site, attempt: int = 0) -> str:
        return site.zone

    def prepare(self) -> None:
        pass

    def create(self, site: Site, token: str) -> tuple[str, ...]:
        return self.client.run(site.zone, self._tags, self.hosts)

    def list(self, site: Site, ids: tuple[str, ...]) -> Sequence[ListedMachine[str]]:
        return [
            ListedMachine(instance=id_, view=view(id_), number=number, state="running", ready=True)
            for number, id_ in enumerate(ids)
        ]

    def check(self, site: Site, rows: Sequence[ListedMachine[str]], seconds: float) -> None:
        pass

    def settle(self, site: Site, machines: tuple[str, ...]) -> None:
        pass


def view(id_: str) -> InstanceView:
    return InstanceView(id=id_, alias=id_, private="10.0.0.1", public="192.0.2.7")


class ToyProvider(CloudProvider[Toy, CloudOptions, CloudOffer]):
    """The provider of it."""

    name: ClassVar[str] = "toy"
    intent: ClassVar[type[Intent[Any]]] = Intent[CloudOffer]
    Options: ClassVar[type[CloudOptions]] = CloudOptions
    launch: ClassVar[type[ToyLaunch]] = ToyLaunch
    toy: ClassVar[Toy]

    def is_set_up(self) -> bool:
        return True

    def place_of(self, spec: ClusterSpec) -> str:
        return self.toy.name

    def default_place(self) -> str:
        return self.toy.name

    def client(self, place: str, spec: ClusterSpec | None) -> Toy:
        return self.toy

    def plan_request(self, client: Toy, spec: ClusterSpec) -> CloudOffer:
        price = Price(hourly=2.0, at="2026-11-01", source="toy")
        sites = tuple(Site(zone=zone) for zone in ZONES)
        return CloudOffer(
            sites=sites, allow="192.0.2.1/32", ttl=TTL, link=None, price=price, lines=("toys",)
        )

    def offer_near(self, client: Toy, offer: CloudOffer, peer: Machine) -> CloudOffer:
        return offer

    def running(self, client: Toy, selection: Selection) -> list[tuple[Tags, str]]:
        return [(t, id_) for id_, t in client.instances.items() if t.owner == selection.owner]

    def remote_cluster(self, client: Toy, tags: Tags, machines: Sequence[str]) -> RemoteCluster:
        return RemoteCluster(name=tags.name, region=client.name, addresses=tuple(machines))

    def translate_error(self, failure: Failure, remains: str) -> ClusterError:
        return Capacity(failure.message, means=remains)


SPEC = ClusterSpec(name="third", provider="toy", hosts=2)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Toy:
    monkeypatch.setenv("CLUSTER_LATE", "0.1")
    ToyProvider.toy = Toy()
    return ToyProvider.toy


def launched() -> tuple[Machine, ...]:
    book = journal.for_cluster(SPEC.name)
    book.append(journal.Intended(spec=SPEC, at=time.time()))
    return ToyProvider().create(SPEC, book)


def test_a_launch_is_planned_made_found_and_taken_down(toy: Toy) -> None:
    plan = ToyProvider().plan(SPEC)
    machines = launched()

    assert (plan.costs, plan.lines) == (True, ("toys",))
    assert [m.access and m.access.host for m in machines] == ["192.0.2.7"] * 2
    assert [cluster.name for cluster in ToyProvider().live()] == ["third"]
    assert len(ToyProvider().find("third")) == 2
    ToyProvider().destroy("third")
    assert toy.instances == {}


def test_a_full_zone_leads_to_the_next_and_a_failure_leaves_nothing(
    snapshot: Snapshot, toy: Toy
) -> None:
    toy.full = {ZONES[0]}
    assert all(id_.startswith(ZONES[1]) for id_ in (m.id for m in launched()))

    ToyProvider().destroy("third")
    journal.for_cluster("third").forget()
    toy.full = set(ZONES)
    with snapshot.raises(Capacity):
        launched()
    assert toy.instances == {}


def test_a_process_that_dies_leaves_what_the_next_one_finds(toy: Toy) -> None:
    """Its journal has the launch; and without one, the tags say whose it is."""
    launched()
    journal.for_cluster("third").forget()

    assert len(ToyProvider().find("third")) == 2
    ToyProvider().destroy("third")
    assert toy.instances == {}


def test_somebody_else_is_refused(snapshot: Snapshot, toy: Toy) -> None:
    launched()
    toy.owner = "bob"
    with snapshot.raises(Denied):
        ToyProvider().destroy("third")
    assert len(toy.instances) == 2


def test_a_machine_is_added_and_others_end(toy: Toy) -> None:
    """With two methods of its own; a full zone leaves all as it was."""
    old = launched()
    book = journal.for_cluster(SPEC.name)
    provider = ToyProvider()
    (new,) = provider.add(SPEC, old[0], (1,), book)
    assert new.name == "1.mpi.third"
    assert {resource.id for resource in provider.list_except("third", old)} == {new.id}
    provider.delete_except("third", (old[0], new))
    assert set(toy.instances) == {old[0].id, new.id}

    toy.full = set(ZONES)
    with pytest.raises(Capacity, match="north-b"):
        provider.add(SPEC, old[0], (1,), book)
    assert set(toy.instances) == {old[0].id, new.id}
    provider.destroy("third")
    assert toy.instances == {}
