"""From an offer to the parameters of RunInstances; pure."""

from __future__ import annotations

from typing import Any

from cluster.core.model.spec import ClusterSpec
from cluster.providers._cloud.tags import Tags
from cluster.providers.aws.options import AwsOffer, AwsOptions


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
    own = options.is_public and not options.elastic_ip
    only = {**common, "DeviceIndex": 0, "AssociatePublicIpAddress": own}
    return [{**only, "InterfaceType": "efa"} if offer.interfaces else only]


def tag_specifications(tags: Tags, *kinds: str) -> list[dict[str, Any]]:
    pairs = {"Name": f"mpi.{tags.name}", **tags.as_dict}
    listed = [{"Key": key, "Value": value} for key, value in pairs.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]
