"""Pods of a test Kubernetes that are real: namespaces on hosts of a lab, measured over exec."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

import cluster
from cluster.cli.measurement import BenchOptions, Request, measure
from cluster.core.errors import SpecError
from cluster.orchestration.launch.launch import make_spec
from cluster.providers.lab.network import alter
from cluster.remote.parallel import start
from cluster.reports.table import Table
from cluster.runs import store
from cluster.runs.run import rank_processes
from tests.benchmarks.test_training import real_torch
from tests.conftest import ROOT, answer, command, until
from tests.fakes.kubernetes.cluster import IMAGE, Kubernetes
from tests.fakes.kubernetes.lab_pods import USER, LabPods, nodes_of_pods
from tests.fakes.kubernetes.pods import Image
from tests.fakes.kubernetes.store import NODES

UP = ("--provider", "kubernetes", "--hosts", "2", "--option", f"image={IMAGE}")


@pytest.fixture
def kubernetes(own_labs: None, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """A cluster whose three nodes are hosts of a lab with an overlay network."""
    yield from nodes_of_pods(monkeypatch, hosts=3, rate="1gbit")


@pytest.mark.timed
def test_pods_are_launched_measured_and_taken_down(kubernetes: Kubernetes) -> None:
    """60 s: packages are installed over exec, an sshd of the user connects the pods."""
    quick = ("--metrics", "latency", "--sizes", "8", "--iterations", "100")
    medians = {}
    for network in ("pod", "host"):
        command("up", "mine", *UP, "--option", f"network={network}")
        run = answer("bench", "p2p", "mine", *quick)
        assert run["status"] == "done"
        medians[network] = run
        output = command("down", "mine").stdout
        assert "0 left" in output
    assert kubernetes.pods() == []


@pytest.mark.timed
def test_pod_network_against_host_network_on_the_same_nodes(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """60 s: the founding question, by addresses of connections and counters of interfaces."""
    assert isinstance(kubernetes.runtime, LabPods)
    before = sum(map(kubernetes.runtime.sent, kubernetes.runtime.nodes()))
    monkeypatch.setattr("cluster.orchestration.ab_test.ENOUGH_LAUNCHES", 1)
    spec = make_spec("mine", {"provider": "kubernetes", "options": {"image": IMAGE}})
    params: dict[str, Any] = {"metrics": ["bandwidth"], "sizes": ["1MiB"], "iterations": 20}
    measure(spec, Request("p2p", params, BenchOptions(ab="network=pod,host", launches=1)))

    runs = list((tmp_path / "runs").glob("mine*/*p2p"))
    assert {_network(folder) for folder in runs} == {
        ("network=pod", "198.19"),
        ("network=host", "198.18"),
    }
    counts = {_network(folder)[0]: _add_traffic(folder) for folder in runs}
    pod, host = counts["network=pod"], counts["network=host"]
    assert "eth0" not in pod
    assert min(pod["vxlan0"], host["eth0"]) > 20 << 20
    assert host.get("vxlan0", 0) == 0
    link = sum(map(kubernetes.runtime.sent, kubernetes.runtime.nodes())) - before
    assert link > pod["vxlan0"] + host["eth0"]
    c = cluster.attach("mine")
    with pytest.raises(SpecError, match=r"network=pod.* host"):
        cluster.ab(c, "p2p", "network", ("host", "pod"), launches=1)
    compared = cluster.ab(c, "p2p", "network", ("pod", "host"), launches=1, **params)
    assert (compared.base, compared.other) == ("network=pod", "network=host")
    assert [cell.launches for cell in compared.cells if cell.is_common] == [(1, 1)]
    assert [row["name"] for row in answer("ls")] == ["mine", "nodes"]
    c.down()


@pytest.mark.timed
def test_the_table_of_calico_against_host_by_the_launcher(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """120 s: rates, efficiencies and ratio of 1 and 2 ranks, and what carried the gradients."""
    real_torch()
    kubernetes.kubelets.images[IMAGE] = Image(user=USER, folder=Path(sys.prefix))
    monkeypatch.setattr("cluster.orchestration.ab_test.ENOUGH_LAUNCHES", 1)
    tables: list[Table] = []
    launcher = run_path(str(ROOT / "launchers" / "train_scaling.py"))["train_scaling"]
    monkeypatch.setitem(launcher.__globals__, "show_tables", lambda new, _: tables.extend(new))
    how = {
        "option": [f"image={IMAGE}", "python=/mnt/bin/python3"],
        "ab": "network=pod,host",
        "launches": 1,
        "rounds": 2,
    }
    launcher(ranks="1,2", provider="kubernetes", **how)

    [table] = tables
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    pod, host = ([parse(row[f"network={kind}"]) for row in rows] for kind in ("pod", "host"))
    assert [row["ranks"] for row in rows] == ["1", "2"]
    for rates, kind in ((pod, "pod"), (host, "host")):
        efficiencies = [parse(row[f"network={kind} efficiency"]) for row in rows]
        assert efficiencies == pytest.approx([100, 50 * rates[1] / rates[0]], rel=0.01)
    ratios = [parse(row["ratio"]) for row in rows]
    assert ratios == pytest.approx([b / a for a, b in zip(pod, host, strict=True)], rel=0.01)
    assert {_network(folder) for folder in (tmp_path / "runs").glob("train-2*/*training")} == {
        ("network=pod", "198.19"),
        ("network=host", "198.18"),
    }


def parse(text: str) -> float:
    """Read a number before its unit."""
    return float(text.rstrip("%").split()[0].replace(",", ""))


@pytest.mark.timed
def test_the_node_of_a_slow_pod_is_cordoned_and_uncordoned(kubernetes: Kubernetes) -> None:
    """60 s: the link of a node is slow, and so are all tests of its pod.

    On a busy machine a check may be UNDECIDED, which cordons nothing.
    """
    assert isinstance(kubernetes.runtime, LabPods)
    command("up", "mine", *UP, "--hosts", "3")
    alter(cluster.attach("nodes").machines[1], "slow", "50mbit")
    check = ("check", "mine", "--cordon", "--at-most", "40%")
    verdict = until(
        lambda: (report := answer(*check, status=None))["replaced"] and report,
        "the check is sure",
    )
    (replaced,) = verdict["replaced"]
    [node] = [n for n in kubernetes.store.list(NODES, "") if n["spec"].get("unschedulable")]

    assert node["metadata"]["name"] == replaced["node"] == kubernetes.runtime.nodes()[1]
    assert [finding["part"] for finding in verdict["blamed"]] == [replaced["part"]]
    assert answer(*replaced["command"].split()[1:])["uncordoned"] == [replaced["node"]]
    assert not any(n["spec"].get("unschedulable") for n in kubernetes.store.list(NODES, ""))
    command("down", "mine")


def _network(folder: Path) -> tuple[str, str]:
    """Return a run's condition, and the network whose addresses its ranks were connected by."""
    [network] = {
        ".".join(connection.there.split(".")[:2])
        for process in rank_processes(folder / "raw")
        for connection in process.connections
    }
    return store.record(folder).condition, network


def _add_traffic(folder: Path) -> Counter[str]:
    """Add up what each interface of the ranks' hosts sent while they measured."""
    counts: Counter[str] = Counter()
    for process in rank_processes(folder / "raw"):
        counts.update(dict(process.sent))
    return counts


@pytest.mark.timed
def test_jobs_and_files_of_pods_and_a_run_whose_pod_is_evicted(
    kubernetes: Kubernetes, tmp_path: Path
) -> None:
    """60 s: the run says what Kubernetes says, and keeps the values that were measured."""
    command("up", "mine", *UP)
    c = cluster.attach("mine")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "file").write_text("sent\n")
    c.hosts.sync(tmp_path / "code", "code")
    job = c.start("cat code/file; sleep 300", name="reader")
    until(lambda: len(list(job.lines(follow=False))) == 2, "both pods print")
    assert {(line.host, line.text) for line in job.lines(follow=False)} == {
        ("0.mpi.mine", "sent"),
        ("1.mpi.mine", "sent"),
    }
    job.stop()
    c.hosts[1].write("kept", "note")
    c.hosts[1].get("note", tmp_path)
    assert (tmp_path / "note").read_text() == "kept"

    def evict() -> None:
        until(lambda: "bench-p2p" in cluster.attach("mine").jobs, "it begins")
        job = cluster.attach("mine").jobs["bench-p2p"]
        until(lambda: "running" in str(job.states()["0.mpi.mine"]), "it runs")
        kubernetes.evict(kubernetes.pods()[1]["metadata"]["name"])

    evicting = start(evict)
    with pytest.raises(cluster.ClusterError) as failed:
        c.bench.p2p(metrics=["latency"], sizes="8:64MiB", iterations=99999, timeout=60)
    evicting.result()
    [folder] = (tmp_path / "runs").glob("mine*/*p2p")
    record = store.record(folder)
    assert record.status == "failed"  # the files of the lost pod are missing
    assert "1.mpi.mine ended: Evicted: The node was low on resource: memory." in record.reason
    assert record.reason in str(failed.value)
    c.down()
