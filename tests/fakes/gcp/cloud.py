"""The whole cloud: its state, its server, and what a test may do with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from tests.fakes.cloud import Emulated, Listening
from tests.fakes.gcp import catalog, instance_hosts, reservations, strangers
from tests.fakes.gcp.calls import Calls
from tests.fakes.gcp.catalog import PROJECT
from tests.fakes.gcp.operations import Operations
from tests.fakes.gcp.server import listener
from tests.fakes.gcp.values import Settings, Thing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.fakes.gcp.lives import Life
    from tests.fakes.gcp.server import Request
    from tests.fakes.gcp.values import Fault
    from tests.fakes.network import Rules

How = Literal["preempted", "deleted", "stopped"]
ENDINGS: dict[How, tuple[str, str, str]] = {  # operation, user, status message
    "preempted": ("compute.instances.preempted", "system", "Instance was preempted."),
    "deleted": ("delete", "someone@example.com", ""),
    "stopped": ("stop", "someone@example.com", ""),
}
KINDS = (
    *("instances", "disks", "firewalls", "networks", "subnetworks", "resourcePolicies"),
    *("instanceGroupManagers", "instanceTemplates", "resizeRequests"),
)


class Cloud(Emulated[Settings]):
    """Google's cloud, as far as it is known here; see `tests.fakes.gcp`."""

    def _listener(self, port: int) -> Listening:
        return listener(self, port)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{self.url}/compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{self.url}/billing",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_ORGPOLICY": f"{self.url}/orgpolicy/",
            "CLOUDSDK_CORE_ACCOUNT": "me@example.com",
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "CLUSTER_CHECKIP": f"{self.url}/checkip",
        }

    def reset(self, settings: Settings | None = None) -> None:
        self._reset(settings or Settings())

    def _begin_anew(self) -> None:
        self.operations = Operations()
        self.host_keys_told: dict[str, str] | None = None  # other ones than hosts have
        self.lives: dict[str, Life] = {}
        self.queue: dict[str, Callable[[], bool]] = {}  # attempts at resize requests, by path
        self.resources = catalog.things(retired=self.settings.retired)
        strangers.put(self)
        reservations.put(self)
        self._baseline = set(self.resources)

    def things(self, *, foreign: bool = True) -> frozenset[Thing]:
        """List what exists; without what was there from the beginning, if not `foreign`."""
        with self.lock:
            self.tick()
            return frozenset(
                _thing(path, resource)
                for path, resource in self.resources.items()
                if path.split("/")[-2] in KINDS and (foreign or path not in self._baseline)
            )

    def strangers(self) -> frozenset[Thing]:
        """List what was there from the beginning, as it is now."""
        return self.things() - self.things(foreign=False)

    def calls_of(self, request: Request, harm: Fault | None) -> dict[str, Any]:
        return Calls(self, request, harm).execute()

    def tick(self) -> None:
        now = time.monotonic()
        self.operations.tick(now)
        for path, life in list(self.lives.items()):
            if self._host_gone(life) and life.status == "RUNNING":
                life.instance["status"] = "TERMINATED"
            if life.tick(now, self.settings.stopping):
                self._bury(path)
        self.queue = {path: attempt for path, attempt in self.queue.items() if not attempt()}
        self._boot()
        self.operations.tick(now)

    def _host_gone(self, life: Life) -> bool:
        host = self.hosts.find(life.path.rpartition("/")[2]) if self.hosts else None
        return host is not None and host.has_died

    def _boot(self) -> None:
        """Let hosts come up for what runs now."""
        new = [life for life in self.lives.values() if life.status == "RUNNING" and not life.booted]
        for life in new:
            life.booted = True
        if self.hosts and new:
            self.hosts.boot(
                [instance_hosts.host_settings(life.instance, self.settings.login) for life in new]
            )

    def _bury(self, path: str) -> None:
        """Take away an instance, and what goes with it."""
        life = self.lives.pop(path)
        self.resources.pop(path, None)
        for disk in life.instance["disks"]:
            if disk["autoDelete"]:
                self.resources.pop(disk["source"], None)
        self.unplug(life)
        if self.hosts:
            self.hosts.forget(life.instance["name"])

    def unplug(self, life: Life) -> None:
        """Let an instance's host be gone."""
        host = self.hosts.find(life.path.rpartition("/")[2]) if self.hosts else None
        if host is not None:
            host.end()

    def end(self, name: str, how: How = "preempted") -> None:
        """End an instance as Google does that preempts it, or a person who deletes or stops it.

        A preempted one is deleted if its `instanceTerminationAction` says so.
        """
        kind, user, message = ENDINGS[how]
        with self.lock:
            [life] = [life for life in self.lives.values() if life.path.endswith(f"/{name}")]
            scope = "/".join(life.path.split("/")[2:4])
            operation = self.operations.begin(kind, scope, life.path, "", self.settings)
            operation.target_id, operation.user = life.instance["id"], user
            operation.message, operation.due = message, 0.0
            action = life.instance["scheduling"]["instanceTerminationAction"]
            if how == "deleted" or (how == "preempted" and action == "DELETE"):
                life.end(self.settings.stopping)
            else:
                life.instance["status"] = "TERMINATED"
            self.unplug(life)
            self.tick()

    def lose_tags(self, *kinds: str) -> None:
        with self.lock:
            for path, resource in self.resources.items():
                kind = path.split("/")[-2]
                if path in self._baseline or (kinds and kind not in kinds):
                    continue
                resource.pop("labels", None)
                if kind not in ("instances", "disks"):
                    resource["description"] = ""

    def rules(self, devices: Mapping[str, str]) -> Rules:
        walls = [
            resource for path, resource in self.resources.items() if "/global/firewalls/" in path
        ]
        return instance_hosts.rules([life.instance for life in self.lives.values()], walls, devices)


def _thing(path: str, resource: Mapping[str, Any]) -> Thing:
    _, _, scope, *rest = path.split("/")
    tags: Iterable[tuple[str, str]] = resource.get("labels", {}).items()
    return Thing(
        region=rest[0] if scope in ("zones", "regions") else "global",
        kind=path.split("/")[-2],
        id=str(resource["name"]),
        state=str(resource.get("status", "")),
        tags=(
            *(f"{key}={value}" for key, value in sorted(tags)),
            str(resource.get("description", "")),
        ),
    )
