"""The record of a run: never half written, and read back as it was."""

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.hosts import Machine
from cluster.runs import store
from tests.plain_values import plain_definition, plain_facts
from tests.runs.conftest import a_run, record
from tests.snapshots import Snapshot

WHOLE = record(
    status="failed",
    machines=(
        Machine(  # noqa: S604 - "shell" names one of our plug-ins
            name="0.mpi.mine", id="i", address="::1", shell="local", folder="/a b", bin="/b"
        ),
    ),
    command=("mpirun", "-np", "2", "a 'b'\n"),
    argv=("cluster", "bench"),
    definitions={
        "p2p.latency-1": plain_definition(benchmark="p2p", metric="latency", synchronisation="s")
    },
    environment=(
        plain_facts(
            "hôte",
            usable_cores=1,
            cgroup_cpus=1.5,
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


def test_a_record_survives_being_written_and_read(folder: Path) -> None:
    store.write(folder, WHOLE)

    again = store.record(folder)
    assert msgspec.structs.replace(again, params=WHOLE.params) == WHOLE
    assert msgspec.json.decode(again.params) == {}


def test_parameters_stay_the_json_that_they_were(folder: Path) -> None:
    params = {"sizes": [8, 16], "pair": [0, 1], "until_precise": True, "iterations": None}
    store.write(folder, record(params=msgspec.Raw(msgspec.json.encode(params))))
    store.write(folder, store.record(folder))

    assert msgspec.json.decode(store.record(folder).params) == params


def test_the_record_can_be_read_by_people(folder: Path) -> None:
    lines = (folder / "run.json").read_text().splitlines()

    assert '  "benchmark": "p2p",' in lines
    assert '    "name": "mine"' in lines


def test_writing_leaves_nothing_beside_the_record(folder: Path) -> None:
    store.write(folder, record(status="done"))

    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_a_record_is_on_disk_before_it_replaces_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file has its whole length when it is told to be written out; the old one is there."""
    states = []

    def note(handle: int) -> None:
        states.append((os.fstat(handle).st_size, store.record(folder).status))

    monkeypatch.setattr(os, "fsync", note)
    store.write(folder, record(status="done"))

    assert states == [((folder / "run.json").stat().st_size, "planned")]


def test_a_write_that_fails_leaves_the_old_record(
    folder: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with snapshot.raises(ClusterError):
        store.write(folder, record(status="done"))
    assert store.record(folder).status == "planned"


def test_a_reader_sees_the_old_record_or_the_new_one(folder: Path) -> None:
    """A record of 1 MB is rewritten again and again, while it is read."""
    long_record = record(notes=("x" * 1_000_000,))
    end = threading.Event()

    def rewrite() -> None:
        for status in ("running", "done") * 10:
            store.write(folder, msgspec.structs.replace(long_record, status=status))
        end.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(rewrite)
        states = {store.record(folder).status}
        while not writing.done():
            states.add(store.record(folder).status)
        writing.result()

    assert states <= {"planned", "running", "done"}
    assert end.is_set()


def test_a_record_cannot_be_written_into_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="runs=DIR"):
        store.write(tmp_path / "gone", record())


def test_no_record(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        store.record(Path("/nowhere"))


CHANGES = {
    "unknown field": (b'"version": 1', b'"version": 1, "colour": "red"'),
    "type": (b'"hosts": 2', b'"hosts": "two"'),
    "range": (b'"hosts": 2', b'"hosts": 0'),
    "rule": (b'"name": "mine"', b'"name": "a.b"'),
    "not UTF-8": (b'"name": "mine"', b'"name": "\xff"'),
    "status": (b'"planned"', b'"postponed"'),
    "cut off": (b"}", b""),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_a_record_of_another_version_is_a_parse_error(folder: Path, old: bytes, new: bytes) -> None:
    text = (folder / "run.json").read_bytes()
    assert old in text
    (folder / "run.json").write_bytes(text.replace(old, new))

    with pytest.raises(ParseError, match=re.escape(str(folder / "run.json"))):
        store.read(folder)


def test_a_later_format_is_refused_by_its_number(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = a_run(tmp_path)
    path = folder / "run.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))

    with snapshot.raises(ParseError):
        store.record(folder)
