"""Jobs on this machine: several at once, what they know, how they end, and that none is left."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.core.errors import (
    ClusterError,
    HostErrors,
    InUse,
    JobError,
    ShellError,
    SpecError,
    Timeout,
)
from cluster.core.model.jobs import Task, TaskOutput, TaskState
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.jobs.job import Job, read_lines, worst
from tests.conftest import PATIENCE, answer, command, run, sessions, until
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("tools")


@pytest.fixture
def c() -> Iterator[Cluster]:
    with cluster.launch("jobs", provider="local", hosts=3) as handle:
        yield handle


def texts(job: Job) -> list[tuple[int, str, str]]:
    return sorted((line.rank, line.stream, line.text) for line in job.lines())


def alive(word: str) -> list[int]:
    """Find the processes whose command line has a word of its own."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            pids.append(int(path.parent.name))
    return pids


def supervisor(job: Job, rank: int = 0) -> int:
    return int(Path(job.record.tasks[rank].folder, "pid").read_text().split()[0])


def test_hosts_are_values_with_verbs(c: Cluster, tmp_path: Path) -> None:
    assert [host.name for host in c.hosts] == ["0.mpi.jobs", "1.mpi.jobs", "2.mpi.jobs"]
    assert c.hosts[1:].names == c.hosts["1:"].names == ("1.mpi.jobs", "2.mpi.jobs")
    assert c.hosts["0,2"].names == ("0.mpi.jobs", "2.mpi.jobs")
    assert c.hosts[0].ip == "127.0.0.1"
    c.hosts[0].write("zero\n", "own.txt")
    c.hosts[1:].write("other\n", "own.txt")
    assert [host.read("own.txt") for host in c.hosts] == ["zero\n", "other\n", "other\n"]
    assert c.hosts[1:].read("own.txt") == dict.fromkeys(c.hosts[1:].names, "other\n")
    assert not c.hosts[2].exists("nothing")
    c.hosts[0].write("", "one.txt")
    assert [*c.hosts.exists("one.txt").values()] == [True, False, False]
    with pytest.raises(HostErrors, match="2 of 3"):
        c.hosts.read("one.txt")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("x")
    c.put(tmp_path / "tree", "tree")
    assert c.hosts[2].run("cat tree/file").stdout == "x"
    assert (c.hosts[1].get("tree", tmp_path / "back") / "file").read_text() == "x"
    assert c.hosts[0].run(["printf", "%s", "a  'b'"], env={"A": "1"}).stdout == "a  'b'"
    assert (
        c.hosts[0].run("command -v python3").stdout.strip()
        == f"{Path(sys.executable).parent}/python3"
    )


def test_hosts_that_are_none_are_refused_by_each_verb(c: Cluster, tmp_path: Path) -> None:
    none, before = c.hosts[5:], set(c.jobs)
    verbs = (
        lambda: none.start("true", name="none"),
        lambda: c.start("true", hosts=none, name="none"),
        lambda: none.run("false"),
        lambda: none.put(tmp_path, "there"),
    )
    for verb in verbs:
        with pytest.raises(SpecError):
            verb()

    assert set(cluster.attach(c.name).jobs) == before


def test_one_host_is_brought_to_the_state_of_a_folder(c: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("sent")
    c.hosts[0].sync(tmp_path, "only")

    assert [host.exists("only/file") for host in c.hosts] == [True, False, False]


@pytest.mark.parametrize("selection", ["9", "", "x", "5:", "0,nobody", "-4", "--1", "²", "1:--2"])
def test_a_selection_that_names_no_host_is_refused(
    snapshot: Snapshot, c: Cluster, selection: str
) -> None:
    with snapshot.raises(SpecError):
        c.hosts[selection]


def test_a_command_that_fails_raises_one_error_that_lists_the_hosts(c: Cluster) -> None:
    with pytest.raises(HostErrors) as failed:
        c.run("echo out; echo why >&2; exit 7")

    errors = failed.value.exceptions
    assert [isinstance(error, JobError) and error.stderr for error in errors] == ["why"] * 3
    assert isinstance(failed.value, cluster.ClusterError)
    assert {result.status for result in c.run("exit 7", check=False).values()} == {7}


def test_what_a_line_leaves_in_the_background_is_not_waited_for(c: Cluster) -> None:
    start = time.monotonic()
    result = c.hosts[0].run("sleep 30.5 & echo started")

    assert result.stdout == "started\n"
    assert time.monotonic() - start < 20


def test_several_jobs_at_once_each_know_themselves(c: Cluster) -> None:
    line = "echo $CLUSTER_JOB $RANK/$WORLD_SIZE $LOCAL_RANK $CLUSTER_HEAD_IP $MASTER_PORT"
    jobs = [c.start(f"{line}; echo end >&2", name=name) for name in ("a", "b")]
    third = c.hosts[2].start(line, name="c", env={"CLUSTER_JOB": "own"})

    for port, job in enumerate(jobs, 29500):
        job.wait()
        assert texts(job) == [
            row
            for rank in range(3)
            for row in (
                (rank, "stderr", "end"),
                (rank, "stdout", f"{job.name} {rank}/3 0 127.0.0.1 {port}"),
            )
        ]
    third.wait()
    assert texts(third) == [(0, "stdout", "own 0/1 0 127.0.0.1 29502")]
    assert {name: job.state for name, job in c.jobs.items()} == {
        "a": "done",
        "b": "done",
        "c": "done",
    }
    folder = Path(third.record.folder)
    assert {path.name for path in folder.iterdir()} == {
        "2.mpi.jobs.output",
        "job.json",
        "states.json",
    }


def test_another_process_finds_a_job_follows_it_and_ends_it(c: Cluster) -> None:
    c.hosts[1:].start("echo there; sleep 300", name="long")
    program = """
import cluster
job = cluster.attach("jobs").jobs["long"]
print(job.state, job.command)
print(*(f"{line.host} {line.text}" for line in job.lines(follow=False)), sep="\\n")
job.stop()
print(job.state)
"""
    until(lambda: len(list(c.jobs["long"].lines(follow=False))) == 2, "both lines")
    lines = run(sys.executable, "-c", program).stdout.splitlines()

    assert lines[0] == "running echo there; sleep 300"
    assert sorted(lines[1:3]) == ["1.mpi.jobs there", "2.mpi.jobs there"]
    assert lines[3] == "stopped"
    assert c.jobs["long"].state == "stopped"


def test_the_same_job_is_given_back_and_another_of_its_name_refused(c: Cluster) -> None:
    first = c.start("sleep 300", name="same")

    assert c.start("sleep 300", name="same") is first
    with pytest.raises(SpecError, match="'same'"):
        c.start("sleep 301", name="same")
    with pytest.raises(SpecError, match="'same'"):
        c.hosts[0].start("sleep 300", name="same")
    first.stop()
    again = c.start("true", name="same")
    again.wait()
    assert again.record.folder != first.record.folder


def test_a_job_that_has_lost_a_host_and_goes_on_is_not_started_twice(c: Cluster) -> None:
    job = c.start("setsid -f sleep 9869.5; sleep 9870.5", name="partly", grace=0.2)
    until(lambda: len(alive("9869.5")) == 3, "its processes")
    pane = int(Path(f"/proc/{supervisor(job)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pane, signal.SIGKILL)
    os.kill(supervisor(job), signal.SIGKILL)
    until(lambda: job.state == "lost", "the loss")
    assert c.jobs.running() == {"partly": ("1.mpi.jobs", "2.mpi.jobs")}
    with pytest.raises(SpecError, match=r"'partly'.*\n.*on 1\.mpi\.jobs, 2\.mpi\.jobs"):
        c.start("setsid -f sleep 9869.5; sleep 9870.5", name="partly", grace=0.2)
    for number in (1, 2):
        os.kill(supervisor(job, number), signal.SIGKILL)
    until(lambda: c.jobs.running() == {}, "the loss of all")
    assert len(alive("9870.5")) >= 1  # of the first host, which nobody has ended yet
    c.start("true", name="partly").wait()

    assert alive("9869.5") == alive("9870.5") == []


@pytest.mark.parametrize("name", ["a.b", "a:b", "a b", "-a", "a'b", "ä", "x" * 41])
def test_a_name_that_tmux_or_a_shell_could_misread_is_refused(c: Cluster, name: str) -> None:
    with pytest.raises(SpecError, match=re.escape(name)):
        c.start("true", name=name)
    assert list(c.jobs) == []


@pytest.mark.parametrize("command", ["", "  ", []])
def test_an_empty_command_is_refused(
    snapshot: Snapshot, c: Cluster, command: str | list[str]
) -> None:
    with snapshot.raises(SpecError):
        c.start(command)


@pytest.mark.parametrize("verb", ["run", "start"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": "true\0"}, "cannot hold a NUL byte"),
        ({"command": "true", "env": {"A": "\0"}}, "cannot hold a NUL byte"),
        ({"command": "true", "env": {"A B": "1"}}, "'A B' cannot be the name of a variable"),
        ({"command": "true", "env": {"A=": "1"}}, "'A=' cannot be the name of a variable"),
        ({"command": "true", "cwd": "/no/such"}, "/no/such"),
        ({"command": "no-such-program"}, "no-such-program"),
        ({"command": "true", "timeout": -5}, "timeout is -5"),
        ({"command": "true", "timeout": float("nan")}, "timeout is nan"),
    ],
)
def test_what_no_host_can_run_is_refused(
    c: Cluster, verb: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClusterError) as refused:
        getattr(c.hosts[2], verb)(**options)
    assert message in str(refused.value)
    assert sessions() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": "echo \udcff"}, "not UTF-8"),
        ({"command": "true", "env": {"A": "\udcff"}}, "not UTF-8"),
        ({"command": "true", "restarts": -1}, "restarts is -1"),
        ({"command": "true", "grace": -0.5}, "grace is -0.5"),
        ({"command": "true", "hang_after": 0}, "hang_after is 0"),
    ],
)
def test_what_no_job_can_have_is_refused(c: Cluster, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        c.start(**options)
    assert list(c.jobs) == []


@pytest.mark.parametrize(
    "words",
    [
        ("--replace", "--", "true"),
        ("--busy", "--job", "j", "--", "true"),
        ("--restarts", "1", "--", "true"),
        ("--mpi", "--on", "0", "--", "true"),
        ("--mpi", "--detach", "--", "true"),
        ("--on", "", "--", "true"),
    ],
)
def test_an_option_without_effect_is_refused(c: Cluster, words: tuple[str, ...]) -> None:
    assert command("run", c.name, *words, status=2).stdout == ""
    assert list(c.jobs) == []


def test_the_newest_job_is_the_default_and_those_that_run_are_said(c: Cluster) -> None:
    """Of a job that has failed on one host, the tasks that go on; of a cluster, any that runs."""
    assert f"cluster run {c.name} --detach" in command("logs", c.name, status=2).stderr
    c.start("sleep 300", name="long")
    part = c.hosts[1:].start("test $RANK = 1 && echo here && exit 3; sleep 300", name="part")
    until(lambda: part.state == "failed", "its task fails")
    assert command("logs", c.name).stdout == "2.mpi.jobs: here\n"
    output = command("status", c.name).stdout
    assert "failed, 1 running" in output
    assert Path(command("fetch", c.name).stdout.strip(), "2.mpi.jobs.output").exists()
    part.stop()
    assert [row["status"] for row in answer("ls")] == ["running"]
    assert "cluster wait jobs long" in command("fetch", c.name, "long", status=2).stderr


def test_quotes_and_newlines_arrive_as_they_are(c: Cluster) -> None:
    word = 'it\'s "so"\n$HOME `x` \\ #{host};'
    job = c.hosts[0].start(
        ["python3", "-c", "import sys,os; print(repr((sys.argv[1], os.environ['V'])))", word],
        env={"V": word},
    )
    job.wait()

    assert texts(job) == [(0, "stdout", repr((word, word)))]


@pytest.mark.parametrize(
    ("command", "cwd", "reason"),
    [
        ("no-such-program -x", "", "no-such-program: command not found."),
        (["no-such-program"], "", "no-such-program: command not found."),
        ("true", "/no/such", "/no/such is no folder on this host."),
    ],
)
def test_a_job_that_cannot_be_started_says_so_at_once_and_leaves_none(
    c: Cluster, command: str | list[str], cwd: str, reason: str
) -> None:
    with pytest.raises(JobError) as failed:
        c.hosts[1].start(command, name="wrong", cwd=cwd)

    assert failed.value.what.startswith("1.mpi.jobs: ")
    assert failed.value.what.endswith(reason)
    assert c.jobs["wrong"].state == "failed"
    assert sessions() == []


def test_a_supervisor_that_cannot_run_is_quoted(c: Cluster) -> None:
    """Its session has the variables of a tmux server that somebody else started."""
    run("tmux", "new-session", "-d", "-s", "other", env={**os.environ, "PYTHONUTF8": "wrong"})
    with pytest.raises(JobError, match="PYTHONUTF8"):
        c.hosts[0].start("true", name="never")
    run("tmux", "kill-session", "-t", "other")


def test_a_program_that_itself_exits_as_if_it_were_missing_was_started(
    snapshot: Snapshot, c: Cluster
) -> None:
    job = c.hosts[0].start("exit 127", name="own")
    with snapshot.raises(JobError):
        job.wait()


def test_a_failed_task_is_named_with_its_status_and_last_lines(
    snapshot: Snapshot, c: Cluster
) -> None:
    job = c.start('echo "I am $CLUSTER_NODE_RANK"; test $CLUSTER_NODE_RANK != 1', name="one")
    with snapshot.raises(JobError) as failed:
        job.wait()

    assert failed.value.stdout == "I am 1"


def test_a_job_is_ended_at_its_timeout_and_a_wait_at_its_own(c: Cluster) -> None:
    job = c.hosts[0].start("sleep 300", name="late", timeout=0.5)
    with pytest.raises(JobError) as failed:
        job.wait()
    assert "0.5 s" in failed.value.means
    goes_on = c.hosts[0].start("sleep 300", name="goes-on")
    with pytest.raises(Timeout):
        goes_on.wait(timeout=0.1)
    assert goes_on.state == "running"


def test_a_stop_ends_the_whole_tree_also_daemons_and_what_ignores_sigterm(c: Cluster) -> None:
    line = "setsid -f sleep 9871.5; (trap '' TERM; sleep 9872.5; sleep 9873.5) & "
    line += "trap '' TERM; wait; sleep 9874.5"
    job = c.hosts[0].group.start(line, name="tree")
    until(lambda: alive("9871.5") and alive("9872.5"), "all processes")
    quick = c.start(line.replace("987", "986"), hosts=c.hosts[0], name="quick", grace=0.2)
    until(lambda: alive("9861.5") and alive("9862.5"), "all processes")
    quick.stop()

    assert [alive(f"986{n}.5") for n in (1, 2, 3, 4)] == [[], [], [], []]
    assert alive("9871.5")
    c.down()
    assert [alive(f"987{n}.5") for n in (1, 2, 3, 4)] == [[], [], [], []]
    assert job.record.name == "tree"


def test_what_a_command_leaves_behind_is_ended_with_it_and_named(c: Cluster) -> None:
    job = c.hosts[0].start("setsid -f sleep 9875.5; sleep 0.3; echo left", name="leaver")
    job.wait()
    end = job.states()["0.mpi.jobs"]

    assert alive("9875.5") == []
    assert isinstance(end, TaskState)
    assert end.end is not None
    assert "sleep (" in end.end.reason


def test_a_killed_tmux_server_ends_no_job(c: Cluster) -> None:
    job = c.hosts[0].start("echo before; sleep 1; echo after", name="survivor")
    until(lambda: list(job.lines(follow=False)), "its first line")
    run("tmux", "kill-server")
    job.wait()

    assert [line.text for line in job.lines()] == ["before", "after"]


def test_a_killed_supervisor_loses_the_job_and_leaves_no_process(c: Cluster) -> None:
    job = c.hosts[0].start("echo before; setsid -f sleep 9876.5; sleep 9877.5", name="orphan")
    until(lambda: alive("9876.5") and alive("9877.5"), "its processes")
    os.kill(supervisor(job), signal.SIGKILL)
    until(lambda: job.state == "lost" and not alive("9876.5") and not alive("9877.5"), "their end")

    with pytest.raises(JobError) as error:
        job.wait()
    assert error.value.stdout == "before"


def test_a_killed_supervisor_and_a_killed_tmux_server_are_found_by_down(c: Cluster) -> None:
    job = c.hosts[0].start("setsid -f sleep 9878.5; sleep 9879.5", name="both")
    until(lambda: alive("9878.5") and alive("9879.5"), "its processes")
    pane = int(Path(f"/proc/{supervisor(job)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pane, signal.SIGKILL)
    os.kill(supervisor(job), signal.SIGKILL)
    until(lambda: job.state == "lost", "the loss")
    assert alive("9878.5")
    c.down()

    assert alive("9878.5") == alive("9879.5") == []


def test_binary_output_and_a_long_line_arrive_in_bounded_memory(c: Cluster) -> None:
    program = "import sys; sys.stdout.buffer.write(b'\\xff\\x00\\n' + b'x' * (50 << 20)); "
    program += "print(); print('end')"
    job = c.hosts[0].start(["python3", "-c", program], name="bytes")
    job.wait()
    lines = list(job.lines())

    assert lines[0].text == "\ufffd\0"
    assert sum(len(line.text) for line in lines[1:-1]) == 50 << 20
    assert max(len(line.text) for line in lines) < 2 << 20
    assert not lines[1].whole
    assert lines[-1].text == "end"


def test_of_too_much_output_the_oldest_lines_go_and_that_is_said(c: Cluster) -> None:
    program = "for n in range(300_000): print('line', n)"
    job = c.hosts[2].start(["python3", "-c", program], name="much", most_output=1 << 20)
    job.wait()
    [task] = job.record.tasks
    parts = Path(task.folder).glob("output.*")
    assert sum(part.stat().st_size for part in parts) < 3 << 19
    lines = [*cluster.attach("jobs").jobs["much"].lines()]
    newest = [line.text for line in lines[1:]]

    assert lines[0].stream == "stderr"
    assert int(lines[0].text.split()[0]) > 7 << 20
    assert newest == [f"line {n}" for n in range(300_000 - len(newest), 300_000)]
    assert len(newest) > 20_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_loses_output_or_starts_nothing_and_that_is_said(c: Cluster) -> None:
    folder = Path(c.machines[0].folder, "jobs")
    folder.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder))
    try:
        (folder / "all").write_bytes(bytes(256 << 10))
        with pytest.raises(ShellError, match=rf"0\.mpi\.jobs: .*{os.strerror(errno.ENOSPC)}"):
            c.hosts[0].start("true", name="never")
        assert c.jobs["never"].state == "lost"
        (folder / "all").unlink()
        job = c.hosts[0].start("head -c 1000000 /dev/zero | tr '\\0' x; exit 3", name="full")
        with pytest.raises(JobError) as failed:
            job.wait()
        assert os.strerror(errno.ENOSPC) in failed.value.means
    finally:
        run("umount", "--lazy", str(folder))


def test_a_command_that_one_host_lacks_says_on_which_and_leaves_none(
    snapshot: Snapshot, c: Cluster
) -> None:
    c.hosts[:2].write("#!/bin/sh\nsleep 300\n", "work/own")
    c.hosts[:2].run("chmod +x work/own")
    c.hosts[2].run("mkdir work")
    with snapshot.raises(JobError):
        c.start("./own", cwd="work", name="partly")

    ends = c.jobs["partly"].states().values()
    assert [end.state for end in ends if isinstance(end, TaskState)] == [
        *("stopped", "stopped", "failed"),
    ]


def test_times_of_a_host_whose_clock_is_wrong_are_those_of_this_machine() -> None:
    now = time.time()
    task = Task(host="h", rank=0, folder="f", session="s")
    for wrong in (-3600.0, 3600.0):
        output = TaskOutput(text=f"{now - 5 + wrong:.6f} o words\n", end=9, now=now + wrong)
        (line,) = read_lines(output, task)
        assert line.at == pytest.approx(now - 5, abs=2)


def test_what_sleeps_uninterruptibly_outlives_a_stop_and_is_named(
    c: Cluster, tmp_path: Path
) -> None:
    """It writes to a file system that is frozen (fsfreeze(8)), which no signal interrupts."""
    image, folder = tmp_path / "image", tmp_path / "frozen"
    image.write_bytes(bytes(8 << 20))
    folder.mkdir()
    for words in (f"mkfs.ext4 -q {image}", f"mount -o loop {image} {folder}"):
        try:
            subprocess.run(words.split(), check=True, capture_output=True, timeout=PATIENCE)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no loop devices here, or not for this user")
    run("fsfreeze", "-f", str(folder))
    try:
        job = c.start(f"touch {folder}/file", hosts=c.hosts[0], name="held", grace=0.1)
        until(lambda: [pid for pid in alive(f"{folder}/file") if is_held(pid)], "it sleeps")
        job.stop()
        pids = [pid for pid in alive(f"{folder}/file") if is_held(pid)]
        (state,) = job.ended()
    finally:
        run("fsfreeze", "-u", str(folder))
        run("umount", "--lazy", str(folder))

    assert state.end is not None
    assert (state.state, pids) == ("stopped", pids[:1])
    assert f"touch ({pids[0]})" in state.end.reason


def is_held(pid: int) -> bool:
    """Whether it waits for the freeze: a process that is still being loaded sleeps like it."""
    return "percpu" in Path(f"/proc/{pid}/wchan").read_text()


def test_a_port_of_a_job_that_has_ended_and_one_in_use_are_refused(c: Cluster) -> None:
    server = c.hosts[0].start("python3 -m http.server 48767 --bind 127.0.0.1", name="server")
    server.wait_for_port(48767)
    with socket.create_server(("127.0.0.1", 48768)), pytest.raises(SpecError) as used:
        server.forward(48767, 48768)
    assert "48768" in used.value.what
    server.stop("Enough.")
    with pytest.raises(ShellError) as dead:
        server.forward(48767, 48769)
    assert dead.value.means.endswith("Enough.")


def test_waiting_for_a_port_and_a_file_ends_when_the_job_does(c: Cluster) -> None:
    server = c.hosts[0].start(
        "sleep 0.3; touch ready; exec python3 -m http.server 48765 --bind 127.0.0.1", name="server"
    )
    server.wait_for_port(48765)
    server.wait_for_file("ready")
    with pytest.raises(Timeout):
        server.wait_for_file("never", timeout=0.1)
    job = c.hosts[0].start("sleep 0.2; exit 3", name="ended")
    with pytest.raises(JobError) as failed:
        job.wait_for_port(48766)
    assert "3" in failed.value.what


def test_a_killed_client_leaves_a_job_that_goes_on_and_down_ends(tmp_path: Path) -> None:
    program = """
import cluster, os, signal
c = cluster.launch("killed", provider="local", hosts=2)
c.start("sleep 9880.5", name="on")
os.kill(os.getpid(), signal.SIGKILL)
"""
    run(sys.executable, "-c", program, status=-signal.SIGKILL)
    again = cluster.attach("killed")

    assert again.jobs["on"].state == "running"
    assert len(alive("9880.5")) >= 2
    again.down()
    assert alive("9880.5") == []


def test_the_commands_do_the_same(snapshot: Snapshot, c: Cluster) -> None:
    line = "echo $A; sleep 0.1; exit 3"
    words = ("--on", "1:", "--job", "w", "--env", "A=b c", "--detach", "--", line)
    snapshot(command("run", c.name, *words).stdout)
    output = command("logs", c.name, "w", "-f").stdout
    assert sorted(output.splitlines()) == ["1.mpi.jobs: b c", "2.mpi.jobs: b c"]
    assert command("wait", c.name, "w", status=3).stdout == ""
    (row,) = json.loads(command("status", c.name, "--json").stdout)
    assert (row["name"], row["state"], row["exit_status"]) == ("w", "failed", 3)
    assert [task["host"] for task in row["tasks"]] == ["1.mpi.jobs", "2.mpi.jobs"]
    command("run", c.name, "--detach", "--job", "s", "--", "sleep 300")
    attach = command("connect", c.name, "s", "2", "--print").stdout
    snapshot(attach)
    command("kill", c.name, "s")
    assert c.jobs["s"].state == "stopped"


def test_a_benchmark_beside_a_job_is_refused_or_ends_it_and_says_who(c: Cluster) -> None:
    job = c.start("sleep 300", name="train")
    with pytest.raises(InUse):
        c.bench("program", command="true")
    command("bench", "program", c.name, "--command=true", "--busy")
    rows = [row["state"] for row in json.loads(command("jobs", c.name, "--json").stdout)]
    assert rows == ["running", "done"]
    c.bench("program", command="true", replace=True)

    assert worst(job.states().values()) == "stopped"
    assert worst([*job.states().values(), ShellError("no answer")]) == "unreachable"
    reasons = {state.end.reason for state in job.ended() if state.end}
    assert len(reasons) == 1
    assert f"process {os.getpid()}" in reasons.pop()


@pytest.mark.usefixtures("faulty")
def test_benchmarks_and_jobs_are_one_table_and_take_the_same_verbs(c: Cluster) -> None:
    """Also from other processes; beside a job, a benchmark is measured if that is said."""
    train = c.start("echo on; sleep 300", name="train")
    busy = ("bench", "faulty", c.name, "--detach", "--how", "sleep")
    assert "--busy" in command(*busy, status=2).stderr
    command(*busy, "--busy")
    until(lambda: c.jobs["bench-faulty"].logs().count("ready") == 3, "all ranks are ready")
    rows = {row["name"]: (row["state"], len(row["tasks"])) for row in answer("status", c.name)}
    assert rows == {"train": ("running", 3), "bench-faulty": ("running", 3)}
    assert c.jobs.running().keys() == {"train", "bench-faulty"}
    assert command("logs", c.name, "bench-faulty").stdout == command("logs", c.name).stdout
    assert command("logs", c.name, "train", "--host", "1").stdout == "1.mpi.jobs: on\n"
    bench = c.jobs["bench-faulty"]
    with pytest.raises(Timeout):
        bench.wait(timeout=0.1)
    command("kill", c.name, "bench-faulty")
    assert c.jobs["bench-faulty"].state == "stopped"
    assert train.state == "running"
    with pytest.raises(JobError, match=r"process \d+, since 20.*bench-faulty"):
        bench.wait()
    (host, *_), (state, *_) = zip(*bench.states().items(), strict=True)
    assert (host, worst([state])) == ("0.mpi.jobs", "stopped")
    with pytest.raises(SpecError, match="bench-mine"):
        c.start("true", name="bench-mine")


def test_a_benchmark_that_goes_on_alone_is_waited_for_and_read_by_its_name(c: Cluster) -> None:
    c.bench("program", command="echo seen", detach=True)
    job = c.jobs["bench-program"]
    job.wait()

    assert [line.text for line in job.lines()] == ["seen"] * 3
    assert job.logs() == "seen\n" * 3
    assert (job.state, job.is_kept, job.fetch()) == ("done", True, Path(job.record.folder))
    c.bench("program", command="exit 3", detach=True)
    assert command("wait", c.name, "bench-program", status=3).stdout.endswith("bench-program\n")
    command("fetch", c.name, "bench-program", status=1)
    assert answer("status", c.name, "bench-program")[0]["exit_status"] == 3


def test_sixteen_hosts_that_print_much_keep_their_newest_lines() -> None:
    """20 MB each, at 10 MB/s where the machine can; a slower one holds the programs up."""
    program = (
        "import sys, time\n"
        "for number in range(20):\n"
        "    end = time.monotonic() + 0.1\n"
        "    sys.stdout.write(('%06d ' % number + 'x' * 92 + '\\n') * 10_000)\n"
        "    time.sleep(max(0.0, end - time.monotonic()))\n"
        "print('the last')\n"
    )
    with cluster.launch("many", provider="local", hosts=16) as c:
        job = c.start(["python3", "-c", program], name="much", most_output=1 << 20)
        job.wait()
        states = job.states()
        paths = {
            task.host: Path(job.record.folder, f"{task.host}.output") for task in job.record.tasks
        }

        assert len(states) == len(paths) == 16
        for host, path in paths.items():
            state = states[host]
            assert isinstance(state, TaskState)
            assert state.end is not None
            size = path.stat().st_size
            assert (1 << 20) * 7 // 8 <= size <= (1 << 20) * 9 // 8 + (1 << 18)
            # each line has its time and stream before it
            assert state.end.dropped + size == 20 * 10_000 * (100 + 20) + len("the last\n") + 20
            assert path.read_bytes().endswith(b" o the last\n")
