"""From an offer to the body of bulkInsert, and from an instance to its view; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cluster.providers._cloud.launch import InstanceView
from cluster.providers.gcp import machine_types
from cluster.providers.gcp.labels import DIGITS, description_of, label, labels
from cluster.providers.gcp.reservations import affinity

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Instance

    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.providers._cloud.tags import Tags
    from cluster.providers.gcp.fabrics import Nic
    from cluster.providers.gcp.options import GcpOffer, GcpOptions

FIRST, LAST = 800, 900  # priorities of the rules: before those of a default network, 65534
EVERYBODY = "0.0.0.0/0"
ALIAS = "instance-"  # and the id that Google gave the machine


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
    below = f"regions/{offer.region}/subnetworks"
    properties: dict[str, Any] = {
        "machine_type": offer.instance,
        "description": description_of(tags),
        "labels": labels(tags),
        "tags": {"items": [label(tags)]},
        "metadata": {"items": _metadata(options.user, public_key)},
        "disks": [_disk(offer, tags)],
        "network_interfaces": [
            _interface(options, offer, tags),
            *({"subnetwork": f"{below}/{nic.subnet}", "nic_type": nic.kind} for nic in nics),
        ],
        "scheduling": _scheduling(spec, offer),
        "shielded_instance_config": {
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            "enable_secure_boot": not offer.gpus,  # GPU drivers are not signed for it
        },
    }
    return {
        "count": spec.hosts,
        "name_pattern": f"{stem or label(tags)}-{'#' * DIGITS}",
        "instance_properties": properties | _extras(spec, options, offer, near),
    }


def _extras(spec: ClusterSpec, options: GcpOptions, offer: GcpOffer, near: str) -> dict[str, Any]:
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
    return extras


def _metadata(user: str, public_key: str) -> list[dict[str, str]]:
    metadata = {
        "ssh-keys": f"{user}:{public_key} {user}",
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",  # the guest agent writes the host keys there
    }
    return [{"key": key, "value": value} for key, value in metadata.items()]


def _disk(offer: GcpOffer, tags: Tags) -> dict[str, Any]:
    disk: dict[str, Any] = {
        "source_image": offer.image,
        "disk_type": machine_types.disk_type(offer.instance),
        "labels": labels(tags),
        "description": description_of(tags),
    }
    if offer.disk:
        disk["disk_size_gb"] = offer.disk
    return {"boot": True, "auto_delete": True, "initialize_params": disk}


def _interface(options: GcpOptions, offer: GcpOffer, tags: Tags) -> dict[str, Any]:
    public = [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}] if options.is_public else []
    where = (
        {"subnetwork": f"regions/{offer.region}/subnetworks/{offer.subnet}"}
        if offer.subnet
        else {"network": f"global/networks/{offer.network or label(tags)}"}
    )
    return {**where, "nic_type": "GVNIC", "access_configs": public}


def _scheduling(spec: ClusterSpec, offer: GcpOffer) -> dict[str, Any]:
    # Machines with one of these properties have no live migration.
    fixed = bool(offer.gpus) or spec.spot or spec.placement or offer.is_bound
    fixed = fixed or machine_types.family(offer.instance) in machine_types.FIXED
    queued = "FLEX_START" if offer.queue else "STANDARD"
    usual = "RESERVATION_BOUND" if offer.is_bound else queued
    return {
        "automatic_restart": False,
        "on_host_maintenance": "TERMINATE" if fixed else "MIGRATE",
        "provisioning_model": "SPOT" if spec.spot else usual,
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


def instance_view(instance: Instance) -> InstanceView:
    """Return fields of an instance that all clouds have; its name is unique only in its zone."""
    return InstanceView(
        id=f"{instance.zone.rpartition('/')[2]}/{instance.name}",
        alias=alias(instance),
        private=private(instance),
        public=public(instance),
    )


def private(instance: Instance) -> str:
    return instance.network_interfaces[0].network_i_p if instance.network_interfaces else ""


def public(instance: Instance) -> str:
    nics = instance.network_interfaces[:1]
    return next((config.nat_i_p for nic in nics for config in nic.access_configs), "")


def id_of(machine: Machine) -> str:
    """Return the id that Google gave a machine; empty if it is not known."""
    return machine.access.alias.removeprefix(ALIAS) if machine.access else ""


def alias(instance: Instance) -> str:
    """Return the name of an instance in known_hosts; its id is never used again."""
    return f"{ALIAS}{instance.id}"
