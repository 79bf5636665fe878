"""The whole cloud: its state, its server, and what a test may do with it."""

from __future__ import annotations

import os
import threading
import time
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import msgspec
from moto.ec2.models import ec2_backends

from tests.fakes.aws import hosting, images, speed, strangers, things
from tests.fakes.aws.permissions import ACCOUNT, ADMIN, Permissions
from tests.fakes.aws.region import Region
from tests.fakes.aws.server import Server
from tests.fakes.aws.values import Call, Fault, Settings, Thing
from tests.fakes.faults import Faults
from tests.fakes.hosts import Hosts, missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from moto.core.base_backend import BackendDict

    from tests.fakes.network import Rules

PUBLIC = list(ip_network("198.19.0.0/16"))[2:]  # RFC 2544: no stranger's
NOWHERE = "203.0.113.7"  # the caller, as hosts that do not exist would see it: RFC 5737
HOME = "us-east-1"


class Cloud:
    """Amazon's cloud, as far as it is known here; see `tests.fakes.aws`."""

    def __init__(
        self, *, hosts: bool = False, settings: Settings | None = None, port: int = 0
    ) -> None:
        self.lock = threading.RLock()
        if hosts and (why := missing()):
            raise RuntimeError(why)
        self.hosts = Hosts(self) if hosts else None
        self.log: list[Call] = []
        self.gaps: list[str] = []
        self.caller = self.hosts.caller if self.hosts else NOWHERE
        self._regions: dict[str, Region] = {}
        self.reset(settings)
        self._server = Server(self, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and leave nothing."""
        self._server.close()
        if self.hosts:
            self.hosts.close()
        self._clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def environ(self) -> dict[str, str]:
        """What a client needs in its environment."""
        return self._environ(ADMIN)

    def _environ(self, key: str) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_DEFAULT_REGION": HOME,
            "AWS_CONFIG_FILE": "/nonexistent/config",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CLUSTER_CHECKIP": f"{self.url}/checkip",
        }

    def reset(self, settings: Settings | None = None) -> None:
        """Begin anew."""
        if self.hosts:
            self.hosts.clear()
        with self.lock:
            self._clear()
            self.settings = settings or Settings()
            self.faults = Faults()
            self.permissions = Permissions()
            self.log = []  # a call that hangs still writes into its own
            self.gaps.clear()
            strangers.put(self)

    def _clear(self) -> None:
        self._regions = {}
        self.public = self.hosts.addresses if self.hosts else map(str, PUBLIC)
        _backends().reset()

    def set(self, **changes: Any) -> None:
        """Change settings from now on."""
        with self.lock:
            self.settings = msgspec.structs.replace(self.settings, **changes)

    def fail(self, fault: Fault) -> None:
        """Harm calls."""
        with self.lock:
            self.faults.add(fault)

    def mend(self) -> None:
        """End all faults."""
        with self.lock:
            self.faults = Faults()

    def calls(self, *actions: str) -> tuple[Call, ...]:
        """Give the calls that came, all or some."""
        with self.lock:
            return tuple(call for call in self.log if not actions or call.action in actions)

    def mutating(self) -> tuple[Call, ...]:
        """Give the calls that change something."""
        return tuple(call for call in self.calls() if call.mutating)

    def user(self, name: str, policy: dict[str, Any]) -> dict[str, str]:
        """Give the environment of a user who may do what an IAM policy document says."""
        return self._environ(self.permissions.add(name, policy))

    def things(self, *, theirs: bool = True) -> frozenset[Thing]:
        """List what exists, in every region that was used."""
        with self.lock:
            self.tick()
            found = {thing for region in self._regions.values() for thing in things.of(region)}
            return frozenset(found if theirs else found - self.strangers())

    def strangers(self) -> frozenset[Thing]:
        """List the stranger's things, as they are now."""
        with self.lock:
            found = {thing for region in self._regions.values() for thing in things.of(region)}
            return frozenset(thing for thing in found if strangers.owns(thing))

    def region(self, name: str) -> Region:
        """Give what there is of a region beside what moto knows."""
        if name not in self._regions:
            self._regions[name] = Region(self, name, _backends()[name])
            wanted = self.settings.default_vpc
            if wanted is not None and name not in wanted:
                self._regions[name].remove_default_vpc()
            else:
                self._regions[name].open_default_vpc()
            images.put(self._regions[name].backend)
        return self._regions[name]

    def tick(self) -> None:
        """Let happen what is due."""
        now = time.monotonic()
        for region in self._regions.values():
            region.tick(now)

    def end(self, instance_id: str) -> None:
        """End an instance as if Amazon had reclaimed it."""
        with self.lock:
            for region in self._regions.values():
                if instance_id in region.lives:
                    region.end(instance_id, "Server.SpotInstanceTermination")

    def rules(self, devices: Mapping[str, str]) -> Rules:
        """Tell who may reach whom, of instances that have a device each."""
        lives = [life for region in self._regions.values() for life in region.lives.values()]
        instances = {life.instance.id: life.instance for life in lives}
        return hosting.rules(instances, devices, self._connected)

    def _connected(self, instance: Any) -> bool:
        region = self.region(instance.ec2_backend.region_name)
        return region.connected(instance.nics[0].subnet)

    def console(self, instance_id: str) -> str:
        """Give what an instance's host said."""
        return self.hosts.console(instance_id) if self.hosts else ""

    def running(self, instance_id: str) -> bool:
        """Tell whether an instance's host lives."""
        host = self.hosts.of(instance_id) if self.hosts else None
        return host is not None and host.running

    def peer(self) -> None:
        """Let private addresses be reached from here, as over a VPN."""
        if self.hosts:
            self.hosts.peer()


speed.use()
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"  # 1301 old ones, of which none is used


def _backends() -> Any:
    backends: BackendDict[Any] = ec2_backends
    return backends[ACCOUNT]
