"""Instances: made all at once or not at all, in every way in which that can go wrong."""

import base64
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

from tests.fakes import hostfiles
from tests.fakes.gaps import GapError
from tests.fakes.gcp import instance_hosts, reservations
from tests.fakes.gcp.catalog import PROJECT, SUBNETS, region_of
from tests.fakes.gcp.checks import check, networks
from tests.fakes.gcp.errors import RefusedError, invalid, missing
from tests.fakes.gcp.lives import Life
from tests.fakes.gcp.operations import NEVER, Operation
from tests.fakes.gcp.resources import ResourceCalls, path_of

PATTERN = re.compile(r"[^#]*(#+)[^#]*")
MINUTE, MOST_QUERIES = 60.0, 10  # guest attributes: so many queries a minute


class InstanceCalls(ResourceCalls):
    # Making instances.

    def instances_bulk_insert(self) -> Operation:
        """Make instances, all or none."""
        zone = self.request.places["zone"]
        count = int(self.request.body.get("count", 0))
        if "minCount" in self.request.body:
            raise GapError("minCount: less than all is of no use")
        if count < 1:
            raise invalid("count", count, "It must be positive.")
        properties = self.request.body["instanceProperties"]
        if properties.get("scheduling", {}).get("provisioningModel") == "FLEX_START":
            raise GapError("a bulkInsert of Flex-start VMs: it does not say how they wait")
        check(self.cloud, zone, properties)
        reservations.check(self.cloud, zone, properties, count)
        operation = self.begin("bulkInsert", f"zones/{zone}/instances")
        created = self._count_created(operation, zone, properties, count)
        instances = self._instances(zone, properties, created)
        self._live(operation, instances, properties)
        self._on_state(operation, zone, count, created)
        return operation

    def _count_created(
        self, operation: Operation, zone: str, properties: Mapping[str, Any], count: int
    ) -> int:
        """Tell how many instances are made, and let the operation say why not all."""
        if self.harm and self.harm.code:
            return self.harm.made
        region = region_of(zone)
        for metric, need in self.quotas.needs(zone, properties).items():
            quota_region = "" if metric == "GPUS_ALL_REGIONS" else region
            limit = self.quotas.limit(quota_region, metric)
            if need * count > self.quotas.remainder(quota_region, metric):
                self._fail(
                    operation,
                    "QUOTA_EXCEEDED",
                    f"Quota '{metric}' exceeded.  Limit: {limit} in region {region}.",
                    [{"quotaInfo": {"metricName": metric, "limit": limit}}],
                )
                return 0
        return self._with_capacity(operation, zone, properties, count)

    def _fail(
        self,
        operation: Operation,
        code: str,
        message: str,
        details: list[dict[str, Any]] | None = None,
    ) -> None:
        """Let a bulkInsert have an error, in the way that the settings say."""
        summary = self.cloud.settings.summary
        if summary:
            text = "Requested minimum count of 2 VMs could not be created."
            operation.fail("VM_MIN_COUNT_NOT_REACHED", text)
        part = operation
        if summary == "parts":
            part = self.begin("insert", operation.target)
            part.request = ""
            part.metadata = {"operationGroupId": operation.name.replace("operation", "group")}
        part.fail(code, message, details)

    def _with_capacity(
        self, operation: Operation, zone: str, properties: Mapping[str, Any], count: int
    ) -> int:
        settings = self.cloud.settings
        room = self._room(zone, properties)
        if count <= room:
            return count
        if settings.shortage in ("error", "ghost"):
            code = "ZONE_RESOURCE_POOL_EXHAUSTED" + "_WITH_DETAILS" * settings.details
            self._fail(
                operation,
                code,
                f"The zone 'projects/{PROJECT}/zones/{zone}' does not have enough resources "
                "available to fulfill the request.",
            )
        return {"error": 0, "short": room}.get(settings.shortage, count)

    def _room(self, zone: str, properties: Mapping[str, Any]) -> int:
        """Tell for how many more machines of a kind there is room."""
        capacity = self.cloud.settings.capacity
        kind = f"{zone} {properties['machineType']}"
        room = capacity.get(kind, capacity.get(zone, 1_000_000))
        return room - len([path for path in self.cloud.lives if f"/{zone}/" in path])

    def _instances(
        self, zone: str, properties: Mapping[str, Any], count: int
    ) -> Iterator[dict[str, Any]]:
        pattern = self.request.body.get("namePattern", "")
        match = PATTERN.fullmatch(pattern)
        if match is None:
            raise invalid("namePattern", pattern, "It must have one sequence of #.")
        width = len(match[1])
        prefix = f"projects/{PROJECT}/zones/{zone}/instances/"
        regex = re.compile(re.escape(prefix + pattern).replace(r"\#" * width, r"(\d+)"))
        numbers = [int(m[1]) for path in self.cloud.resources if (m := regex.fullmatch(path))]
        first = max(numbers, default=0) + 1
        for number in range(first, first + count):
            yield self._instance(
                zone, pattern.replace("#" * width, f"{number:0{width}}"), properties
            )

    def _instance(self, zone: str, name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        nic = properties["networkInterfaces"][0]
        network, subnet = networks(self.cloud, zone, nic)
        disk = properties["disks"][0]
        place = f"projects/{PROJECT}/zones/{zone}"
        source = f"{place}/disks/{name}"
        self.cloud.resources[source] = {
            "name": name,
            "zone": place,
            "status": "READY",
            "sizeGb": disk["initializeParams"].get("diskSizeGb", "10"),
            "users": [f"{place}/instances/{name}"],
            **{
                key: disk["initializeParams"][key]
                for key in ("labels", "description")
                if key in disk["initializeParams"]
            },
        }
        instance = {
            **properties,
            "kind": "compute#instance",
            "name": name,
            "id": str(time.time_ns()),
            "zone": place,
            "machineType": f"{place}/machineTypes/{properties['machineType']}",
            "status": "PROVISIONING",
            "creationTimestamp": datetime.now(UTC).isoformat(),
            "disks": [
                {"boot": True, "autoDelete": disk.get("autoDelete", False), "source": source}
            ],
            "networkInterfaces": [
                {
                    "name": "nic0",
                    "network": network,
                    "subnetwork": subnet,
                    "networkIP": self._address(region_of(zone)),
                    "accessConfigs": [
                        {**config, "natIP": next(self.cloud.public)}
                        for config in nic.get("accessConfigs", [])
                    ],
                },
                *(
                    {"name": f"nic{number}", "network": path, "subnetwork": subpath}
                    for number, other in enumerate(properties["networkInterfaces"][1:], 1)
                    for path, subpath in [networks(self.cloud, zone, other)]
                ),
            ],
            "resourcePolicies": [
                path_of(
                    policy
                    if "/" in policy
                    else f"regions/{region_of(zone)}/resourcePolicies/{policy}"
                )
                for policy in properties.get("resourcePolicies", [])
            ],
        }
        self.cloud.resources[f"{place}/instances/{name}"] = instance
        return instance

    def _address(self, region: str) -> str:
        addresses = {
            nic.get("networkIP")
            for resource in self.cloud.resources.values()
            for nic in resource.get("networkInterfaces", ())
        }
        hosts = ip_network(SUBNETS[region]).hosts()
        next(hosts)  # the gateway's
        return next(str(address) for address in hosts if str(address) not in addresses)

    def _live(
        self,
        operation: Operation,
        instances: Iterator[dict[str, Any]],
        properties: Mapping[str, Any],
    ) -> None:
        settings = self.cloud.settings
        now = time.monotonic()
        span = properties.get("scheduling", {}).get("maxRunDuration")
        for instance in instances:
            path = f"{instance['zone']}/instances/{instance['name']}"
            life = Life(path, instance, operation, settings.provisioning)
            if span:
                life.dies = now + int(span["seconds"]) * settings.second
            if operation.errors:
                life.ghost = operation
            elif self._vanishes(instance["zone"].rpartition("/")[2], properties["machineType"]):
                life.provisioning, life.vanishes = NEVER, True
            self.cloud.lives[path] = life

    def _vanishes(self, zone: str, kind: str) -> bool:
        settings = self.cloud.settings
        limited = {zone, f"{zone} {kind}"} & set(settings.capacity)
        return settings.shortage == "vanish" and bool(limited)

    def _on_state(self, operation: Operation, zone: str, count: int, instances: int) -> None:
        """Say in the operation how many there are of how many."""
        created = 0 if operation.errors else instances
        operation.metadata = {
            "operationGroupId": operation.name.replace("operation", "group"),
            "instancesBulkInsertOperationMetadata": {
                "perLocationStatus": {
                    f"zones/{zone}": {
                        "status": "DONE",
                        "targetVmCount": count,
                        "createdVmCount": created,
                        "failedToCreateVmCount": count - created,
                    }
                }
            },
        }

    # What becomes of instances.

    def _life(self) -> Life:
        self.find()
        if self.path not in self.cloud.lives:
            raise GapError("somebody touches an instance of the stranger")
        return self.cloud.lives[self.path]

    def instances_delete(self) -> Operation:
        """End an instance; the operation is done when it is gone."""
        path = self.path
        life = self._life()
        operation = self.begin("delete", path)
        operation.target_id = life.instance["id"]
        operation.until = lambda: path not in self.cloud.lives
        life.end(self.cloud.settings.stopping)
        self.cloud.unplug(life)
        return operation

    def instances_get_serial_port_output(self) -> dict[str, Any]:
        """Return what an instance said on its first serial port."""
        life = self._life()
        output = self.cloud.console(life.instance["name"])
        return {"contents": output, "start": "0", "next": str(len(output))}

    def instances_get_guest_attributes(self) -> dict[str, Any]:
        """Return what the guest agent wrote: the host's public keys."""
        life = self._life()
        self._count_query(life)
        metadata = instance_hosts.metadata(life.instance)
        path = self.request.query.get("queryPath", "")
        if path not in ("hostkeys", "hostkeys/"):
            raise GapError(f"guest attributes at {path!r}")
        if metadata.get("enable-guest-attributes", "").upper() != "TRUE":
            raise RefusedError("forbidden", "Guest attributes endpoint access is disabled.")
        keys = self._host_keys(life)
        if not keys:
            raise missing(f"{self.path}/guestAttributes/hostkeys/")
        items = [
            {"namespace": "hostkeys", "key": kind, "value": value} for kind, value in keys.items()
        ]
        return {"queryPath": path, "queryValue": {"items": items}}

    def _count_query(self, life: Life) -> None:
        """Google answers ten in a minute; who asks more often may lose what is written."""
        now = time.monotonic()
        life.queries = [
            timestamp for timestamp in life.queries or [] if timestamp > now - MINUTE
        ] + [now]
        if len(life.queries) > MOST_QUERIES:
            raise GapError("guest attributes are asked for more than ten times a minute")

    def _host_keys(self, life: Life) -> dict[str, str]:
        if life.status != "RUNNING" or time.monotonic() < life.runs + self.cloud.settings.guest:
            return {}
        if self.cloud.host_keys_told is not None:
            return self.cloud.host_keys_told
        if self.cloud.hosts is None:
            public = hostfiles.host_key()[1]
        else:
            public = self.cloud.hosts.host_key(life.instance["name"])
        kind, _, rest = public.partition(" ")
        return {kind: rest.split()[0]} if rest and base64.b64decode(rest.split()[0]) else {}
