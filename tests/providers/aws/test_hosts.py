"""Amazon with a real host behind each instance: from the founding command to nothing left."""

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.analysis.limits.link import BELIEVABLE
from cluster.cli.show import receipt_lines
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal, ssh_keys
from cluster.core.state.files import state_folder
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.launch import launch_spec
from cluster.providers import Provider
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.aws import api
from tests.background import record
from tests.conftest import COMMAND, LONG, ROOT, answer, command, launcher, run, until
from tests.fakes.aws import Cloud, Fault, Settings
from tests.providers.launcher import check_killed_launch, check_launcher
from tests.providers.started_jobs import check_started_jobs
from tests.snapshots import Snapshot

pytestmark = [
    pytest.mark.usefixtures("late"),
    pytest.mark.timeout(300),  # each takes seconds; one that hangs gives its worker back sooner
]
SPEC = ClusterSpec(name="c5", provider="aws", instance="c5.18xlarge", placement=True)
UP = ("up", "c5", "--provider", "aws", "--instance", "c5.18xlarge", "--placement", "--yes")


def test_a_lottery_pays_for_each_draw_and_leaves_nothing(aws_hosts: Cloud) -> None:
    before = aws_hosts.things()
    words = ("--provider=aws", "--instance=c5.18xlarge", "--yes", "--lottery=2", "--launches=2")
    result = answer("bench", "p2p", "c5", *words, "--metrics=latency", "--sizes=8", "--iters=9")
    [series] = result["series"]
    costs = [draw["cost"]["dollars"] for draw in result["draws"]]

    assert aws_hosts.things() == before
    assert [call.code for call in aws_hosts.calls("RunInstances") if call.mutating] == ["", ""]
    assert min(costs) > 0
    assert series["best"][1]["dollars"] == pytest.approx(sum(costs))
    assert f"${sum(costs):.2f}" in result["answer"]
    assert len({record(Path(d["runs"][0]))["machines"][0]["id"] for d in result["draws"]}) == 2


def test_the_founding_command(aws_hosts: Cloud) -> None:
    output, run = check_launcher(aws_hosts, "--instance=c5.18xlarge", "--yes")

    assert "2 x c5.18xlarge" in output
    assert "Receipt: create" in output
    assert run["receipt"]["dollars"] > 0
    assert run["machines"][0]["link"]["flow"] == 10e9 / 8


def test_the_link_of_a_placement_group_is_read_as_what_it_carries(aws_hosts: Cloud) -> None:
    """Hosts are shaped to what Amazon gives one connection there: no value is above its bound."""
    aws_hosts.set(rate="10gbit")
    launcher("--name=c5", "--placement=1", "--instance=c5.18xlarge", "--iters=6", "--yes")

    shares = [row["share"] for row in answer("show", "latest")["summaries"] if row["share"]]
    assert 0 < max(shares) < BELIEVABLE


def test_a_cluster_that_stays_is_used_stopped_started_and_taken_down(
    snapshot: Snapshot, aws_hosts: Cloud
) -> None:
    before = aws_hosts.things()
    command(*UP)
    first = ssh_keys.load_or_create(state_folder() / "c5" / ssh_keys.FIRST).public
    known_hosts = (state_folder() / "c5" / ssh_keys.KNOWN).read_text()
    assert first not in known_hosts
    assert len(set(known_hosts.split()[2::3])) == 2  # each has a key of its own

    command("run", "c5", "--", "true")
    check_started_jobs(attach("c5"))
    count = len(aws_hosts.calls("RunInstances"))
    command(*UP)  # it is there already
    assert (
        len([c for c in aws_hosts.calls("RunInstances")[count:] if not c.params.get("DryRun")]) == 0
    )

    quick = ("--metrics=latency", "--sizes=8", "--iters=9")
    snapshot(command("bench", "p2p", "c5", *quick).stderr)
    assert [row["name"] for row in answer("ls")] == ["c5"]

    command("more", "pause", "c5")
    stopped = answer("ls")[0]
    assert stopped["status"] == "stopped"
    assert answer("ls")[0]["dollars"] == stopped["dollars"]  # what is off costs nothing
    command("more", "resume", "c5")
    command("run", "c5", "--", "true")
    words = command("connect", "--print", "c5").stdout
    assert "StrictHostKeyChecking" not in words
    assert "HostKeyAlias=i-" in words

    assert "0 left" in command("down", "c5").stdout
    assert aws_hosts.things() == before


def test_a_start_renews_the_time_to_live(aws_hosts: Cloud) -> None:
    """What was started again is not taken for forgotten, neither here nor by its tags."""
    command(*UP, "--ttl", "60s")
    command("more", "pause", "c5")
    book = journal.for_cluster("c5")
    [entry] = [e for e in book.entries() if isinstance(e, journal.Created)]
    book.append(msgspec.structs.replace(entry, expires=1.0))  # it was off for long
    command("more", "resume", "c5")

    assert answer("ls")[0]["expires"] > time.time()
    assert answer("more", "gc") == []
    command("down", "c5")


def test_a_stopped_machine_is_armed_again_when_it_starts(aws_hosts: Cloud) -> None:
    aws_hosts.set(minute=10.0)
    command(*UP, "--ttl", "60s")
    command("more", "pause", "c5")
    command("more", "resume", "c5")
    ids = [machine["id"] for machine in answer("ls", "c5")]
    until(lambda: not any(aws_hosts.running(id_) for id_ in ids), "the hosts are gone")


def test_machines_end_by_themselves_when_nobody_is_there_any_more(aws_hosts: Cloud) -> None:
    aws_hosts.set(minute=4.0)
    command(*UP, "--ttl", "60s")
    ids = [machine["id"] for machine in answer("ls", "c5")]
    until(lambda: not any(aws_hosts.running(id_) for id_ in ids), "the hosts are gone")
    until(
        lambda: (
            not any(
                thing.kind == "instance" and thing.id in ids
                for thing in aws_hosts.things(foreign=False)
            )
        ),
        "the instances are gone",
    )


def test_a_launch_that_was_killed_goes_on(aws_hosts: Cloud) -> None:
    aws_hosts.fail(Fault(action="RunInstances", kill="after", times=1, skip=1))
    check_killed_launch(aws_hosts, *UP)


def test_the_policy_of_the_docs_is_enough(
    aws_hosts: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With enforcement on: from the launch to the end."""
    before = aws_hosts.things()
    _become_newcomer(aws_hosts, monkeypatch)
    command(*UP)
    command("more", "pause", "c5")
    command("more", "resume", "c5")
    command("down", "c5")

    assert aws_hosts.things() == before


def test_the_policy_lets_nobody_touch_what_is_not_theirs(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither another user's cluster nor a stranger's things, nor by marking them as one's own."""
    provider = plugins.load(Provider, "aws")
    provider.plan(SPEC)
    book = journal.for_cluster("c5")
    book.append(journal.Intended(spec=SPEC, at=time.time()))
    provider.create(SPEC, book)
    _become_newcomer(aws, monkeypatch)
    region = api.Region("us-east-1")
    by_kind = {
        "instance": (
            ("terminate_instances", "InstanceIds"),
            ("stop_instances", "InstanceIds"),
            ("create_tags", "Resources"),
        ),
        "volume": (("delete_volume", "VolumeId"), ("create_tags", "Resources")),
        "network-interface": (("delete_network_interface", "NetworkInterfaceId"),),
        "key-pair": (("delete_key_pair", "KeyName"),),
        "placement-group": (("delete_placement_group", "GroupName"),),
        "security-group": (
            ("delete_security_group", "GroupId"),
            ("authorize_security_group_ingress", "GroupId"),
            ("create_tags", "Resources"),
        ),
        "vpc": (("delete_vpc", "VpcId"),),
        "subnet": (("delete_subnet", "SubnetId"),),
        "internet-gateway": (("delete_internet_gateway", "InternetGatewayId"),),
        "route-table": (("create_tags", "Resources"),),  # routes: see docs/how-to/aws.md
    }
    tag = {"Tags": [{"Key": "cluster-user", "Value": region.user}]}
    rule = {"IpPermissions": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]}
    args: dict[str, dict[str, Any]] = {"create_tags": tag, "authorize_security_group_ingress": rule}

    things = aws.things()
    local_things = [thing for thing in things if thing.region == "us-east-1"]
    assert {thing.kind for thing in local_things} == by_kind.keys()
    for thing in local_things:
        for operation, param in by_kind[thing.kind]:
            value: Any = [thing.id] if param in {"InstanceIds", "Resources"} else thing.id
            params = {param: value, **args.get(operation, {})}
            with pytest.raises(Failure) as refused:
                region.call(operation, **params)
            assert refused.value.kind == "denied", f"{operation} {thing}"
    assert aws.things() == things


def test_the_policy_is_enough_where_a_network_has_to_be_made(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.reset(Settings(default_vpc=()))
    before = aws.things()
    _become_newcomer(aws, monkeypatch)
    provider = plugins.load(Provider, "aws")
    provider.plan(SPEC)
    book = journal.for_cluster("c5")
    book.append(journal.Intended(spec=SPEC, at=time.time()))

    assert len(provider.create(SPEC, book)) == 2
    provider.destroy("c5")
    assert aws.things() == before


def _become_newcomer(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = json.loads((ROOT / "docs" / "aws-policy.json").read_text())
    for name, value in cloud.user("newcomer", policy).items():
        monkeypatch.setenv(name, value)


@pytest.mark.timeout(600)
def test_many_hosts(aws_hosts: Cloud) -> None:
    """Up, a command on each, and down: with as many calls as two hosts take."""
    before, hosts = aws_hosts.things(), 64 if LONG else 16
    run(COMMAND, *UP, "--hosts", str(hosts), timeout=400)
    lines = command("run", "c5", "--", "cat", "/etc/hostname").stdout.splitlines()

    assert len({line.partition(": ")[0] for line in lines}) == hosts
    assert len({line.partition(": ")[2] for line in lines}) == hosts  # each on a host of its own
    assert len(aws_hosts.mutating()) == 5
    assert "0 left" in command("down", "c5").stdout
    assert len(aws_hosts.mutating()) <= 5 + 6
    assert aws_hosts.things() == before


def test_machines_end_by_themselves_when_nobody_uses_them(
    aws_hosts: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.core.model.spec.SHORTEST_IDLE", 3.0)
    c = launch_spec(msgspec.structs.replace(SPEC, idle=3.0, max_cost=50.0))
    ids = [machine.id for machine in c.machines]
    with pytest.raises(SpecError, match="max_cost"):
        c.pause()
    c.run("true")
    assert all(aws_hosts.running(id_) for id_ in ids)
    c.close()
    until(lambda: not any(aws_hosts.running(id_) for id_ in ids), "the hosts are gone")

    c.down()
    cost = receipt_lines(c)[1]
    assert re.search(r"\$[\d.]+.* \$50 .*--max-cost", cost)  # they ended before, nobody knows when
