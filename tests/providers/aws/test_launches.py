"""What Amazon is asked for by a launch, what is waited for, and what may go wrong."""

import re
from pathlib import Path

import pytest
from moto.ec2.models import ec2_backends

from cluster.core.errors import Capacity, ProvisionError, Timeout
from cluster.core.state.files import state_folder
from cluster.providers._cloud.launch import zones_without_capacity
from cluster.providers.aws.plan import IN_GROUP, OUTSIDE, efa_layout, link_of
from tests.conftest import command
from tests.fakes.aws import Cloud, Fault, Settings
from tests.providers.aws.conftest import INSTANCE, actions, create, own_things, provider, spec_of
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")
UP = ("up", "c5", "--provider", "aws", "--instance", INSTANCE, "--placement", "--yes")
MOST = 6  # mutating calls of a launch, and of a teardown


def test_the_number_of_calls_does_not_depend_on_the_number_of_machines(aws: Cloud) -> None:
    """Of those that change something; lists come in pages."""
    aws.set(page=30)
    for number, hosts in enumerate((2, 25, 100)):
        before = len(aws.mutating())
        name = f"n{number}"
        machines = create(spec_of(name, hosts=hosts))
        call_names = actions(aws, before)
        assert [m.name for m in machines] == [f"{n}.mpi.{name}" for n in range(hosts)]
        assert len({m.address for m in machines}) == hosts
        assert call_names == [
            "CreateSecurityGroup",
            "AuthorizeSecurityGroupIngress",
            "ImportKeyPair",
            "CreatePlacementGroup",
            "RunInstances",
        ]
        lists = [call for call in aws.calls("DescribeInstances") if "NextToken" in call.params]
        assert bool(lists) == (hosts > 30)
        before = len(aws.mutating())
        provider().destroy(name)
        assert len(actions(aws, before)) <= MOST
        assert own_things(aws) == set()


def test_everything_that_matters_travels_in_the_creating_call(aws: Cloud, home: Path) -> None:
    create(spec_of(ttl=600.0, options={"threads_per_core": "1"}))
    [call] = aws.calls("RunInstances")[-1:]
    request = call.params

    assert request["MinCount"] == request["MaxCount"] == 2
    assert request["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert request["MetadataOptions"]["HttpTokens"] == "required"
    assert request["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    assert request["CpuOptions"] == {"CoreCount": 36, "ThreadsPerCore": 1}
    kinds = {entry["ResourceType"] for entry in request["TagSpecifications"]}
    assert kinds == {"instance", "volume", "network-interface"}
    tags = {tag["Key"]: tag["Value"] for tag in request["TagSpecifications"][0]["Tags"]}
    assert tags["cluster"] == "c5"
    assert {"cluster-owner", "cluster-launch", "cluster-expires"} <= tags.keys()
    assert (state_folder() / "c5" / "key").stat().st_mode & 0o777 == 0o600


def test_ssh_is_open_to_the_caller_only_and_all_is_open_inside(aws: Cloud) -> None:
    create(spec_of())
    [call] = aws.calls("AuthorizeSecurityGroupIngress")
    ssh, inside = call.params["IpPermissions"]

    assert [rule["CidrIp"] for rule in ssh["IpRanges"]] == [f"{aws.caller}/32"]
    assert ssh["FromPort"] == ssh["ToPort"] == 22
    assert "IpRanges" not in inside
    assert [rule["GroupId"] for rule in inside["UserIdGroupPairs"]] == [call.params["GroupId"]]


def test_one_efa_for_each_card_and_private_addresses(aws: Cloud) -> None:
    machines = create(spec_of(instance="p4d.24xlarge", options={"efa": "1", "public": "0"}))
    cards = aws.calls("RunInstances")[-1].params["NetworkInterfaces"]

    assert [
        (card["NetworkCardIndex"], card["DeviceIndex"], card["InterfaceType"]) for card in cards
    ] == [(0, 0, "interface"), (0, 1, "efa-only"), *((n, 0, "efa-only") for n in (1, 2, 3))]
    assert all(m.access and m.access.host == m.address for m in machines)
    assert aws.calls("AuthorizeSecurityGroupEgress")


@pytest.mark.parametrize(
    ("instance", "adapters", "shares_card"),
    [
        ("p5.48xlarge", 32, True),
        ("p5en.48xlarge", 16, True),
        ("p6-b200.48xlarge", 8, True),
        ("p6-b300.48xlarge", 16, False),  # its first card takes no EFA
        ("hpc7a.96xlarge", 2, True),
        ("trn1.32xlarge", 8, True),
    ],
)
def test_each_type_is_wired_as_amazon_describes_its_cards(
    instance: str, adapters: int, *, shares_card: bool
) -> None:
    (kind,) = ec2_backends["123456789012"]["us-east-1"].describe_instance_types([instance])
    primary, *efas = efa_layout(kind)

    assert (primary.card, primary.device, primary.kind) == (0, 0, "interface")
    assert {nic.kind for nic in efas} == {"efa-only"}
    assert len(efas) == adapters
    assert ((efas[0].card, efas[0].device) == (0, 1)) == shares_card
    assert sum(nic.has_address for nic in (primary, *efas)) == 1


def test_the_link_of_efa_is_that_of_a_card_with_an_adapter() -> None:
    (kind,) = ec2_backends["123456789012"]["us-east-1"].describe_instance_types(
        ["p6-b300.48xlarge"]
    )
    rates = [card["PeakBandwidthInGbps"] * 1e9 / 8 for card in kind["NetworkInfo"]["NetworkCards"]]
    links = [link_of(kind, placement=True, efa=efa) for efa in (False, True)]

    assert [link and link.rate for link in links] == [rates[0], rates[1]]
    assert rates[0] != rates[1]
    assert [link and link.adapters for link in links] == [0, 16]


def test_the_link_is_what_amazon_says_and_a_flow_has_its_own_limit(aws: Cloud) -> None:
    planned = provider().plan(spec_of("near")).link
    grouped = create(spec_of("near"))[0].link
    assert planned == grouped
    single = create(spec_of("far", placement=False))[0].link

    assert grouped
    assert single
    assert grouped.rate == single.rate == 25e9 / 8
    assert (grouped.flow, single.flow) == (IN_GROUP, OUTSIDE)


def test_a_region_without_a_default_network_gets_one_that_goes_again(
    snapshot: Snapshot, aws: Cloud
) -> None:
    aws.reset(Settings(default_vpc=()))
    before = aws.things()
    snapshot("\n".join(provider().plan(spec_of()).lines))
    assert len(create(spec_of())) == 2
    assert {thing.kind for thing in own_things(aws)} >= {"vpc", "subnet", "internet-gateway"}

    provider().destroy("c5")
    assert aws.things() == before


# What goes wrong.


def test_no_room_in_a_zone_leads_to_the_next_which_is_remembered(aws: Cloud) -> None:
    aws.set(capacity={f"us-east-1a {INSTANCE}": 1})
    create(spec_of())
    zones = [
        call.params["ClientToken"].split("-", 1)[1]
        for call in aws.calls("RunInstances")
        if not call.params.get("DryRun")
    ]
    assert zones == ["us-east-1a", "us-east-1b"]

    assert zones_without_capacity(INSTANCE) == {"us-east-1a"}
    assert "in us-east-1b" in provider().plan(spec_of("next")).lines[0]


def test_no_room_anywhere(snapshot: Snapshot, aws: Cloud) -> None:
    before = aws.things()
    aws.fail(Fault(action="RunInstances", code="InsufficientInstanceCapacity", status=500, skip=1))

    with snapshot.raises(Capacity):
        create(spec_of())
    assert (
        len(
            {
                call.params["ClientToken"]
                for call in aws.calls("RunInstances")
                if not call.params.get("DryRun")
            }
        )
        == 5
    )  # one send for each zone
    assert aws.things() == before


def test_machines_that_are_not_listed_yet_are_waited_for(aws: Cloud) -> None:
    aws.set(visible=1.0, incomplete=0.5, pending=0.5)

    assert all(machine.address for machine in create(spec_of()))


def test_pending_for_ever(aws: Cloud) -> None:
    before = aws.things()
    aws.set(pending=3600.0)

    with pytest.raises(Timeout, match=r"0\.mpi\.c5 \(i-.* pending"):
        create(spec_of(options={"wait": "0.5"}))
    assert aws.things() == before


def test_who_waits_hears_how_far_each_machine_is(aws: Cloud) -> None:
    aws.set(visible=3600.0, pending=3600.0)
    states: list[str] = []

    def follow(host: str, state: str) -> None:
        if host == "1.mpi.c5" and state not in states:
            states.append(state)
            (aws.list_all if len(states) == 1 else aws.proceed)()

    create(spec_of(), follow)

    assert states == ["not listed yet", "pending", "running"]


def test_a_launch_that_fails_says_what_it_cost(aws: Cloud) -> None:
    aws.set(pending=3600.0)
    output = command(*UP, "--option", "wait=1", status=None).stderr

    assert "0.mpi.c5" in output
    [(seconds, dollars)] = re.findall(r"2 machine\(s\) existed for (\d+) s: \$([\d.]+)\.", output)
    assert float(dollars) == pytest.approx(2 * 3.06 / 3600 * int(seconds), abs=0.01)
    assert not own_things(aws)


def test_what_another_process_takes_down_has_a_receipt_from_its_start(aws: Cloud) -> None:
    """Its launch was killed as soon as Amazon had said that there are machines."""
    aws.fail(Fault(action="DescribeInstances", kill="before", skip=1, where={"DryRun": "None"}))
    command(*UP, status=-9)
    aws.mend()
    output = command("down", "c5").stdout

    assert "Receipt: create" in output
    assert "teardown" in output
    assert "for 2 machine(s) for" in output
    assert "($3.06 " in output


def test_machines_that_end_right_after_their_start(aws: Cloud) -> None:
    before = aws.things()
    aws.set(pending=1.0, dies=0.1)

    with pytest.raises(ProvisionError, match=r"Server\.InternalError"):
        create(spec_of())
    aws.set(dies=None)
    assert {thing for thing in aws.things() if thing.state != "terminated"} == before
