"""The whole cloud: its state, its server, and what a test may do with it."""

from __future__ import annotations

import threading
import time
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import msgspec

from tests.fakes.faults import Faults
from tests.fakes.gcp import catalog, hosting, strangers
from tests.fakes.gcp.calls import Calls
from tests.fakes.gcp.catalog import PROJECT
from tests.fakes.gcp.operations import Operations
from tests.fakes.gcp.server import Server
from tests.fakes.gcp.values import Call, Settings, Thing
from tests.fakes.hosts import Hosts, missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from tests.fakes.gcp.lives import Life
    from tests.fakes.gcp.server import Asked
    from tests.fakes.gcp.values import Fault
    from tests.fakes.network import Rules
    from tests.fakes.values import Fault as AnyFault

PUBLIC = list(ip_network("198.19.0.0/16"))[2:]  # RFC 2544: no stranger's
NOWHERE = "203.0.113.7"  # the caller, as hosts that do not exist would see it: RFC 5737
KINDS = ("instances", "disks", "firewalls", "networks", "subnetworks", "resourcePolicies")


class Cloud:
    """Google's cloud, as far as it is known here; see `tests.fakes.gcp`."""

    def __init__(
        self, *, hosts: bool = False, settings: Settings | None = None, port: int = 0
    ) -> None:
        self.lock = threading.RLock()
        if hosts and (why := missing()):
            raise RuntimeError(why)
        self.hosts = Hosts(self) if hosts else None
        self.gaps: list[str] = []
        self.caller = self.hosts.caller if self.hosts else NOWHERE
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

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def environ(self) -> dict[str, str]:
        """What a client needs in its environment."""
        return {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.url}/compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{self.url}/billing",
            "CLOUDSDK_CORE_ACCOUNT": "me@example.com",
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "CLUSTER_CHECKIP": f"{self.url}/checkip",
        }

    def reset(self, settings: Settings | None = None) -> None:
        """Begin anew."""
        if self.hosts:
            self.hosts.clear()
        with self.lock:
            self.settings = settings or Settings()
            self.faults = Faults()
            self.log: list[Call] = []  # a call that hangs still writes into its own
            self.gaps.clear()
            self.operations = Operations()
            self.host_keys_told: dict[str, str] | None = None  # other ones than hosts have
            self.lives: dict[str, Life] = {}
            self.public = self.hosts.addresses if self.hosts else map(str, PUBLIC)
            self.resources = catalog.things(retired=self.settings.retired)
            strangers.put(self)
            self._baseline = set(self.resources)

    def set(self, **changes: Any) -> None:
        """Change settings from now on."""
        with self.lock:
            self.settings = msgspec.structs.replace(self.settings, **changes)

    def fail(self, fault: AnyFault) -> None:
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

    def things(self, *, theirs: bool = True) -> frozenset[Thing]:
        """List what exists; without what was there from the beginning, if not `theirs`."""
        with self.lock:
            self.tick()
            return frozenset(
                _thing(path, one)
                for path, one in self.resources.items()
                if path.split("/")[-2] in KINDS and (theirs or path not in self._baseline)
            )

    def strangers(self) -> frozenset[Thing]:
        """List what was there from the beginning, as it is now."""
        return self.things() - self.things(theirs=False)

    def calls_of(self, asked: Asked, harm: Fault | None) -> dict[str, Any]:
        """Do what a request asks."""
        return Calls(self, asked, harm).execute()

    def tick(self) -> None:
        """Let happen what is due."""
        now = time.monotonic()
        self.operations.tick(now)
        for path, life in list(self.lives.items()):
            if self._host_gone(life) and life.status == "RUNNING":
                life.instance["status"] = "TERMINATED"
            if life.tick(now, self.settings.stopping):
                self._bury(path)
        self._boot()
        self.operations.tick(now)

    def _host_gone(self, life: Life) -> bool:
        host = self.hosts.of(life.path.rpartition("/")[2]) if self.hosts else None
        return host is not None and host.gone

    def _boot(self) -> None:
        """Let hosts come up for what runs now."""
        new = [life for life in self.lives.values() if life.status == "RUNNING" and not life.booted]
        for life in new:
            life.booted = True
        if self.hosts and new:
            self.hosts.boot([hosting.wanted(life.instance) for life in new])

    def _bury(self, path: str) -> None:
        """Take away an instance, and what goes with it."""
        life = self.lives.pop(path)
        self.resources.pop(path, None)
        for disk in life.instance["disks"]:
            if disk["autoDelete"]:
                self.resources.pop(disk["source"], None)
        self.unplug(life)

    def unplug(self, life: Life) -> None:
        """Let an instance's host be gone."""
        host = self.hosts.of(life.path.rpartition("/")[2]) if self.hosts else None
        if host is not None:
            host.end()

    def end(self, name: str) -> None:
        """End an instance as if Google had reclaimed it."""
        with self.lock:
            for life in self.lives.values():
                if life.path.endswith(f"/{name}"):
                    life.end(0.0)
            self.tick()

    def rules(self, devices: Mapping[str, str]) -> Rules:
        """Tell who may reach whom, of instances that have a device each."""
        walls = [one for path, one in self.resources.items() if "/global/firewalls/" in path]
        return hosting.rules([life.instance for life in self.lives.values()], walls, devices)

    def console(self, name: str) -> str:
        """Give what an instance's host said."""
        return self.hosts.console(name) if self.hosts else ""

    def running(self, name: str) -> bool:
        """Tell whether an instance's host lives."""
        host = self.hosts.of(name) if self.hosts else None
        return host is not None and host.running

    def peer(self) -> None:
        """Let private addresses be reached from here, as over a VPN."""
        if self.hosts:
            self.hosts.peer()


def _thing(path: str, one: Mapping[str, Any]) -> Thing:
    _, _, scope, *rest = path.split("/")
    tags: Iterable[tuple[str, str]] = one.get("labels", {}).items()
    return Thing(
        region=rest[0] if scope in ("zones", "regions") else "global",
        kind=path.split("/")[-2],
        id=str(one["name"]),
        state=str(one.get("status", "")),
        tags=(*(f"{key}={value}" for key, value in sorted(tags)), str(one.get("description", ""))),
    )
