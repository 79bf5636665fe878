"""The calls that have a behaviour; any other is a gap."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from tests.fakes.gaps import GapError
from tests.fakes.gcp.catalog import PROJECT, QUOTA_OF_GPU, SUBNETS, ZONES
from tests.fakes.gcp.checks import overlap
from tests.fakes.gcp.errors import RefusedError, missing
from tests.fakes.gcp.filters import passes
from tests.fakes.gcp.groups import GroupCalls
from tests.fakes.gcp.resources import path_of

if TYPE_CHECKING:
    from tests.fakes.gcp.operations import Operation

READ = {  # collections that can be read, and how
    "acceleratorTypes": {"get", "list", "aggregatedList"},
    "disks": {"get", "list", "aggregatedList"},
    "firewalls": {"get", "list"},
    "images": {"get", "list"},
    "instanceGroupManagers": {"get", "list", "aggregatedList"},
    "instanceGroupManagerResizeRequests": {"get", "list"},
    "instanceTemplates": {"get", "list"},
    "instances": {"get", "list", "aggregatedList"},
    "machineTypes": {"get", "list", "aggregatedList"},
    "networkProfiles": {"get", "list"},
    "networks": {"get", "list"},
    "reservations": {"get", "list", "aggregatedList"},
    "resourcePolicies": {"get", "list", "aggregatedList"},
    "subnetworks": {"get", "list", "aggregatedList"},
    "zones": {"get", "list"},
}
# metrics that Google's description of Compute Engine does not list
NEW_QUOTAS = tuple(f"NVIDIA_{gpu}_GPUS" for gpu in ("H100", "H100_MEGA", "H200", "B200", "GB200"))
OPERATIONS = ("zoneOperations", "regionOperations", "globalOperations")


def _snake(match: re.Match[str]) -> str:
    return "_" + match[0].strip(".").lower()


class Calls(GroupCalls):
    """The calls, each named by its id, such as `instances_bulk_insert`."""

    def execute(self) -> dict[str, Any]:
        method = self.request.method
        verb = method.id.partition(".")[2]
        if self.request.places.get("project", PROJECT) != PROJECT and method.collection != "images":
            raise RefusedError(
                "forbidden",
                f"Required 'compute.{method.id}' permission for "
                f"'projects/{self.request.places['project']}'",
            )
        if method.collection in OPERATIONS and verb in ("get", "wait"):
            return self._operation()
        if method.collection in OPERATIONS and verb == "list":
            return self._operations()
        if verb in READ.get(method.collection, ()):
            return self._read(verb)
        behaviour = getattr(self, re.sub("[.A-Z]", _snake, method.id), None)
        if behaviour is None:
            raise GapError(f"{method.id} has no behaviour")
        if before := self._before():
            return before
        result = behaviour()
        if isinstance(result, dict):
            return result
        return self._register(result)

    def _before(self) -> dict[str, Any] | None:
        """Return what the same request began before."""
        request = self.request.query.get("requestId", "")
        before = self.cloud.operations.before(request)
        if before is None:
            return None
        if before[0] != self._identify():
            raise RefusedError("invalid", f"The request id {request} was used for another request.")
        return before[1].render()

    def _identify(self) -> object:
        return self.request.method.id, self.request.places, self.request.body

    def _register(self, operation: Operation) -> dict[str, Any]:
        self.cloud.operations.remember(
            self.request.query.get("requestId", ""), self._identify(), operation
        )
        if self.harm and self.harm.code:
            operation.fail(self.harm.code, self.harm.message)
        answer = operation.render()
        self.cloud.tick()
        return answer

    # Reading.

    def _operation(self) -> dict[str, Any]:
        name = self.request.places["operation"]
        operation = self.cloud.operations.get(name)
        if operation is None or operation.scope != self.scope:
            raise missing(name)
        return operation.render()

    def _operations(self) -> dict[str, Any]:
        expression = self.request.query.get("filter", "")
        operations = [operation.render() for operation in self.cloud.operations.select(self.scope)]
        return {"items": [operation for operation in operations if passes(expression, operation)]}

    def _read(self, verb: str) -> dict[str, Any]:
        if verb == "get":
            return self.render(self.find())
        if verb == "list":
            return self._paged(self._list(self.path))
        return self._aggregated()

    def _list(self, prefix: str) -> list[tuple[str, dict[str, Any]]]:
        expression = self.request.query.get("filter", "")
        return [
            (path, self.render(resource))
            for path, resource in sorted(self.cloud.resources.items())
            if path.rpartition("/")[0] == prefix and passes(expression, resource)
        ]

    def _paged(self, items: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        page, token = self._page(items)
        for path, _ in page:
            if path in self.cloud.lives:
                self.cloud.lives[path].was_listed(time.monotonic())
        return {"items": [resource for _, resource in page], **token}

    def _page(
        self, items: list[tuple[str, dict[str, Any]]]
    ) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, str]]:
        query = self.request.query
        limit = min(int(query.get("maxResults", 500)), self.cloud.settings.page)
        start = int(query.get("pageToken", 0))
        token = {"nextPageToken": str(start + limit)} if start + limit < len(items) else {}
        return items[start : start + limit], token

    def _aggregated(self) -> dict[str, Any]:
        """List what is in all zones or regions; those with nothing say so."""
        kind = self.request.method.collection
        zonal = kind in (
            *("acceleratorTypes", "disks", "instanceGroupManagers", "instances"),
            *("machineTypes", "reservations"),
        )
        scopes = (
            [f"zones/{zone}" for zones in ZONES.values() for zone in zones]
            if zonal
            else [f"regions/{region}" for region in ZONES]
        )
        page, token = self._page(
            [item for scope in scopes for item in self._list(f"projects/{PROJECT}/{scope}/{kind}")]
        )
        items: dict[str, Any] = {
            scope: {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results."}}
            for scope in scopes
        }
        for path, resource in page:
            listed = items["/".join(path.split("/")[2:4])]
            listed.pop("warning", None)
            listed.setdefault(kind, []).append(resource)
        return {"items": items, **token}

    def images_get_from_family(self) -> dict[str, Any]:
        """Return the newest image of a family that is not deprecated."""
        places = self.request.places
        images = [
            image
            for path, image in self.cloud.resources.items()
            if path.startswith(f"projects/{places['project']}/global/images/")
            and image["family"] == places["family"]
            and "deprecated" not in image
        ]
        if not images:
            raise missing(f"projects/{places['project']}/global/images/family/{places['family']}")
        return self.render(max(images, key=lambda image: str(image["creationTimestamp"])))

    def advice_capacity(self) -> dict[str, Any]:
        """Tell how likely spot machines are to be had, of a type and in the region."""
        region, body = self.request.places["region"], self.request.body
        [machines] = body["instanceFlexibilityPolicy"]["instanceSelections"].values()
        for name in machines["machineTypes"]:
            paths = [f"projects/{PROJECT}/zones/{zone}/machineTypes" for zone in ZONES[region]]
            if not any(f"{path}/{name}" in self.cloud.resources for path in paths):
                raise RefusedError("invalid", f"There is no {name} in {region}.")
        if body["instanceProperties"]["scheduling"]["provisioningModel"] != "SPOT":
            raise RefusedError("invalid", "There is advice about spot machines only.")
        if region not in self.cloud.settings.obtainable:
            return {"recommendations": []}
        scores = {"obtainability": self.cloud.settings.obtainable[region]}
        return {"recommendations": [{"scores": scores}]}

    def projects_get(self) -> dict[str, Any]:
        metrics = ("GPUS_ALL_REGIONS", "NETWORKS")
        return {"name": PROJECT, "quotas": [self._quota("", metric) for metric in metrics]}

    def regions_get(self) -> dict[str, Any]:
        name = self.request.places["region"]
        if name not in ZONES:
            raise missing(f"projects/{PROJECT}/regions/{name}")
        return self._region(name)

    def regions_list(self) -> dict[str, Any]:
        return {"items": [self._region(name) for name in ZONES]}

    def _region(self, name: str) -> dict[str, Any]:
        metrics = ["CPUS", "INSTANCES", "IN_USE_ADDRESSES", "AFFINITY_GROUPS", "SSD_TOTAL_GB"]
        metrics += ["PREEMPTIBLE_CPUS", "N2_CPUS", "C2_CPUS", "C3_CPUS", "A2_CPUS", "T2A_CPUS"]
        gpus = sorted(QUOTA_OF_GPU.values())
        metrics += [
            *(metric for metric in gpus if metric not in NEW_QUOTAS),
            *(f"PREEMPTIBLE_{metric}" for metric in gpus if metric not in NEW_QUOTAS[1:]),
        ]
        return {
            "name": name,
            "status": "UP",
            "zones": [f"projects/{PROJECT}/zones/{zone}" for zone in ZONES[name]],
            "quotas": [self._quota(name, metric) for metric in metrics],
        }

    def _quota(self, region: str, metric: str) -> dict[str, Any]:
        return {
            "metric": metric,
            "limit": self.quotas.limit(region, metric),
            "usage": self.quotas.used(region).get(metric, 0.0),
        }

    # What instances need.

    def firewalls_delete(self) -> Operation:
        """Delete a firewall rule."""
        return self.delete_plain()

    def firewalls_insert(self) -> Operation:
        body = {"priority": 1000, "direction": "INGRESS", **self.request.body}
        body["network"] = path_of(body.get("network", "global/networks/default"))
        if body["network"] not in self.cloud.resources:
            raise missing(body["network"])
        if "networkProfile" in self.cloud.resources[body["network"]]:
            raise RefusedError("invalid", "The network profile does not allow VPC firewall rules.")
        if not body.keys() & {"allowed", "denied"}:
            raise RefusedError("invalid", "A rule allows something or denies something.")
        if not body.keys() & {"sourceRanges", "sourceTags"}:
            body["sourceRanges"] = ["0.0.0.0/0"]
        return self.insert(body, self._obey)

    def resource_policies_insert(self) -> Operation:
        group = self.request.body.get("groupPlacementPolicy")
        if set(self.request.body) - {"name", "description", "groupPlacementPolicy"} or not group:
            raise GapError(f"a policy like {self.request.body}")
        if set(group) != {"collocation"} or group["collocation"] != "COLLOCATED":
            raise GapError(f"a placement like {group}: with vmCount, instances wait for each other")
        region = self.request.places["region"]
        if self.quotas.remainder(region, "AFFINITY_GROUPS") < 1:
            raise RefusedError("quotaExceeded", f"Quota 'AFFINITY_GROUPS' exceeded in {region}.")
        return self.insert({**self.request.body, "region": region, "status": "READY"})

    def networks_insert(self) -> Operation:
        """Make a network; one of the automatic kind has a subnet in every region."""
        body = {"mtu": 1460, "autoCreateSubnetworks": True, **self.request.body}
        if self.quotas.remainder("", "NETWORKS") < 1:
            raise RefusedError("quotaExceeded", "Quota 'NETWORKS' exceeded.  Limit: 15.0 globally.")
        if "networkProfile" in body:
            body["networkProfile"] = path_of(body["networkProfile"])
            if body["networkProfile"] not in self.cloud.resources:
                raise missing(body["networkProfile"])
            if body["autoCreateSubnetworks"]:
                raise RefusedError("invalid", "The network profile has no automatic subnets.")
        if not body["autoCreateSubnetworks"]:
            return self.insert({**body, "subnetworks": []})
        path = f"{self.path}/{body['name']}"

        def subnets() -> None:
            for region, cidr in SUBNETS.items():
                key = f"projects/{PROJECT}/regions/{region}/subnetworks/{body['name']}"
                self.cloud.resources[key] = {
                    "name": body["name"],
                    "network": path,
                    "ipCidrRange": cidr,
                    "region": region,
                }

        return self.insert(body, subnets)

    def subnetworks_insert(self) -> Operation:
        region = self.request.places["region"]
        body = {
            **self.request.body,
            "region": region,
            "network": path_of(self.request.body["network"]),
        }
        network = self.cloud.resources.get(body["network"])
        if network is None:
            raise missing(body["network"])
        if network["autoCreateSubnetworks"]:
            raise RefusedError("invalid", "Cannot create a subnet in an auto subnet mode network.")
        profile = network.get("networkProfile", "").rpartition("/")[2]
        if profile and not profile.startswith(region):
            raise RefusedError("invalid", f"The network is of {profile}, not of {region}.")
        ranges = [self.cloud.resources[path]["ipCidrRange"] for path in network["subnetworks"]]
        if overlap(body["ipCidrRange"], *ranges):
            raise RefusedError("invalid", "Invalid IPCidrRange: conflicts with another one.")
        path = f"projects/{PROJECT}/regions/{region}/subnetworks/{body['name']}"
        return self.insert(body, lambda: network["subnetworks"].append(path))

    def subnetworks_delete(self) -> Operation:
        """Delete a subnet that no instance uses."""
        path, subnet = self.path, self.find()
        network = self.cloud.resources[subnet["network"]]
        if network["autoCreateSubnetworks"]:
            raise RefusedError(
                "invalid", "Cannot delete auto subnetwork from an auto subnet mode network."
            )
        for resource in self.cloud.resources.values():
            if any(nic.get("subnetwork") == path for nic in resource.get("networkInterfaces", ())):
                raise RefusedError(
                    "resourceInUseByAnotherResource",
                    f"The subnetwork resource '{path}' is already being used by "
                    f"'{resource['name']}'",
                )
        if path in network["subnetworks"]:
            network["subnetworks"].remove(path)
        return self.delete_plain()

    def resource_policies_delete(self) -> Operation:
        """Delete a resource policy that nobody uses."""
        self.find()
        for resource in self.cloud.resources.values():
            if self.path in resource.get("resourcePolicies", ()):
                raise RefusedError(
                    "resourceInUseByAnotherResource",
                    f"The resource_policy resource '{self.path}' is already being used by "
                    f"'{resource['name']}'",
                )
        return self.delete_plain()

    def networks_delete(self) -> Operation:
        """Delete a network that nobody uses; a subnet of the automatic kind goes with it."""
        path = self.path
        has_own = "subnetworks" in self.find()
        users = [
            resource["name"]
            for resource in self.cloud.resources.values()
            if (resource.get("network") == path and (has_own or "ipCidrRange" not in resource))
            or any(nic["network"] == path for nic in resource.get("networkInterfaces", ()))
        ]
        operation = self.begin("delete", path)
        if users:
            operation.fail(
                "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
                f"The network resource '{path}' is already being used by '{users[0]}'",
            )
        doomed = self.cloud.resources[path]

        def finish(_: Operation) -> None:
            if self.cloud.resources.get(path) is doomed:
                self._without_subnets(path)

        operation.finish = finish
        return operation

    def _without_subnets(self, network: str) -> None:
        self.cloud.resources = {
            path: resource
            for path, resource in self.cloud.resources.items()
            if path != network
            and not ("ipCidrRange" in resource and resource["network"] == network)
        }

    def disks_delete(self) -> Operation:
        """Delete a disk that is not attached."""
        for life in self.cloud.lives.values():
            if any(disk["source"] == self.path for disk in life.instance["disks"]):
                raise RefusedError(
                    "resourceInUseByAnotherResource",
                    f"The disk resource '{self.path}' is already being used by '{life.path}'",
                )
        return self.delete_plain()
