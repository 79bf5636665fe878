"""What cannot be replaced gets the command to type, which nobody runs."""

import platform
import shlex
import time
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.network.fleet import FleetFinding, Part, Reason
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.hosts.machines import can_replace
from cluster.orchestration.launch.launch import launch
from cluster.orchestration.launch.replacement import (
    finish_replacement,
    irreplaceable,
    replacement_plan,
)
from cluster.providers.ssh import SshProvider
from tests.replacements import interrupted, replace_host
from tests.snapshots import Snapshot

BAD = {
    1: FleetFinding(
        place=Part(kind="host", host=1),
        kind="BAD",
        direction="rx",
        evidence="it's 40%",
        reason=Reason(code="slow", share=0.4),
    )
}


def of_ssh(options: dict[str, str], hosts: int = 3) -> Cluster:
    """Launch a cluster of own hosts, up to the first connection."""
    spec = ClusterSpec(name="own", provider="ssh", hosts=hosts, options=options)
    book = journal.for_cluster("own")
    book.append(journal.Intended(spec=spec, at=time.time()))
    book.append(journal.Created(machines=SshProvider().create(spec, book)))
    return attach("own")


def test_own_hosts_are_taken_out_of_their_list(snapshot: Snapshot, home: Path) -> None:
    cluster = of_ssh({"hosts": "h0,al@h1:2222,h2,spare"})
    (change,) = irreplaceable(cluster, BAD)

    assert not can_replace(cluster.disk)
    assert (change.part, change.old, change.new) == ("host:1", "h1", "")
    snapshot(change.command)


def test_own_hosts_are_taken_out_of_their_inventory(snapshot: Snapshot, home: Path) -> None:
    (home / "mine.txt").write_text("h0\nh1  # rack 3\nh2\n")
    (change,) = irreplaceable(of_ssh({"inventory": "mine.txt"}), BAD)

    snapshot(change.command)


def test_a_host_of_slurm_is_to_be_drained(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    (change,) = irreplaceable(of_ssh({"hosts": "h0,h1,h2"}), BAD)

    assert shlex.split(change.command) == [
        *("scontrol", "update", "nodename=h1", "state=drain"),
        "reason=cluster: BAD rx, it's 40%",
    ]


def test_this_machine_is_all_hosts(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with launch("here", hosts=3) as cluster:
        (change,) = irreplaceable(cluster, BAD)
        monkeypatch.setenv("SLURM_JOB_ID", "17")
        (drained,) = irreplaceable(cluster, BAD)

    snapshot(change.command)
    assert f"nodename={platform.node().partition('.')[0]} " in drained.command


def test_a_lab_is_made_anew_and_is_no_node_of_slurm(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    spec = ClusterSpec(name="lab", provider="lab", hosts=2, options={"rate": "1gbit"})
    host = Machine(name="1.mpi.lab", id="lab-1", address="h", shell="ssh", folder="", bin="")  # noqa: S604
    book = journal.for_cluster("lab")
    book.append(journal.Intended(spec=spec, at=time.time()))
    book.append(journal.Created(machines=(host, host)))
    (change,) = irreplaceable(attach("lab"), BAD)

    snapshot(change.command)


def simulated() -> Cluster:
    return launch("big", provider="sim", hosts=4, options={"fabric": "leafspine:1x4"})


def test_without_a_good_host_nothing_is_created(snapshot: Snapshot, home: Path) -> None:
    with launch("one", provider="sim", hosts=1, options={"fabric": "leafspine:1x4"}) as cluster:
        with snapshot.raises(SpecError):
            replace_host("one")
        assert [machine.id for machine in cluster.machines] == ["sim-0"]


def test_an_expired_cluster_is_not_replaced(snapshot: Snapshot, home: Path) -> None:
    with simulated() as cluster:
        cluster.disk.record(journal.Created(machines=cluster.machines, expires=1.0))
        with snapshot.raises(SpecError):
            replacement_plan(cluster, BAD)


def test_a_plan_names_the_bad_hosts(snapshot: Snapshot, home: Path) -> None:
    with simulated() as cluster:
        plan = replacement_plan(cluster, BAD)
    assert not plan.costs
    snapshot(plan.lines[0])


def test_hosts_that_another_process_replaced_meanwhile_are_left_alone(
    snapshot: Snapshot, home: Path
) -> None:
    with simulated() as cluster:
        other = attach("big")
        new = msgspec.structs.replace(other.machines[3], id="sim-3-other")
        stale = attach("big")
        other.disk.note_machines((*other.machines[:3], new))
        with snapshot.raises(SpecError):
            replace_host(stale)
        assert attach("big").machines[3].id == "sim-3-other"
        cluster.disk.refresh()


def test_one_process_replaces_at_a_time(home: Path) -> None:
    with simulated() as cluster:
        with cluster.disk.journal.in_use(), pytest.raises(SpecError, match="big"):
            replace_host("big")
        cluster.disk.record(journal.Replacing(kept=cluster.machines))
        with cluster.disk.journal.in_use(), pytest.raises(SpecError, match="big"):
            finish_replacement(cluster)
        finish_replacement(cluster)
        assert attach("big").state.machines_to_keep == ()


def test_tests_that_are_interrupted_leave_the_cluster_as_it_was(home: Path) -> None:
    with simulated() as cluster:
        with pytest.raises(KeyboardInterrupt):
            replace_host("big", interrupted)
        assert [machine.id for machine in attach("big").machines] == [f"sim-{n}" for n in range(4)]
        assert attach("big").state.machines_to_keep == ()
        cluster.disk.refresh()
