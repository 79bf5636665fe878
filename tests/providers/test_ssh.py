"""Your own machines over SSH, from the command to a measured run: a real sshd on loopback."""

import json
import sys
from pathlib import Path

import pytest

import cluster
from cluster.core.model.hosts import Access
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from cluster.providers.ssh import SshProvider
from tests.conftest import answer, command, run, sessions
from tests.contracts.sshd import Sshd, befriend, sshd
from tests.snapshots import Snapshot

__all__ = ["sshd"]
BIN = str(Path(sys.executable).parent)


def access_of(**options: str) -> list[Access | None]:
    spec = ClusterSpec(name="x", provider="ssh", hosts=1, options=options)
    provider = SshProvider()
    spec = ClusterSpec(
        name="x", provider="ssh", hosts=provider.default_hosts(options), options=options
    )
    provider.plan(spec)
    return [machine.access for machine in provider.create(spec, journal.for_cluster("x"))]


def test_names_users_and_ports() -> None:
    assert access_of(hosts="h1, alice@h2,bob@h3:2222,h4:22") == [
        Access(host="h1"),
        Access(host="h2", user="alice"),
        Access(host="h3", user="bob", port=2222),
        Access(host="h4", port=22),
    ]


def test_an_inventory_file(home: Path) -> None:
    (home / "inventory").write_text("# mine\nh1\n\nalice@h2:2222  # the fast one\n")

    assert access_of(inventory=str(home / "inventory")) == [
        Access(host="h1"),
        Access(host="h2", user="alice", port=2222),
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "needs the names of your machines"),
        (["--option", "hosts=h1,"], "'' is not a machine"),
        (["--option", "hosts=-oProxyCommand=x"], "'-oProxyCommand=x' is not a machine"),
        (["--option", "hosts=h1:0"], "'h1:0' is not a machine"),
        (["--option", "hosts=h1:ssh"], "'h1:ssh' is not a machine"),
        (["--option", "hosts=h1:70000"], "'h1:70000' is not a machine"),
        (["--option", "inventory=nothing"], "The inventory nothing cannot be read"),
        (["--option", "hosts=h1", "--hosts", "2"], "--hosts is 2, but 1 are named"),
        (["--option", "hosts=h1", "--placement"], "it uses the hosts that you name"),
        (["--option", "hosts=h1", "--option", "trust=blindly"], "There are: known, first-use"),
        (["--option", "host=h1"], "There are: source, mpi, image, python, hosts, inventory, "),
    ],
)
def test_refusals(words: list[str], text: str) -> None:
    assert text in command("up", "mine", "--provider", "ssh", *words, status=2).stderr
    assert answer("ls") == []


def test_an_unknown_host_is_refused_until_it_is_trusted(sshd: Sshd, home: Path) -> None:
    """Then its key is pinned for this cluster, and a changed one is refused."""
    words = ["up", "mine", "--provider", "ssh", "--option", f"hosts={befriend(sshd, home)}"]
    refused = command(*words, status=1).stderr
    assert "SHA256:" in refused
    assert "--option trust=first-use" in refused
    assert answer("ls") == []

    command(*words, "--option", "trust=first-use")
    pinned = state_folder() / "mine" / "known_hosts"
    assert pinned.read_text().split()[:2] == [f"[127.0.0.1]:{sshd.port}", "ssh-ed25519"]
    assert command("run", "mine", "--", "echo", "hello").stdout == "0.mpi.mine: hello\n"
    assert not (home.parent / ".ssh" / "known_hosts").exists()

    (sshd.folder / "other").replace(sshd.folder / "host")
    sshd.stop()
    sshd.start()
    assert "ssh-keygen -R" in command("run", "mine", "--", "true", status=1).stderr
    command("down", "mine", status=1)


@pytest.fixture
def cluster_name(sshd: Sshd, home: Path) -> str:
    """A cluster of two names for the same host."""
    friend = befriend(sshd, home)
    with (home.parent / ".ssh" / "config").open("a") as config:
        config.write(f"Host twin\n HostName 127.0.0.1\n Port {sshd.port}\n")
    option = f"hosts={friend},twin"
    command("up", "mine", "--provider=ssh", "--option", option, "--option", "trust=first-use")
    return "mine"


def test_a_command_runs_on_all_hosts(snapshot: Snapshot, cluster_name: str) -> None:
    """Each line is prefixed, each host has its status, and the first failure is ours."""
    result = command("run", cluster_name, "--", "sh", "-c", "echo one; echo 'tw o'; echo err >&2")
    lines = sorted(result.stdout.splitlines())
    assert lines == [f"{n}.mpi.mine: {word}" for n in (0, 1) for word in ("one", "tw o")]
    assert sorted(result.stderr.splitlines()) == ["0.mpi.mine: err", "1.mpi.mine: err"]

    failed = command("run", cluster_name, "--", "sh", "-c", "exit 3", status=3)
    snapshot(failed.stderr)
    rows = json.loads(command("run", cluster_name, "--json", "--", "printf", "%s", "a b").stdout)
    assert rows == [
        {"host": f"{n}.mpi.mine", "status": 0, "stdout": "a b", "stderr": "", "error": ""}
        for n in (0, 1)
    ]


def test_files_go_there_and_come_home(cluster_name: str, home: Path) -> None:
    folder = home / "a folder"
    folder.mkdir()
    (folder / "file").write_text("content")
    command("put", cluster_name, str(folder), str(home / "there"))
    command("get", cluster_name, str(home / "there"), "back")

    command("put", cluster_name, str(folder / "file"), f"{home}/there/")
    assert sorted(path.name for path in (home / "there").iterdir()) == ["file"]
    command("put", cluster_name, str(folder), f"{home}/there/")
    assert (home / "there" / "a folder" / "file").read_text() == "content"
    assert (home / "back" / "0.mpi.mine" / "file").read_text() == "content"
    assert (home / "back" / "1.mpi.mine" / "file").read_text() == "content"
    failed = command("get", cluster_name, "/no/such", "back", status=1).stderr
    assert all(f"/no/such of {host} " in failed for host in ("127.0.0.1", "twin"))


def test_hosts_as_a_table_as_json_and_for_ssh(cluster_name: str, sshd: Sshd, home: Path) -> None:
    assert [row["id"] for row in answer("ls", cluster_name)] == ["127.0.0.1", "twin"]
    assert "0.mpi.mine" in command("ls", cluster_name).stdout
    blocks = command("ls", cluster_name, "--ssh-config").stdout
    (home / "conf").write_text(f"IdentityFile {sshd.folder / 'user'}\n" + blocks)
    result = run("ssh", "-F", str(home / "conf"), "0.mpi.mine", "echo hello")

    assert result.stdout == "hello\n"
    assert command("connect", "mine").stdout.startswith("ssh -t -l ")


def test_a_host_that_is_gone_is_named_and_the_others_results_survive(
    snapshot: Snapshot, sshd: Sshd, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.providers.READY_WITHIN", 2.5)
    hosts = f"{befriend(sshd, home)},nobody@127.0.0.1:1"
    options = {"hosts": hosts, "trust": "first-use"}
    with snapshot.raises(cluster.Timeout):
        cluster.launch("mine", provider="ssh", options=options)

    assert journal.names() == ()


@pytest.mark.usefixtures("tools")
def test_a_measured_run_over_ssh(sshd: Sshd, home: Path) -> None:
    """The same benchmark, session and run folder as on this machine; down leaves nothing."""
    words = ["--provider=ssh", "--hosts=1", "--ranks-per-host=2", f"--option=bin={BIN}"]
    option = [f"--option=hosts={befriend(sshd, home)}", "--option=trust=first-use"]
    report = answer(
        *("bench", "p2p", "far", *words, *option),
        *("--metrics=latency", "--sizes=8", "--iters=500"),
    )

    assert report["status"] == "done"
    assert report["summaries"][0]["n"] == 500
    assert sessions() == ["far"]
    assert (Path(report["run"]) / "raw" / "stdout").read_text().startswith("Process 0 latency")
    assert answer("status", "far")[-1]["state"] == "done"
    command("down", "far")
    assert sessions() == []
    record = json.loads((Path(report["run"]) / "run.json").read_text())
    assert not Path(record["environment"][0]["home"], ".cluster-far").exists()


def test_two_names_of_one_machine_are_not_two_hosts(cluster_name: str) -> None:
    """Said before anything is started."""
    with pytest.raises(cluster.SpecError, match=r"0\.mpi\.mine and 1\.mpi\.mine"):
        cluster.attach(cluster_name).bench("p2p")
