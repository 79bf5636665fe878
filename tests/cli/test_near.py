"""`cluster check --near`: on simulated hosts, and on this machine with real connections."""

import json
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.core.model.network.placement import NetworkLayer, ProviderTopology
from cluster.orchestration.cluster import attach
from cluster.orchestration.fleet_check import judge_fleet
from cluster.orchestration.launch.launch import launch
from cluster.orchestration.proximity import judge_placement, placed_groups
from cluster.providers.sim import SimProvider
from cluster.runs import store
from tests.conftest import answer, command
from tests.snapshots import Snapshot

FABRIC = ("--provider", "sim", "--option", "fabric=leafspine:4x4")


def test_the_leaves_of_a_fabric_are_found_and_used_by_check(home: Path, snapshot: Snapshot) -> None:
    command("up", "big", *FABRIC)
    record = answer("check", "--near", "big")
    output = command("check", "--near", "--from", "latest").stdout
    command("check", "big", "--groups", "placement")
    checked = store.read(store.find(store.root(), "latest"))

    assert record["groups"] == [leaf for leaf in range(4) for _ in range(4)]
    assert (record["agreement"], record["disagreements"], record["simulated"]) == (1.0, [], True)
    assert (record["pairs"], record["untested"]) == (120, 0)
    assert record["near"] * 1.04 < record["far"]
    assert json.loads((Path(record["run"]) / "placement.json").read_text()) == record
    snapshot(output)
    snapshot(output.splitlines()[-1])
    assert judge_fleet(checked).groups == tuple(record["groups"])


def test_hosts_below_one_switch_have_no_structure(home: Path, snapshot: Snapshot) -> None:
    command("up", "flat", "--provider", "sim", "--option", "fabric=leafspine:1x16")
    snapshot(command("check", "--near", "flat").stdout.splitlines()[-1])
    snapshot(command("check", "flat", "--groups", "placement", status=2).stderr)


def test_a_provider_that_says_otherwise_is_contradicted(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with launch("big", provider="sim", hosts=16, options={"fabric": "leafspine:4x4"}) as cluster:
        run = cluster.bench("pairs", metric="latency", rounds=0, alone=0)
    wrong = (1, *([0] * 3), 0, *([1] * 3), *([2] * 4), *([3] * 4))  # hosts 0 and 4 changed places
    topology = ProviderTopology(layers=(NetworkLayer(name="leaf switch", groups=wrong),))
    monkeypatch.setattr(SimProvider, "topology", lambda *_: topology)
    placement = judge_placement(run)

    assert placement.agreement == pytest.approx(1 - 12 / 120)
    assert len(placement.disagreements) == 10
    snapshot(placement.disagreements[0])
    snapshot(placement.answer)


def test_an_interrupted_run_says_how_many_pairs_are_missing(home: Path) -> None:
    with launch("big", provider="sim", hosts=16, options={"fabric": "leafspine:4x4"}) as cluster:
        run = cluster.bench("pairs", metric="latency", rounds=0, alone=0)
    half = msgspec.structs.replace(run, measurements=run.measurements[:160])
    placement = judge_placement(half)

    assert 0 < placement.untested < 120
    assert placement.pairs + placement.untested == 120
    assert bool(placement.groups) != bool(placement.reason)


def test_a_run_without_latencies_is_refused(home: Path, snapshot: Snapshot) -> None:
    command("up", "big", *FABRIC)
    command("check", "big")
    failed = command("check", "--near", "--from", "latest", status=2).stderr
    snapshot(failed)
    with snapshot.raises(SpecError):
        placed_groups(store.root(), attach("big").state)


def test_a_damaged_placement_is_none(home: Path, snapshot: Snapshot) -> None:
    command("up", "big", *FABRIC)
    folder = Path(answer("check", "--near", "big")["run"])
    (folder / store.PLACEMENT).write_text("{")
    with snapshot.raises(SpecError):
        placed_groups(store.root(), attach("big").state)


def test_processes_of_this_machine(home: Path) -> None:
    """Real connections: nothing is claimed of four processes that share one machine."""
    placement = answer(
        "check", "--near", "here", "--provider", "local", "--hosts", "4", "--milliseconds", "20"
    )
    assert placement["pairs"] == 6
    assert not placement["simulated"]
    assert placement["groups"] == []
    assert placement["reason"]


def test_the_layers_of_a_fat_tree_are_compared_one_by_one(home: Path) -> None:
    command("up", "tree", "--provider", "sim", "--option", "fabric=fattree:8")
    record = answer("check", "--near", "tree")
    rows = record["topology"]["layers"]

    assert [(row["name"], max(row["groups"])) for row in rows] == [("leaf switch", 31), ("pod", 7)]
    assert [row["agreement"] for row in rows] == [1.0, 1.0]
    assert (record["layer"], len(record["layers"])) == ("leaf switch", 2)


def test_only_who_asks_for_the_providers_groups_is_told_that_there_are_none(
    home: Path, snapshot: Snapshot
) -> None:
    options = ("--provider", "local", "--hosts", "3", "--milliseconds", "20")
    refused = command("check", "here", *options, "--groups", "topology", status=2).stderr
    snapshot(refused)
    command("check", "here", *options)
