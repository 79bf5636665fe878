"""Elastic File Systems that a launch mounts: whether its machines can reach them.

EFS user guide, "Managing mount targets" and "Using VPC security groups": machines reach the mount
target of their zone, in their VPC, if its security groups allow port 2049 from their addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from cluster.core.errors import SpecError
from cluster.core.model.mounts import KINDS, parse_mounts
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import Site

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import IpPermissionTypeDef

    from cluster.providers.aws.api import Region

PORT = KINDS["efs"].port


def reachable(
    region: Region, mount: str, vpc: str, sites: tuple[Site, ...]
) -> tuple[tuple[Site, ...], list[str]]:
    """Return the zones from which all file systems are reached, and lines for the plan (SpecError).

    The lines say what is not known.
    """
    lines: list[str] = []
    for item in parse_mounts(mount, "aws"):
        if item.kind == "efs":
            try:
                sites = _with_target(region, item.source, vpc, sites)
            except Failure as failure:
                if failure.kind != "denied":
                    raise
                action = f"elasticfilesystem:{failure.operation}"
                lines.append(f"{item.source}: not known if it is reached; {action} is denied")
    return sites, lines


def _with_target(region: Region, id_: str, vpc: str, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    targets = _targets(region, id_)
    here = {
        target["AvailabilityZoneName"]: target
        for target in targets
        if target.get("VpcId") == vpc and target["LifeCycleState"] == "available"
    }
    usable = tuple(site for site in sites if site.zone in here)
    if not usable:
        places = (
            f"{target.get('AvailabilityZoneName', '')} of {target.get('VpcId', '')}: "
            f"{target['LifeCycleState']}"
            for target in targets
        )
        create = f"aws efs create-mount-target --region {region.name} --file-system-id {id_}"
        zone = next(iter(sorted(here)), "")
        raise SpecError(
            f"{id_} has no mount target in {', '.join(site.zone for site in sites)}.",
            means="; ".join(places) or "It has none at all.",
            remedy=f"Use --zone {zone}" if zone else f"Create one: {create} --subnet-id SUBNET",
        )
    for site in usable:
        _check_port(region, id_, here[site.zone]["MountTargetId"], site)
    return usable


def _targets(region: Region, id_: str) -> Sequence[Mapping[str, Any]]:
    """Return the mount targets of a file system: one a zone, so that one page has them."""
    try:
        answer = region.call(
            "describe_mount_targets", "MountTargets", service="efs", FileSystemId=id_
        )
    except Failure as failure:
        if failure.code != "FileSystemNotFound":
            raise
        raise SpecError(
            f"There is no file system {id_} in {region.name}.",
            remedy=f"See which there are: aws efs describe-file-systems --region {region.name}",
        ) from failure
    rows: Sequence[Mapping[str, Any]] = answer["MountTargets"]
    return rows


def _check_port(region: Region, id_: str, target: str, site: Site) -> None:
    named = region.call(
        "describe_mount_target_security_groups", "SecurityGroups", service="efs",
        MountTargetId=target,
    )["SecurityGroups"]  # fmt: skip
    groups = region.all("describe_security_groups", "SecurityGroups", GroupIds=named)
    [subnet] = region.all("describe_subnets", "Subnets", SubnetIds=[site.subnet])
    network = IPv4Network(subnet["CidrBlock"])
    if not any(admits(rule, network) for group in groups for rule in group["IpPermissions"]):
        allow = f"aws ec2 authorize-security-group-ingress --region {region.name} --group-id"
        raise SpecError(
            f"{id_} in {site.zone} admits no traffic from {network} at port {PORT}.",
            means=f"No rule of its mount target's security groups does: {', '.join(named)}.",
            remedy=f"{allow} {named[0]} --protocol tcp --port {PORT} --cidr {network}",
        )


def admits(rule: IpPermissionTypeDef, network: IPv4Network) -> bool:
    """Return whether a rule may admit a network at the port of NFS: a prefix list is not read.

    The machines' own security group is new, so that no rule names it.
    """
    ports = range(rule.get("FromPort", PORT), rule.get("ToPort", PORT) + 1)
    ranges = (IPv4Network(row["CidrIp"]) for row in rule.get("IpRanges", ()) if "CidrIp" in row)
    return (
        rule.get("IpProtocol") in ("-1", "tcp", "6")
        and PORT in ports
        and (bool(rule.get("PrefixListIds")) or any(map(network.subnet_of, ranges)))
    )
