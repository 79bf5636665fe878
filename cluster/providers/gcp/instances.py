"""Instances as Google lists them, and what it knows of those that ended.

An instance has no reason for its state, and one that is preempted may be deleted at once. What
happened to it is in the list of the zone's operations, for two weeks
(cloud.google.com/compute/docs/instances/create-use-preemptible, "Detect preemption").
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import EndedMachine, InstanceView

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Instance, Operation

    from cluster.core.model.hosts import Machine
    from cluster.providers.gcp.api import Project

ENDED = ("STOPPING", "STOPPED", "TERMINATED", "SUSPENDING", "SUSPENDED", "DEPROVISIONING")
DELETED = "deleted"  # of a machine that is not listed any more; Google has no word for it
PREEMPTED = "compute.instances.preempted"
BY_PERSONS = ("delete", "stop", "suspend")
BY_GOOGLE = "compute.instances."
GOES_ON = ("compute.instances.migrateOnHostMaintenance", "compute.instances.automaticRestart")
ALIAS = "instance-"  # and the id that Google gave the machine
LINK = "https://www.googleapis.com/compute/v1/projects/{}/zones/{}/instances/{}"


def instance_view(instance: Instance) -> InstanceView:
    """Return fields of an instance that all clouds have; its name is unique only in its zone."""
    first = instance.network_interfaces[:1]
    return InstanceView(
        id=f"{instance.zone.rpartition('/')[2]}/{instance.name}",
        alias=alias(instance),
        private=private(instance),
        public=next((config.nat_i_p for nic in first for config in nic.access_configs), ""),
    )


def private(instance: Instance) -> str:
    return instance.network_interfaces[0].network_i_p if instance.network_interfaces else ""


def id_of(machine: Machine) -> str:
    """Return the id that Google gave a machine; empty if it is not known."""
    return machine.access.alias.removeprefix(ALIAS) if machine.access else ""


def alias(instance: Instance) -> str:
    """Return the name of an instance in known_hosts; its id is never used again."""
    return f"{ALIAS}{instance.id}"


def ended_machine(
    project: Project, zone: str, name: str, state: str, *, target: str = "", since: str = ""
) -> EndedMachine:
    """Return how a machine ended, as far as Google's operations say it.

    `state` is Google's, or `DELETED`. Another machine may have had the name: `target` is its id or,
    if that is not known, `since` is when its launch began, in Google's format.
    """
    operations: tuple[Operation, ...] = ()
    with suppress(Failure):  # then it is not known why
        operations = project.all(
            "zone_operations",
            zone=zone,
            filter=f'targetLink = "{LINK.format(project.name, zone, name)}"',
        )
    ends = [
        operation
        for operation in operations
        if _ends(operation.operation_type)
        and (str(operation.target_id) == target if target else _is_later(operation, since))
    ]
    ends.sort(key=lambda operation: (operation.operation_type != PREEMPTED, operation.name))
    return EndedMachine(
        id=f"{zone}/{name}",
        state=state,
        why=_words(ends[0]) if ends else "",
        is_reclaimed=bool(ends) and ends[0].operation_type == PREEMPTED,
    )


def _ends(kind: str) -> bool:
    return kind in BY_PERSONS or (kind.startswith(BY_GOOGLE) and kind not in GOES_ON)


def _is_later(operation: Operation, since: str) -> bool:
    read = datetime.fromisoformat
    return not since or (bool(operation.insert_time) and read(operation.insert_time) >= read(since))


def _words(operation: Operation) -> str:
    user = f" by {operation.user}" if operation.user else ""
    reason = f": {operation.status_message.rstrip('.')}" if operation.status_message else ""
    return f"{operation.operation_type}{user}{reason}"
