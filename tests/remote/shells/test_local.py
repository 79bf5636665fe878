"""Commands and files on this machine, beyond what every shell does (`tests/contracts`)."""

import contextlib
import errno
import gc
import os
import select
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Completed
from cluster.remote import transfer
from cluster.remote.shells.local import LocalShell
from tests.snapshots import Snapshot

OnLine = Callable[[str], None] | None
BOTH_WAYS = pytest.mark.parametrize("on_line", [None, str], ids=["kept", "by line"])
LONG = 30.0  # seconds that nothing here takes, unless it hangs


def sh(script: str, timeout: float = LONG, on_line: OnLine = None) -> Completed:
    return LocalShell().run(["sh", "-c", script], timeout=timeout, on_line=on_line)


@BOTH_WAYS
def test_bytes_that_are_no_text_do_not_stop_anything(on_line: OnLine) -> None:
    result = sh("printf 'a\\377b\\n'; printf 'c\\377d\\n' >&2", on_line=on_line)

    assert result.status == 0
    assert result.stderr == "c�d\n"


@BOTH_WAYS
def test_a_missing_program(on_line: OnLine) -> None:
    """The status is that of every shell, here and far away."""
    result = LocalShell().run(["/no/such program", "x"], on_line=on_line)

    assert result.status == 127
    assert result.stderr.startswith("/no/such program: ")


@BOTH_WAYS
def test_a_file_that_is_no_program(tmp_path: Path, on_line: OnLine) -> None:
    (tmp_path / "text").write_text("")

    with pytest.raises(ShellError, match=os.strerror(errno.EACCES)):
        LocalShell().run([str(tmp_path / "text")], on_line=on_line)


def test_a_command_has_a_session_of_its_own() -> None:
    """A Ctrl-C meant for us does not reach it."""
    code = "import os; print(os.getsid(0) == os.getpid())"

    assert LocalShell().run([sys.executable, "-c", code], timeout=LONG).stdout == "True\n"


@BOTH_WAYS
def test_what_ends_in_time_is_not(on_line: OnLine) -> None:
    assert sh("echo; exit 137", on_line=on_line).status == 137


@BOTH_WAYS
def test_nothing_of_a_command_outlives_its_timeout(
    snapshot: Snapshot, tmp_path: Path, on_line: OnLine
) -> None:
    """The command's own children hold a pipe open until they are gone."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    script = f"exec 9> {fifo}; sleep 20 & echo $! > {tmp_path}/pid; sleep 20"
    start = time.monotonic()
    try:
        with snapshot.raises(ShellError):
            sh(script, timeout=1.0, on_line=on_line)
        events, _, _ = select.select([reader], [], [], 5)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    assert time.monotonic() - start < 15
    assert events, "a child of the command still runs"


@BOTH_WAYS
def test_what_a_command_leaves_in_the_background_stays(tmp_path: Path, on_line: OnLine) -> None:
    """As tmux does: the command has ended, in time, and what it started is meant to go on."""
    result = sh(
        f"sleep 30 < /dev/null > /dev/null 2>&1 & echo $! > {tmp_path}/pid", on_line=on_line
    )
    pid = int((tmp_path / "pid").read_text())
    try:
        assert result.status == 0
        assert "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    finally:
        os.kill(pid, signal.SIGKILL)


@BOTH_WAYS
def test_what_holds_the_output_open_in_the_background_is_not_waited_for(
    tmp_path: Path, on_line: OnLine
) -> None:
    start = time.monotonic()
    result = sh(f"sleep 60 & echo $! > {tmp_path}/pid; exit 5", timeout=50.0, on_line=on_line)
    took = time.monotonic() - start
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    assert result.status == 5
    assert took < 40


@BOTH_WAYS
def test_a_command_may_close_its_output_before_it_ends(on_line: OnLine) -> None:
    assert sh("exec >&-; sleep 0.3; exit 5", on_line=on_line).status == 5


@BOTH_WAYS
def test_without_a_timeout_there_is_time(on_line: OnLine) -> None:
    result = LocalShell().run(["sh", "-c", "sleep 0.3; exit 5"], on_line=on_line)

    assert result.status == 5


@BOTH_WAYS
@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_timeout_leaves_no_pipe_open(on_line: OnLine) -> None:
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always", ResourceWarning)
        with contextlib.suppress(ShellError):
            LocalShell().run(["sleep", "60"], timeout=0.1, on_line=on_line)
        gc.collect()

    assert [str(warning.message) for warning in records] == []


def test_lines_are_told_and_not_kept() -> None:
    lines: list[str] = []
    result = sh("echo one; echo; echo ' three '; printf four; echo err >&2", on_line=lines.append)

    assert lines == ["one", "", " three ", "four"]
    assert (result.status, result.stdout, result.stderr) == (0, "", "err\n")


def test_complaints_larger_than_a_pipe_do_not_block() -> None:
    lines: list[str] = []
    script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo done"

    assert len(sh(script, on_line=lines.append).stderr) == 3_000_000
    assert lines == ["done"]
    assert len(sh(script).stderr) == 3_000_000


def test_whoever_listens_may_give_up() -> None:
    """Its error is not lost, and the command is ended."""
    pids: list[int] = []

    def give_up(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sh("echo $$; exec sleep 60", on_line=give_up)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_write_gives_exactly_the_mode(tmp_path: Path, mode: int, umask: int) -> None:
    before = os.umask(umask)
    try:
        LocalShell().write("x", str(tmp_path / "file"), mode=mode)
    finally:
        os.umask(before)

    assert (tmp_path / "file").stat().st_mode & 0o7777 == mode


def test_write_replaces_a_file_in_one_step(tmp_path: Path) -> None:
    """Whoever has the old one open still reads it whole."""
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    with path.open() as old:
        LocalShell().write("new", str(path))
        assert old.read() == "old"

    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("way", ["file", "folder"])
def test_write_where_it_cannot(tmp_path: Path, way: str) -> None:
    """A file is where a folder should be, or a folder where the file should be."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    path = tmp_path / "file" / "below" if way == "file" else tmp_path / "folder"

    with pytest.raises(ShellError, match=str(tmp_path)) as error:
        LocalShell().write("new", str(path))
    assert str(path) in error.value.what
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["file"]
    assert (tmp_path / "folder" / "inside").is_dir()
    assert (tmp_path / "file").read_text() == "x"


def test_fetch_replaces_files_of_the_same_name_only(tmp_path: Path) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    source.mkdir()
    home.mkdir()
    (source / "same").write_text("new")
    (home / "same").write_text("old")
    (home / "other").write_text("kept")
    LocalShell().fetch(str(source), home)

    assert (home / "same").read_text() == "new"
    assert (home / "other").read_text() == "kept"
    assert (source / "same").read_text() == "new"


def test_fetch_what_is_not_there(snapshot: Snapshot, tmp_path: Path) -> None:
    with snapshot.raises(ShellError):
        LocalShell().fetch(str(tmp_path / "nowhere"), tmp_path / "home")


def test_remove_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("")
    (tmp_path / "ours" / "link").symlink_to(tmp_path / "theirs")
    LocalShell().remove(str(tmp_path / "ours"))

    assert not (tmp_path / "ours").exists()
    assert (tmp_path / "theirs" / "file").exists()


def test_remove_what_is_no_folder(snapshot: Snapshot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with snapshot.raises(ShellError):
        LocalShell().remove(str(tmp_path / "file"))
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("device", "zero is neither a file nor a folder"),
        ("pipe", "pipe is neither a file nor a folder"),
        ("circle", "leads back to a folder that it is in"),
        ("many", "more than 100 files"),
        ("sparse", "would stay free"),
        ("link to nowhere", "No such file or directory .*link"),
    ],
)
def test_what_is_copied_from_here_has_limits_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, why: str
) -> None:
    """A folder of this machine may be somebody else's, and lead anywhere."""
    monkeypatch.setattr(transfer, "MOST_FILES", 100)
    folder = tmp_path / "theirs"
    folder.mkdir()
    if kind == "device":
        (folder / "zero").symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(folder / "pipe")
    elif kind == "circle":
        (folder / "circle").symlink_to(folder)
    elif kind == "many":
        for number in range(101):
            (folder / str(number)).touch()
    elif kind == "sparse":
        with (folder / "sparse").open("wb") as file:
            file.truncate(1 << 42)
    else:
        (folder / "link").symlink_to("nowhere")

    with pytest.raises(ShellError, match=why):
        LocalShell().fetch(str(folder), tmp_path / "home")


def test_set_id_bits_do_not_come_along(tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_text("text")
    source.chmod(0o6755)
    LocalShell().fetch(str(source), tmp_path / "home")

    assert (tmp_path / "home" / "file").stat().st_mode & 0o7777 == 0o755


@BOTH_WAYS
def test_a_command_that_begins_while_the_shell_is_closed_is_ended(
    monkeypatch: pytest.MonkeyPatch, on_line: OnLine
) -> None:
    """Ctrl-C on one host, while a thread starts the command on another: it went on for ever."""
    shell = LocalShell()
    start = subprocess.Popen

    def start_and_close(*words: Any, **how: Any) -> subprocess.Popen[str]:
        process = start(*words, **how)
        monkeypatch.undo()
        shell.close()
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_close)

    assert shell.run(["sleep", "1000.5"], timeout=60, on_line=on_line).status == 128 + 9
    assert shell.run(["echo", "again"]).stdout == "again\n"
