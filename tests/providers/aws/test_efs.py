"""Elastic File Systems: a launch is planned only where its machines reach them."""

from ipaddress import IPv4Network
from typing import Any

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.providers.aws.api import Region
from cluster.providers.aws.efs import admits
from tests.fakes.aws import Cloud, Fault, Settings
from tests.providers.aws.conftest import provider, spec_of
from tests.snapshots import Snapshot

ID = "fs-0123456789abcdef0"
NAME = f"{ID}.efs.us-east-1.amazonaws.com:/"


@pytest.fixture
def cloud(aws: Cloud) -> Cloud:
    aws.reset(Settings(file_systems={ID: ("us-east-1b", "us-east-1c"), "fs-01234567": ()}))
    return aws


def admit(cidr: str) -> None:
    """Let the default security group, which the mount targets have, admit a network."""
    region = Region("us-east-1")
    filters = [{"Name": "group-name", "Values": ["default"]}]
    [group] = region.all("describe_security_groups", "SecurityGroups", Filters=filters)
    rule = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049, "IpRanges": [{"CidrIp": cidr}]}
    region.call("authorize_security_group_ingress", GroupId=group["GroupId"], IpPermissions=[rule])


def mounting(mount: str = f"efs:{ID}:/shared", **fields: Any) -> ClusterSpec:
    return spec_of(options={"mount": mount}, **fields)


def test_machines_are_where_the_file_system_is(snapshot: Snapshot, cloud: Cloud) -> None:
    admit("172.31.0.0/16")
    plan = provider().plan(mounting())
    [mount] = provider().mounts(mounting())

    assert mount.source == NAME
    snapshot(plan.lines[0])
    assert not cloud.mutating()[1:]  # but the rule


@pytest.mark.parametrize(
    ("mount", "zone", "text", "remedy"),
    [
        (
            f"efs:{ID}",
            "us-east-1a",
            "has no mount target of vpc-.* in us-east-1a",
            "--zone us-east-1b",
        ),
        ("efs:fs-01234567", "us-east-1b", "has no mount target", "create-mount-target"),
        ("efs:fs-89abcdef", "us-east-1b", "There is no file system", "describe-file-systems"),
        (f"nfs:h:/a,efs:{ID}:/b", "us-east-1b", "admits no traffic", "--port 2049 --cidr 172.31."),
        ("filestore:10.0.0.2:/a", "us-east-1b", "only hosts of gcp reach", "--provider gcp"),
    ],
)
def test_what_is_not_reached_is_refused(
    cloud: Cloud, mount: str, zone: str, text: str, remedy: str
) -> None:
    with pytest.raises(SpecError, match=text) as error:
        provider().plan(mounting(mount, zone=zone))

    assert remedy in error.value.remedy
    assert not cloud.mutating()


def test_the_remedy_of_a_closed_port_opens_it(cloud: Cloud) -> None:
    with pytest.raises(SpecError) as error:
        provider().plan(mounting(zone="us-east-1c"))
    admit(error.value.remedy.rpartition(" ")[2])

    assert "in us-east-1c" in provider().plan(mounting(zone="us-east-1c")).lines[0]


def test_who_may_not_look_is_told(cloud: Cloud) -> None:
    cloud.fail(Fault(action="DescribeMountTargets", code="AccessDeniedException"))
    lines = provider().plan(mounting()).lines

    assert [line for line in lines if "elasticfilesystem:DescribeMountTargets" in line]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}, True),
        ({"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}, False),
        ({"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, "PrefixListIds": [{}]}, True),
        ({"IpProtocol": "udp", "FromPort": 2049, "ToPort": 2049,
          "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}, False),
        ({"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22,
          "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}, False),
        ({"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049,
          "IpRanges": [{"CidrIp": "10.0.1.0/25"}]}, False),
        ({"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049,
          "IpRanges": [{"CidrIp": "10.0.1.0/24"}]}, True),
    ],
)  # fmt: skip
def test_which_rules_admit_a_subnet(rule: Any, *, expected: bool) -> None:
    assert admits(rule, IPv4Network("10.0.1.0/24")) is expected
