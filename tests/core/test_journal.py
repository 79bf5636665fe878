"""The journal: what is written before it is done, found again by any process."""

import os
from pathlib import Path

import msgspec
import pytest

from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.results.records import JobRecord
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from cluster.core.state.journal import Collected, Created, Examined, Intended, Started
from tests.snapshots import Snapshot

INTENDED = Intended(spec=ClusterSpec(name="mine", hosts=3, options={"rate": "1gbit"}), at=12.5)
CREATED = Created(
    machines=(
        Machine(  # noqa: S604 - "shell" names one of our plug-ins
            name="0.mpi.mine", id="i", address="127.0.0.1", shell="local", folder="/f", bin="/b"
        ),
    ),
    expires=7213.0,
)
EXAMINED = Examined(facts=())
STARTED = Started(
    job=JobRecord(session="mine", folder="/f/1", run="/r\n", benchmark="p2p", at=13.0)
)
SETTLED = Collected(run="/r\n")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that does not exist yet."""
    folder = tmp_path / "a" / "state"
    monkeypatch.setenv("CLUSTER_STATE", str(folder))
    return folder


def test_entries_come_back_in_their_order() -> None:
    for entry in (INTENDED, CREATED, EXAMINED, STARTED, SETTLED, INTENDED):
        journal.for_cluster("mine").append(entry)

    assert journal.for_cluster("mine").entries() == (
        INTENDED,
        CREATED,
        EXAMINED,
        STARTED,
        SETTLED,
        INTENDED,
    )


def test_journals_that_exist_can_be_read(state: Path) -> None:
    """The format on disk, literally: it must not change without notice."""
    (state / "mine").mkdir(parents=True)
    (state / "mine" / "journal.jsonl").write_text(
        '{"type":"intended","spec":{"name":"mine","hosts":3,"options":{"rate":"1gbit"}},"at":12.5}\n'
        '{"type":"created","machines":[]}\n'
        '{"type":"examined","facts":[]}\n'
        '{"type":"started","job":{"session":"mine","folder":"/f/1","run":"/r\\n",'
        '"benchmark":"p2p","at":13.0}}\n'
        '{"type":"collected","run":"/r\\n"}\n'
    )

    created = Created(machines=())
    assert journal.for_cluster("mine").entries() == (INTENDED, created, EXAMINED, STARTED, SETTLED)


@pytest.mark.parametrize("kind", [Intended, Created, Examined, Started, Collected, journal.Journal])
def test_entries_are_frozen_and_keyword_only(kind: type[Value]) -> None:
    assert kind.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        kind("x")


def test_clusters_have_journals_of_their_own(state: Path) -> None:
    journal.for_cluster("mine").append(INTENDED)
    journal.for_cluster("yours").append(INTENDED)
    journal.for_cluster("yours").append(SETTLED)

    assert journal.for_cluster("mine").entries() == (INTENDED,)
    assert journal.for_cluster("yours").entries() == (INTENDED, SETTLED)
    assert journal.for_cluster("mine").path == state / "mine" / "journal.jsonl"


def test_nothing_is_made_by_looking(state: Path) -> None:
    assert journal.for_cluster("mine").entries() == ()
    assert journal.names() == ()
    assert not state.exists()


@pytest.mark.parametrize("entry", [CREATED, STARTED, SETTLED])
def test_only_an_intention_opens_a_journal(state: Path, entry: journal.Entry) -> None:
    """What another process took down meanwhile does not come back half."""
    journal.for_cluster("mine").append(INTENDED)
    journal.for_cluster("mine").forget()

    with pytest.raises(ClusterError):
        journal.for_cluster("mine").append(entry)
    assert not (state / "mine").exists()


def test_an_entry_is_on_disk_before_append_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has its whole length when it is told to be written out."""
    lengths = []
    fsync = os.fsync

    def note(handle: int) -> None:
        lengths.append(os.fstat(handle).st_size)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    journal.for_cluster("mine").append(INTENDED)
    journal.for_cluster("mine").append(SETTLED)

    assert lengths[-1] == journal.for_cluster("mine").path.stat().st_size
    assert len(lengths) >= 2
    assert 0 < lengths[0] < lengths[-1]


def test_nobody_else_may_look(state: Path) -> None:
    journal.for_cluster("mine").append(INTENDED)

    assert (state / "mine").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("count", [1, 5])
def test_the_journal_goes_on_after_a_last_line_that_was_cut_off(count: int) -> None:
    """What a crash left must not swallow the next entry, nor make the cluster unreadable."""
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    book.append(CREATED)
    book.path.write_bytes(book.path.read_bytes()[:-count])

    assert book.entries() == (INTENDED,)
    book.append(STARTED)
    assert book.entries() == (INTENDED, STARTED)


def test_only_a_line_that_was_cut_off() -> None:
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    book.path.write_bytes(book.path.read_bytes()[:-1])

    assert book.entries() == ()


CHANGES = {
    "unknown field": (b'"hosts":3', b'"hosts":3,"colour":"red"'),
    "range": (b'"hosts":3', b'"hosts":0'),
    "unknown entry": (b"intended", b"regretted"),
    "not UTF-8": (b'"mine"', b'"\xff"'),
    "not JSON": (b"{", b""),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_a_journal_of_another_version_is_a_parse_error(
    snapshot: Snapshot, old: bytes, new: bytes
) -> None:
    book = journal.for_cluster("mine")
    book.append(INTENDED)
    text = book.path.read_bytes()
    assert old in text
    book.path.write_bytes(text.replace(old, new, 1))

    with snapshot.raises(ParseError):
        book.entries()


def test_forget_removes_everything_of_one_cluster(state: Path) -> None:
    for name in ("mine", "yours"):
        journal.for_cluster(name).append(INTENDED)
    (state / "mine" / "host").mkdir()
    (state / "mine" / "host" / "file").write_text("")
    journal.for_cluster("mine").forget()
    journal.for_cluster("mine").forget()

    assert not (state / "mine").exists()
    assert journal.for_cluster("mine").entries() == ()
    assert journal.names() == ("yours",)


def test_names_are_the_newest_first(state: Path) -> None:
    """By the last launch, whatever was touched since; one that cannot be read comes last."""
    for name, time in (("b", 100.0), ("c", 50.0), ("a", 200.0), ("c", 300.0)):
        journal.for_cluster(name).append(msgspec.structs.replace(INTENDED, at=time))
    journal.for_cluster("b").append(STARTED)
    (state / "broken").mkdir()
    (state / "broken" / "journal.jsonl").write_text("?\n")
    (state / "no_journal").mkdir()
    (state / "file").write_text("")

    assert journal.names() == ("c", "a", "b", "broken")


def test_the_state_folder(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_folder() == state
    monkeypatch.setenv("CLUSTER_STATE", "")
    assert state_folder() == tmp_path / "xdg" / "cluster"
    monkeypatch.delenv("CLUSTER_STATE")
    assert state_folder() == tmp_path / "xdg" / "cluster"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "cluster"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "cluster"


def test_a_relative_state_folder_does_not_move_with_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTER_STATE", "state")
    book = journal.for_cluster("mine")
    monkeypatch.chdir("/")
    book.append(INTENDED)

    assert (tmp_path / "state" / "mine" / "journal.jsonl").is_file()


def test_a_state_folder_that_cannot_be_written(snapshot: Snapshot, state: Path) -> None:
    """A file is where the folder should be."""
    state.parent.mkdir()
    state.write_text("")

    with snapshot.raises(ClusterError) as error:
        journal.for_cluster("mine").append(INTENDED)
    assert str(state) in error.value.what


def test_a_state_folder_that_cannot_be_read(state: Path) -> None:
    """The first thing that launch does is to look; that too must not end in a traceback."""
    state.parent.mkdir()
    state.write_text("")

    with pytest.raises(ClusterError, match="CLUSTER_STATE=DIR"):
        journal.for_cluster("mine").entries()


def test_of_two_launches_at_once_one_is_refused() -> None:
    """Whoever opened the journal goes on, and can be seen to; then it may be taken down."""
    book = journal.for_cluster("mine")
    with book.open_for_launch(INTENDED):
        assert book.is_launching()
        with (
            pytest.raises(SpecError, match="mine"),
            book.open_for_launch(INTENDED),
        ):
            raise AssertionError("it was let in")
    assert not book.is_launching()
    assert book.entries() == (INTENDED,)
