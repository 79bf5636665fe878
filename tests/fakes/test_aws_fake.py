"""The test cloud is strict where Amazon is; tests of the provider show what it does."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.conftest import ROOT, processes, until
from tests.fakes.aws import Cloud
from tests.fakes.aws.images import UBUNTU

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


def launch(ec2: Any, **params: Any) -> list[str]:
    params = {"MinCount": 1, "MaxCount": 1, "InstanceType": "c5.18xlarge", **params}
    params.setdefault("ImageId", image())
    return [i["InstanceId"] for i in ec2.run_instances(**params)["Instances"]]


def refusal(call: Any, **params: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as error:
        call(**params)
    output: Any = error.value.response
    return output["Error"]["Code"], output["ResponseMetadata"]["HTTPStatusCode"]


def states(ec2: Any, ids: list[str]) -> set[str]:
    result = ec2.describe_instances(InstanceIds=ids)["Reservations"]
    return {i["State"]["Name"] for r in result for i in r["Instances"]}


def test_network_nodes_are_told_of_some_types_while_they_run(aws: Cloud, ec2: Any) -> None:
    aws.set(nodes=(("nn-1", "nn-2", "nn-3"),))
    ids = launch(ec2, InstanceType="p4d.24xlarge") + launch(ec2)
    report = ec2.describe_instance_topology(InstanceIds=ids)["Instances"]
    pages = ec2.describe_instance_topology(MaxResults=1)
    rest = ec2.describe_instance_topology(MaxResults=1, NextToken=pages["NextToken"])

    assert [instance.get("NetworkNodes") for instance in report] == [["nn-1", "nn-2", "nn-3"], None]
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
    placement = {"GroupName": "g"}
    ids = launch(ec2, Placement=placement)

    output = ec2.describe_instances(Filters=[{"Name": "placement-group-name", "Values": ["g"]}])

    assert [i["InstanceId"] for r in output["Reservations"] for i in r["Instances"]] == ids
    code, _ = refusal(ec2.create_placement_group, GroupName="g", Strategy="cluster")
    assert code == "InvalidPlacementGroup.Duplicate"
    assert refusal(ec2.delete_placement_group, GroupName="g")[0] == "InvalidPlacementGroup.InUse"
    code, _ = refusal(launch, ec2=ec2, InstanceType="t2.large", Placement=placement)
    assert code == "InvalidParameterCombination"
    code, _ = refusal(launch, ec2=ec2, Placement={"GroupName": "other"})
    assert code == "InvalidPlacementGroup.Unknown"
    ec2.terminate_instances(InstanceIds=ids)
    ec2.delete_placement_group(GroupName="g")
    assert refusal(ec2.describe_placement_groups, GroupNames=["g"])[0].endswith("Unknown")


@pytest.mark.parametrize(
    ("params", "code"),
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
    aws: Cloud, ec2: Any, params: dict[str, Any], code: str
) -> None:
    assert refusal(launch, ec2=ec2, **params)[0] == code
    assert not any(thing.kind == "instance" for thing in aws.things(foreign=False))


def test_every_network_card_keeps_its_interface(aws: Cloud, ec2: Any) -> None:
    cards = [
        {"NetworkCardIndex": n, "DeviceIndex": min(n, 1), "InterfaceType": "efa"} for n in range(4)
    ]

    ids = launch(ec2, InstanceType="p4d.24xlarge", NetworkInterfaces=cards)

    output = ec2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"][0]
    attachments = [nic["Attachment"] for nic in output["NetworkInterfaces"]]
    assert {nic["InterfaceType"] for nic in output["NetworkInterfaces"]} == {"efa"}
    assert [(a["NetworkCardIndex"], a["DeviceIndex"]) for a in attachments] == [
        (0, 0),
        (1, 1),
        (2, 1),
        (3, 1),
    ]
    assert refusal(launch, ec2=ec2, NetworkInterfaces=cards[:1])[0].startswith("Invalid")


def test_what_is_not_known_is_a_gap(aws: Cloud, ec2: Any) -> None:
    assert refusal(ec2.describe_hosts) == ("EmulatorGap", 501)
    assert refusal(launch, ec2=ec2, Monitoring={"Enabled": True}) == ("EmulatorGap", 501)
    config = "#cloud-config\napt: {}\n"
    assert refusal(launch, ec2=ec2, UserData=config) == ("EmulatorGap", 501)
    assert len(aws.gaps) == 3

    aws.gaps.clear()


def test_a_dry_run_never_changes_anything(aws: Cloud, ec2: Any) -> None:
    before = aws.things()
    group = next(t.id for t in before if t.kind == "security-group" and t.tags)

    for call, request in (
        (ec2.create_key_pair, {"KeyName": "n"}),
        (ec2.create_vpc, {"CidrBlock": "10.0.0.0/16"}),
        (ec2.delete_key_pair, {"KeyName": "c5"}),
        (ec2.create_tags, {"Resources": [group], "Tags": [{"Key": "a", "Value": "b"}]}),
        (ec2.run_instances, {"MinCount": 1, "MaxCount": 1, "ImageId": image()}),
    ):
        request.setdefault("InstanceType", "c5.large") if "ImageId" in request else None
        assert refusal(call, **request, DryRun=True) == ("DryRunOperation", 412)

    assert aws.things() == before


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


def test_by_hand_it_tells_what_to_export_and_leaves_nothing_even_when_killed(
    possible_hosts: None,
) -> None:
    words = [sys.executable, "-m", "tests.fakes.aws", "--hosts"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout
        settings = dict(server.stdout.readline()[7:].strip().split("=", 1) for _ in range(8))
        client = boto3.client(
            "ec2",
            endpoint_url=settings["AWS_ENDPOINT_URL"],
            region_name=settings["AWS_DEFAULT_REGION"],
            aws_access_key_id=settings["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=settings["AWS_SECRET_ACCESS_KEY"],
        )
        image = UBUNTU["24.04", "amd64"].id
        instances = client.run_instances(
            MinCount=2, MaxCount=2, ImageId=image, InstanceType="c5.large"
        )["Instances"]
        ids = [instance["InstanceId"] for instance in instances]
        until(lambda: all(processes(i) for i in ids), "the hosts are there")
        words = Path(f"/proc/{processes(ids[0])[0]}/cmdline").read_text().split("\0")
        folders = [word for word in words if "test-cloud-" in word]

        server.kill()

    until(lambda: not any(processes(i) for i in ids), "the hosts are gone")
    until(lambda: not Path(folders[0]).parent.exists(), "their files are gone")
