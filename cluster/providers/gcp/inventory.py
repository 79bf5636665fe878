"""The caller's clusters at Google, from whichever machine they were launched."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from cluster.core.model.resources import RemoteCluster
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.tags import Selection
from cluster.providers.gcp.delete import GcpDeletion
from cluster.providers.gcp.labels import filter_of, is_of, parse_description
from cluster.providers.gcp.prices import price
from cluster.providers.gcp.request import private

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.cloud.compute_v1.types.compute import Instance, MachineType

    from cluster.core.model.resources import Price
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.gcp.api import Project

PLACE = "projects/"  # the prefix of a place: one call covers all zones of a project


def list_clusters(project: Project) -> tuple[RemoteCluster, ...]:
    """List the caller's clusters in a project, also those of which only a firewall rule is left.

    Raises:
        Failure: Google refused a call.

    """
    whose = Selection(owner=project.owner)
    found = {one.tags.name: one.tags for one in GcpDeletion(project, whose).found() if one.tags}
    alive: dict[str, list[Instance]] = {name: [] for name in found}
    for one in project.all("instances", filter=filter_of(whose)):
        tags = parse_description(one.description)
        if tags is not None and is_of(whose, one.description):
            alive.setdefault(tags.name, []).append(one)
    return tuple(_seen(project, tags, alive[name]) for name, tags in sorted(found.items()))


def _seen(project: Project, tags: Tags, machines: Sequence[Instance]) -> RemoteCluster:
    began = [_moment(one.creation_timestamp) for one in machines]
    first = machines[0] if machines else None
    return RemoteCluster(
        name=tags.name,
        region=f"{PLACE}{project.name}",
        host=tags.host,
        addresses=tuple(private(one) for one in sorted(machines, key=lambda one: one.name)),
        states=tuple(one.status.lower() for one in machines),
        since=min(began, default=0.0),
        expires=tags.expires,
        price=_price(project, first) if first else None,
    )


def _price(project: Project, one: Instance) -> Price | None:
    """Read the price of a machine; none if it cannot be read."""
    zone, name = one.zone.rpartition("/")[2], one.machine_type.rpartition("/")[2]
    try:
        kind: MachineType = project.call("machine_types", "get", zone=zone, machine_type=name)
    except Failure:
        return None
    gpus = next(
        (
            (gpu.accelerator_type.rpartition("/")[2], gpu.accelerator_count)
            for gpu in one.guest_accelerators
        ),
        None,
    )
    own = [(gpu.guest_accelerator_type, gpu.guest_accelerator_count) for gpu in kind.accelerators]
    region = zone.rpartition("-")[0]
    spot = one.scheduling.provisioning_model == "SPOT"
    return price(project, kind, region, own[0] if own else gpus, spot=spot)


def _moment(text: str) -> float:
    """Read an ISO 8601 time, in seconds since the epoch; 0 if the text is not one."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
