"""`up --prove`, `launch(prove=...)` and the key of a launch file, on simulated hosts."""

from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.core.errors import ProvisionError, SpecError
from cluster.core.state import journal
from tests.conftest import answer, command
from tests.snapshots import Snapshot

SIM = ("--provider", "sim", "--option", "fabric=leafspine:4x4")
FABRIC = {"fabric": "leafspine:4x4"}

pytestmark = pytest.mark.usefixtures("home")


def test_hosts_are_proven_before_they_are_shown() -> None:
    result = command("up", "good", *SIM, "--prove", "5min")
    state = cluster.attach("good").state

    assert "PROVEN: good: 16 hosts " in result.stderr
    assert state.proven is not None
    assert (state.proven.hosts, state.proven.replaced) == (16, 0)


def test_a_receipt_says_how_many_were_proven_also_where_hosts_cost_nothing() -> None:
    for name in ("lines", "json"):
        c = cluster.launch(name, provider="sim", hosts=16, options=FABRIC, prove="5min")
        receipt = c.receipt()
        assert receipt is not None
        assert (receipt.proven, receipt.dollars, receipt.final) == (16, 0.0, False)
        assert answer("ls")[0]["dollars"] is None
        if name == "lines":
            proven, down = command("down", name, "--yes").stdout.splitlines()
            assert ("16" in proven, down.startswith("lines is down; 0 left")) == (True, True)
    [row] = answer("down", "json", "--yes")
    assert (row["receipt"]["proven"], row["receipt"]["final"]) == (16, True)


def test_a_bad_host_is_replaced_and_the_others_stay() -> None:
    """The new machine of `sim` has no fault."""
    c = cluster.launch(
        "mended", provider="sim", options={**FABRIC, "fault": "host:7:rx=0.4"}, prove=300.0
    )

    assert [machine.id for machine in c.machines if "new" in machine.id] == ["sim-7-new1"]
    assert c.state.proven is not None
    assert (c.state.proven.hosts, c.state.proven.replaced) == (16, 1)
    assert answer("check", "mended")["verdict"] == "HEALTHY"


def test_a_launch_that_is_not_proven_fails_and_leaves_nothing() -> None:
    """A slow leaf switch is not replaced by new hosts."""
    options = {**FABRIC, "fault": "leaf:1=0.4"}
    with pytest.raises(ProvisionError, match="BAD: dull: GROUP group:1"):
        cluster.launch("dull", provider="sim", options=options, prove="5min")

    assert "dull" not in journal.names()


def test_a_cluster_that_ran_before_stays_if_it_is_not_proven() -> None:
    flags = (*SIM, "--option", "fault=leaf:1=0.4")
    command("up", "dull", *flags)

    command("up", "dull", *flags, "--prove", "5min", status=1)
    assert "dull" in journal.names()


@pytest.mark.parametrize(
    ("machines", "remedy"),
    [
        (("--provider", "ssh", "--option", "hosts=h1,h2"), "20s,100gbit"),
        (("--provider", "sim", "--hosts", "1"), "--prove"),
        (("--provider", "local"), "--prove"),
    ],
)
def test_what_no_gate_can_prove_is_refused_before_anything_is_made(
    machines: tuple[str, ...], remedy: str
) -> None:
    for flags in ((), ("--plan",)):
        refused = command("up", "early", *machines, "--prove", "20s", *flags, status=2)
        assert remedy in refused.stderr.splitlines()[-1]
    assert "early" not in journal.names()


def test_the_rate_of_links_is_said_behind_the_time() -> None:
    """Simulated links of 100 Gbit/s are low for what is said to carry twice that."""
    command(
        "up",
        "known",
        "--provider",
        "ssh",
        "--option",
        "hosts=h1,h2",
        "--plan",
        "--prove",
        "9s,1gbit",
    )
    with pytest.raises(ProvisionError, match="BAD") as failed:
        cluster.launch("twice", provider="sim", options=FABRIC, prove="5min,200gbit")

    assert "cluster check" not in str(failed.value)  # it is gone
    assert "twice" not in journal.names()


def test_a_launch_file_is_launched_again_beside_its_job_and_says_what_became_of_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "again.toml"
    text = 'name = "again"\nprovider = "sim"\nprove = "{}"\n[options]\nfabric = "leafspine:4x4"\n'
    file.write_text(text.format("5min,200gbit"))
    assert "It was taken down." in command("launch", str(file), status=1).stderr
    assert "again" not in journal.names()
    assert "It stays up." in command("launch", str(file), "--keep", status=1).stderr
    assert "again" in journal.names()

    file.write_text(text.format("5min"))
    assert "PROVEN" in command("launch", str(file)).stderr
    assert "PROVEN" not in command("launch", str(file)).stderr


def test_a_launch_file_has_a_key_for_it(tmp_path: Path) -> None:
    file = tmp_path / "proven.toml"
    text = 'name = "filed"\nprovider = "sim"\nprove = "{}"\n[options]\nfabric = "leafspine:4x4"\n'
    file.write_text(text.format("5min"))
    plan = command("launch", str(file), "--dry-run").stdout
    result = command("launch", str(file))

    assert "300 s" in plan
    assert "PROVEN: filed: 16 hosts " in result.stderr

    file.write_text(text.format("soon"))
    assert "not a duration" in command("launch", str(file), status=2).stderr


@pytest.mark.parametrize("within", ["0", '"0s"', "-5", "nan"])
def test_a_key_that_is_no_time_is_refused(within: str, tmp_path: Path) -> None:
    file = tmp_path / "early.toml"
    file.write_text(f'name = "early"\nprovider = "sim"\nprove = {within}\n')

    command("launch", str(file), status=2)
    command("up", "early", *SIM, "--prove", "0s", status=2)
    with pytest.raises(SpecError):
        cluster.launch("early", provider="sim", options=FABRIC, prove=float(within.strip('"s')))
    assert "early" not in journal.names()


def test_a_time_that_is_none_is_refused_before_anything_is_created(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        cluster.launch("early", provider="sim", options=FABRIC, prove="soon")

    assert "early" not in journal.names()


@pytest.mark.parametrize("prove", [True, False, [60], b"60s", {"within": 60}])
def test_a_time_of_another_type_is_refused_before_anything_is_created(prove: Any) -> None:
    with pytest.raises(SpecError):
        cluster.launch("early", provider="sim", options=FABRIC, prove=prove)

    assert "early" not in journal.names()
