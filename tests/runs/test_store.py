"""The run folder: never the same twice, never half written, read back as it was."""

from __future__ import annotations

import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.hosts import Facts, Link, Machine
from cluster.core.model.measurements import Definition, Measurement
from cluster.core.model.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEN = 1_000_000_000.0
STEM = "20010909T014640Z-p2p"  # the billionth second


def record(**changes: object) -> Record:
    plain = Record(
        id=STEM, benchmark="p2p", status="planned", at=WHEN, spec=ClusterSpec(name="mine")
    )
    return msgspec.structs.replace(plain, **changes)


def measurement(rank: int = 0, *values: float) -> Measurement:
    return Measurement(
        metric="latency",
        definition="p2p.latency-00000000",
        unit="s",
        params={"size": 8},
        rank=rank,
        host="hôte",
        values=values or (1e-6, 2.5e-6),
        bytes=8,
    )


def a_run(root: Path, name: str = "mine", at: float = WHEN, benchmark: str = "p2p") -> Path:
    folder = store.create(root, name, benchmark, at)
    store.write(folder, record(id=folder.name))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_run(tmp_path / "runs")


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
    together = threading.Barrier(8)

    def five(_: int) -> list[Path]:
        together.wait()
        return [store.create(tmp_path, "mine", "p2p", WHEN) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        folders = [folder for got in pool.map(five, range(8)) for folder in got]

    assert {folder.name for folder in folders} == {STEM, *(f"{STEM}.{k}" for k in range(1, 40))}
    assert len(folders) == 40


@pytest.mark.parametrize("taken", ["runs", "runs/mine"])
def test_a_file_where_the_folders_should_be(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    (tmp_path / taken).write_text("")

    with pytest.raises(ClusterError, match="runs=DIR") as caught:
        store.create(tmp_path / "runs", "mine", "p2p", WHEN)
    assert str(tmp_path / "runs") in caught.value.what


def test_a_link_to_nowhere_where_the_folders_should_be(tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere")

    with pytest.raises(ClusterError, match="runs=DIR"):
        store.create(tmp_path / "runs", "mine", "p2p", WHEN)


def test_a_record_survives_being_written_and_read(folder: Path) -> None:
    whole = record(
        status="failed",
        machines=(
            Machine(  # noqa: S604 - "shell" names one of our plug-ins
                name="0.mpi.mine", id="i", address="::1", shell="local", folder="/a b", bin="/b"
            ),
        ),
        command=("mpirun", "-np", "2", "a 'b'\n"),
        argv=("cluster", "bench"),
        definitions={
            "p2p.latency-1": Definition(
                benchmark="p2p",
                metric="latency",
                unit="s",
                better="lower",
                what="w",
                clock="c",
                synchronisation="s",
                warm_up="u",
                aggregation="one rank",
            ),
        },
        environment=(
            Facts(
                home="/h",
                host="hôte",
                user="u",
                system="s",
                kernel="k",
                cpu="c",
                cores=2,
                usable_cores=1,
                cgroup_cpus=1.5,
                cgroup_memory=None,
                memory=1024,
                clock="tsc",
                python="3.11",
                mpi=None,
                tmux="tmux 3.4",
                libraries={"numpy": "2"},
                variables={"OMPI_MCA_btl": "tcp"},
            ),
        ),
        notes=("one", "two"),
        phases={"launch": 0.5},
        exit_status=137,
        reason="It was ended by SIGKILL.",
        software="0.1.0",
    )
    store.write(folder, whole)

    again = store.record(folder)
    assert msgspec.structs.replace(again, params=whole.params) == whole
    assert msgspec.json.decode(again.params) == {}


def test_parameters_stay_the_json_that_they_were(folder: Path) -> None:
    params = {"sizes": [8, 16], "pair": [0, 1], "until_precise": True, "iterations": None}
    store.write(folder, record(params=msgspec.Raw(msgspec.json.encode(params))))
    store.write(folder, store.record(folder))

    assert msgspec.json.decode(store.record(folder).params) == params


def test_the_record_can_be_read_by_people(folder: Path) -> None:
    lines = [line.rstrip(",") for line in (folder / "run.json").read_text().splitlines()]

    assert '  "benchmark": "p2p"' in lines
    assert '    "name": "mine"' in lines


def test_writing_leaves_nothing_beside_the_record(folder: Path) -> None:
    store.write(folder, record(status="done"))

    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_a_record_is_on_disk_before_it_replaces_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file has its whole length when it is told to be written out; the old one is there."""
    seen = []

    def note(handle: int) -> None:
        seen.append((os.fstat(handle).st_size, store.record(folder).status))

    monkeypatch.setattr(os, "fsync", note)
    store.write(folder, record(status="done"))

    assert seen == [((folder / "run.json").stat().st_size, "planned")]


def test_a_write_that_fails_leaves_the_old_record(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(ClusterError, match="No space left on device"):
        store.write(folder, record(status="done"))
    assert store.record(folder).status == "planned"


def test_a_reader_sees_the_old_record_or_the_new_one(folder: Path) -> None:
    """A record of 1 MB is rewritten again and again, while it is read."""
    big = record(notes=("x" * 1_000_000,))
    ended = threading.Event()

    def rewrite() -> None:
        for status in ("running", "done") * 10:
            store.write(folder, msgspec.structs.replace(big, status=status))
        ended.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(rewrite)
        seen = {store.record(folder).status}
        while not writing.done():
            seen.add(store.record(folder).status)
        writing.result()

    assert seen <= {"planned", "running", "done"}
    assert ended.is_set()


def test_a_record_cannot_be_written_into_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="runs=DIR"):
        store.write(tmp_path / "gone", record())


def test_no_record() -> None:
    with pytest.raises(SpecError, match=re.escape("/nowhere is not a run")) as caught:
        store.record(Path("/nowhere"))

    assert "cluster runs" in caught.value.remedy


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version": 1', b'"version": 1, "colour": "red"'),
        (b'"hosts": 2', b'"hosts": "two"'),
        (b'"hosts": 2', b'"hosts": 0'),
        (b'"name": "mine"', b'"name": "a.b"'),
        (b'"name": "mine"', b'"name": "\xff"'),
        (b'"planned"', b'"postponed"'),
        (b"}", b""),
    ],
    ids=["unknown field", "type", "range", "rule", "not UTF-8", "status", "cut off"],
)
def test_a_record_of_another_version_is_a_parse_error(folder: Path, old: bytes, new: bytes) -> None:
    text = (folder / "run.json").read_bytes()
    assert old in text
    (folder / "run.json").write_bytes(text.replace(old, new))

    with pytest.raises(ParseError, match=re.escape(str(folder / "run.json"))) as caught:
        store.read(folder)
    assert "another version" in caught.value.remedy


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


def test_a_last_line_that_was_cut_off_is_left_out_and_told(folder: Path) -> None:
    store.append(folder, [measurement(0), measurement(1)])
    path = folder / "measurements.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    run = store.read(folder)

    assert run.measurements == (measurement(0),)
    assert len(run.warnings) == 1
    assert "last line of measurements.jsonl was cut off" in run.warnings[0]


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
    "broken",
    [b'{"metric":"lat', b"", b"[]", b'{"metric":"\xff"}', b"null"],
    ids=["cut off", "empty", "a list", "not UTF-8", "null"],
)
def test_a_broken_line_before_the_last_is_an_error_with_its_number(
    folder: Path, broken: bytes
) -> None:
    path = folder / "measurements.jsonl"
    store.append(folder, [measurement(0)])
    path.write_bytes(path.read_bytes() + broken + b"\n")
    store.append(folder, [measurement(1)])

    with pytest.raises(ParseError, match=r"^Line 2 of ") as caught:
        store.read(folder)
    assert caught.value.line == broken.decode(errors="replace")
    assert str(path) in caught.value.what


def definition(**changes: object) -> Definition:
    plain = Definition(
        benchmark="p2p",
        metric="latency",
        unit="s",
        better="lower",
        what="w",
        clock="c",
        synchronisation="s",
        warm_up="u",
        aggregation="one rank",
    )
    return msgspec.structs.replace(plain, **changes)


def test_the_summary_of_a_run(folder: Path) -> None:
    of = definition()
    store.write(folder, record(definitions={of.id: of}))
    store.append(folder, [msgspec.structs.replace(measurement(0, 3.0, 1.0), definition=of.id)])

    assert [(s.metric, s.n, s.median) for s in store.read(folder).summary()] == [
        ("latency", 2, 2.0)
    ]


def machine(number: int, address: str, link: Link | None) -> Machine:
    return Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name=f"{number}.mpi.mine",
        id=f"id-{number}",
        address=address,
        shell="local",
        folder="/x",
        bin="/y",
        link=link,
    )


GBIT = Link(rate=125e6, source="test")
SLOWER = Link(rate=12.5e6, source="test")
GOODPUT = 125e6 * 1448 / 1538  # bytes per second


@pytest.mark.parametrize(
    ("machines", "ranks_per_host", "params", "expected"),
    [
        ([("a", GBIT), ("b", GBIT)], 1, {"pair": [0, 1]}, GOODPUT),
        ([("a", GBIT), ("b", SLOWER)], 1, {"pair": [0, 1]}, GOODPUT / 10),
        ([("a", GBIT), ("b", SLOWER)], 1, {}, GOODPUT / 10),
        ([("a", GBIT), ("b", SLOWER)], 1, {"pair": "another meaning"}, GOODPUT / 10),
        ([("a", GBIT), ("b", SLOWER), ("c", GBIT)], 1, {"pair": [0, 2]}, GOODPUT),
        ([("a", GBIT), ("b", None)], 1, {"pair": [0, 1]}, None),
        ([("a", GBIT), ("b", GBIT)], 2, {"pair": [0, 1]}, None),
        ([("a", GBIT), ("b", GBIT)], 2, {"pair": [1, 2]}, GOODPUT),
        ([("a", GBIT), ("a", GBIT)], 1, {"pair": [0, 1]}, None),
        ([("a", GBIT)], 2, {}, None),
        ([], 1, {"pair": [0, 1]}, None),
    ],
)
def test_the_links_of_the_hosts_that_took_part_bound_a_run(
    folder: Path,
    machines: list[tuple[str, Link | None]],
    ranks_per_host: int,
    params: dict[str, object],
    expected: float | None,
) -> None:
    """Ranks of one host have no network between them, whatever its link is."""
    of = definition(metric="bandwidth", unit="B/s", better="higher", flow="one way")
    known = record(
        spec=ClusterSpec(name="mine", ranks_per_host=ranks_per_host),
        machines=tuple(machine(n, *one) for n, one in enumerate(machines)),
        params=msgspec.Raw(msgspec.json.encode(params)),
        definitions={of.id: of},
    )
    store.write(folder, known)
    store.append(folder, [msgspec.structs.replace(measurement(0, 1e-6), definition=of.id)])

    [summary] = store.read(folder).summary()
    assert summary.median == 8e6
    assert summary.bound == pytest.approx(expected)
    assert summary.share == (None if expected is None else pytest.approx(8e6 / expected))


def test_of_a_one_way_time_the_receivers_is_bounded(folder: Path) -> None:
    of = definition(metric="oneway_time", aggregation="each rank", flow="one way")
    known = record(
        machines=(machine(0, "a", GBIT), machine(1, "b", GBIT)),
        params=msgspec.Raw(b'{"pair": [1, 0]}'),
        definitions={of.id: of},
    )
    store.write(folder, known)
    taken = (measurement(rank, 1.0) for rank in (0, 1))
    store.append(folder, [msgspec.structs.replace(m, definition=of.id, bytes=10**8) for m in taken])

    received, sent = store.read(folder).summary()
    assert received.bound == received.share == pytest.approx(1e8 / GOODPUT)
    assert (sent.params["rank"], sent.bound, sent.share) == (1, None, None)


OLD = Path(__file__).parents[1] / "old_run"


def test_a_run_of_before_there_were_bounds_is_read_as_it_was() -> None:
    """Written by the version without `link` and `flow`; its ids are still those of its values."""
    found = store.read(OLD)

    assert [(s.metric, s.bound) for s in found.summary()] == [
        ("latency", None),
        ("bandwidth", None),
    ]
    assert all(key == of.id for key, of in found.record.definitions.items())


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    new = a_run(tmp_path, "a", WHEN + 60)
    old = a_run(tmp_path, "b", WHEN)
    (tmp_path / "a" / "not a run").mkdir()
    (tmp_path / "a" / "note").write_text("")

    assert store.folders(tmp_path) == [old, new]
    assert store.folders(tmp_path / "nowhere") == []


def test_the_eleventh_run_of_a_second_is_the_newest(tmp_path: Path) -> None:
    made = [a_run(tmp_path) for _ in range(12)]

    assert store.folders(tmp_path) == made


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


@pytest.mark.parametrize("which", ["nobody", "min", "mine/nothing", STEM[:-1], "/", "*"])
def test_find_nothing(tmp_path: Path, three: tuple[Path, Path, Path], which: str) -> None:
    with pytest.raises(SpecError, match=re.escape(f"no run {which!r}")) as caught:
        store.find(tmp_path / "runs", which)
    assert "cluster runs" in caught.value.remedy


def test_find_latest_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no run 'latest'"):
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


def test_a_later_format_is_refused_by_its_number(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    path = folder / "run.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))

    with pytest.raises(ParseError, match="has version 2 of the format; this is 1"):
        store.record(folder)
