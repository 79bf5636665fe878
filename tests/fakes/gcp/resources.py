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
    from tests.fakes.gcp.server import Request
    from tests.fakes.gcp.values import Fault


def path_of(reference: str) -> str:
    """Return the path that a URL, or a part of one, means."""
    path = reference.partition(discovery.BASE)[2] or reference
    return path if path.startswith("projects/") else f"projects/{PROJECT}/{path}"


class ResourceCalls:
    """One call about the resources of a cloud, and the fault that it shall have, if any."""

    def __init__(self, cloud: Cloud, request: Request, harm: Fault | None) -> None:
        self.cloud, self.request, self.harm = cloud, request, harm
        self.quotas = Quotas(cloud)

    @property
    def scope(self) -> str:
        """Where it is asked for, such as `zones/us-central1-a`."""
        for kind in ("zone", "region"):
            if kind in self.request.places:
                return f"{kind}s/{self.request.places[kind]}"
        return "global"

    @property
    def path(self) -> str:
        path = self.request.method.path
        for name, value in self.request.places.items():
            path = path.replace(f"{{{name}}}", value)
        return re.sub(r"/(getGuestAttributes|serialPort)$", "", path)

    def find(self) -> dict[str, Any]:
        if self.path not in self.cloud.resources:
            raise missing(self.path)
        return self.cloud.resources[self.path]

    def render(self, resource: dict[str, Any]) -> dict[str, Any]:
        """Return a thing as it is answered: where it is named, it is by a URL."""
        if resource.get("kind") == "compute#instance":
            return {"selfLink": "", **resource, **topology.status(self.cloud.settings, resource)}
        if resource.get("kind") == "compute#reservation":
            return reservations.render(self.cloud, resource)
        return {"selfLink": "", **resource}

    def begin(self, kind: str, target: str) -> Operation:
        operation = self.cloud.operations.begin(
            kind, self.scope, target, self.request.query.get("requestId", ""), self.cloud.settings
        )
        operation.status = self.cloud.settings.status
        return operation

    def insert(
        self, body: dict[str, Any], on_success: Callable[[], None] | None = None
    ) -> Operation:
        """Make what a body describes, unless it exists."""
        path = f"{self.path}/{body['name']}"
        if path in self.cloud.resources:
            raise RefusedError("alreadyExists", f"The resource '{path}' already exists")
        operation = self.begin("insert", path)
        resource = {"selfLink": f"https://www.googleapis.com{discovery.BASE}{path}", **body}
        if not (self.harm and self.harm.code):
            self.cloud.resources[path] = resource
            if on_success:
                on_success()
        return operation

    def delete_plain(self) -> Operation:
        """Delete something that nothing depends on; another one of its name, made since, stays."""
        path = self.path
        self.find()
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
