"""Run folders: never the same twice, listed, and found."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster.core.errors import ClusterError, SpecError
from cluster.runs import store
from tests.runs.conftest import STEM, WHEN, a_run
from tests.snapshots import Snapshot


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """Nine hours before UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC+9")
        time.tzset()
        yield
    time.tzset()


def test_a_folder_is_named_by_the_moment_in_utc_and_the_benchmark(
    tmp_path: Path, elsewhere: None
) -> None:
    folder = store.create(tmp_path, "mine", "p2p", WHEN)

    assert folder == tmp_path / "mine" / STEM
    assert folder.is_dir()


def test_runs_of_one_second_are_numbered(tmp_path: Path) -> None:
    names = [store.create(tmp_path, "mine", "p2p", WHEN + part / 10).name for part in range(3)]

    assert names == [STEM, f"{STEM}.1", f"{STEM}.2"]


def test_other_benchmarks_and_clusters_have_numbers_of_their_own(tmp_path: Path) -> None:
    store.create(tmp_path, "mine", "p2p", WHEN)

    assert store.create(tmp_path, "mine", "alltoall", WHEN).name == "20010909T014640Z-alltoall"
    assert store.create(tmp_path, "yours", "p2p", WHEN).name == STEM


def test_eight_threads_at_once_never_get_the_same_folder(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def five(_: int) -> list[Path]:
        barrier.wait()
        return [store.create(tmp_path, "mine", "p2p", WHEN) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        folders = [folder for batch in pool.map(five, range(8)) for folder in batch]

    assert {folder.name for folder in folders} == {STEM, *(f"{STEM}.{k}" for k in range(1, 40))}
    assert len(folders) == 40


@pytest.mark.parametrize("file", ["runs", "runs/mine"])
def test_a_file_where_the_folders_should_be(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")

    with pytest.raises(ClusterError, match="runs=DIR") as error:
        store.create(tmp_path / "runs", "mine", "p2p", WHEN)
    assert str(tmp_path / "runs") in error.value.what


def test_a_link_to_nowhere_where_the_folders_should_be(tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere")

    with pytest.raises(ClusterError, match="runs=DIR"):
        store.create(tmp_path / "runs", "mine", "p2p", WHEN)


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    new = a_run(tmp_path, "a", WHEN + 60)
    old = a_run(tmp_path, "b", WHEN)
    (tmp_path / "a" / "not a run").mkdir()
    (tmp_path / "a" / "note").write_text("")

    assert store.folders(tmp_path) == [old, new]
    assert store.folders(tmp_path / "nowhere") == []


def test_the_eleventh_run_of_a_second_is_the_newest(tmp_path: Path) -> None:
    folders = [a_run(tmp_path) for _ in range(12)]

    assert store.folders(tmp_path) == folders


@pytest.fixture
def three(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two runs of one cluster, and one between them of another."""
    return (
        a_run(tmp_path / "runs", "mine", WHEN),
        a_run(tmp_path / "runs", "yours", WHEN + 1),
        a_run(tmp_path / "runs", "mine", WHEN + 2),
    )


def test_find_by_name_gives_the_newest_of_that_cluster(
    tmp_path: Path, three: tuple[Path, Path, Path]
) -> None:
    assert store.find(tmp_path / "runs", "mine") == three[2]
    assert store.find(tmp_path / "runs", "yours") == three[1]


def test_find_by_id(tmp_path: Path, three: tuple[Path, Path, Path]) -> None:
    assert store.find(tmp_path / "runs", STEM) == three[0]
    assert store.find(tmp_path / "runs", f"mine/{STEM}") == three[0]


def test_find_latest(tmp_path: Path, three: tuple[Path, Path, Path]) -> None:
    assert store.find(tmp_path / "runs", "latest") == three[2]


def test_find_by_folder(
    tmp_path: Path, three: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "runs" / "mine")

    assert store.find(tmp_path / "elsewhere", str(three[1])) == three[1]
    assert store.find(tmp_path / "elsewhere", STEM) == three[0]
    assert store.find(tmp_path / "elsewhere", f"../yours/{three[1].name}").samefile(three[1])


@pytest.mark.parametrize("key", ["nobody", "min", "mine/nothing", STEM[:-1], "/", "*"])
def test_find_nothing(
    snapshot: Snapshot, tmp_path: Path, three: tuple[Path, Path, Path], key: str
) -> None:
    with snapshot.raises(SpecError):
        store.find(tmp_path / "runs", key)


def test_find_latest_where_there_is_none(snapshot: Snapshot, tmp_path: Path) -> None:
    with snapshot.raises(SpecError):
        store.find(tmp_path, "latest")


def test_the_root_is_the_one_asked_for_or_of_the_environment_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTER_RUNS", raising=False)
    assert store.root() == tmp_path / "runs"
    monkeypatch.setenv("CLUSTER_RUNS", "ours")
    assert store.root() == tmp_path / "ours"
    assert store.root("mine") == tmp_path / "mine"
    assert store.root(Path("/mine")) == Path("/mine")
