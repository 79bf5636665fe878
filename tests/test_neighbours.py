"""Other users of the same machine: what they cannot read, and what of theirs is never executed."""

import os
import re
import stat
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import ClusterError
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.core.state.files import check_owner, make_private
from cluster.core.state.journal import Created, Intended
from cluster.remote.environment import wheels
from cluster.runs import store
from tests.conftest import ROOT, command, runs_folder, write_program
from tests.snapshots import Snapshot

STRANGER = 54321  # a user whom no system has
TARGET = wheels.Target(python="3.11", abi="cp311", arch="x86_64", glibc="2.36")


def give_away(path: Path) -> None:
    """Let a file or folder, and all in it, belong to another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for part in (path, *path.rglob("*")):
        os.chown(part, STRANGER, STRANGER, follow_symlinks=False)


def plant(state: Path, proof: Path) -> None:
    """Write a state folder whose cluster names a `python3` of its own."""
    programs = state / "theirs" / "bin"
    for name in ("python3", "tmux", "mpirun"):
        write_program(programs / name, f"#!/bin/sh\ntouch {proof}\n")
    machine = Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name="0.mpi.theirs",
        id="local-0",
        address="127.0.0.1",
        shell="local",
        folder=str(state / "theirs" / "host"),
        bin=str(programs),
    )
    entries = (
        Intended(spec=ClusterSpec(name="theirs", provider="local"), at=1.0),
        Created(machines=(machine,)),
    )
    text = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    (state / "theirs" / "journal.jsonl").write_bytes(text)


@pytest.mark.parametrize(
    "words",
    [
        ("ls",),
        ("ls", "theirs"),
        ("status", "theirs"),
        ("bench", "p2p", "theirs"),
        ("run", "theirs", "--", "true"),
        ("logs", "theirs"),
        ("wait", "theirs"),
        ("down", "theirs", "-y"),
        ("more", "gc", "-y"),
    ],
)
def test_a_state_folder_of_another_user_is_never_executed(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    state, proof = tmp_path / "state", tmp_path / "executed"
    plant(state, proof)
    give_away(state)

    result = command(*words, status=None)

    assert result.returncode != 0
    assert f"uid {STRANGER}" in result.stderr
    assert "CLUSTER_STATE=DIR" in result.stderr
    assert "Traceback" not in result.stderr
    assert not proof.exists()


def test_a_cluster_planted_in_our_own_state_folder_is_not_read(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """As could happen while the folder was open to a group."""
    state, proof = tmp_path / "state", tmp_path / "executed"
    plant(state, proof)
    give_away(state / "theirs")

    result = command("ls", "theirs", status=None)

    snapshot(result.stderr)
    assert not proof.exists()


def test_a_state_folder_that_all_may_write_is_refused(snapshot: Snapshot, tmp_path: Path) -> None:
    state = tmp_path / "state"
    plant(state, tmp_path / "executed")
    state.chmod(0o1777)

    result = command("ls", "theirs", status=None)

    snapshot(result.stderr)
    assert not (tmp_path / "executed").exists()


def test_a_folder_of_ours_is_closed_to_the_group(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    folder.chmod(0o775)

    check_owner(folder, "NAME=DIR")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_doctor_says_that_the_state_folder_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    give_away(tmp_path / "state")

    result = command("doctor", status=None)

    assert f"uid {STRANGER}" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def reachable(top: Path) -> list[Path]:
    """List what users without our rights could look at, from a folder down."""
    if stat.S_IMODE(top.stat().st_mode) & 0o077 == 0:
        return []
    return [top, *(path for part in top.iterdir() if part.is_dir() for path in reachable(part))]


def test_state_and_runs_are_for_nobody_else(tmp_path: Path) -> None:
    journal.for_cluster("mine").append(Intended(spec=ClusterSpec(name="mine"), at=1.0))
    store.make_root(runs_folder())
    run = store.create(runs_folder(), "mine", "p2p", 1e9)

    assert reachable(tmp_path / "state") == []
    assert reachable(runs_folder()) == []
    assert stat.S_IMODE(run.stat().st_mode) == 0o700


def test_folders_above_are_private_too_and_old_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    make_private(tmp_path / "old" / "a" / "b")

    assert reachable(tmp_path / "old") == [tmp_path / "old"]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "file")


def test_runs_are_not_written_where_another_user_could_redirect_them(snapshot: Snapshot) -> None:
    folder = runs_folder() / "mine"
    folder.mkdir(parents=True)
    give_away(folder)

    with snapshot.raises(ClusterError):
        store.create(runs_folder(), "mine", "p2p", 1e9)
    give_away(runs_folder())
    with snapshot.raises(ClusterError):
        store.make_root(runs_folder())


@pytest.mark.parametrize("part", ["", "wheels", "wheels/{folder}"])
def test_wheels_that_another_user_has_put_there_are_not_taken(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_CACHE", str(tmp_path / "cache"))
    libraries = ("nothing==1.0",)
    with pytest.raises(ClusterError):
        wheels.fetch(TARGET, libraries)  # no index has it
    lock = next((tmp_path / "cache" / "wheels").glob("*.lock"))
    target = lock.with_suffix("")
    target.mkdir()
    (target / "nothing-1.0-py3-none-any.whl").write_bytes(b"theirs")
    assert wheels.fetch(TARGET, libraries) == target
    give_away(tmp_path / "cache" / part.format(folder=target.name))

    with pytest.raises(ClusterError, match=f"uid {STRANGER}") as refused:
        wheels.fetch(TARGET, libraries)
    assert "CLUSTER_CACHE=DIR" in str(refused.value)


def test_a_tmux_socket_of_another_user_is_not_used(tools: None, tmp_path: Path) -> None:
    """The tmux of a stranger would run our commands as he likes, and read what we type."""
    sockets = Path(os.environ["TMUX_TMPDIR"]) / f"tmux-{os.geteuid()}"
    sockets.mkdir(mode=0o700)
    give_away(sockets)

    result = command("bench", "p2p", "--run-local", "--iterations", "5", status=None)

    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "unsafe permissions" in result.stderr or "tmux" in result.stderr
    assert [*sockets.iterdir()] == []


def test_no_temporary_file_has_a_name_that_a_neighbour_can_guess() -> None:
    """`tempfile` makes them 0700 or 0600 and new; a fixed path below /tmp would be neither."""
    for path in sorted((ROOT / "cluster").rglob("*.py")):
        text = path.read_text()

        assert "mktemp(" not in text, path
        assert not re.search(
            r"(open|write_text|write_bytes|mkdir)\([^)\n]*[\"']/(var/)?tmp", text
        ), path
        assert "gettempdir" not in text, path
