"""`cluster import FOLDER`: a run that a batch job left, or somebody sent, joins the runs here."""

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.runs import store
from cluster.runs.import_.logs import import_logs
from cluster.runs.store import import_run
from tests.conftest import command
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A run on another machine."""
    return import_logs([str(LOGS / "osu.latency.txt")], tmp_path / "there", name="site").folder


def test_a_run_is_copied_whole_and_found_here(elsewhere: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    output = command("import", str(elsewhere), "--runs", str(folder), "--json").stdout
    copy = store.find(folder, "site")

    assert Path(json.loads(output)["run"]) == copy
    assert store.read(copy).summary() == store.read(elsewhere).summary()
    assert (copy / "raw" / "osu.latency.txt").read_bytes() == (
        elsewhere / "raw" / "osu.latency.txt"
    ).read_bytes()


def test_the_same_run_is_kept_once_and_another_of_its_name_beside_it(
    elsewhere: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    first = import_run(elsewhere, folder)
    assert import_run(elsewhere, folder) == first == import_run(first, folder)

    record = store.record(elsewhere)
    store.write(elsewhere, replace(record, notes=("another",)))
    second = import_run(elsewhere, folder)
    assert (second.name, store.record(second).id) == (f"{first.name}.1", f"{first.name}.1")
    assert store.record(first).notes == record.notes
    assert import_run(elsewhere, folder) == second
    assert import_run(elsewhere, folder, "other").parent.name == "other"


def test_links_and_pipes_of_a_run_are_left_behind(elsewhere: Path, tmp_path: Path) -> None:
    """A link may lead anywhere, and a pipe has no end."""
    (elsewhere / "raw" / "link").symlink_to("/etc/passwd")
    os.mkfifo(elsewhere / "raw" / "pipe")
    copy = import_run(elsewhere, tmp_path / "here")

    assert [path.name for path in (copy / "raw").iterdir()] == ["osu.latency.txt"]


def test_a_damaged_run_is_refused_and_nothing_is_kept(elsewhere: Path, tmp_path: Path) -> None:
    (elsewhere / store.MEASUREMENTS).write_text("{\n")
    with pytest.raises(ParseError):
        import_run(elsewhere, tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_copy_that_ends_early_is_removed(
    snapshot: Snapshot, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with snapshot.raises(ClusterError):
        import_run(elsewhere, tmp_path / "here")
    assert not list((tmp_path / "here" / "site").iterdir())


def test_a_run_is_kept_below_the_folder_of_runs(elsewhere: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        import_run(elsewhere, tmp_path / "here", "../out")
    assert not (tmp_path / "out").exists()


def test_a_run_says_itself_what_it_is(snapshot: Snapshot, elsewhere: Path) -> None:
    result = command("import", str(elsewhere), "--log-format", "osu", status=2)
    snapshot(result.stderr)
