"""The copy of a working folder that `cluster run --mpi` runs a program in."""

import errno
import os
from pathlib import Path

import pytest

from cluster.agent.scratch import remove_unchanged
from cluster.core.errors import SpecError
from cluster.orchestration.bench import working_folder
from cluster.orchestration.bench.working_folder import WorkingFolder, find_files, temporary_copy
from cluster.orchestration.cluster import attach
from cluster.runs import store
from tests.conftest import command, runs_folder

HELLO = """\
from pathlib import Path
from mpi4py import MPI
import words
rank = MPI.COMM_WORLD.Get_rank()
print(f"{words.GREETING} from rank {rank}: {Path('progress.jsonl').read_text()}")
Path(f"out.{rank}").write_text("made there")
"""


@pytest.fixture
def folder(home: Path) -> Path:
    """Make a folder with files that are copied, and others that are not."""
    for name in (
        "hello.py",
        "data/input",
        ".git/config",
        "__pycache__/hello.pyc",
        "runs/a/run.json",
    ):
        path = home / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (home / "work" / "venv").mkdir()
    (home / "work" / "venv" / "pyvenv.cfg").touch()
    (home / "work" / "link").symlink_to("hello.py")
    (home / "work" / "dangling").symlink_to("nowhere")
    return home / "work"


def test_what_is_hidden_made_or_a_result_is_left_out(folder: Path) -> None:
    content = find_files(folder, folder / "runs")

    assert [str(file) for file in content.files] == ["data/input", "hello.py", "link"]
    assert content.bytes == len("data/input") + 2 * len("hello.py")
    assert str(content) == f"{folder.resolve()} (3 files, 26 B)"
    with temporary_copy(content) as target:
        assert target is not None
        assert (target / "workdir" / "link").read_text() == "hello.py"
        assert not (target / "workdir" / "link").is_symlink()
        assert (target / "workdir" / "data" / "input").read_text() == "data/input"
    assert not target.exists()


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 25), ("MOST_FILES", 2)])
def test_a_folder_that_is_too_large_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(working_folder, limit, most)

    with pytest.raises(SpecError, match=str(most)):
        find_files(folder, folder / "runs")


def test_only_what_the_program_wrote_or_changed_is_left_to_download(folder: Path) -> None:
    """A folder of a user may hold credentials, and these never enter a run folder."""
    for name in ("credentials.json", "notes", "progress.jsonl", "scratch/a", "job.sh"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("as it was")
    with temporary_copy(find_files(folder, folder / "runs")) as job:
        assert job is not None
        copy = job / "workdir"
        (copy / "job.sh").write_text("changed")
        (copy / "data" / "result").write_text("new")
        (copy / "new").mkdir()
        (copy / "new" / "notes").write_text("as it was")
        (copy / "new" / "__pycache__").mkdir()
        (copy / "new" / "__pycache__" / "notes.pyc").write_text("made by Python")
        remove_unchanged(job)
        remove_unchanged(job)  # two names of one host
        files = sorted(str(path.relative_to(job)) for path in job.rglob("*") if path.is_file())

    assert files == ["workdir/data/result", "workdir/job.sh", "workdir/new/notes"]


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so here `open` stands for a file of somebody else."""
    content = find_files(folder, folder / "runs")
    (folder / "data" / "input").unlink()
    with pytest.raises(SpecError, match="input"), temporary_copy(content):
        pass

    def denied(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(SpecError, match=os.strerror(errno.EACCES)):
        find_files(folder, folder / "runs")


@pytest.mark.usefixtures("tools")
def test_a_program_of_the_current_folder_runs_with_what_is_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes comes back with the results."""
    monkeypatch.chdir(home)
    Path("hello.py").write_text(HELLO)
    Path("words.py").write_text('GREETING = "Hello"\n')
    Path("progress.jsonl").write_text("epoch 1")  # a job has files of these names itself
    Path("notes").write_text("mine")
    Path("scratch").mkdir()
    Path("scratch/data").touch()
    command("up", "mine")
    result = command("run", "mine", "--mpi", "--", "python3", "hello.py")
    raw = store.find(runs_folder(), "latest") / "raw"

    assert f"{home.resolve()} (5 files, " in result.stderr
    assert sorted((raw / "stdout").read_text().split("\n"))[-2:] == [
        "Hello from rank 0: epoch 1",
        "Hello from rank 1: epoch 1",
    ]
    assert sorted(path.name for path in (raw / "workdir").iterdir()) == ["out.0", "out.1"]
    assert (raw / "workdir" / "out.0").read_text() == "made there"
    assert "mine" not in store.record(raw.parent).notes
    assert not Path("out.0").exists()

    workdir = WorkingFolder(path=home, files=(Path("gone"),), bytes=0)
    with pytest.raises(SpecError, match="gone"):
        attach("mine").bench.program(command="true", workdir=workdir)
    assert store.record(store.find(runs_folder(), "latest")).status == "failed"
    command("down", "mine")
