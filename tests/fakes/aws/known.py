"""What may be asked: each action with its parameters. Everything else is a gap, not a success.

Before a line is added, somebody has looked whether moto does that faithfully, or has written it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore.loaders import Loader

if TYPE_CHECKING:
    from collections.abc import Mapping

READS = {
    "ec2": """
        DescribeAccountAttributes AttributeNames
        DescribeAddresses AllocationIds Filters PublicIps
        DescribeCapacityReservations CapacityReservationIds Filters MaxResults NextToken
        DescribeAvailabilityZones AllAvailabilityZones Filters ZoneNames
        DescribeImages Filters ImageIds Owners IncludeDeprecated
        DescribeInstanceAttribute Attribute InstanceId
        DescribeInstanceStatus Filters IncludeAllInstances InstanceIds
        DescribeInstanceTopology InstanceIds MaxResults NextToken
        DescribeInstanceTypeOfferings Filters LocationType MaxResults NextToken
        DescribeInstanceTypes Filters InstanceTypes MaxResults NextToken
        DescribeInstances Filters InstanceIds MaxResults NextToken
        DescribeInternetGateways Filters InternetGatewayIds
        DescribeKeyPairs Filters IncludePublicKey KeyNames KeyPairIds
        DescribeNetworkInterfaces Filters NetworkInterfaceIds MaxResults NextToken
        DescribePlacementGroups Filters GroupIds GroupNames
        DescribeRegions AllRegions Filters RegionNames
        DescribeRouteTables Filters RouteTableIds MaxResults NextToken
        DescribeSecurityGroupRules Filters SecurityGroupRuleIds MaxResults NextToken
        DescribeSecurityGroups Filters GroupIds GroupNames MaxResults NextToken
        DescribeSpotInstanceRequests Filters SpotInstanceRequestIds MaxResults NextToken
        DescribeSpotPriceHistory AvailabilityZone EndTime Filters InstanceTypes MaxResults NextToken
            ProductDescriptions StartTime
        DescribeSubnets Filters SubnetIds MaxResults NextToken
        DescribeTags Filters MaxResults NextToken
        DescribeVolumes Filters VolumeIds MaxResults NextToken
        DescribeVpcAttribute Attribute VpcId
        DescribeVpcs Filters VpcIds MaxResults NextToken
        GetConsoleOutput InstanceId Latest
        GetSpotPlacementScores InstanceTypes MaxResults NextToken RegionNames SingleAvailabilityZone
            TargetCapacity
    """,
    "elasticfilesystem": """
        DescribeMountTargetSecurityGroups MountTargetId
        DescribeMountTargets FileSystemId Marker MaxItems
    """,
    "ssm": "GetParameter Name WithDecryption\nGetParameters Names WithDecryption",
    "sts": "AssumeRole DurationSeconds RoleArn RoleSessionName\nGetCallerIdentity",
    "pricing": """
        GetProducts ServiceCode Filters FormatVersion MaxResults NextToken
    """,
    "servicequotas": """
        GetServiceQuota ServiceCode QuotaCode
        ListServiceQuotas ServiceCode MaxResults NextToken
        GetAWSDefaultServiceQuota ServiceCode QuotaCode
    """,
}

WRITES = {
    "ec2": """
        AllocateAddress Domain TagSpecifications
        AssociateAddress AllocationId NetworkInterfaceId
        AssociateRouteTable RouteTableId SubnetId
        AttachInternetGateway InternetGatewayId VpcId
        AuthorizeSecurityGroupEgress GroupId IpPermissions TagSpecifications
        AuthorizeSecurityGroupIngress GroupId GroupName IpPermissions TagSpecifications
        CreateInternetGateway TagSpecifications
        CreateKeyPair KeyFormat KeyName KeyType TagSpecifications
        CreatePlacementGroup GroupName Strategy TagSpecifications
        CreateRoute DestinationCidrBlock GatewayId RouteTableId
        CreateRouteTable TagSpecifications VpcId
        CreateSecurityGroup Description GroupName TagSpecifications VpcId
        CreateSubnet AvailabilityZone CidrBlock TagSpecifications VpcId
        CreateTags Resources Tags
        CreateVpc CidrBlock TagSpecifications
        DeleteInternetGateway InternetGatewayId
        DeleteKeyPair KeyName KeyPairId
        DeleteNetworkInterface NetworkInterfaceId
        DeletePlacementGroup GroupName
        DeleteRouteTable RouteTableId
        DeleteSecurityGroup GroupId GroupName
        DeleteSubnet SubnetId
        DeleteTags Resources Tags
        DeleteVolume VolumeId
        DeleteVpc VpcId
        DetachInternetGateway InternetGatewayId VpcId
        DisassociateRouteTable AssociationId
        ImportKeyPair KeyName PublicKeyMaterial TagSpecifications
        ModifyInstanceAttribute DisableApiTermination Groups InstanceId
            InstanceInitiatedShutdownBehavior
        ModifySubnetAttribute MapPublicIpOnLaunch SubnetId
        ModifyVpcAttribute EnableDnsHostnames EnableDnsSupport VpcId
        RebootInstances InstanceIds
        ReleaseAddress AllocationId
        RevokeSecurityGroupEgress GroupId IpPermissions SecurityGroupRuleIds
        RevokeSecurityGroupIngress GroupId GroupName IpPermissions SecurityGroupRuleIds
        RunInstances BlockDeviceMappings CapacityReservationSpecification ClientToken CpuOptions
            EbsOptimized ImageId
            InstanceInitiatedShutdownBehavior InstanceMarketOptions InstanceType KeyName MaxCount
            MetadataOptions MinCount NetworkInterfaces Placement SecurityGroupIds SubnetId
            TagSpecifications UserData
        StartInstances InstanceIds
        StopInstances InstanceIds
        TerminateInstances InstanceIds
    """
}

# Of parameters that are structures: what is known of them. Those that are not here are known whole.
PARTS = {
    "BlockDeviceMappings": {"DeviceName", "Ebs"},
    "Ebs": {"DeleteOnTermination", "Encrypted", "VolumeSize", "VolumeType"},
    "CapacityReservationSpecification": {
        "CapacityReservationPreference",
        "CapacityReservationTarget",
    },
    "CapacityReservationTarget": {"CapacityReservationId", "CapacityReservationResourceGroupArn"},
    "CpuOptions": {"CoreCount", "ThreadsPerCore"},
    "InstanceMarketOptions": {"MarketType", "SpotOptions"},
    "SpotOptions": {"InstanceInterruptionBehavior", "MaxPrice", "SpotInstanceType"},
    "MetadataOptions": {"HttpEndpoint", "HttpPutResponseHopLimit", "HttpTokens"},
    "NetworkInterfaces": {
        "AssociatePublicIpAddress",
        "DeleteOnTermination",
        "Description",
        "DeviceIndex",
        "Groups",
        "InterfaceType",
        "NetworkCardIndex",
        "SubnetId",
    },
    "Placement": {"AvailabilityZone", "GroupName", "Tenancy"},
}


def _table(text: str) -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    action = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith(" " * 12) and action:
            table[action].update(words)
        elif words:
            action = words[0]
            table[action] = {*words[1:], "DryRun"}
    return table


_READS = {service: _table(text) for service, text in READS.items()}
_WRITES = {service: _table(text) for service, text in WRITES.items()}


def mutating(service: str, action: str, params: Mapping[str, Any]) -> bool:
    """Tell whether a call changes something: what is not known to read, does."""
    return action not in _READS.get(service, {}) and not params.get("DryRun")


def unknown(service: str, action: str, params: Mapping[str, Any]) -> str:
    """Tell what of a call is not known; nothing, if all is."""
    table = _READS.get(service, {}) | _WRITES.get(service, {})
    if action not in table:
        return f"unknown action of {service}"
    if strange := set(params) - table[action]:
        return f"unknown parameters {', '.join(sorted(strange))}"
    return _strange(params)


def _strange(params: Mapping[str, Any]) -> str:
    for key, value in params.items():
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if not isinstance(part, dict):
                continue
            if key in PARTS and (strange := set(part) - PARTS[key]):
                return f"unknown parts of {key}: {', '.join(sorted(strange))}"
            if deeper := _strange(part):
                return deeper
    return ""


def odd_filter(action: str, params: Mapping[str, Any]) -> str:
    """Return the first filter of a call about instance types that Amazon does not document."""
    if action != "DescribeInstanceTypes":
        return ""
    names = (one["Name"] for one in params.get("Filters", ()))
    return next((name for name in names if name not in _type_filters()), "")


@cache
def _type_filters() -> frozenset[str]:
    shapes = Loader().load_service_model("ec2", "service-2")["shapes"]
    text = shapes["DescribeInstanceTypesRequest"]["members"]["Filters"]["documentation"]
    return frozenset(re.findall(r"<li>\s*<p>\s*<code>([^<]+)</code>", text))
