"""Groups, set-up and launch files on this machine: what is there is used again."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.core.errors import JobError, SpecError
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.launch_file import launch_file, read_launch_file
from tests.background import Background
from tests.conftest import ROOT, answer, command, until
from tests.snapshots import Snapshot

EXAMPLE = ROOT / "examples" / "parameter_servers.toml"


@pytest.mark.usefixtures("tools")
def test_groups_are_selected_and_set_up_once_for_each_content(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    groups: dict[str, Any] = {"ps": 1, "worker": {"hosts": 2}}
    with cluster.launch("two", groups=groups, setup="echo ran >> marks") as c:
        assert c.hosts["worker"].names == ("1.worker.two", "2.worker.two")
        assert cluster.launch("two", groups=groups, setup="echo ran >> marks").spec == c.spec
        assert [host.read("marks") for host in c.hosts] == ["ran\n"] * 3
        assert c.setup("echo more >> marks", hosts="ps") == ("0.ps.two",)
        assert c.hosts[0].read("marks") == "ran\nmore\n"
        job = c.start("echo $CLUSTER_GROUP $CLUSTER_IPS_PS", hosts="worker")
        job.wait()
        assert {line.text for line in job.lines()} == {"worker 127.0.0.1"}
        with snapshot.raises(JobError) as no:
            c.setup("echo before\nexit 3", hosts=c.hosts[0])
        assert no.value.stdout == "before"
        with snapshot.raises(SpecError):
            c.start("true", hosts="wrker")
    with pytest.raises(JobError):
        cluster.launch("new", hosts=1, setup="false")
    assert answer("ls") == []
    with pytest.raises(JobError):
        cluster.launch("new", groups={"ps": cluster.Group(hosts=1)}, setup="false", keep=True)
    with attach("new") as handle:
        assert handle.hosts.names == ("0.ps.new",)
    script = tmp_path / "setup.sh"
    script.write_text("false")
    command("up", "new", "--hosts", "1", "--setup", str(script), "--keep", status=1)
    assert [row["name"] for row in answer("ls")] == ["new"]
    command("down", "new")


@pytest.mark.usefixtures("tools")
def test_a_launch_file_is_launched_once_and_then_found_as_it_is() -> None:
    plan = json.loads(command("launch", str(EXAMPLE), "--dry-run", "--json").stdout)
    assert answer("ls") == []
    assert "work" in plan["steps"][-1]
    first = json.loads(command("launch", str(EXAMPLE), "--json").stdout)
    again = json.loads(command("launch", str(EXAMPLE), "--json").stdout)
    starts = [[job["at"] for job in record["jobs"]][:2] for record in (first, again)]
    assert starts[0] == starts[1]
    c = attach("fit")
    c.jobs["work"].wait(120)
    assert {line.text for line in c.jobs["work"].lines()} == {
        f"worker {rank} ends near [ 3. -2.]" for rank in range(3)
    }
    other = EXAMPLE.parent / "other.toml"
    text = EXAMPLE.read_text().replace("serve 0", "serve 7")
    try:
        other.write_text(text)
        with pytest.raises(SpecError, match="'first'"):
            launch_file(other)
    finally:
        other.unlink()
    assert attach("fit").jobs["first"].state == "running"  # it was left as it is
    c.down()


ONCE = """
name = "once"
groups = {ps = 1, worker = 2}
fetch = {"worker:work" = "results"}
down = "when done"

[jobs.serve]
command = "exec python3 -m http.server 48771 --bind 127.0.0.1"
on = "ps"

[jobs.work]
command = "mkdir work; echo $CLUSTER_NODE_RANK > work/rank; exit $CLUSTER_NODE_RANK"
on = "worker"
after = "serve:48771"
restarts = 1
"""


@pytest.mark.usefixtures("tools")
def test_a_file_that_is_fetched_and_ended_leaves_its_results_and_nothing_else(
    snapshot: Snapshot,
    tmp_path: Path,
) -> None:
    """Also if a task failed, which is the error; a server is not waited for."""
    path = tmp_path / "once.toml"
    path.write_text(ONCE)
    steps = read_launch_file(path).steps()
    result = command("launch", str(path), status=1)

    assert [step.kind for step in steps] == ["job", "job", "wait", "fetch", "down"]
    snapshot(result.stderr)
    ranks = {f.parent.name: f.read_text() for f in (tmp_path / "results").glob("*/rank")}
    assert ranks == {"1.worker.once": "0\n", "2.worker.once": "1\n"}
    assert answer("ls") == []


@pytest.mark.usefixtures("tools")
def test_hosts_whose_set_up_fails_stay_only_if_that_is_said(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """What is fixed runs on them once, and not again."""
    path = tmp_path / "kept.toml"
    path.write_text('name = "kept"\nhosts = 2\nsetup = "echo why >&2; test -e fixed"\n')
    failed = command("launch", str(path), status=1)
    snapshot(failed.stderr)
    assert answer("ls") == []
    command("launch", str(path), "--keep", status=1)
    command("run", "kept", "--", "touch fixed")

    snapshot(command("launch", str(path)).stderr)
    snapshot(command("launch", str(path)).stderr)
    command("down", "kept")


def test_ctrl_c_while_a_job_waits_for_another_leaves_the_cluster_up(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(
        'name = "two"\n[jobs]\nfirst = "sleep 300"\nsecond = {command = "true", after = "first"}\n'
    )

    def states() -> dict[str, str]:
        return {row["name"]: row["state"] for row in answer("status", "two")}

    with Background("launch", str(path)) as launching:
        until(lambda: "two" in {row["name"] for row in answer("ls")}, "the hosts")
        until(lambda: states() == {"first": "running"}, "the first job")
        os.killpg(launching.process.pid, signal.SIGINT)
        status, output = launching.end()

    assert status == 130
    assert "cluster down two" in output
    assert states() == {"first": "running"}
    command("down", "two")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("name = mine", "is not TOML: Invalid value (at line 1, column 8)", "in quotes"),
        ("hosts = 2", "has no name", 'name = "mine"'),
        ('name = "a"\nhots = 2', "There is no key 'hots' of a.toml", "Did you mean 'hosts'?"),
        ('name = "a"\n[jobs.x]\ncmd = "y"', "The job 'x' has no command", "command ="),
        (
            'name = "a"\n[jobs.x]\ncommand = "y"\ncwdd = "z"',
            "no key 'cwdd' of the job 'x'",
            "Did you mean 'cwd'?",
        ),
        ('name = "a"\n[jobs.x]\ncommand = "y"\non = "ps"', "'ps' names none of the 2", "0.mpi.a"),
        ('name = "a"\n[jobs.x]\ncommand = "y"\nafter = "z"', "which is no job above it", "ps:2222"),
        ('name = "a"\ndown = "now"', "down", "when done"),
        ('name = "a"\n[fetch]\n"ps:x" = "y"', "'ps' names none of the 2", "0.mpi.a"),
        ('name = "a"\n[jobs."a b"]\ncommand = "y"', "'a b' cannot be the name of a job", "digit"),
        ('name = "a"\n[jobs.x]\ncommand = ""', "The job 'x': There is no command", ""),
        ('name = "a"\n[jobs.x]\ncommand = "y"\ntimeout = -1', "The job 'x': timeout is -1", ""),
        ('name = "a"\n[jobs]\nx = "y"\nz = {command = "w", after = "x:99999"}', "no job above", ""),
        ('name = "a"\njobs = 3', "jobs is 3; it must be a table", ""),
        ('name = "a"\n[files]\n"no" = "x"', "no is not a folder", ""),
        ('name = "a"\nsetup = "no.sh"', "no.sh cannot be read: No such file", ""),
        ('name = "a"\n[groups.ps]\nhost = 2', "no option 'host' of the group 'ps'", "'hosts'"),
        ('name = "a"\nhosts = 3\n[groups]\nps = 2', "hosts is 3, but the groups have 2", ""),
        ('name = "a"\n[groups]\n"0" = 2', "'0' cannot be the name of a group", "worker"),
    ],
)
def test_what_is_wrong_in_a_launch_file_is_named(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as wrong:
        read_launch_file(path)
    assert message in str(wrong.value)
    assert hint in str(wrong.value)
