"""The test cloud is strict where Amazon is, and breaks where a test says so."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.conftest import until
from tests.fakes.aws import Cloud, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIAS = "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id"
ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})


@pytest.fixture
def ec2(aws: Cloud) -> Iterator[Any]:
    client = boto3.client("ec2", config=ONCE)
    yield client
    client.close()


def image(arch: str = "amd64") -> str:
    name = ALIAS.format(arch)
    return str(boto3.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


def launch(ec2: Any, **asked: Any) -> list[str]:
    asked = {"MinCount": 1, "MaxCount": 1, "InstanceType": "c5.18xlarge", **asked}
    asked.setdefault("ImageId", image())
    return [i["InstanceId"] for i in ec2.run_instances(**asked)["Instances"]]


def refusal(call: Any, **asked: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as error:
        call(**asked)
    said: Any = error.value.response
    return said["Error"]["Code"], said["ResponseMetadata"]["HTTPStatusCode"]


def states(ec2: Any, ids: list[str]) -> set[str]:
    found = ec2.describe_instances(InstanceIds=ids)["Reservations"]
    return {i["State"]["Name"] for r in found for i in r["Instances"]}


def test_network_nodes_are_told_of_some_types_while_they_run(aws: Cloud, ec2: Any) -> None:
    aws.set(nodes=(("nn-1", "nn-2", "nn-3"),))
    ids = launch(ec2, InstanceType="p4d.24xlarge") + launch(ec2)
    told = ec2.describe_instance_topology(InstanceIds=ids)["Instances"]
    pages = ec2.describe_instance_topology(MaxResults=1)
    rest = ec2.describe_instance_topology(MaxResults=1, NextToken=pages["NextToken"])

    assert [one.get("NetworkNodes") for one in told] == [["nn-1", "nn-2", "nn-3"], None]
    assert len(pages["Instances"] + rest["Instances"]) == 2
    assert pages["Instances"] != rest["Instances"]
    ask = ec2.describe_instance_topology
    assert refusal(ask, InstanceIds=ids, MaxResults=9)[0] == "InvalidParameterCombination"
    assert refusal(ask, InstanceIds=ids[:1] * 101)[0] == "InvalidParameterValue"
    assert refusal(ask, InstanceIds=["i-0123456789abcdef0"])[0] == "InvalidInstanceID.NotFound"
    ec2.stop_instances(InstanceIds=ids[:1])
    assert "NetworkNodes" not in ask(InstanceIds=ids[:1])["Instances"][0]


def test_a_placement_group_is_checked_kept_and_in_use(aws: Cloud, ec2: Any) -> None:
    ec2.create_placement_group(GroupName="g", Strategy="cluster")
    where = {"GroupName": "g"}
    ids = launch(ec2, Placement=where)

    shown = ec2.describe_instances(Filters=[{"Name": "placement-group-name", "Values": ["g"]}])

    assert [i["InstanceId"] for r in shown["Reservations"] for i in r["Instances"]] == ids
    code, _ = refusal(ec2.create_placement_group, GroupName="g", Strategy="cluster")
    assert code == "InvalidPlacementGroup.Duplicate"
    assert refusal(ec2.delete_placement_group, GroupName="g")[0] == "InvalidPlacementGroup.InUse"
    code, _ = refusal(launch, ec2=ec2, InstanceType="t2.large", Placement=where)
    assert code == "InvalidParameterCombination"
    code, _ = refusal(launch, ec2=ec2, Placement={"GroupName": "other"})
    assert code == "InvalidPlacementGroup.Unknown"
    ec2.terminate_instances(InstanceIds=ids)
    ec2.delete_placement_group(GroupName="g")
    assert refusal(ec2.describe_placement_groups, GroupNames=["g"])[0].endswith("Unknown")


def test_a_token_makes_the_same_instances_once(aws: Cloud, ec2: Any) -> None:
    first = launch(ec2, ClientToken="t", MaxCount=3, MinCount=3)

    assert launch(ec2, ClientToken="t", MaxCount=3, MinCount=3) == first
    code, _ = refusal(launch, ec2=ec2, ClientToken="t", MaxCount=4)
    assert code == "IdempotentParameterMismatch"
    ours = aws.things(theirs=False)
    assert sum(thing.kind == "instance" for thing in ours) == 3


def test_capacity_is_of_a_zone_and_quotas_are_not_capacity(aws: Cloud, ec2: Any) -> None:
    aws.set(capacity={"us-east-1a": 2}, vcpus=1000)
    here = {"Placement": {"AvailabilityZone": "us-east-1a"}}

    refused = refusal(launch, ec2=ec2, MinCount=3, MaxCount=3, **here)
    few = launch(ec2, MinCount=1, MaxCount=3, **here)

    assert refused == ("InsufficientInstanceCapacity", 500)
    assert len(few) == 2
    assert refusal(launch, ec2=ec2, MinCount=20, MaxCount=20)[0] == "VcpuLimitExceeded"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"InstanceType": "c5.huge"}, "InvalidInstanceType"),
        ({"InstanceType": "c7g.large"}, "InvalidParameterValue"),
        ({"KeyName": "none"}, "InvalidKeyPair.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"Placement": {"AvailabilityZone": "us-east-1z"}}, "InvalidParameterValue"),
        ({"CpuOptions": {"CoreCount": 36, "ThreadsPerCore": 4}}, "InvalidParameterValue"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(
    aws: Cloud, ec2: Any, asked: dict[str, Any], code: str
) -> None:
    assert refusal(launch, ec2=ec2, **asked)[0] == code
    assert not any(thing.kind == "instance" for thing in aws.things(theirs=False))


def test_every_network_card_keeps_its_interface(aws: Cloud, ec2: Any) -> None:
    cards = [
        {"NetworkCardIndex": n, "DeviceIndex": min(n, 1), "InterfaceType": "efa"} for n in range(4)
    ]

    ids = launch(ec2, InstanceType="p4d.24xlarge", NetworkInterfaces=cards)

    shown = ec2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"][0]
    where = [nic["Attachment"] for nic in shown["NetworkInterfaces"]]
    assert {nic["InterfaceType"] for nic in shown["NetworkInterfaces"]} == {"efa"}
    assert [(a["NetworkCardIndex"], a["DeviceIndex"]) for a in where] == [
        (0, 0),
        (1, 1),
        (2, 1),
        (3, 1),
    ]
    assert refusal(launch, ec2=ec2, NetworkInterfaces=cards[:1])[0].startswith("Invalid")


def test_instances_appear_late_and_end_slowly(aws: Cloud, ec2: Any) -> None:
    aws.set(visible=3600.0, pending=3600.0, ending=3600.0)
    security = ec2.create_security_group(GroupName="s", Description="d")["GroupId"]

    ids = launch(ec2, SecurityGroupIds=[security])

    assert refusal(ec2.describe_instances, InstanceIds=ids)[0] == "InvalidInstanceID.NotFound"
    aws.list_all()
    assert states(ec2, ids) == {"pending"}
    aws.proceed()
    assert states(ec2, ids) == {"running"}
    ec2.terminate_instances(InstanceIds=ids)
    assert states(ec2, ids) == {"shutting-down"}
    assert refusal(ec2.delete_security_group, GroupId=security)[0] == "DependencyViolation"
    aws.proceed()
    assert states(ec2, ids) == {"terminated"}
    ec2.delete_security_group(GroupId=security)
    assert aws.things(theirs=False) == aws.things() - aws.strangers()


def test_pages_are_of_instances(aws: Cloud, ec2: Any) -> None:
    ids = launch(ec2, MinCount=12, MaxCount=12, InstanceType="c5.large")
    mine = [{"Name": "instance-id", "Values": ids}]

    pages = list(
        ec2.get_paginator("describe_instances").paginate(
            Filters=mine, PaginationConfig={"PageSize": 5}
        )
    )

    assert [sum(len(r["Instances"]) for r in p["Reservations"]) for p in pages] == [5, 5, 2]


def test_a_lost_reply_was_executed_and_a_dropped_call_was_not(aws: Cloud, ec2: Any) -> None:
    aws.fail(Fault(action="CreateKeyPair", drop="before", times=1))
    with pytest.raises(ConnectionClosedError):
        ec2.create_key_pair(KeyName="k")
    aws.fail(Fault(action="CreateKeyPair", drop="after", times=1))

    with pytest.raises(ConnectionClosedError):
        ec2.create_key_pair(KeyName="k")

    assert refusal(ec2.create_key_pair, KeyName="k")[0] == "InvalidKeyPair.Duplicate"
    assert [call.status for call in aws.calls("CreateKeyPair")] == [0, 200, 400]
    assert [call.lost for call in aws.calls("CreateKeyPair")] == [True, True, False]


def test_a_caller_is_killed_before_and_after_a_call(aws: Cloud) -> None:
    script = "import boto3; boto3.client('ec2').create_key_pair(KeyName='k')"
    made = {}
    for moment in ("before", "after"):
        aws.fail(Fault(action="CreateKeyPair", kill=moment, times=1))
        done = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
        assert done.returncode == -9
        made[moment] = {t.id for t in aws.things(theirs=False) if t.kind == "key-pair"}

    assert made == {"before": set(), "after": {"k"}}


def test_what_is_not_known_is_a_gap(aws: Cloud, ec2: Any) -> None:
    assert refusal(ec2.describe_hosts) == ("EmulatorGap", 501)
    assert refusal(launch, ec2=ec2, Monitoring={"Enabled": True}) == ("EmulatorGap", 501)
    assert len(aws.gaps) == 2

    aws.gaps.clear()


def test_a_region_without_a_default_vpc(aws: Cloud, ec2: Any) -> None:
    aws.set(default_vpc=("us-east-1",))
    with_none = boto3.client("ec2", region_name="us-west-2", config=ONCE)

    assert with_none.describe_vpcs()["Vpcs"] == []
    assert refusal(launch, ec2=with_none)[0] == "VPCIdNotSpecified"
    assert ec2.describe_vpcs()["Vpcs"] != []


def client_of(environment: dict[str, str]) -> Any:
    return boto3.client(
        "ec2",
        config=ONCE,
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


def test_a_user_may_do_what_the_policy_says_and_nothing_else(aws: Cloud, ec2: Any) -> None:
    ours = {"StringEquals": {"aws:RequestTag/cluster": "c5"}}
    theirs = {"StringEquals": {"aws:ResourceTag/cluster": "c5"}}
    allow = {"Effect": "Allow", "Resource": "*"}
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {**allow, "Action": "ec2:Describe*"},
            {**allow, "Action": ["ec2:CreatePlacementGroup", "ec2:CreateTags"], "Condition": ours},
            {**allow, "Action": "ec2:DeletePlacementGroup", "Condition": theirs},
        ],
    }
    user = client_of(aws.user("somebody", policy))
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "cluster", "Value": "c5"}]}]
    group = {"GroupName": "g", "Strategy": "cluster"}

    assert refusal(user.create_placement_group, **group) == ("UnauthorizedOperation", 403)
    dry = refusal(user.create_placement_group, **group, TagSpecifications=tags, DryRun=True)
    assert dry == ("DryRunOperation", 412)
    user.create_placement_group(**group, TagSpecifications=tags)
    code, _ = refusal(user.delete_placement_group, GroupName="c5")
    assert code == "UnauthorizedOperation"
    user.delete_placement_group(GroupName="g")
    assert user.describe_vpcs()["Vpcs"]
    assert refusal(user.delete_key_pair, KeyName="c5")[0] == "UnauthorizedOperation"
    assert refusal(client_of({**aws.environ, "AWS_ACCESS_KEY_ID": "A" * 20}).describe_vpcs) == (
        "AuthFailure",
        401,
    )


def test_a_dry_run_never_changes_anything(aws: Cloud, ec2: Any) -> None:
    before = aws.things()
    group = next(t.id for t in before if t.kind == "security-group" and t.tags)

    for call, asked in (
        (ec2.create_key_pair, {"KeyName": "n"}),
        (ec2.create_vpc, {"CidrBlock": "10.0.0.0/16"}),
        (ec2.delete_key_pair, {"KeyName": "c5"}),
        (ec2.create_tags, {"Resources": [group], "Tags": [{"Key": "a", "Value": "b"}]}),
        (ec2.run_instances, {"MinCount": 1, "MaxCount": 1, "ImageId": image()}),
    ):
        asked.setdefault("InstanceType", "c5.large") if "ImageId" in asked else None
        assert refusal(call, **asked, DryRun=True) == ("DryRunOperation", 412)

    assert aws.things() == before


def test_volumes_follow_the_image_and_go_with_the_instance(aws: Cloud, ec2: Any) -> None:
    disk = [{"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True, "VolumeSize": 20}}]
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "cluster", "Value": "c"}]}]
    mine = [{"Name": "tag:cluster", "Values": ["c"]}]

    ids = launch(ec2, BlockDeviceMappings=disk, TagSpecifications=tags)

    (volume,) = ec2.describe_volumes(Filters=mine)["Volumes"]
    assert (volume["Encrypted"], volume["Size"], volume["VolumeType"]) == (True, 20, "gp3")
    ec2.terminate_instances(InstanceIds=ids)
    assert ec2.describe_volumes(Filters=mine)["Volumes"] == []


def test_a_young_instance_has_no_addresses_and_none_is_public_unless_asked(
    aws: Cloud, ec2: Any
) -> None:
    aws.set(incomplete=0.3)
    nic = [{"DeviceIndex": 0, "AssociatePublicIpAddress": False}]
    ids = launch(ec2, NetworkInterfaces=nic)
    shown = [{"Name": "instance-id", "Values": ids}]

    def first() -> dict[str, Any]:
        found = ec2.describe_instances(Filters=shown)["Reservations"]
        return dict(found[0]["Instances"][0])

    assert "PrivateIpAddress" not in first()
    until(lambda: "PrivateIpAddress" in first(), "it has an address")
    assert "PublicIpAddress" not in first()


def test_throttled_and_capacity_have_the_status_that_amazon_gives_them(
    aws: Cloud, ec2: Any
) -> None:
    aws.fail(Fault(action="DescribeVpcs", code="RequestLimitExceeded", skip=1, times=2))

    assert ec2.describe_vpcs()["Vpcs"]
    assert refusal(ec2.describe_vpcs) == ("RequestLimitExceeded", 503)
    assert refusal(ec2.describe_vpcs) == ("RequestLimitExceeded", 503)
    assert ec2.describe_vpcs()["Vpcs"]
    assert {call.user for call in aws.calls()} == {"admin"}


def test_prices_and_quotas_are_told(aws: Cloud) -> None:
    aws.set(vcpus=64)
    filters = {"instanceType": "c5.18xlarge", "regionCode": "us-east-1", "operatingSystem": "Linux"}

    found = boto3.client("pricing").get_products(
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": f, "Value": v} for f, v in filters.items()],
    )["PriceList"]
    quota = boto3.client("service-quotas").get_service_quota(
        ServiceCode="ec2", QuotaCode="L-1216C47A"
    )

    (product,) = [json.loads(text) for text in found]
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert dimension["pricePerUnit"] == {"USD": "3.0600000000"}
    assert quota["Quota"]["Value"] == 64


def test_the_insides_of_moto_that_are_changed_are_there() -> None:
    """What is set on moto's own classes would otherwise be set in vain after an update."""
    from moto.ec2.models.instances import Instance  # noqa: PLC0415
    from moto.ec2.models.route_tables import RouteTable  # noqa: PLC0415
    from moto.ec2.responses import EC2Response  # noqa: PLC0415

    from tests.fakes.aws.ec2 import Ec2  # noqa: PLC0415

    assert "_state" in Instance.instance_state.fget.__code__.co_names
    assert "_associations" in RouteTable.associations.fget.__code__.co_names
    stricter = {name for cls in Ec2.__mro__ for name in vars(cls) if cls.__module__[:5] == "tests"}
    assert {"run_instances", "delete_subnet", "describe_instances"} <= stricter & set(
        dir(EC2Response)
    )


def test_a_console_is_empty_at_first(aws: Cloud, ec2: Any) -> None:
    aws.set(console=0.3)
    ids = launch(ec2)

    def said() -> str:
        return str(ec2.get_console_output(InstanceId=ids[0]).get("Output", ""))

    assert said() == ""
    until(said, "the console says something")
