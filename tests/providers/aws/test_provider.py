"""Amazon, as the strict test cloud plays it: what is asked, what is refused, what is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from cluster.core import journal, plugins
from cluster.core.errors import Capacity, ProvisionError, Quota, SpecError, Timeout
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, ignore
from cluster.providers import Provider
from cluster.providers._cloud import capacity_cache
from cluster.providers.aws.plan import IN_GROUP, OUTSIDE
from tests.conftest import answer, command, launcher
from tests.fakes.aws import Fault, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.core.model.hosts import Machine
    from tests.fakes.aws import Cloud
    from tests.fakes.aws.values import Thing

pytestmark = pytest.mark.usefixtures("soon")
INSTANCE = "c5.18xlarge"
UP = ("up", "c5", "--provider", "aws", "--instance", INSTANCE, "--placement", "--yes")
MOST = 6  # mutating calls of a launch, and of a teardown


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Amazon be consistent after a second: the test cloud is."""
    monkeypatch.setenv("CLUSTER_LATE", "1")
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", 3.0)
    monkeypatch.setattr("cluster.providers.aws.create.POLL", 0.05)


def spec_of(name: str = "c5", **fields: Any) -> ClusterSpec:
    given = {"provider": "aws", "instance": INSTANCE, "placement": True, **fields}
    return ClusterSpec(name=name, **given)


def provider(*regions: str) -> Provider:
    return plugins.find(Provider, "aws")(regions)


def create(spec: ClusterSpec, tell: StateCallback = ignore) -> tuple[Machine, ...]:
    """Do what a launch does, up to the first connection."""
    chosen = provider()
    chosen.plan(spec)
    book = journal.for_cluster(spec.name)
    if not book.entries():
        book.append(journal.Intended(spec=spec, at=time.time()))
    return chosen.create(spec, book, tell)


def ours(cloud: Cloud) -> set[Thing]:
    return {thing for thing in cloud.things() if any("cluster=" in tag for tag in thing.tags)}


def actions(cloud: Cloud, since: int = 0) -> list[str]:
    return [call.action for call in cloud.mutating()[since:]]


# What is shown before anything exists.


def test_a_plan_shows_what_will_be_and_makes_nothing(aws: Cloud) -> None:
    lines = "\n".join(provider().plan(spec_of()).lines)

    assert "make 2 x c5.18xlarge in us-east-1a" in lines
    assert f"SSH from {aws.caller}/32 only" in lines
    assert "ubuntu-noble-24.04" in lines
    assert "25 Gbit/s, one connection at most 10 Gbit/s in a placement group" in lines
    assert "144 needed" in lines
    assert "2 x $3.06 = $6.12 an hour, at most $12.24 in 2 h 0 min" in lines
    assert "2026-" in lines
    assert not aws.mutating()


def test_the_founding_command_on_a_type_that_cannot_be_placed(aws: Cloud) -> None:
    refused = launcher("--placement=1", "--instance=t2.large", status=2).stderr

    assert "t2.large cannot be put into a cluster placement group" in refused
    assert "with one of: c" in refused
    assert not aws.mutating()


def test_plan_as_a_command_and_as_a_flag(aws: Cloud) -> None:
    shown = command("plan", "c5", "--provider=aws", "--instance", INSTANCE, "--placement").stdout

    assert (
        launcher(f"--instance={INSTANCE}", "--placement=1", "--name=c5", "--plan").stdout == shown
    )
    assert answer("plan", "--provider=aws", "--instance", INSTANCE, "--ttl", "30min")["ttl"] == 1800
    assert not aws.mutating()
    assert answer("ls") == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"instance": None}, 'instance="c5.18xlarge"'),
        ({"instance": "c5.huge"}, "no instance type 'c5.huge' in us-east-1"),
        ({"zone": "mars"}, "zone mars is not a zone"),
        ({"instance": "p4d.24xlarge", "zone": "us-east-1f"}, "It is in: us-east-1"),
        ({"instance": "p4d.24xlarge", "options": {"efa": "1"}}, 'options={"public": "0"}'),
        ({"options": {"efa": "1"}}, "has no Elastic Fabric Adapter"),
        ({"instance": "c6g.16xlarge", "image": "ami-nothing"}, "There is no image ami-nothing"),
        ({"image": "ubuntu"}, "neither an id nor an alias"),
        ({"options": {"threads_per_core": "1"}, "instance": "c6g.16xlarge"}, ""),
        ({"options": {"allow": "everybody"}}, "is not a network"),
        ({"options": {"subnet": "subnet-0"}}, "There is no subnet-0"),
    ],
)
def test_refusals_come_before_any_change(aws: Cloud, fields: dict[str, Any], said: str) -> None:
    if said:
        with pytest.raises(SpecError) as refused:
            provider().plan(spec_of(**fields))
        assert said in str(refused.value)
    else:
        provider().plan(spec_of(**fields))
    assert not aws.mutating()


def test_an_image_of_another_architecture(aws: Cloud) -> None:
    arm = spec_of(instance="c6g.16xlarge")
    image = next(w for w in provider().plan(arm).lines[1].split() if w.startswith("ami-"))

    with pytest.raises(SpecError, match=r"is for arm64; c5\.18xlarge is x86_64"):
        provider().plan(spec_of(image=image))


def test_a_quota_is_no_matter_of_capacity(aws: Cloud) -> None:
    aws.set(vcpus=100)

    with pytest.raises(Quota, match=r"2 x c5\.18xlarge needs 144 vCPUs") as refused:
        provider().plan(spec_of())
    assert "L-1216C47A" in str(refused.value)
    assert not aws.mutating()


def test_a_subnet_that_is_too_small(aws: Cloud) -> None:
    with pytest.raises(SpecError, match="No subnet has room for 5000 machines"):
        provider().plan(spec_of(hosts=5000))


def test_a_price_that_cannot_be_had_is_unknown(aws: Cloud) -> None:
    aws.fail(Fault(action="GetProducts", code="AccessDeniedException", status=400))
    plan = provider().plan(spec_of())

    assert plan.price is None
    assert "price: unknown" in plan.lines


def test_spot_has_a_price_of_its_own(aws: Cloud) -> None:
    plan = provider().plan(spec_of(spot=True))

    assert plan.price is not None
    assert plan.price.source == "spot price in us-east-1a"
    assert plan.price.hourly < 3.06


# What is asked for.


def test_the_number_of_calls_does_not_depend_on_the_number_of_machines(aws: Cloud) -> None:
    """Of those that change something; lists come in pages."""
    aws.set(page=300)
    for number, hosts in enumerate((2, 64, 1000)):
        before = len(aws.mutating())
        name = f"n{number}"
        machines = create(spec_of(name, hosts=hosts))
        made = actions(aws, before)
        assert [m.name for m in machines] == [f"{n}.mpi.{name}" for n in range(hosts)]
        assert len({m.address for m in machines}) == hosts
        assert made == [
            "CreateSecurityGroup",
            "AuthorizeSecurityGroupIngress",
            "CreatePlacementGroup",
            "ImportKeyPair",
            "RunInstances",
        ]
        lists = [call for call in aws.calls("DescribeInstances") if "NextToken" in call.params]
        assert bool(lists) == (hosts > 300)
        before = len(aws.mutating())
        provider().destroy(name)
        assert len(actions(aws, before)) <= MOST
        assert ours(aws) == set()


def test_everything_that_matters_travels_in_the_creating_call(aws: Cloud, home: Path) -> None:
    create(spec_of(ttl=600.0, options={"threads_per_core": "1"}))
    [call] = aws.calls("RunInstances")[-1:]
    asked = call.params

    assert asked["MinCount"] == asked["MaxCount"] == 2
    assert asked["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert asked["MetadataOptions"]["HttpTokens"] == "required"
    assert asked["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    assert asked["CpuOptions"] == {"CoreCount": 36, "ThreadsPerCore": 1}
    kinds = {one["ResourceType"] for one in asked["TagSpecifications"]}
    assert kinds == {"instance", "volume", "network-interface"}
    tags = {tag["Key"]: tag["Value"] for tag in asked["TagSpecifications"][0]["Tags"]}
    assert tags["cluster"] == "c5"
    assert {"cluster-owner", "cluster-launch", "cluster-expires"} <= tags.keys()
    assert (journal.root() / "c5" / "key").stat().st_mode & 0o777 == 0o600


def test_ssh_is_open_to_the_caller_only_and_all_is_open_inside(aws: Cloud) -> None:
    create(spec_of())
    [call] = aws.calls("AuthorizeSecurityGroupIngress")
    ssh, inside = call.params["IpPermissions"]

    assert [one["CidrIp"] for one in ssh["IpRanges"]] == [f"{aws.caller}/32"]
    assert ssh["FromPort"] == ssh["ToPort"] == 22
    assert "IpRanges" not in inside
    assert [one["GroupId"] for one in inside["UserIdGroupPairs"]] == [call.params["GroupId"]]


def test_one_efa_for_each_card_and_private_addresses(aws: Cloud) -> None:
    machines = create(spec_of(instance="p4d.24xlarge", options={"efa": "1", "public": "0"}))
    cards = aws.calls("RunInstances")[-1].params["NetworkInterfaces"]

    assert [card["InterfaceType"] for card in cards] == ["efa"] * 4
    assert [card["NetworkCardIndex"] for card in cards] == [0, 1, 2, 3]
    assert all(m.access and m.access.host == m.address for m in machines)
    assert aws.calls("AuthorizeSecurityGroupEgress")


def test_the_link_is_what_amazon_says_and_a_flow_has_its_own_limit(aws: Cloud) -> None:
    grouped = create(spec_of("near"))[0].link
    apart = create(spec_of("far", placement=False))[0].link

    assert grouped
    assert apart
    assert grouped.rate == apart.rate == 25e9 / 8
    assert (grouped.flow, apart.flow) == (IN_GROUP, OUTSIDE)


def test_a_region_without_a_default_network_gets_one_that_goes_again(aws: Cloud) -> None:
    aws.reset(Settings(default_vpc=()))
    before = aws.things()
    assert "there is no default one" in "\n".join(provider().plan(spec_of()).lines)
    assert len(create(spec_of())) == 2
    assert {thing.kind for thing in ours(aws)} >= {"vpc", "subnet", "internet-gateway"}

    provider().destroy("c5")
    assert aws.things() == before


# What goes wrong.


def test_a_lost_reply_makes_nothing_twice(aws: Cloud) -> None:
    aws.fail(Fault(action="mutating", drop="after", times=1))
    aws.fail(Fault(action="RunInstances", drop="after", times=1))
    aws.fail(Fault(action="ImportKeyPair", drop="after", times=1))
    assert len(create(spec_of())) == 2

    assert (
        len(
            {
                call.params["ClientToken"]
                for call in aws.calls("RunInstances")
                if "DryRun" not in call.params
            }
        )
        == 1
    )
    assert len([thing for thing in ours(aws) if thing.kind == "instance"]) == 2


def test_the_same_intent_again_gives_the_same_machines(aws: Cloud) -> None:
    first = create(spec_of())

    assert create(spec_of()) == first
    assert len([thing for thing in ours(aws) if thing.kind == "instance"]) == 2


def test_a_name_that_another_machine_has_taken(aws: Cloud) -> None:
    create(spec_of())
    journal.for_cluster("c5").forget()

    with pytest.raises(SpecError, match="cluster 'c5' of yours in us-east-1 already") as refused:
        provider().plan(spec_of())
    assert "cluster down c5 --region us-east-1" in str(refused.value)


def test_two_launches_of_a_name_at_once_do_not_hurt_one_another(aws: Cloud) -> None:
    """The second one has planned before the first one made anything."""
    late = provider()
    late.plan(spec_of())
    machines = create(spec_of())
    journal.for_cluster("c5").forget()
    book = journal.for_cluster("c5")
    book.append(journal.Intended(spec=spec_of(), at=time.time()))

    with pytest.raises(SpecError, match="already"):
        late.create(spec_of(), book)
    alive = {thing.id for thing in ours(aws) if thing.kind == "instance"}
    assert alive == {machine.id for machine in machines}


def test_no_room_in_a_zone_leads_to_the_next_which_is_remembered(aws: Cloud) -> None:
    aws.set(capacity={f"us-east-1a {INSTANCE}": 1})
    create(spec_of())
    zones = [
        call.params["ClientToken"].split("-", 1)[1]
        for call in aws.calls("RunInstances")
        if not call.params.get("DryRun")
    ]
    assert zones == ["us-east-1a", "us-east-1b"]

    assert capacity_cache.zones(INSTANCE) == {"us-east-1a"}
    assert "in us-east-1b" in provider().plan(spec_of("next")).lines[0]


def test_no_room_anywhere(aws: Cloud) -> None:
    before = aws.things()
    aws.fail(Fault(action="RunInstances", code="InsufficientInstanceCapacity", status=500, skip=1))

    with pytest.raises(Capacity) as refused:
        create(spec_of())
    assert "Nothing is left" in str(refused.value)
    assert 'options={"zones": ' in str(refused.value)
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

    with pytest.raises(Timeout, match=r"0\.mpi\.c5 \(i-.*is not ready after .* pending"):
        create(spec_of(options={"wait": "0.5"}))
    assert aws.things() == before


def test_who_waits_hears_how_far_each_machine_is(aws: Cloud) -> None:
    aws.set(visible=3600.0, pending=3600.0)
    seen: list[str] = []

    def follow(host: str, state: str) -> None:
        if host == "1.mpi.c5" and state not in seen:
            seen.append(state)
            (aws.list_all if len(seen) == 1 else aws.proceed)()

    create(spec_of(), follow)

    assert seen == ["not listed yet", "pending", "running"]


def test_a_launch_that_fails_says_what_it_cost(aws: Cloud) -> None:
    aws.set(pending=3600.0)
    said = command(*UP, "--option", "wait=1", status=None).stderr

    assert "0.mpi.c5" in said
    assert "2 machine(s) existed for" in said
    assert "s: $0.0" in said
    assert not ours(aws)


def test_what_another_process_takes_down_has_a_receipt_from_its_start(aws: Cloud) -> None:
    """Its launch was killed as soon as Amazon had said that there are machines."""
    aws.fail(Fault(action="DescribeInstances", kill="before", skip=1, where={"DryRun": "None"}))
    command(*UP, status=-9)
    aws.mend()
    said = command("down", "c5").stdout

    assert "Receipt: create" in said
    assert "teardown" in said
    assert "for 2 machine(s) for" in said
    assert "($3.06 an hour each" in said


def test_machines_that_end_right_after_their_start(aws: Cloud) -> None:
    before = aws.things()
    aws.set(pending=1.0, dies=0.1)

    with pytest.raises(ProvisionError, match="ended right after its start"):
        create(spec_of())
    aws.set(dies=None)
    assert {thing for thing in aws.things() if thing.state != "terminated"} == before


# Taking it away.


def test_everything_goes_and_nothing_of_others(aws: Cloud) -> None:
    before = aws.things()
    create(spec_of())
    aws.set(ending=0.5)
    provider().destroy("c5")

    assert aws.things() == before
    assert provider().find("c5") == ()


def test_down_from_tags_alone(aws: Cloud) -> None:
    before = aws.things()
    create(spec_of())
    journal.for_cluster("c5").forget()
    said = command("down", "c5", "--region", "us-east-1").stdout

    assert "c5 is down; 0 left" in said
    assert "us-east-1" in said
    assert aws.things() == before


def test_machines_that_appear_late_go_too(aws: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_LATE", "3")
    before = aws.things()
    aws.set(visible=1.5)
    aws.fail(Fault(action="RunInstances", drop="after", skip=1))  # it is done, and nobody hears

    with pytest.raises(Timeout):
        create(spec_of())
    assert aws.things() == before


def test_gc_finds_what_no_journal_knows_of(aws: Cloud) -> None:
    before = aws.things()
    create(spec_of("lost"))
    create(spec_of("lost2", placement=False))
    for name in ("lost", "lost2"):
        journal.for_cluster(name).forget()
    found = answer("gc")
    assert {orphan["name"] for orphan in found} == {"lost", "lost2"}

    command("gc", "-y")
    assert aws.things() == before


def test_gc_looks_everywhere_if_asked(aws: Cloud) -> None:
    create(spec_of(zone="eu-west-1a"))
    journal.for_cluster("c5").forget()
    [far] = answer("gc")  # regions are remembered when journals are gone
    assert far["regions"] == ["eu-west-1"]
    (journal.root() / "places.jsonl").unlink()
    assert answer("gc") == []
    command("gc", "-y", "--all-regions")

    assert not ours(aws)


def test_ls_shows_what_was_launched_elsewhere(aws: Cloud) -> None:
    create(spec_of())
    journal.for_cluster("c5").forget()
    [row] = answer("ls")

    assert (row["name"], row["hosts"], row["region"]) == ("c5", 2, "us-east-1")
    assert row["dollars"] is not None
    assert 7000 < row["expires"] - time.time() <= 7200
    command("down", "c5")
    assert answer("ls") == []


def test_another_owners_cluster_of_the_same_name_is_not_touched(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spec_of())
    theirs = ours(aws)
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
    for name, value in aws.user("bob", policy).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CLUSTER_STATE", str(journal.root().parent / "bobs"))
    assert answer("ls") == []
    create(spec_of())
    provider().destroy("c5")

    assert ours(aws) == theirs


def test_without_any_sign_of_amazon_nobody_is_asked(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in aws.environ:
        if name.startswith("AWS"):
            monkeypatch.delenv(name)

    assert provider().names() == ()
    assert provider().live() == ()
    assert not aws.calls()
