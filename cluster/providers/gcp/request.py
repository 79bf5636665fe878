"""From an offer to the body of bulkInsert; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cluster.providers.gcp import machine_types
from cluster.providers.gcp.labels import DIGITS, description_of, label, labels

if TYPE_CHECKING:
    from cluster.core.model.spec import ClusterSpec
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.gcp.fabrics import Nic
    from cluster.providers.gcp.options import GcpOffer, GcpOptions

FIRST, LAST = 800, 900  # priorities of the rules: before those of a default network, 65534
EVERYBODY = "0.0.0.0/0"
RESERVATION = "compute.googleapis.com/reservation-name"  # of the affinity to a reservation


def request(
    spec: ClusterSpec,
    options: GcpOptions,
    offer: GcpOffer,
    tags: Tags,
    public_key: str,
    stem: str = "",
    near: str = "",
    nics: Sequence[Nic] = (),
) -> dict[str, Any]:
    """Return the body of bulkInsert: it creates all machines, or none.

    Labels, TTL and the key for logins are part of the call that creates the machines, so that no
    machine exists without them. Names begin with `stem`, or the label; a number follows. `near` is
    the name of the placement policy, if the spec asks for one; `nics` connect to the fabric.
    """
    subnets = f"regions/{offer.region}/subnetworks"
    metadata = {
        "ssh-keys": f"{options.user}:{public_key} {options.user}",
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",  # the guest agent writes the host keys there
    }
    disk: dict[str, Any] = {
        "source_image": offer.image,
        "disk_type": machine_types.disk_type(offer.instance),
        "labels": labels(tags),
        "description": description_of(tags),
    }
    if offer.disk:
        disk["disk_size_gb"] = offer.disk
    nat = [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}] if options.is_public else []
    place = (
        {"subnetwork": f"regions/{offer.region}/subnetworks/{offer.subnet}"}
        if offer.subnet
        else {"network": f"global/networks/{offer.network or label(tags)}"}
    )
    properties: dict[str, Any] = {
        "machine_type": offer.instance,
        "description": description_of(tags),
        "labels": labels(tags),
        "tags": {"items": [label(tags)]},
        "metadata": {"items": [{"key": key, "value": value} for key, value in metadata.items()]},
        "disks": [{"boot": True, "auto_delete": True, "initialize_params": disk}],
        "network_interfaces": [
            {**place, "nic_type": "GVNIC", "access_configs": nat},
            *({"subnetwork": f"{subnets}/{nic.subnet}", "nic_type": nic.kind} for nic in nics),
        ],
        "scheduling": _scheduling(spec, offer),
        "shielded_instance_config": {
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            "enable_secure_boot": not offer.gpus,  # GPU drivers are not signed for it
        },
    }
    extras: dict[str, Any] = affinity(offer)
    if offer.accelerator:
        extras["guest_accelerators"] = [
            {"accelerator_type": offer.accelerator, "accelerator_count": offer.accelerators}
        ]
    if spec.placement:
        extras["resource_policies"] = [near]
    if offer.tier1:
        extras["network_performance_config"] = {"total_egress_bandwidth_tier": "TIER_1"}
    if options.threads_per_core:
        extras["advanced_machine_features"] = {"threads_per_core": options.threads_per_core}
    return {
        "count": spec.hosts,
        "name_pattern": f"{stem or label(tags)}-{'#' * DIGITS}",
        "instance_properties": properties | extras,
    }


def affinity(offer: GcpOffer) -> dict[str, Any]:
    """Return what names the reservation in a description of machines; empty if there is none."""
    if offer.queue:
        return {"reservation_affinity": {"consume_reservation_type": "NO_RESERVATION"}}
    if not offer.reservation:
        return {}
    kind = {"consume_reservation_type": "SPECIFIC_RESERVATION"}
    return {"reservation_affinity": {**kind, "key": RESERVATION, "values": [offer.reservation]}}


def _scheduling(spec: ClusterSpec, offer: GcpOffer) -> dict[str, Any]:
    # Machines with one of these properties have no live migration.
    is_fixed = bool(offer.gpus) or spec.spot or spec.placement or offer.is_bound
    is_fixed = is_fixed or machine_types.family(offer.instance) in machine_types.FIXED
    model = "FLEX_START" if offer.queue else "STANDARD"
    default = "RESERVATION_BOUND" if offer.is_bound else model
    return {
        "automatic_restart": False,
        "on_host_maintenance": "TERMINATE" if is_fixed else "MIGRATE",
        "provisioning_model": "SPOT" if spec.spot else default,
        "max_run_duration": {"seconds": round(offer.ttl)},
        "instance_termination_action": "DELETE",
    }


def firewalls(offer: GcpOffer, tags: Tags) -> tuple[dict[str, Any], ...]:
    """Return the firewall rules: SSH from the caller, all traffic between machines, nothing else.

    A default network allows SSH from everywhere; the last rule denies that for these machines. A
    network that the launch creates allows nothing, so it does not need that rule. The first rule's
    name is the lock of the cluster's name.
    """
    common = {
        "network": f"global/networks/{offer.network or label(tags)}",
        "description": description_of(tags),
        "direction": "INGRESS",
        "target_tags": [label(tags)],
    }
    ssh = {
        **common,
        "name": f"{label(tags)}-ssh",
        "priority": FIRST,
        "source_ranges": [offer.allow],
        "allowed": [{"I_p_protocol": "tcp", "ports": ["22"]}],
    }
    inside = {
        **common,
        "name": f"{label(tags)}-in",
        "priority": FIRST,
        "source_tags": [label(tags)],
        "allowed": [{"I_p_protocol": "all"}],
    }
    denial = {
        **common,
        "name": f"{label(tags)}-no",
        "priority": LAST,
        "source_ranges": [EVERYBODY],
        "denied": [{"I_p_protocol": "all"}],
    }
    return (ssh, inside, denial) if offer.network else (ssh, inside)
