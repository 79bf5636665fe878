"""What all calls have in common: where something is asked for, what is there, and operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.fakes.gcp import discovery, reservations, topology
from tests.fakes.gcp.catalog import PROJECT
from tests.fakes.gcp.errors import RefusedError, missing
from tests.fakes.gcp.quotas import Quotas

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.gcp.cloud import Cloud
    from tests.fakes.gcp.operations import Operation
    from tests.fakes.gcp.server import Asked
    from tests.fakes.gcp.values import Fault


def path_of(given: str) -> str:
    """Return the path that a URL, or a part of one, means."""
    path = given.partition(discovery.BASE)[2] or given
    return path if path.startswith("projects/") else f"projects/{PROJECT}/{path}"


class ResourceCalls:
    """One call about the resources of a cloud, and the fault that it shall have, if any."""

    def __init__(self, cloud: Cloud, asked: Asked, harm: Fault | None) -> None:
        self.cloud, self.asked, self.harm = cloud, asked, harm
        self.quotas = Quotas(cloud)

    @property
    def scope(self) -> str:
        """Where it is asked for, such as `zones/us-central1-a`."""
        for kind in ("zone", "region"):
            if kind in self.asked.places:
                return f"{kind}s/{self.asked.places[kind]}"
        return "global"

    @property
    def path(self) -> str:
        """The path of what is asked for."""
        path = self.asked.method.path
        for name, value in self.asked.places.items():
            path = path.replace(f"{{{name}}}", value)
        return re.sub(r"/(getGuestAttributes|serialPort)$", "", path)

    def found(self) -> dict[str, Any]:
        """Return what is asked for, or refuse."""
        if self.path not in self.cloud.resources:
            raise missing(self.path)
        return self.cloud.resources[self.path]

    def shown(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return a thing as it is answered: where it is named, it is by a URL."""
        if one.get("kind") == "compute#instance":
            return {"selfLink": "", **one, **topology.status(self.cloud.settings, one)}
        if one.get("kind") == "compute#reservation":
            return reservations.shown(self.cloud, one)
        return {"selfLink": "", **one}

    def begin(self, kind: str, target: str) -> Operation:
        """Begin an operation."""
        operation = self.cloud.operations.begin(
            kind, self.scope, target, self.asked.query.get("requestId", ""), self.cloud.settings
        )
        operation.status = self.cloud.settings.status
        return operation

    def insert(self, body: dict[str, Any], then: Callable[[], None] | None = None) -> Operation:
        """Make what a body describes, unless it exists."""
        path = f"{self.path}/{body['name']}"
        if path in self.cloud.resources:
            raise RefusedError("alreadyExists", f"The resource '{path}' already exists")
        operation = self.begin("insert", path)
        made = {"selfLink": f"https://www.googleapis.com{discovery.BASE}{path}", **body}
        if not (self.harm and self.harm.code):
            self.cloud.resources[path] = made
            if then:
                then()
        return operation

    def delete_plain(self) -> Operation:
        """Delete something that nothing depends on; another one of its name, made since, stays."""
        path = self.path
        self.found()
        doomed = self.cloud.resources[path]
        operation = self.begin("delete", path)

        def finish(_: Operation) -> None:
            if self.cloud.resources.get(path) is doomed:
                del self.cloud.resources[path]
            self._obey()

        operation.finish = finish
        return operation

    def _obey(self) -> None:
        if self.cloud.hosts:
            self.cloud.hosts.obey()
