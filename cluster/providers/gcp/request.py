"""From what was decided to what bulkInsert is asked, and from an instance to a machine; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.providers._cloud.machine import Seen
from cluster.providers.gcp import machine_types
from cluster.providers.gcp.labels import DIGITS, described, label, labels

if TYPE_CHECKING:
    from cluster.core.model.spec import ClusterSpec
    from cluster.providers._cloud.tags import Mark
    from cluster.providers.gcp.options import GcpOptions, Offer
    from cluster.providers.gcp.responses import Instance

FIRST, LAST = 800, 900  # priorities of our rules: before those of the network, which are 65534
EVERYBODY = "0.0.0.0/0"


def request(
    spec: ClusterSpec, options: GcpOptions, offer: Offer, mark: Mark, public_key: str
) -> dict[str, Any]:
    """Give what bulkInsert is asked: all machines, or none.

    Labels, time-to-live and the key to log in with travel in the creating call: there is no moment
    without them.

    Args:
        spec: what is asked.
        options: of it.
        offer: what was decided.
        mark: of the launch.
        public_key: that logs in.

    Returns:
        The body of the call.

    """
    properties: dict[str, Any] = {
        "machine_type": offer.instance,
        "description": described(mark),
        "labels": labels(mark),
        "tags": {"items": [label(mark)]},
        "metadata": {"items": _metadata(options.user, public_key)},
        "disks": [_disk(offer, mark)],
        "network_interfaces": [_interface(options, offer, mark)],
        "scheduling": _scheduling(spec, offer),
        "shielded_instance_config": {
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            "enable_secure_boot": not offer.gpus,  # drivers of accelerators are not signed for it
        },
    }
    if offer.accelerator:
        properties["guest_accelerators"] = [
            {
                "accelerator_type": offer.accelerator,
                "accelerator_count": offer.accelerators,
            }
        ]
    if spec.placement:
        properties["resource_policies"] = [label(mark)]
    if offer.tier1:
        properties["network_performance_config"] = {"total_egress_bandwidth_tier": "TIER_1"}
    if options.threads_per_core:
        properties["advanced_machine_features"] = {"threads_per_core": options.threads_per_core}
    return {
        "count": spec.hosts,
        "name_pattern": f"{label(mark)}-{'#' * DIGITS}",
        "instance_properties": properties,
    }


def _metadata(user: str, public_key: str) -> list[dict[str, str]]:
    told = {
        "ssh-keys": f"{user}:{public_key} {user}",
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",  # there the host tells its public keys
    }
    return [{"key": key, "value": value} for key, value in told.items()]


def _disk(offer: Offer, mark: Mark) -> dict[str, Any]:
    made: dict[str, Any] = {
        "source_image": offer.image,
        "disk_type": machine_types.disk_type(offer.instance),
        "labels": labels(mark),
        "description": described(mark),
    }
    if offer.disk:
        made["disk_size_gb"] = offer.disk
    return {"boot": True, "auto_delete": True, "initialize_params": made}


def _interface(options: GcpOptions, offer: Offer, mark: Mark) -> dict[str, Any]:
    public = [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}] if options.public else []
    where = (
        {"subnetwork": f"regions/{offer.region}/subnetworks/{offer.subnet}"}
        if offer.subnet
        else {"network": f"global/networks/{offer.network or label(mark)}"}
    )
    return {**where, "nic_type": "GVNIC", "access_configs": public}


def _scheduling(spec: ClusterSpec, offer: Offer) -> dict[str, Any]:
    fixed = (
        bool(offer.gpus) or spec.spot or spec.placement
    )  # such machines cannot move while they run
    return {
        "automatic_restart": False,
        "on_host_maintenance": "TERMINATE" if fixed else "MIGRATE",
        "provisioning_model": "SPOT" if spec.spot else "STANDARD",
        "max_run_duration": {"seconds": round(offer.ttl)},
        "instance_termination_action": "DELETE",
    }


def firewalls(offer: Offer, mark: Mark) -> tuple[dict[str, Any], ...]:
    """Give the rules around the machines: SSH from the caller, all from each other, nothing else.

    A default network lets everybody in by SSH; our last rule shuts that for our machines. In a
    network of our own nothing is open.

    Args:
        offer: what was decided.
        mark: of the launch.

    Returns:
        The rules; the first one's name is the lock of the cluster's name.

    """
    common = {
        "network": f"global/networks/{offer.network or label(mark)}",
        "description": described(mark),
        "direction": "INGRESS",
        "target_tags": [label(mark)],
    }
    ssh = {
        **common,
        "name": f"{label(mark)}-ssh",
        "priority": FIRST,
        "source_ranges": [offer.allow],
        "allowed": [{"I_p_protocol": "tcp", "ports": ["22"]}],
    }
    inside = {
        **common,
        "name": f"{label(mark)}-in",
        "priority": FIRST,
        "source_tags": [label(mark)],
        "allowed": [{"I_p_protocol": "all"}],
    }
    nothing = {
        **common,
        "name": f"{label(mark)}-no",
        "priority": LAST,
        "source_ranges": [EVERYBODY],
        "denied": [{"I_p_protocol": "all"}],
    }
    return (ssh, inside, nothing) if offer.network else (ssh, inside)


def seen(one: Instance) -> Seen:
    """Give what every cloud shows of an instance; its name is one zone's, its id is for ever."""
    return Seen(
        id=f"{one.zone.rpartition('/')[2]}/{one.name}",
        alias=alias(one),
        private=one.private,
        public=one.public,
    )


def alias(one: Instance) -> str:
    """Give the name under which an instance's host keys are kept."""
    return f"instance-{one.id}"
