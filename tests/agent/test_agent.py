"""What a host says about itself and its jobs, on made-up file systems."""

from __future__ import annotations

import contextlib
import os
import platform
import pwd
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from cluster.agent import __main__, follow, supervise
from cluster.agent import facts as agent_facts
from cluster.agent import interfaces as agent_interfaces
from cluster.agent.cgroups import cgroup_cpus, cgroup_memory
from cluster.agent.protocol import Ended, Lost
from cluster.core.model.hosts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

V1 = "9:memory:/jobs/mine\n5:cpu,cpuacct:/jobs/mine\n2:cpuset:/\n1:name=systemd:/jobs/mine\n"
V2 = "0::/jobs/mine\n"
NO_LIMIT_V1 = "9223372036854771712\n"
SECRET = "wJalrXUtnFEMI"  # noqa: S105 - a made-up one


def tree(root: Path, groups: str, files: dict[str, str]) -> Path:
    """Lay out a file system; the files are named from /sys/fs/cgroup on."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        (V2, {"jobs/mine/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"jobs/mine/cpu.max": "max 100000\n"}, None),
        (V2, {"jobs/mine/cpu.max": "max 100000\n", "jobs/cpu.max": "400000 100000\n"}, 4.0),
        (V2, {"jobs/mine/cpu.max": "800000 100000\n", "jobs/cpu.max": "200000 100000\n"}, 2.0),
        (V2, {"jobs/mine/cpu.max": "200000 100000\n", "jobs/cpu.max": "800000 100000\n"}, 2.0),
        (V2, {"jobs/mine/cpu.max": "25000 50000\n"}, 0.5),
        (V2, {"jobs/other/cpu.max": "100000 100000\n"}, None),
        (V2, {"cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", {"cpu.max": "300000 100000\n"}, 3.0),
        (V2, {}, None),
        ("", {}, None),
        (
            V1,
            {"cpu/jobs/mine/cpu.cfs_quota_us": "50000", "cpu/jobs/mine/cpu.cfs_period_us": "20000"},
            2.5,
        ),
        (
            V1,
            {"cpu/jobs/mine/cpu.cfs_quota_us": "-1", "cpu/jobs/mine/cpu.cfs_period_us": "100000"},
            None,
        ),
        (
            V1,
            {
                "cpu/jobs/mine/cpu.cfs_quota_us": "-1",
                "cpu/jobs/mine/cpu.cfs_period_us": "100000",
                "cpu/jobs/cpu.cfs_quota_us": "700000",
                "cpu/jobs/cpu.cfs_period_us": "100000",
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
            },
            7.0,
        ),
        (V1, {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1.0),
        (
            V1,
            {
                "cpuset/cpu.cfs_quota_us": "100000",
                "cpuset/cpu.cfs_period_us": "100000",
                "memory/jobs/mine/cpu.cfs_quota_us": "100000",
                "memory/jobs/mine/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        (
            V1 + "0::/init\n",
            {"cpu/jobs/cpu.cfs_quota_us": "600000", "cpu/jobs/cpu.cfs_period_us": "100000"},
            6.0,
        ),
        (
            "9:memory:/other\n" + V1,
            {"cpu/other/cpu.cfs_quota_us": "100000", "cpu/other/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("0::/a:b\n", {"a:b/cpu.max": "100000 100000\n"}, 1.0),
    ],
    ids=[
        "v2",
        "v2 no limit",
        "v2 limit above",
        "v2 lower limit above",
        "v2 lower limit below",
        "v2 less than one",
        "v2 somebody else's",
        "v2 in a container, path of the host",
        "v2 in a container, path of its own",
        "v2 nothing to read",
        "no groups",
        "v1",
        "v1 no limit",
        "v1 limit above",
        "v1 in a container, path of the host",
        "v1 other controllers",
        "v1 and v2 together",
        "v1 the path of another controller",
        "a colon in a path",
    ],
)
def test_cgroup_cpus(
    tmp_path: Path, groups: str, files: dict[str, str], cpus: float | None
) -> None:
    assert cgroup_cpus(tree(tmp_path, groups, files)) == cpus


@pytest.mark.parametrize(
    ("groups", "files", "memory"),
    [
        (V2, {"jobs/mine/memory.max": "1073741824\n"}, 1_073_741_824),
        (V2, {"jobs/mine/memory.max": "max\n"}, None),
        (V2, {"jobs/mine/memory.max": "max\n", "jobs/memory.max": "4096\n"}, 4096),
        (V2, {"jobs/mine/memory.max": "8192\n", "jobs/memory.max": "4096\n"}, 4096),
        (V2, {"jobs/mine/memory.max": "4096\n", "jobs/memory.max": "8192\n"}, 4096),
        (V2, {"memory.max": "4096\n"}, 4096),
        (V2, {}, None),
        (V1, {"memory/jobs/mine/memory.limit_in_bytes": "4096\n"}, 4096),
        (V1, {"memory/jobs/mine/memory.limit_in_bytes": NO_LIMIT_V1}, None),
        (
            V1,
            {
                "memory/jobs/mine/memory.limit_in_bytes": NO_LIMIT_V1,
                "memory/jobs/memory.limit_in_bytes": "8192\n",
                "memory/memory.limit_in_bytes": NO_LIMIT_V1,
            },
            8192,
        ),
        (V1, {"memory/memory.limit_in_bytes": "4096\n"}, 4096),
        (V1, {"cpu/jobs/mine/memory.limit_in_bytes": "4096\n"}, None),
    ],
    ids=[
        "v2",
        "v2 no limit",
        "v2 limit above",
        "v2 lower limit above",
        "v2 lower limit below",
        "v2 in a container, path of the host",
        "v2 nothing to read",
        "v1",
        "v1 no limit",
        "v1 limit above",
        "v1 in a container, path of the host",
        "v1 other controllers",
    ],
)
def test_cgroup_memory(
    tmp_path: Path, groups: str, files: dict[str, str], memory: int | None
) -> None:
    assert cgroup_memory(tree(tmp_path, groups, files)) == memory


def test_no_proc_at_all(tmp_path: Path) -> None:
    assert cgroup_cpus(tmp_path) is None
    assert cgroup_memory(tmp_path) is None


def network(root: Path, interfaces: dict[str, dict[str, str]]) -> Path:
    """Make a /sys/class/net; a file named `device/...` makes it one of hardware."""
    for name, files in interfaces.items():
        (root / name).mkdir()
        for file, text in files.items():
            (root / name / file).parent.mkdir(exist_ok=True)
            (root / name / file).write_text(text)
    return root


HARD = {"device/vendor": "0x15b3\n", "speed": "10000\n"}


@pytest.mark.parametrize(
    ("interfaces", "megabits"),
    [
        ({"it": HARD}, [10_000]),
        ({"it": HARD | {"speed": "-1\n"}}, []),
        ({"it": {"speed": "10000\n"}}, []),
        ({"it": {"bonding/slaves": "a b\n", "speed": "20000\n"}, "a": HARD, "b": HARD}, [1e4, 1e4]),
        ({"it": {"bonding/slaves": "a b\n"}, "a": HARD, "b": {"speed": "10000\n"}}, []),
        (
            {
                "it": {"bonding/slaves": "a b\n", "bonding/active_slave": "b\n"},
                "a": HARD,
                "b": HARD | {"speed": "1000\n"},
            },
            [1_000],
        ),
        ({"it": {"lower_a": ""}, "a": HARD}, [10_000]),
        ({"it": {"lower_a": "", "bridge/x": ""}, "a": HARD}, []),
    ],
    ids=[
        "hardware",
        "hardware that does not say",
        "no hardware: a veth says 10 Gbit/s",
        "bond",
        "bond with a member that does not say",
        "bond of which one is active",
        "VLAN",
        "bridge",
    ],
)
def test_an_interface_is_as_fast_as_its_hardware(
    tmp_path: Path, interfaces: dict[str, dict[str, str]], megabits: list[float]
) -> None:
    folder = network(tmp_path, interfaces) / "it"

    assert agent_interfaces.link_speeds(folder) == [speed * 1e6 / 8 for speed in megabits]


def test_the_slot_is_what_is_in_use(tmp_path: Path) -> None:
    words = {"current_link_speed": "8.0 GT/s PCIe\n", "current_link_width": "16\n"}
    network(tmp_path, {"device": words, "other": {"current_link_width": "0\n"}})

    assert agent_interfaces._slot(tmp_path / "device") == "8.0 GT/s PCIe x16"
    assert agent_interfaces._slot(tmp_path / "other") == ""


def test_the_facts_of_this_host() -> None:
    facts = agent_facts.host_facts()

    assert facts.host == platform.node()
    assert facts.cores == os.cpu_count()
    assert 1 <= facts.usable_cores <= len(os.sched_getaffinity(0))
    assert facts.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts.python == platform.python_version()
    assert facts.kernel.split() == [os.uname().sysname, os.uname().release, os.uname().machine]
    assert facts.user == pwd.getpwuid(os.geteuid()).pw_name
    assert facts.libraries["msgspec"] == msgspec.__version__
    assert facts.libraries["numpy"] == np.__version__
    assert facts.system


def test_facts_tell_the_tools_beside_our_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say their version, as far as its first line; one that fails is not there."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    for name, flag, status in (("mpirun", "--version", 0), ("tmux", "-V", 1)):
        (tmp_path / name).write_text(
            f'#!/bin/sh\n[ "$*" = "{flag}" ] && echo "{name} 9.9" && echo more\nexit {status}\n'
        )
        (tmp_path / name).chmod(0o700)
    facts = agent_facts.host_facts()

    assert facts.mpi == "mpirun 9.9"
    assert facts.tmux is None


def test_facts_tell_that_a_tool_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = agent_facts.host_facts()

    assert (facts.mpi, facts.tmux) == (None, None)


def test_facts_tell_the_programs_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says no version is there all the same, unlike one that is not."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, line in (("shy", "exit 1"), ("open", "echo open 1.2; echo more")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o700)
    found = agent_facts.host_facts("shy", "open", "nosuchprogram").programs

    assert found == {"shy": str(tmp_path / "shy"), "open": "open 1.2"}
    assert agent_facts.host_facts().programs == {}


@pytest.mark.parametrize(
    ("limit", "usable"), [(None, 4), (8.0, 4), (4.0, 4), (3.9, 3), (1.5, 1), (0.2, 1)]
)
def test_usable_cores_are_whole_and_at_least_one(
    limit: float | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5, 7})
    monkeypatch.setattr(agent_facts, "cgroup_cpus", lambda: limit)
    facts = agent_facts.host_facts()

    assert facts.usable_cores == usable
    assert facts.cgroup_cpus == limit


def test_facts_record_what_matters_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_OMPI_MCA_KEY", "FIREBASE_KEY"):
        monkeypatch.setenv(name, SECRET)
    told = {
        "OMPI_MCA_btl": "tcp,self",
        "PRTE_MCA_plm": "ssh",
        "PMIX_MCA_gds": "hash",
        "UCX_TLS": "tcp",
        "NCCL_DEBUG": "INFO",
        "FI_PROVIDER": "efa",
        "MPI4PY_RC_THREADS": "0",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LD_LIBRARY_PATH": "/lib",
        "TMPDIR": "/tmp",  # noqa: S108 - only recorded
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    facts = agent_facts.host_facts()

    assert SECRET not in msgspec.json.encode(facts).decode()
    assert facts.variables.items() >= told.items()
    assert not {"HOME", "PATH", "AWS_SECRET_ACCESS_KEY"} & set(facts.variables)


def test_facts_do_not_need_a_user_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number that nobody has."""
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)

    assert agent_facts.host_facts().user == "54321"


def test_facts_are_one_line_of_json() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cluster.agent", "facts", ".", "sh"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.count("\n") == 1
    said = msgspec.json.decode(done.stdout, type=Facts)
    assert said.host == platform.node()
    assert set(said.programs) == {"sh"}


def test_news_are_whole_lines_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    offsets: dict[Path, int] = {}
    heard = []
    for text in (b"", b"one\ntw", b"o\n", b"", b"three"):
        with path.open("ab") as file:
            file.write(text)
        heard.append(follow._news(path, offsets, final=False))

    assert heard == [b"", b"one\n", b"two\n", b"", b""]
    assert follow._news(path, offsets, final=True) == b"three"
    assert follow._news(path, offsets, final=True) == b""


@pytest.mark.parametrize("final", [False, True])
def test_no_file_is_no_news(tmp_path: Path, *, final: bool) -> None:
    assert follow._news(tmp_path / "stdout", {}, final=final) == b""


def test_news_of_several_files_do_not_mix(tmp_path: Path) -> None:
    offsets: dict[Path, int] = {}
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}{name}\n{name}")
        assert follow._news(tmp_path / name, offsets, final=False) == f"{name}{name}\n".encode()

    assert follow._news(tmp_path / "a", offsets, final=True) == b"a"
    assert follow._news(tmp_path / "b", offsets, final=True) == b"b"


@pytest.mark.parametrize("length", [3, 4, 7, 8, 9, 100])
def test_a_line_longer_than_one_read_stays_whole(
    tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "CHUNK", 4)
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * length)
    offsets: dict[Path, int] = {}
    assert follow._news(path, offsets, final=False) == b""
    path.write_bytes(b"x" * length + b"\ny")
    assert follow._news(path, offsets, final=False) == b"x" * length + b"\n"


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 6, 7, 8, 100])
def test_also_at_the_end_only_the_last_piece_may_be_part_of_a_line(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement that is cut in two cannot be read by whoever watches."""
    monkeypatch.setattr(follow, "CHUNK", chunk)
    text = "première\nzweite\n\nund so".encode()
    path = tmp_path / "measurements.0.jsonl"
    path.write_bytes(text)
    offsets: dict[Path, int] = {}
    pieces = []
    while piece := follow._news(path, offsets, final=True):
        pieces.append(piece)

    assert b"".join(pieces) == text
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])


def test_a_job_that_wrote_its_status_has_ended(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("143\n")

    assert follow.job_end(tmp_path, begun=False) == Ended(status=143)
    assert follow.follow_job(tmp_path) == Ended(status=143)
    assert supervise.stop_job(tmp_path) == Ended(status=143)


def test_a_job_may_take_a_while_to_begin(tmp_path: Path) -> None:
    assert follow.job_end(tmp_path, begun=False) is None
    assert follow.job_end(tmp_path, begun=True) == Lost(reason="its script never started")


def test_a_job_whose_process_is_somebody_else_now_is_lost(tmp_path: Path) -> None:
    """This very process has the number that the job once had."""
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    end = follow.job_end(tmp_path, begun=False)

    assert isinstance(end, Lost)
    assert "killed from outside" in end.reason
    assert supervise.stop_job(tmp_path, grace=0.0) == end


def test_a_job_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "pid").write_text(f"{gone.pid}\n")

    assert isinstance(follow.job_end(tmp_path, begun=False), Lost)


def test_a_job_whose_process_runs_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("echo $$ > pid && echo begun && read line\n")
    with subprocess.Popen(
        ["sh", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"begun\n"
        assert follow.job_end(tmp_path, begun=True) is None
        assert follow.is_alive(tmp_path)

    assert isinstance(follow.job_end(tmp_path, begun=True), Lost)


def test_watching_tells_everything_a_job_wrote(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "stdout").write_text("hello\nhalf")
    (tmp_path / "stderr").write_text("oh\n")
    (tmp_path / "progress.jsonl").write_text("[1]\n")
    (tmp_path / "measurements.1.jsonl").write_text("{}\n")
    (tmp_path / "secret").write_text("no\n")
    (tmp_path / "status").write_text("0\n")
    __main__.main("watch", str(tmp_path))
    *wrote, end = [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]
    texts: dict[str, str] = {}
    for event in wrote:
        texts[event["file"]] = texts.get(event["file"], "") + event["text"]

    assert {event["type"] for event in wrote} == {"wrote"}
    assert texts == {
        "stdout": "hello\nhalf",
        "stderr": "oh\n",
        "progress.jsonl": "[1]\n",
        "measurements.1.jsonl": "{}\n",
    }
    assert end == {"type": "ended", "status": 0}


@contextlib.contextmanager
def begun(folder: Path, script: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a job's script in a session of its own, wait until it says so, and clean up after."""
    (folder / "job.sh").write_text(script)
    with subprocess.Popen(
        ["sh", str(folder / "job.sh")],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **variables},
    ) as job:
        assert job.stdout is not None
        try:
            assert job.stdout.readline() == b"begun\n"
            yield job
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)


def test_a_job_is_watched_until_it_ends(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    script = (
        "echo $$ > pid; echo begun; echo early > stdout; sleep 0.3; echo late >> stdout\n"
        "echo 5 > status.part; mv status.part status\n"
    )
    with begun(tmp_path, script):
        assert follow.follow_job(tmp_path) == Ended(status=5)

    events = [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert "".join(event["text"] for event in events) == "early\nlate\n"


def test_a_job_that_is_asked_to_stop_may_say_how_it_ended(tmp_path: Path) -> None:
    script = "trap 'echo 7 > status; exit 7' TERM; echo $$ > pid; echo begun; sleep 20 & wait\n"
    with begun(tmp_path, script) as job:
        assert supervise.stop_job(tmp_path) == Ended(status=7)
        assert job.wait(timeout=10) == 7


def test_a_job_that_does_not_listen_is_forced_with_all_its_children(tmp_path: Path) -> None:
    """Their end is seen by the end of the pipe that they all hold."""
    script = "trap '' TERM; echo $$ > pid; echo begun; sleep 30 & sleep 30; sleep 30\n"
    with begun(tmp_path, script) as job:
        assert isinstance(supervise.stop_job(tmp_path, grace=0.1), Lost)
        assert job.communicate(timeout=10)[0] == b""
        assert job.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mark", ["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_ranks_are_found_by_their_folder_and_environment(tmp_path: Path, mark: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    script = "echo begun; exec sleep 30\n"
    with (
        begun(ours, script, **{mark: "0"}) as first,
        begun(ours, script, **{mark: "1"}) as second,
        begun(ours, script, **{f"NOT_{mark}": "0"}),
        begun(theirs, script, **{mark: "0"}),
    ):
        assert set(supervise.find_ranks(ours)) == {first.pid, second.pid}


def agent(folder: Path, seconds: str, *argv: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-P", "-m", "cluster.agent", "run", seconds, *argv]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("cat", 0)]
)
def test_running_a_command_gives_its_status(tmp_path: Path, script: str, status: int) -> None:
    with agent(tmp_path, "30", "sh", "-c", script) as running:
        assert running.wait(timeout=30) == status


def test_running_a_command_ends_it_in_time(tmp_path: Path) -> None:
    with agent(tmp_path, "0.2", "sleep", "60") as running:
        assert running.wait(timeout=30) == 124


def test_the_ranks_save_their_values_before_their_starter_ends(tmp_path: Path) -> None:
    """This starter kills its rank as soon as it is itself asked to end."""
    (tmp_path / "rank.sh").write_text(
        "trap 'echo saved > values; kill $nap; exit' TERM\nsleep 30 & nap=$!\necho begun\nwait\n"
    )
    starter = "PMIX_RANK=0 sh rank.sh & trap 'kill -KILL $!; exit' TERM; wait"
    with agent(tmp_path, "60", "sh", "-c", starter) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 143

    assert (tmp_path / "values").read_text() == "saved\n"
