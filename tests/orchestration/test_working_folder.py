"""The copy of a working folder that `cluster run --mpi` runs a program in."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.core.errors import SpecError
from cluster.orchestration import working_folder
from cluster.orchestration.working_folder import check_names, copied, find_files
from cluster.runs import store
from tests.conftest import command, runs_folder

HELLO = """\
from pathlib import Path
from mpi4py import MPI
import words
rank = MPI.COMM_WORLD.Get_rank()
print(f"{words.GREETING} from rank {rank}")
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
    found = find_files(folder, folder / "runs")

    assert [str(file) for file in found.files] == ["data/input", "hello.py", "link"]
    assert found.bytes == len("data/input") + 2 * len("hello.py")
    assert str(found) == f"{folder.resolve()} (3 files, 26 B)"
    with copied(found) as there:
        assert there is not None
        assert (there / "link").read_text() == "hello.py"
        assert not (there / "link").is_symlink()
        assert (there / "data" / "input").read_text() == "data/input"
    assert not there.exists()


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 25), ("MOST_FILES", 2)])
def test_a_folder_that_is_too_large_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(working_folder, limit, most)

    with pytest.raises(SpecError, match="too large to be copied"):
        find_files(folder, folder / "runs")


@pytest.mark.parametrize("name", ["job.sh", "stdout", "program.py", "measurements.0.jsonl"])
def test_a_file_named_as_one_of_the_job_is_refused(folder: Path, name: str) -> None:
    (folder / name).touch()

    with pytest.raises(SpecError, match=f"{name} has the name of a file of the job"):
        check_names(find_files(folder, folder / "runs"), ["program.py"])


@pytest.mark.usefixtures("tools")
def test_a_program_of_the_current_folder_runs_with_what_is_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it writes comes back with the results."""
    monkeypatch.chdir(home)
    Path("hello.py").write_text(HELLO)
    Path("words.py").write_text('GREETING = "Hello"\n')
    command("up", "mine")
    done = command("run", "mine", "--mpi", "--", "python3", "hello.py")
    raw = store.find(runs_folder(), "latest") / "raw"

    assert f"The ranks run in a copy of {home.resolve()} (2 files, " in done.stderr
    assert sorted((raw / "stdout").read_text().split("\n"))[-2:] == [
        "Hello from rank 0",
        "Hello from rank 1",
    ]
    assert [(raw / f"out.{rank}").read_text() for rank in (0, 1)] == ["made there"] * 2
    assert not Path("out.0").exists()
    command("down", "mine")
