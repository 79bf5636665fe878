"""`--order near`: ranks along the placement of a cluster."""

from pathlib import Path

import msgspec

from cluster.agent.facts import host_facts
from cluster.analysis.statistics.factors import factors
from cluster.core.model.hosts import Machine
from cluster.core.model.results.records import Note
from cluster.core.model.spec import ClusterSpec
from cluster.orchestration.bench.plan import in_order
from cluster.orchestration.hosts.setup import ReadyHosts
from cluster.runs import store
from tests.conftest import answer, command
from tests.snapshots import Snapshot

LOCAL = "local"
QUICK = ("--operations", "allreduce", "--sizes", "8", "--iterations", "5")


def hosts(*addresses: str) -> ReadyHosts:
    machines = tuple(
        Machine(
            name=f"{number}.mpi.four",
            id=str(number),
            address=address,
            shell=LOCAL,
            folder="f",
            bin="b",
        )
        for number, address in enumerate(addresses)
    )
    template = host_facts()
    distinct = dict.fromkeys(addresses)
    facts = tuple(msgspec.structs.replace(template, host=f"h-{name}") for name in distinct)
    spec = ClusterSpec(name="four", provider="local", hosts=len(addresses))
    return ReadyHosts(spec=spec, machines=machines, facts=facts)


def test_ranks_are_handed_out_in_the_order() -> None:
    ready = in_order(hosts("a", "b", "c", "d"), (0, 2, 1, 3))
    assert [machine.address for machine in ready.machines] == ["a", "c", "b", "d"]
    assert [fact.host for fact in ready.facts] == ["h-a", "h-c", "h-b", "h-d"]


def test_the_facts_follow_also_where_hosts_share_a_machine() -> None:
    ready = in_order(hosts("a", "b", "a", "b"), (0, 2, 1, 3))
    assert [machine.address for machine in ready.machines] == ["a", "a", "b", "b"]
    assert [fact.host for fact in ready.facts] == ["h-a", "h-b"]
    assert in_order(ready, ()) == ready


def test_without_a_placement_it_says_how_to_measure_one(snapshot: Snapshot, home: Path) -> None:
    """Nothing is launched for it: a new cluster has no placement."""
    words = ("bench", "collectives", "--provider", "local", "here", "--order", "near")
    before = command(*words, status=2).stderr
    snapshot(before)
    snapshot(command("ls").stdout)
    command("up", "here", "--provider", "local", "--hosts", "3")
    unknown = command("bench", "collectives", "here", "--order", "near", status=2).stderr
    snapshot(unknown)
    wrong = command("bench", "collectives", "here", "--order", "far", status=2).stderr
    assert "'given', 'near'" in wrong
    command("check", "--near", "here", "--milliseconds", "20")
    pairs = command("bench", "pairs", "here", "--order", "near", status=2).stderr
    snapshot(pairs)


def test_the_run_records_the_order(home: Path) -> None:
    command("up", "here", "--provider", "local", "--hosts", "3")
    placed = store.find(
        store.root(), answer("check", "--near", "here", "--milliseconds", "20")["run"]
    )
    bench = ("bench", "collectives", "here", *QUICK, "--order", "near")
    flat = store.read(store.find(store.root(), answer(*bench)["run"])).record
    placement = store.placement(placed)
    assert placement is not None
    store.write_placement(placed, msgspec.structs.replace(placement, order=(0, 2, 1)))
    near = store.read(store.find(store.root(), answer(*bench)["run"])).record

    assert [machine.name for machine in near.machines] == ["0.mpi.here", "2.mpi.here", "1.mpi.here"]
    assert (flat.order, near.order) == ((0, 1, 2), (0, 2, 1))
    assert Note("order", ("0, 2, 1",)) in near.notes
    assert Note("same_order") in flat.notes
    assert dict(factors(near))["order"] == "near"
