"""What jobs that ended left in shared memory: removed only where it is proved to be ours."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.agent import __main__, scratch
from tests.conftest import answer, command, until


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for /dev/shm."""
    memory = tmp_path / "shm"
    memory.mkdir()
    monkeypatch.setattr(scratch, "SHARED_MEMORY", memory)
    return memory


def left_behind(memory: Path, job: Path) -> Path:
    path = memory / Path(scratch.scratch_of(str(job))).name
    path.mkdir()
    (path / "job").write_text(str(job))
    (path / "sm_segment.host.0").write_bytes(bytes(4096))
    return path


def old(path: Path) -> None:
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))


def test_it_is_removed_once_the_job_is_over(memory: Path, tmp_path: Path) -> None:
    """Its script is gone on its first host; on the others there is no file that says so."""
    first, other, young = (tmp_path / name for name in ("first", "other", "young"))
    for folder in (first, other, young):
        folder.mkdir()
    (first / "pid").write_text("4194305")  # above every process's
    paths = [left_behind(memory, folder) for folder in (first, other, young, tmp_path / "gone")]
    old(paths[1])

    assert scratch.find_orphans(memory) == tuple(sorted([paths[0], paths[1], paths[3]]))
    assert [scratch.remove(path) for path in paths] == [True, True, False, True]
    assert list(memory.iterdir()) == [paths[2]]


@pytest.mark.parametrize("known_by", ["cwd", "environ"])
def test_it_stays_while_a_process_knows_it(memory: Path, tmp_path: Path, known_by: str) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    path = left_behind(memory, folder)
    old(path)
    env = {"OMPI_MCA_btl_sm_backing_directory": str(path)} if known_by == "environ" else {}
    cwd = folder if known_by == "cwd" else tmp_path
    words = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        words, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert scratch.find_orphans(memory) == ()
        assert not scratch.remove(path)
        process.communicate(b"\n")

    assert scratch.find_orphans(memory) == (path,)


@pytest.fixture
def strangers(memory: Path, tmp_path: Path) -> Iterator[None]:
    """Leave what looks like ours, and is not."""
    (memory / "cluster-0123456789abcdef").mkdir()  # without a word of whose it is
    lies = left_behind(memory, tmp_path / "gone")
    (lies / "job").write_text("/somewhere/else")
    (memory / "cluster-file").write_text("")
    target = left_behind(tmp_path, tmp_path / "other")
    (memory / target.name).symlink_to(target)
    (memory / "sm_segment.of.another.program").write_text("")
    before = sorted(memory.iterdir())
    yield
    assert sorted(memory.iterdir()) == before
    assert (target / "sm_segment.host.0").exists()


@pytest.mark.usefixtures("strangers")
def test_what_does_not_prove_that_it_is_ours_stays(memory: Path) -> None:
    for path in memory.iterdir():
        old(path)
        scratch.remove(path)

    assert scratch.find_orphans(memory) == ()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_stays(memory: Path, tmp_path: Path) -> None:
    path = left_behind(memory, tmp_path / "gone")
    os.chown(path, 65534, 65534)

    assert scratch.find_orphans(memory) == ()


def test_a_host_is_asked_to_remove_them(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(memory, tmp_path / "gone")
    monkeypatch.setattr(scratch.find_orphans, "__defaults__", (memory,))

    assert __main__.main("sweep") == 0
    assert not list(memory.iterdir())


def test_gc_shows_and_removes_what_is_left_on_this_machine(tmp_path: Path) -> None:
    """With the real folder: its name is proved by the job's, which is this test's own."""
    path = left_behind(scratch.SHARED_MEMORY, tmp_path / "gone-1")
    rows = [row for row in answer("more", "gc") if row["name"] == "gone-1"]
    result = command("more", "gc", "-y")

    assert rows[0]["resources"] == [{"kind": "shared memory", "id": str(path)}]
    assert "gone-1" in result.stdout
    until(lambda: not path.exists(), "the folder is gone")
