"""What Amazon and Google say about where hosts are, against what latency shows."""

import json
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.hosts.state import ClusterState
from cluster.orchestration.launch.launch import launch
from cluster.orchestration.proximity import (
    ask_topology,
    judge_placement,
    newest_placement,
    topology_groups,
)
from cluster.runs import store
from cluster.runs.run import Run
from tests.conftest import ROOT, command
from tests.fakes.aws import Cloud, Fault
from tests.fakes.gcp import Cloud as GoogleCloud
from tests.providers.aws import conftest as amazon
from tests.providers.gcp import conftest as google
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("home")
RACKS = [host // 4 for host in range(16)]


def fast() -> ClusterSpec:
    """Return 16 instances of a type of which Amazon names the network nodes."""
    return amazon.spec_of(instance="p4d.24xlarge", hosts=16)


def compact() -> ClusterSpec:
    return google.spec_of(hosts=16)


def measured(spec: ClusterSpec, machines: tuple[Machine, ...], fabric: str = "4x4") -> Run:
    """Return a run of latencies between machines of a cloud, as the simulator has them."""
    with launch(
        "model", provider="sim", hosts=16, options={"fabric": f"leafspine:{fabric}"}
    ) as model:
        run = model.bench("pairs", metric="latency", rounds=0, alone=0)
    record = msgspec.structs.replace(run.record, spec=spec, machines=machines)
    store.write(run.folder, record)
    return store.read(run.folder)


def nodes(racks: list[int]) -> tuple[tuple[str, ...], ...]:
    """Return network nodes: two racks are below one node of the second layer."""
    return tuple(("nn-1", f"nn-1-{rack // 2}", f"nn-1-{rack // 2}-{rack}") for rack in racks)


def places(racks: list[int]) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(("c", f"b{rack // 2}", f"s{rack}", f"h{i}") for i, rack in enumerate(racks))


SWAPPED = [1, *RACKS[1:4], 0, *RACKS[5:]]  # hosts 0 and 4 have changed their places


def test_amazon_agrees(snapshot: Snapshot, aws: Cloud) -> None:
    aws.set(nodes=nodes(RACKS))
    run = measured(fast(), amazon.create(fast()))
    verdict = judge_placement(run)
    text = command("check", "--near", "--from", str(run.folder)).stdout

    assert [layer.name for layer in verdict.topology.layers] == [
        *("network node 3", "network node 2", "network node 1")
    ]
    assert verdict.topology.layers[0].groups == tuple(RACKS)
    assert [layer.agreement for layer in verdict.topology.layers] == pytest.approx(
        [1.0, 88 / 120, 24 / 120]
    )
    assert (verdict.layer, verdict.agreement) == ("network node 3", 1.0)
    assert verdict.disagreements == ()
    snapshot(verdict.answer)
    assert ["network", "node", "2", "2", "8,", "8", "73.3%"] in map(str.split, text.splitlines())
    assert len(aws.calls("DescribeInstanceTopology")) == 1  # what it said is kept with the run


def test_amazon_disagrees(snapshot: Snapshot, aws: Cloud) -> None:
    aws.set(nodes=nodes(SWAPPED))
    run = measured(fast(), amazon.create(fast()))
    verdict = judge_placement(run)
    text = command("check", "--near", "--from", str(run.folder)).stdout

    assert verdict.agreement == pytest.approx(1 - 12 / 120)
    assert len(verdict.disagreements) == 10
    snapshot(verdict.disagreements)
    snapshot(text)


def test_amazon_says_something_where_latency_shows_nothing(snapshot: Snapshot, aws: Cloud) -> None:
    aws.set(nodes=nodes(RACKS))
    machines = amazon.create(fast())
    verdict = judge_placement(measured(fast(), machines, "1x16"))
    aws.set(nodes=())
    together = judge_placement(measured(fast(), machines, "1x16"))

    assert (verdict.groups, verdict.agreement, verdict.layer) == ((), None, "")
    snapshot(verdict.answer)
    snapshot(together.answer)


def test_types_without_network_nodes_are_said_to_have_none(snapshot: Snapshot, aws: Cloud) -> None:
    spec = amazon.spec_of(hosts=16)
    machines = amazon.create(spec)
    verdict = judge_placement(measured(spec, machines))

    assert (verdict.topology.layers, verdict.agreement) == ((), None)
    snapshot(verdict.answer)
    with snapshot.raises(SpecError):
        topology_groups(spec, machines)


def test_amazon_is_asked_for_a_hundred_at_a_time_and_for_all_pages(aws: Cloud) -> None:
    spec = amazon.spec_of(instance="p4d.24xlarge", hosts=130)
    aws.set(nodes=nodes([host // 8 for host in range(130)]))
    machines = amazon.create(spec)
    groups = topology_groups(spec, tuple(reversed(machines)))
    calls = aws.calls("DescribeInstanceTopology")

    assert groups == tuple((host + 6) // 8 for host in range(130))  # in the order of the question
    assert [len(call.params["InstanceIds"]) for call in calls] == [100] * 5 + [30] * 2
    assert [call.params.get("NextToken") for call in calls] == [
        *(None, "20", "40", "60", "80"),
        *(None, "20"),
    ]


def test_the_policy_of_the_docs_permits_the_question(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = amazon.create(fast())
    policy = json.loads((ROOT / "docs" / "aws-policy.json").read_text())
    for name, value in aws.user("newcomer", policy).items():
        monkeypatch.setenv(name, value)
    assert ask_topology(fast(), machines).layers


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidAction"])
def test_a_refusal_is_a_reason(snapshot: Snapshot, aws: Cloud, code: str) -> None:
    """The measurement is done: without the permission, it is not compared, and not lost."""
    run = measured(fast(), amazon.create(fast()))
    call = "DescribeInstanceTopology"
    aws.fail(Fault(action=call, code=code, message="You may not.", status=403))
    refused = judge_placement(run)
    aws.mend()
    allowed = judge_placement(run)

    assert len(set(refused.groups)) == 4
    snapshot(refused.answer)
    assert len(allowed.topology.layers) == 3  # it is asked again


def test_a_host_that_amazon_does_not_know_yet_is_left_out(aws: Cloud) -> None:
    missing = (*nodes(RACKS)[:-1], ())
    aws.set(nodes=missing)
    machines = amazon.create(fast())
    verdict = judge_placement(measured(fast(), machines))

    assert verdict.topology.layers[0].groups == (*RACKS[:-1], None)
    assert verdict.agreement == 1.0
    assert topology_groups(fast(), machines) == (*RACKS[:-1], 4 + 15)


def test_machines_that_are_gone_are_not_asked_for(snapshot: Snapshot, aws: Cloud) -> None:
    machines = amazon.create(fast())
    run = measured(fast(), machines)
    amazon.provider().destroy("c5")
    journal.for_cluster("c5").forget()
    verdict = judge_placement(run)

    snapshot(verdict.answer)
    assert not aws.calls("DescribeInstanceTopology")


@pytest.mark.parametrize("whole", [True, False])
def test_google_agrees(gcp: GoogleCloud, *, whole: bool) -> None:
    """Also with the older text: block, sub-block and host, without the cluster."""
    gcp.set(locations=places(RACKS), physical_topology=whole)
    verdict = judge_placement(measured(compact(), google.create(compact())))
    names = ["physical host", "sub-block", "block", "cluster"]

    assert [layer.name for layer in verdict.topology.layers] == names[: 3 + whole]
    assert [layer.switch for layer in verdict.topology.layers][:2] == [False, True]
    assert verdict.topology.layers[1].groups == tuple(RACKS)
    assert (verdict.layer, verdict.agreement, verdict.disagreements) == ("sub-block", 1.0, ())


def test_google_disagrees(gcp: GoogleCloud) -> None:
    gcp.set(locations=places(SWAPPED))
    machines = google.create(compact())
    verdict = judge_placement(measured(compact(), machines))

    assert verdict.agreement == pytest.approx(0.9)
    assert len(verdict.disagreements) == 10
    assert topology_groups(compact(), machines)[:5] == (0, 1, 1, 1, 1)


def test_machines_that_share_a_physical_host_do_not_share_a_switch_alone(gcp: GoogleCloud) -> None:
    """Between such machines, no NIC is tested, so that `check` takes the layer above."""
    pairs = tuple(("c", f"b{i // 8}", f"s{i // 4}", f"h{i // 2}") for i in range(16))
    gcp.set(locations=pairs)
    machines = google.create(compact())
    nearest = ask_topology(compact(), machines).layers[0]

    assert (nearest.name, nearest.sizes) == ("physical host", (2,) * 8)
    assert topology_groups(compact(), machines) == tuple(RACKS)


def test_google_names_no_hosts_without_compact_placement(gcp: GoogleCloud) -> None:
    spec = google.spec_of(hosts=2, placement=False)
    topology = ask_topology(spec, google.create(spec))
    assert topology.layers == ()
    assert "with --placement" in topology.reason


def test_the_placement_of_other_machines_of_that_name_does_not_count(
    snapshot: Snapshot, aws: Cloud, home: Path
) -> None:
    machines = amazon.create(fast())
    run = measured(fast(), machines)
    verdict = judge_placement(run)
    copies = tuple(msgspec.structs.replace(host, id=f"i-{host.id[:-2]}") for host in machines)
    state = ClusterState(spec=fast(), at=run.record.at - 9, machines=machines)
    later = msgspec.structs.replace(state, power=(run.record.at - 2, run.record.at + 1))

    assert newest_placement(store.root(), state) == verdict
    again = msgspec.structs.replace(state, at=run.record.at + 1)  # a lab's machines have no ids
    for other in (msgspec.structs.replace(state, machines=copies), later, again):
        with snapshot.raises(SpecError):
            newest_placement(store.root(), other)
