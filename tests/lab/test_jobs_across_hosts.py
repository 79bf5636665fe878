"""Jobs on several real hosts, and the ways by which people get there."""

import shutil
from pathlib import Path

import msgspec
import pytest

import cluster
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.proximity import judge_placement
from cluster.runs import store
from tests.conftest import answer, command, launcher, run, runs_folder
from tests.lab.conftest import must

SHARED = ("--provider=lab", "shared", "--option=rate=1gbit")


@pytest.mark.usefixtures("own_labs")
def test_the_founding_launcher_on_four_hosts() -> None:
    """The lines of old, and a rank on each host."""
    words = ("--provider", "lab", "--option", "rate=1gbit", "--num-machines", "4")
    text = launcher(*words, "--data-mb=2", "--iters=12").stdout
    newest = store.read(store.find(runs_folder(), "latest"))

    assert "Job ready for connection, to connect to most recent task, run the following:\n" in text
    assert "Task internal IPs\n198.18." in text
    assert "Process 1 transferred 2 MB in " in text
    assert newest.status == "done"
    assert {fact.host for fact in newest.record.environment} == {f"mpi_test-{n}" for n in range(4)}
    assert "; 0 left" in command("down", "mpi_test").stdout


@pytest.mark.usefixtures("own_labs", "faulty")
def test_two_ranks_on_each_host() -> None:
    result = answer("bench", "faulty", "two", "--provider=lab", "--ranks-per-host=2")
    hosts = {
        m.rank: m.host for m in store.read(store.find(runs_folder(), result["run"])).measurements
    }

    assert hosts == {0: "two-0", 1: "two-0", 2: "two-1", 3: "two-1"}
    command("down", "two")


@pytest.mark.usefixtures("own_labs", "faulty")
def test_ranks_follow_the_placement() -> None:
    """All of them are equally near here, so that the order is written by hand."""
    with cluster.launch("four", provider="lab", hosts=4) as four:
        judge_placement(four.bench("pairs", metric="latency", rounds=0, alone=0, milliseconds=20))
        [folder] = [path for path in store.folders(runs_folder()) if store.placement(path)]
        placement = store.placement(folder)
        assert placement is not None
        store.write_placement(folder, msgspec.structs.replace(placement, order=(0, 2, 3, 1)))
        near = four.bench("faulty", order="near")

    hosts = {m.rank: m.host for m in near.measurements}
    assert hosts == {0: "four-0", 1: "four-2", 2: "four-3", 3: "four-1"}
    assert [fact.host for fact in near.record.environment] == list(hosts.values())


@pytest.mark.usefixtures("faulty")
def test_the_exit_status_of_a_job_comes_home(lab: Cluster) -> None:
    command("bench", "faulty", *SHARED, "--how=raise", "--detach")
    command("wait", lab.name, status=1)

    assert answer("status", lab.name)[-1]["exit_status"] == 1
    assert "rank 1 had enough" in command("fetch", lab.name, status=1).stderr
    command("bench", "faulty", *SHARED, "--detach")
    command("wait", lab.name)
    command("fetch", lab.name)
    assert answer("status", lab.name)[-1]["exit_status"] == 0


@pytest.mark.usefixtures("faulty")
def test_ssh_gets_there_by_the_printed_settings_and_commands(lab: Cluster, home: Path) -> None:
    """OpenSSH's own client, with nothing in ~/.ssh."""
    command("bench", "faulty", *SHARED)
    (home / "conf").write_text(command("ls", lab.name, "--ssh-config").stdout)
    for number in (0, 1):
        result = run("ssh", "-F", str(home / "conf"), f"{number}.mpi.shared", "hostname")
        assert (result.stdout, result.stderr) == (f"shared-{number}\n", "")

    for fragment in ("1.mpi.shared", lab.machines[1].address, "shared-1"):
        line = command("connect", "--print", fragment).stdout.strip()
        assert run("sh", "-c", f"{line} hostname").stdout == "shared-1\n"
    to_job = command("connect", "--print", lab.name).stdout
    assert "tmux attach-session -t =shared" in to_job
    assert must(lab, 0, "tmux list-sessions -F '#{session_name}'") == "shared\n"


@pytest.mark.usefixtures("own_labs")
def test_the_open_mpi_of_the_distribution() -> None:
    """Version 4: its mpirun starts the ranks, and mpi4py uses its library."""
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("no mpirun of the distribution: apt-get install openmpi-bin")
    with cluster.launch("debian", provider="lab", options={"mpi": "/usr"}) as c:
        result = c.bench("p2p", metrics=["latency"], sizes="8", iterations=20)
        facts = c.facts

    assert result.status == "done"
    assert all(" 4." in str(fact.mpi) for fact in facts)
    assert not any("openmpi" in fact.libraries for fact in facts)
