"""Managed instance groups, as far as machines are waited for with them: Flex-start.

Sources: Google's description of Compute Engine (what may not be deleted while it is used, names of
machines or a number, not both); Compute Engine, "About resize requests in a MIG": the states of a
request; one that lacks quota or room waits, and says so as its last attempt; a group that is
deleted takes its requests and machines along; and cluster-toolkit, mig_flex.py: a group without
machines that repairs nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.fakes.gaps import GapError
from tests.fakes.gcp import reservations
from tests.fakes.gcp.catalog import PROJECT, region_of
from tests.fakes.gcp.checks import check
from tests.fakes.gcp.errors import RefusedError, invalid, missing
from tests.fakes.gcp.instances import InstanceCalls
from tests.fakes.gcp.resources import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.gcp.operations import Operation

MOST = 1000  # machines in a group


class GroupCalls(InstanceCalls):
    """Calls about templates, groups, and the requests by which these grow."""

    def instance_templates_insert(self) -> Operation:
        properties = self.request.body.get("properties")
        if not properties:
            raise GapError("a template of an instance that exists")
        for nic in properties.get("networkInterfaces", ()):
            if "subnetwork" in nic and "regions/" not in nic["subnetwork"]:
                raise invalid("networkInterfaces", nic, "A template is of no region.")
        return self.insert(self.request.body)

    def instance_templates_delete(self) -> Operation:
        """Delete a template that no group uses."""
        path = self.path
        for resource in self.cloud.resources.values():
            if resource.get("instanceTemplate") == path:
                raise RefusedError(
                    "resourceInUseByAnotherResource",
                    f"The instance_template resource '{path}' is already being used by "
                    f"'{resource['name']}'",
                )
        return self.delete_plain()

    def instance_group_managers_insert(self) -> Operation:
        body = self.request.body
        template = path_of(body["instanceTemplate"])
        if template not in self.cloud.resources:
            raise missing(template)
        if body["targetSize"] != 0:
            raise GapError("a group that has machines without a request")
        zone = f"projects/{PROJECT}/zones/{self.request.places['zone']}"
        return self.insert({**body, "instanceTemplate": template, "zone": zone})

    def instance_group_managers_delete(self) -> Operation:
        """Delete a group, its requests, and its machines; it is done when they are gone."""
        group = self.path
        self.find()
        operation = self.begin("delete", group)
        machines = self._forget_requests(group)
        for path in machines & set(self.cloud.lives):
            life = self.cloud.lives[path]
            life.end(self.cloud.settings.stopping)
            self.cloud.unplug(life)
        operation.until = lambda: not machines & set(self.cloud.lives)

        def finish(_: Operation) -> None:
            self.cloud.resources.pop(group, None)

        operation.finish = finish
        return operation

    def _forget_requests(self, group: str) -> set[str]:
        """Take away the requests of a group, and give the paths of all their machines."""
        zone = group.partition("/instanceGroupManagers/")[0]
        paths = [path for path in self.cloud.resources if path.startswith(f"{group}/")]
        names: set[str] = set()
        for path in paths:
            self.cloud.queue.pop(path, None)
            request = self.cloud.resources.pop(path)
            names |= {f"{zone}/instances/{instance['name']}" for instance in request["instances"]}
        return names

    def instance_group_manager_resize_requests_insert(self) -> Operation:
        """Ask for machines, which come all at once."""
        body, zone = self.request.body, self.request.places["zone"]
        group = self.path.removesuffix("/resizeRequests")
        if group not in self.cloud.resources:
            raise missing(group)
        if ("resizeBy" in body) == ("instances" in body):
            raise invalid("resizeBy", body.get("resizeBy"), "Either it or instances must be said.")
        if "instances" not in body:
            raise GapError("machines without names")
        policy = self.cloud.resources[group].get("instanceLifecyclePolicy", {})
        if policy.get("defaultActionOnFailure") != "DO_NOTHING":
            raise invalid("instanceGroupManager", group, "It must not repair its instances.")
        if not 0 < len(body["instances"]) <= MOST:
            raise invalid("instances", len(body["instances"]), f"At most {MOST}.")
        template = self.cloud.resources[self.cloud.resources[group]["instanceTemplate"]]
        properties = template["properties"]
        if properties.get("scheduling", {}).get("provisioningModel") != "FLEX_START":
            raise GapError("a request for other machines than Flex-start VMs")
        check(self.cloud, zone, properties)
        reservations.check(self.cloud, zone, properties, len(body["instances"]))
        return self._accept(zone, {**body, "state": "CREATING"}, properties)

    def _accept(self, zone: str, body: dict[str, Any], properties: Mapping[str, Any]) -> Operation:
        path = f"{self.path}/{body['name']}"
        operation = self.insert(body)
        since = time.monotonic()

        def attempt() -> bool:
            """Make all machines if there is room for them now; tell whether it is over."""
            request = self.cloud.resources[path]
            if not operation.done:
                return False
            request["state"] = "ACCEPTED"
            if why := self.cloud.settings.queue_ends:
                request["state"] = "FAILED"
                request["status"] = {"error": {"errors": [{"code": why, "message": why}]}}
                return True
            if time.monotonic() < since + self.cloud.settings.queue:
                return False
            names = [instance["name"] for instance in request["instances"]]
            if lack := self._lack(zone, properties, len(names)):
                problem = {"code": lack, "message": lack}
                request["status"] = {"lastAttempt": {"error": {"errors": [problem]}}}
                return False
            request.pop("status", None)
            request["state"] = "SUCCEEDED"
            instances = (self._instance(zone, name, properties) for name in names)
            self._live(operation, instances, properties)
            return True

        self.cloud.queue[path] = attempt
        return operation

    def _lack(self, zone: str, properties: Mapping[str, Any], count: int) -> str:
        """Tell by its code what there is too little of."""
        for metric, need in self.quotas.needs(zone, properties).items():
            region = "" if metric == "GPUS_ALL_REGIONS" else region_of(zone)
            if need * count > self.quotas.remainder(region, metric):
                return "QUOTA_EXCEEDED"
        return "" if count <= self._room(zone, properties) else "ZONE_RESOURCE_POOL_EXHAUSTED"
