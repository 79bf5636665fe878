"""The measurements of a run: read back in their order, and trusted as far as they are whole."""

from pathlib import Path

import pytest

from cluster.core.errors import ClusterError, ParseError
from cluster.runs import store
from tests.runs.conftest import measurement
from tests.snapshots import Snapshot


def test_measurements_come_back_in_their_order(folder: Path) -> None:
    store.append(folder, [measurement(1), measurement(0, 0.1, 1e-300)])
    store.append(folder, [])
    store.append(folder, (m for m in [measurement(2)]))
    run = store.read(folder)

    assert run.measurements == (measurement(1), measurement(0, 0.1, 1e-300), measurement(2))
    assert run.warnings == ()
    assert (run.folder, run.status, run.record) == (folder, "planned", store.record(folder))


def test_a_run_without_measurements(folder: Path) -> None:
    store.append(folder, [])

    assert store.read(folder).measurements == ()
    assert not (folder / "measurements.jsonl").exists()


def test_measurements_cannot_be_added_where_there_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="runs=DIR"):
        store.append(tmp_path / "gone", [measurement()])


def test_a_last_line_that_was_cut_off_is_left_out_and_told(
    snapshot: Snapshot, folder: Path
) -> None:
    store.append(folder, [measurement(0), measurement(1)])
    path = folder / "measurements.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    run = store.read(folder)

    assert run.measurements == (measurement(0),)
    assert len(run.warnings) == 1
    snapshot(run.warnings[0])


def test_a_whole_last_line_without_its_newline_is_not_trusted(folder: Path) -> None:
    """A number may have lost digits and still be one."""
    store.append(folder, [measurement(0), measurement(1)])
    path = folder / "measurements.jsonl"
    path.write_bytes(path.read_bytes()[:-1])

    assert store.read(folder).measurements == (measurement(0),)
    assert store.read(folder).warnings


@pytest.mark.parametrize("length", [1, 20, 65_535, 65_536, 65_537, 200_000])
def test_adding_removes_a_last_line_that_was_cut_off(folder: Path, length: int) -> None:
    store.append(folder, [measurement(0), measurement(1)])
    with (folder / "measurements.jsonl").open("ab") as file:
        file.write(b'{"metric":"' + b"x" * length)
    store.append(folder, [measurement(2)])
    run = store.read(folder)

    assert run.measurements == (measurement(0), measurement(1), measurement(2))
    assert run.warnings == ()


@pytest.mark.parametrize("length", [1, 65_536, 200_000])
def test_adding_removes_an_only_line_that_was_cut_off(folder: Path, length: int) -> None:
    (folder / "measurements.jsonl").write_bytes(b"x" * length)
    store.append(folder, [measurement(2)])

    assert store.read(folder).measurements == (measurement(2),)


@pytest.mark.parametrize(
    "line",
    [b'{"metric":"lat', b"", b"[]", b'{"metric":"\xff"}', b"null"],
    ids=["cut off", "empty", "a list", "not UTF-8", "null"],
)
def test_a_broken_line_before_the_last_is_an_error_with_its_number(
    folder: Path, line: bytes
) -> None:
    path = folder / "measurements.jsonl"
    store.append(folder, [measurement(0)])
    path.write_bytes(path.read_bytes() + line + b"\n")
    store.append(folder, [measurement(1)])

    with pytest.raises(ParseError, match=r"^Line 2 of ") as error:
        store.read(folder)
    assert error.value.line == line.decode(errors="replace")
    assert str(path) in error.value.what
