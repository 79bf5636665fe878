"""What a host says about its jobs: their news, how they end, and where their ranks are."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster.agent import __main__, follow, supervise
from cluster.agent.protocol import Ended, Lost
from tests.snapshots import Snapshot


def test_news_are_whole_lines_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    offsets: dict[Path, int] = {}
    messages = []
    for text in (b"", b"one\ntw", b"o\n", b"", b"three"):
        with path.open("ab") as file:
            file.write(text)
        messages.append(follow._new_text(path, offsets, final=False))

    assert messages == [b"", b"one\n", b"two\n", b"", b""]
    assert follow._new_text(path, offsets, final=True) == b"three"
    assert follow._new_text(path, offsets, final=True) == b""


@pytest.mark.parametrize("final", [False, True])
def test_no_file_is_no_news(tmp_path: Path, *, final: bool) -> None:
    assert follow._new_text(tmp_path / "stdout", {}, final=final) == b""


def test_news_of_several_files_do_not_mix(tmp_path: Path) -> None:
    offsets: dict[Path, int] = {}
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}{name}\n{name}")
        assert follow._new_text(tmp_path / name, offsets, final=False) == f"{name}{name}\n".encode()

    assert follow._new_text(tmp_path / "a", offsets, final=True) == b"a"
    assert follow._new_text(tmp_path / "b", offsets, final=True) == b"b"


@pytest.mark.parametrize("length", [3, 4, 7, 8, 9, 100])
def test_a_line_longer_than_one_read_stays_whole(
    tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "CHUNK", 4)
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * length)
    offsets: dict[Path, int] = {}
    assert follow._new_text(path, offsets, final=False) == b""
    path.write_bytes(b"x" * length + b"\ny")
    assert follow._new_text(path, offsets, final=False) == b"x" * length + b"\n"


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
    while piece := follow._new_text(path, offsets, final=True):
        pieces.append(piece)

    assert b"".join(pieces) == text
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])


def test_a_job_that_wrote_its_status_has_ended(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("143\n")

    assert follow.job_end(tmp_path, has_begun=False) == Ended(status=143)
    assert follow.follow_job(tmp_path) == Ended(status=143)
    assert supervise.stop_job(tmp_path) == Ended(status=143)


def test_a_job_may_take_a_while_to_begin(tmp_path: Path) -> None:
    assert follow.job_end(tmp_path, has_begun=False) is None
    assert follow.job_end(tmp_path, has_begun=True) == Lost(reason="its script never started")


def test_a_job_whose_process_is_somebody_else_now_is_lost(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """This very process has the number that the job once had."""
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    end = follow.job_end(tmp_path, has_begun=False)

    assert isinstance(end, Lost)
    snapshot(end.reason)
    assert supervise.stop_job(tmp_path, grace=0.0) == end


def test_a_job_whose_process_is_gone_is_lost(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    (tmp_path / "pid").write_text(f"{process.pid}\n")

    assert isinstance(follow.job_end(tmp_path, has_begun=False), Lost)


def test_a_job_whose_process_runs_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("echo $$ > pid && echo begun && read line\n")
    with subprocess.Popen(
        ["sh", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"begun\n"
        assert follow.job_end(tmp_path, has_begun=True) is None
        assert follow.is_alive(tmp_path)

    assert isinstance(follow.job_end(tmp_path, has_begun=True), Lost)


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
    *events, end = [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]
    texts: dict[str, str] = {}
    for event in events:
        texts[event["file"]] = texts.get(event["file"], "") + event["text"]

    assert {event["type"] for event in events} == {"wrote"}
    assert texts == {
        "stdout": "hello\nhalf",
        "stderr": "oh\n",
        "progress.jsonl": "[1]\n",
        "measurements.1.jsonl": "{}\n",
    }
    assert end == {"type": "ended", "status": 0}


@contextlib.contextmanager
def start_script(folder: Path, script: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
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
    with start_script(tmp_path, script):
        assert follow.follow_job(tmp_path) == Ended(status=5)

    events = [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert "".join(event["text"] for event in events) == "early\nlate\n"


def test_a_job_that_is_asked_to_stop_may_say_how_it_ended(tmp_path: Path) -> None:
    script = "trap 'echo 7 > status; exit 7' TERM; echo $$ > pid; echo begun; sleep 20 & wait\n"
    with start_script(tmp_path, script) as job:
        assert supervise.stop_job(tmp_path) == Ended(status=7)
        assert job.wait(timeout=10) == 7


def test_a_job_that_does_not_listen_is_forced_with_all_its_children(tmp_path: Path) -> None:
    """Their end is seen by the end of the pipe that they all hold."""
    script = "trap '' TERM; echo $$ > pid; echo begun; sleep 30 & sleep 30; sleep 30\n"
    with start_script(tmp_path, script) as job:
        assert isinstance(supervise.stop_job(tmp_path, grace=0.1), Lost)
        assert job.communicate(timeout=10)[0] == b""
        assert job.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mark", ["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"])
def test_ranks_are_found_by_their_folder_and_environment(tmp_path: Path, mark: str) -> None:
    """They may work in a folder inside the job's, such as the copy of the user's folder."""
    folder, other = tmp_path / "ours", tmp_path / "theirs"
    inside = folder / "workdir"
    inside.mkdir(parents=True)
    other.mkdir()
    script = "echo begun; exec sleep 30\n"
    with (
        start_script(folder, script, **{mark: "0"}) as first,
        start_script(inside, script, **{mark: "1"}) as second,
        start_script(folder, script, **{f"NOT_{mark}": "0"}),
        start_script(other, script, **{mark: "0"}),
    ):
        assert set(supervise.find_ranks(folder)) == {first.pid, second.pid}


def agent(folder: Path, seconds: str, *argv: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-P", "-m", "cluster.agent", "run", seconds, *argv]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("cat", 0)]
)
def test_running_a_command_gives_its_status(tmp_path: Path, script: str, status: int) -> None:
    with agent(tmp_path, "30", "sh", "-c", script) as process:
        assert process.wait(timeout=30) == status


def test_running_a_command_ends_it_in_time(tmp_path: Path) -> None:
    with agent(tmp_path, "0.2", "sleep", "60") as process:
        assert process.wait(timeout=30) == 124


def test_what_the_starter_leaves_behind_holds_up_nobody(tmp_path: Path) -> None:
    """As the ssh of an mpirun does, whose daemon tries to connect to an address that is dead."""
    script = "trap '' TERM; echo begun; sleep 60"
    starter = f"import subprocess; subprocess.run(['sh', '-c', {script!r}], process_group=0)"
    words = (sys.executable, "-m", "cluster.agent", "run", "60", sys.executable, "-c", starter)
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=30)[0] == b""  # it has closed the pipe
        assert process.returncode == 143


def test_the_ranks_save_their_values_before_their_starter_ends(tmp_path: Path) -> None:
    """This starter kills its rank as soon as it is itself asked to end."""
    (tmp_path / "rank.sh").write_text(
        "trap 'echo saved > values; kill $nap; exit' TERM\nsleep 30 & nap=$!\necho begun\nwait\n"
    )
    starter = "PMIX_RANK=0 sh rank.sh & trap 'kill -KILL $!; exit' TERM; wait"
    with agent(tmp_path, "60", "sh", "-c", starter) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143

    assert (tmp_path / "values").read_text() == "saved\n"
