"""From an offer to the parameters of RunInstances, and to dry runs of all that a launch calls."""

import math
from pathlib import Path
from typing import Any

import msgspec

from cluster.core import idle_watch
from cluster.core.model.spec import ClusterSpec
from cluster.core.state.ssh_keys import SshKeyPair
from cluster.providers._cloud.tags import Tags
from cluster.providers.aws.delete import LISTS
from cluster.providers.aws.options import AwsOffer, AwsOptions

INSTALL_WITHIN = 180  # seconds within which a failed installation of packages is tried again
EVERY_BOOT = "/var/lib/cloud/scripts/per-boot/cluster-ttl"
IDLE_WATCH = "/usr/local/sbin/cluster-idle"
# Any valid key will do: a dry run imports nothing.
KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def request(
    spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags, near: str = ""
) -> dict[str, Any]:
    """Return the parameters that all machines of a launch share.

    Tags, TTL and encryption are part of the call that creates the machines, so that no machine
    exists without them. `near` is the name of the placement group, if the spec asks for one.
    """
    disk: dict[str, Any] = {"Encrypted": True, "DeleteOnTermination": True, "VolumeType": "gp3"}
    if offer.disk:
        disk["VolumeSize"] = offer.disk
    parameters: dict[str, Any] = {
        "ImageId": offer.image,
        "InstanceType": spec.instance,
        "MinCount": spec.hosts,
        "MaxCount": spec.hosts,
        "KeyName": tags.label,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled"},
        "BlockDeviceMappings": [{"DeviceName": offer.root, "Ebs": disk}],
        "TagSpecifications": tag_specifications(tags, "instance", "volume", "network-interface"),
    }
    if spec.placement:
        parameters["Placement"] = {"GroupName": near}
    if options.threads_per_core:
        parameters["CpuOptions"] = {
            "CoreCount": offer.cores,
            "ThreadsPerCore": options.threads_per_core,
        }
    if offer.reservation:
        parameters["CapacityReservationSpecification"] = {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": offer.reservation},
        }
    if offer.is_block:
        parameters["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if spec.spot:
        parameters["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        }
    return parameters


def interfaces(
    options: AwsOptions, offer: AwsOffer, subnet: str, group: str
) -> list[dict[str, Any]]:
    common = {"SubnetId": subnet, "Groups": [group], "DeleteOnTermination": True}
    if len(offer.interfaces) > 1:
        return [
            {
                **common,
                "InterfaceType": interface.kind,
                "NetworkCardIndex": interface.card,
                "DeviceIndex": interface.device,
            }
            for interface in offer.interfaces
        ]
    has_address = options.is_public and not options.elastic_ip
    only = {**common, "DeviceIndex": 0, "AssociatePublicIpAddress": has_address}
    return [{**only, "InterfaceType": "efa"} if offer.interfaces else only]


def tag_specifications(tags: Tags, *kinds: str) -> list[dict[str, Any]]:
    pairs = {"Name": f"mpi.{tags.name}", **tags.as_dict}
    entries = [{"Key": key, "Value": value} for key, value in pairs.items()]
    return [{"ResourceType": kind, "Tags": entries} for kind in kinds]


def dry_runs(
    spec: ClusterSpec, options: AwsOptions, offer: AwsOffer, tags: Tags
) -> dict[str, dict[str, Any]]:
    """Return the calls of a launch, and the lists of its teardown, for dry runs.

    Calls that need the id of a resource that does not exist yet cannot be checked.
    """

    def with_tags(kind: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        return {**params, "TagSpecifications": tag_specifications(tags, kind)}

    label = tags.label
    calls: dict[str, dict[str, Any]] = {name: {} for name in LISTS}
    calls["import_key_pair"] = with_tags("key-pair", KeyName=label, PublicKeyMaterial=KEY)
    if options.elastic_ip:
        calls["allocate_address"] = with_tags("elastic-ip", Domain="vpc")
    if spec.placement:
        group = with_tags("placement-group", GroupName=label, Strategy="cluster")
        calls["create_placement_group"] = group
    if offer.vpc:
        firewall = {"GroupName": label, "Description": "cluster", "VpcId": offer.vpc}
        calls["create_security_group"] = with_tags("security-group", **firewall)
        machines = request(spec, options, offer, tags)
        cards = interfaces(options, offer, offer.sites[0].subnet, "")
        for part in (machines, *cards):  # which do not exist yet
            for name in ("KeyName", "Placement", "Groups"):
                part.pop(name, None)
        calls["run_instances"] = {**machines, "NetworkInterfaces": cards}
    return calls


def user_data(
    spec: ClusterSpec, host_key: SshKeyPair, ttl: float, packages: tuple[str, ...] = ()
) -> str:
    """Return the cloud-config of a host: its host key, and what ends it whatever happens here.

    It is JSON, which is valid YAML (cloudinit.readthedocs.io).

    The timer starts at each boot, so no clock has to be right; `ttl`, in seconds, is rounded up to
    minutes. Other users of a host can read its user data, so each host gets its own key right after
    the first connection.
    """
    minutes = max(1, math.ceil(ttl / 60))
    files, watch = [], ""
    if spec.idle is not None:
        text = Path(idle_watch.__file__).read_text()
        files = [{"path": IDLE_WATCH, "permissions": "0644", "content": text}]
        words = idle_watch.words(spec.idle, f".cluster-{spec.name}", "shutdown -P now")
        watch = f"setsid python3 {IDLE_WATCH} {words} < /dev/null > /dev/null 2>&1 &\n"
    end = f"#!/bin/sh\n{watch}exec shutdown -P +{minutes}\n"
    files.append({"path": EVERY_BOOT, "permissions": "0755", "content": end})
    config: dict[str, Any] = {
        # delete the host keys of the image, because other hosts have them, too
        "ssh_deletekeys": True,
        # types of host keys to generate; none, because `ssh_keys` has one
        "ssh_genkeytypes": [],
        # the first host key, which is known before the first connection
        "ssh_keys": {"ed25519_private": host_key.private, "ed25519_public": host_key.public},
        "write_files": files,
    }
    # Commands that run at the first boot, once the network is up and before sshd starts: `packages`
    # are installed later. A host may have no public address yet, so it tries again for a while, by
    # the uptime, because NTP may set the wall clock meanwhile.
    if packages:
        script = (
            "export DEBIAN_FRONTEND=noninteractive; now() { cut -d. -f1 /proc/uptime; }; "
            f"end=$(($(now) + {INSTALL_WITHIN})); until apt-get -q update && "
            f"apt-get -q -y -o DPkg::Lock::Timeout=300 install {' '.join(packages)}; "
            'do [ "$(now)" -lt "$end" ] || exit 1; sleep 5; done'
        )
        config["bootcmd"] = [("cloud-init-per", "once", "cluster-packages", "sh", "-c", script)]
    return "#cloud-config\n" + msgspec.json.encode(config).decode() + "\n"
