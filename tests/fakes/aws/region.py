"""What a region holds beside what moto keeps: how instances live, placement groups, tokens."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import InstanceState, StateReason

from tests.fakes.aws import instance_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fakes.aws.cloud import Cloud

ANYWHERE = "0.0.0.0/0"
NEVER = float("inf")
CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
UP = {"pending", "running"}
OVER = {"shutting-down", "terminated"}
BY_USER = "Client.UserInitiatedShutdown"
BY_ITSELF = "Client.InstanceInitiatedShutdown"


@dataclass
class Life:
    """When what happens to an instance; the times are those of `time.monotonic`."""

    instance: Any
    made: float
    visible: float
    complete: float
    next: str = ""
    due: float = NEVER
    dies: float = NEVER
    cards: tuple[int, ...] = ()

    @property
    def state(self) -> str:
        return str(self.instance.state)

    def be(self, state: str) -> None:
        self.instance._state = InstanceState(state, CODES[state])


@dataclass
class Token:
    params: dict[str, Any]
    reservation: Any


def _tags_of(resource: Any) -> list[dict[str, str]]:
    """Return a resource's tags; moto looks through those of all resources each time."""
    tags = resource.ec2_backend.tags.get(resource.id, {})
    return [{"resource_id": resource.id, "key": key, "value": tags[key]} for key in tags]


TaggedEC2Resource.get_tags = _tags_of


class PlacementGroup(TaggedEC2Resource):
    """A placement group, of which moto knows nothing."""

    def __init__(self, backend: Any, number: int, name: str, strategy: str) -> None:
        self.ec2_backend = backend
        self.id = f"pg-{number:017x}"
        self.group_name = name
        self.strategy = strategy
        self.state = "available"

    @property
    def group_arn(self) -> str:
        backend = self.ec2_backend
        place = f"{backend.region_name}:{backend.account_id}"
        return f"arn:aws:ec2:{place}:placement-group/{self.group_name}"

    @property
    def group_id(self) -> str:
        return self.id


@dataclass
class Region:
    cloud: Cloud
    name: str
    backend: Any
    lives: dict[str, Life] = field(default_factory=dict)
    groups: dict[str, PlacementGroup] = field(default_factory=dict)
    reserved: dict[str, str] = field(default_factory=dict)  # the reservation of each instance
    tokens: dict[str, Token] = field(default_factory=dict)
    made: int = 0  # how many groups there ever were

    def remove_default_vpc(self) -> None:
        """Be a region whose default VPC somebody has deleted."""
        backend = self.backend
        vpc = backend.default_vpc.id
        for subnet in backend.get_default_subnets().values():
            backend.delete_subnet(subnet.id)
        for group in list(backend.groups[vpc]):
            del backend.groups[vpc][group]
        for table in [key for key, t in backend.route_tables.items() if t.vpc_id == vpc]:
            del backend.route_tables[table]
        del backend.vpcs[vpc]

    def open_default_vpc(self) -> None:
        """Add the default VPC's route to the internet, which moto forgets."""
        backend = self.backend
        vpc = backend.default_vpc.id
        gateway = backend.create_internet_gateway()
        backend.attach_internet_gateway(gateway.id, vpc)
        table = next(t for t in backend.route_tables.values() if t.vpc_id == vpc)
        backend.create_route(table.id, ANYWHERE, gateway_id=gateway.id)

    def connected(self, subnet: Any) -> bool:
        """Tell whether a subnet has a way to and from the internet."""
        tables = [t for t in self.backend.route_tables.values() if t.vpc_id == subnet.vpc_id]
        own_tables = [t for t in tables if subnet.id in t._associations.values()]
        main = [t for t in tables if t.main_association_id is not None]
        return any(
            route.destination_cidr_block == ANYWHERE and route.gateway is not None
            for table in (own_tables or main)
            for route in table.routes
        )

    def live(self, instance: Any) -> Life:
        """Begin the life of an instance that was just launched."""
        settings, now = self.cloud.settings, time.monotonic()
        visible = now + settings.visible
        life = Life(
            instance=instance,
            made=now,
            visible=visible,
            complete=visible + settings.incomplete,
            next="running",
            due=now + settings.pending,
            dies=NEVER if settings.dies is None else now + settings.dies,
        )
        life.be("pending")
        self.lives[instance.id] = life
        return life

    def launched(self, lives: Sequence[Life]) -> None:
        """Let hosts come up for what was launched."""
        if self.cloud.hosts:
            self.cloud.hosts.boot([instance_hosts.host_settings(life.instance) for life in lives])

    def rules_changed(self) -> None:
        """Let the hosts obey their security groups as they are now."""
        if self.cloud.hosts:
            self.cloud.hosts.obey()

    def console(self, instance_id: str) -> str:
        """Return what an instance said on its console."""
        if self.cloud.hosts:
            return self.cloud.hosts.console(instance_id)
        pending = self.lives[instance_id].state == "pending"
        return "" if pending else "There is no host behind this instance.\n"

    def public_address(self) -> str:
        return next(self.cloud.public)

    def tick(self, now: float) -> None:
        for life in self.lives.values():
            if life.dies <= now and life.state not in OVER:
                self.end(life.instance.id, "Server.InternalError")
            if life.due <= now:
                self._turn(life)
            if life.state in UP and self._host_gone(life):
                self._by_itself(life)

    def _host_gone(self, life: Life) -> bool:
        host = self.cloud.hosts.find(life.instance.id) if self.cloud.hosts else None
        return host is not None and host.has_died

    def _by_itself(self, life: Life) -> None:
        """Do what an instance asked for that shuts itself down."""
        if life.instance.instance_initiated_shutdown_behavior == "terminate":
            self.end(life.instance.id, BY_ITSELF)
        else:
            self.stop(life.instance.id, BY_ITSELF)

    def _pull_the_plug(self, life: Life) -> None:
        host = self.cloud.hosts.find(life.instance.id) if self.cloud.hosts else None
        if host is not None:
            host.end()

    def _turn(self, life: Life) -> None:
        state, life.next, life.due = life.next, "", NEVER
        life.be(state)
        if state == "terminated":
            self._bury(life)

    def _bury(self, life: Life) -> None:
        """Free what a terminated instance held."""
        instance = life.instance
        reason = instance.state_reason
        for address in self.backend.addresses:
            if address.eni in instance.nics.values():
                address.eni = address.association_id = None
        with contextlib.suppress(KeyError):
            instance.terminate()
        instance.state_reason = reason
        life.be("terminated")

    def end(self, instance_id: str, code: str = BY_USER) -> None:
        """Begin to terminate an instance; it is gone after a moment."""
        life = self.lives[instance_id]
        if life.state in OVER:
            return
        life.instance.state_reason = StateReason(f"{code}: it was ended", code)
        life.be("shutting-down")
        self._pull_the_plug(life)
        life.next, life.due = "terminated", time.monotonic() + self.cloud.settings.ending
        life.dies = NEVER
        if not self.cloud.settings.ending:
            self._turn(life)

    def stop(self, instance_id: str, code: str = BY_USER) -> None:
        """Begin to stop an instance."""
        life = self.lives[instance_id]
        life.instance.stop()
        life.instance.state_reason = StateReason(f"{code}: it was stopped", code)
        life.be("stopping")
        self._pull_the_plug(life)
        life.next, life.due = "stopped", time.monotonic() + self.cloud.settings.ending

    def start(self, instance_id: str) -> None:
        """Begin to start a stopped instance."""
        life = self.lives[instance_id]
        life.instance.start()
        for nic in life.instance.nics.values():
            if nic.public_ip:
                nic.public_ip = self.public_address()
        life.be("pending")
        self.launched([life])
        life.next, life.due = "running", time.monotonic() + self.cloud.settings.pending

    def forget_ended(self) -> None:
        """Know no more of terminated instances."""
        for id_ in [key for key, life in self.lives.items() if life.state == "terminated"]:
            del self.lives[id_]
            for reservation in self.backend.reservations.values():
                reservation.instances = [i for i in reservation.instances if i.id != id_]

    def alive(self) -> list[Life]:
        return [life for life in self.lives.values() if life.state != "terminated"]

    def visible(self, instance_id: str) -> bool:
        life = self.lives.get(instance_id)
        return life is not None and life.visible <= time.monotonic()
