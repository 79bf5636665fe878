"""Elastic File Systems that a launch mounts: whether its machines can reach them.

EFS user guide, "Managing mount targets" and "Using VPC security groups": machines reach the mount
target of their zone, in their VPC, if its security groups allow port 2049 from their addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from cluster.core.errors import SpecError
from cluster.core.model.mounts import KINDS, Mount
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.launch import Site

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import IpPermissionTypeDef

    from cluster.providers.aws.api import Region

PORT = KINDS["efs"].port


def reachable(
    region: Region, mounts: Sequence[Mount], vpc: str, sites: tuple[Site, ...]
) -> tuple[tuple[Site, ...], list[str]]:
    """Return the zones from which all file systems are reached, and what is not known (SpecError).

    Each is a line of the plan.
    """
    lines: list[str] = []
    for id_ in (mount.source for mount in mounts if mount.kind == "efs"):
        try:
            sites = _with_target(region, id_, vpc, sites)
        except Failure as failure:
            if failure.kind != "denied":
                raise
            action = f"elasticfilesystem:{failure.operation}"
            lines.append(f"{id_}: not known if it is reached; {action} is denied")
    return sites, lines


def _with_target(region: Region, id_: str, vpc: str, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    targets = {
        str(target["AvailabilityZoneName"]): str(target["MountTargetId"])
        for target in _targets(region, id_)
        if target["VpcId"] == vpc and target["LifeCycleState"] == "available"
    }
    choices = tuple(site for site in sites if site.zone in targets)
    if not choices:
        create = f"aws efs create-mount-target --region {region.name} --file-system-id {id_}"
        zone = min(targets, default="")
        raise SpecError(
            f"{id_} has no mount target of {vpc or 'a new network'} in "
            f"{', '.join(site.zone for site in sites)}.",
            remedy=f"Use --zone {zone}" if zone else f"Create one: {create} --subnet-id SUBNET",
        )
    for site in choices:
        words = {"service": "efs", "MountTargetId": targets[site.zone]}
        answer = region.call("describe_mount_target_security_groups", "SecurityGroups", **words)
        ids: list[str] = answer["SecurityGroups"]
        groups = region.all("describe_security_groups", "SecurityGroups", GroupIds=ids)
        [subnet] = region.all("describe_subnets", "Subnets", SubnetIds=[site.subnet])
        network = IPv4Network(subnet["CidrBlock"])
        if not any(admits(rule, network) for group in groups for rule in group["IpPermissions"]):
            allow = f"aws ec2 authorize-security-group-ingress --region {region.name} --group-id"
            raise SpecError(
                f"{id_} in {site.zone} admits no traffic from {network} at port {PORT}.",
                means=f"No rule of its mount target's security groups does: {', '.join(ids)}.",
                remedy=f"{allow} {ids[0]} --protocol tcp --port {PORT} --cidr {network}",
            )
    return choices


def _targets(region: Region, id_: str) -> Sequence[Mapping[str, Any]]:
    """Return the mount targets of a file system: one a zone, so that one page has them."""
    words = {"service": "efs", "FileSystemId": id_}
    try:
        rows: Sequence[Mapping[str, Any]] = region.call(
            "describe_mount_targets", "MountTargets", **words
        )["MountTargets"]
    except Failure as failure:
        if failure.code != "FileSystemNotFound":
            raise
        raise SpecError(
            f"There is no file system {id_} in {region.name}.",
            remedy=f"See which there are: aws efs describe-file-systems --region {region.name}",
        ) from failure
    return rows


def admits(rule: IpPermissionTypeDef, network: IPv4Network) -> bool:
    """Return whether a rule may admit a network at the port of NFS: a prefix list is not read.

    The machines' own security group is new, so that no rule names it.
    """
    ports = range(rule.get("FromPort", PORT), rule.get("ToPort", PORT) + 1)
    ranges = (IPv4Network(row["CidrIp"]) for row in rule.get("IpRanges", ()) if "CidrIp" in row)
    reaches = bool(rule.get("PrefixListIds")) or any(map(network.subnet_of, ranges))
    return reaches and rule.get("IpProtocol") in ("-1", "tcp", "6") and PORT in ports
