"""sync on this machine: what is sent, what is left out, and what is said of it."""

import itertools
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import ClusterError, ShellError, SpecError
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.sync import LocalTree, Sync, compare, read_tree
from cluster.remote.files.host_files import TreeEntry, list_tree
from cluster.remote.shells.local import LocalShell
from tests.conftest import answer, command, tries, write_files
from tests.snapshots import Snapshot

ODD = (
    "a 'b'",
    'say "c"',
    "new\nline",
    "re\rturn",
    "back\\nslash",
    "-rf",
    " ",
    "$(d);e*",
    "ö",
    "\udcff",
)


@pytest.fixture
def c(home: Path) -> Cluster:
    """A cluster that is this machine."""
    return cluster.launch("here", provider="local", hosts=1)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_only_what_differs_is_sent(
    snapshot: Snapshot, c: Cluster, home: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "there")
    source = write_files(home / "code", main="one", sub__deep="two", sub__more="three")

    first = c.sync(source, target)
    again = c.sync(source, target)
    (source / "main").write_text("ONE")  # as long, and within the same second
    second = c.sync(source, target)

    assert (first.files, first.sent, first.sent_bytes) == (3, 3, 11)
    assert (again.files, again.sent, again.sent_bytes) == (3, 0, 0)
    assert (second.sent, second.sent_bytes) == (1, 3)
    assert Path(target, "main").read_text() == "ONE"
    snapshot(str(second))


def test_what_changed_without_another_size_or_time_is_found_by_its_content(
    c: Cluster, home: Path, tmp_path: Path
) -> None:
    """Another time and the same content sends nothing, and the next sync asks no more."""
    target = tmp_path / "there"
    source = write_files(home / "code", same="text", other="text")
    for file in source.iterdir():
        os.utime(file, (1_000_000, 1_000_000))
    c.sync(source, str(target))
    (target / "same").touch()
    (target / "other").write_text("TEXT")
    (source / "same").chmod(0o750)

    report = c.sync(source, str(target))

    assert (report.sent, report.sent_bytes) == (1, 4)
    assert (target / "other").read_text() == "text"
    assert (target / "same").stat().st_mtime == 1_000_000
    assert (target / "same").stat().st_mode & 0o777 == 0o750


def test_gitignore_caches_and_environments_are_left_out(c: Cluster, home: Path) -> None:
    """Nested files count, a later pattern wins, and so does the file nearer to the name."""
    repository = write_files(
        home / "repository",
        **{
            ".gitignore": "*.log\nbuild/\n!important.log\n/data\n",
            "code__.gitignore": "*.o\n!kept.log\n",
            "code__main.c": "",
            "code__main.o": "",
            "code__kept.log": "",
            "code__data": "",
            "code__build__out": "",
            "important.log": "",
            "a.log": "",
            "data": "",
            "code__venv__pyvenv.cfg": "",
            "code__node_modules__a.js": "",
        },
    )
    subprocess.run(["git", "init", "-q", str(repository)], check=True)

    tree = read_tree(repository, home)
    inner = read_tree(repository / "code", home)
    ignored = read_tree(repository / "code" / "build", home)

    files = {name for name, entry in tree.entries.items() if entry.kind == "f"}
    assert files == {
        *(".gitignore", "code/.gitignore", "code/main.c", "code/kept.log", "code/data"),
        "important.log",
    }
    assert set(tree.left_out) == {
        *(".git/", "a.log", "data", "code/build/", "code/main.o", "code/node_modules/"),
        "code/venv/",
    }
    assert set(inner.entries) == {".gitignore", "main.c", "kept.log", "data"}
    assert set(ignored.entries) == {"out"}  # it was named


def test_git_would_send_the_same(home: Path) -> None:
    repository = write_files(
        home / "repository",
        **{
            ".gitignore": "*.o\n/top\nsub/*.txt\n!sub/keep.txt\nfoo/**/bar\n\\#x\ntrail \n",
            "top": "",
            "sub__top": "",
            "sub__a.txt": "",
            "sub__keep.txt": "",
            "sub__x.o": "",
            "foo__bar": "",
            "foo__a__b__bar": "",
            "foo__a__baz": "",
            "#x": "",
            "trail": "",
        },
    )
    git = ["git", "-C", str(repository)]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True
    )

    tree = read_tree(repository, home)

    files = {name for name, entry in tree.entries.items() if entry.kind == "f"}
    assert files == set(os.fsdecode(listed.stdout).split("\0")[:-1])


def test_any_name_arrives(c: Cluster, home: Path, tmp_path: Path) -> None:
    source = home / "odd"
    for name in ODD:
        (source / name).mkdir(parents=True)
        (source / name / name).write_text(repr(name))

    report = c.sync(source, str(tmp_path / "the 'there'"))

    assert report.sent == len(ODD)
    for name in ODD:
        assert (tmp_path / "the 'there'" / name / name).read_text() == repr(name)
    listed = list_tree(LocalShell(), str(tmp_path / "the 'there'"))
    assert set(listed.entries) == {*ODD, *(f"{name}/{name}" for name in ODD)}


def test_links_stay_links_and_those_that_lead_out_are_named(
    snapshot: Snapshot, c: Cluster, home: Path, tmp_path: Path
) -> None:
    source = write_files(home / "code", file="text", sub__file="text")
    (source / "in").symlink_to("./sub")
    (source / "sub" / "up").symlink_to("../file")
    (source / "out").symlink_to("../secret")
    (source / "absolute").symlink_to("/etc")
    os.mkfifo(source / "pipe")

    report = c.sync(source, str(tmp_path / "there"))

    assert set(report.outward) == {"out", "absolute"}
    assert report.left_out == ("pipe",)
    assert os.readlink(tmp_path / "there" / "in") == "./sub"  # noqa: PTH115 - Path alters it
    assert (tmp_path / "there" / "absolute").readlink() == Path("/etc")
    snapshot(str(report))
    assert c.sync(source, str(tmp_path / "there")).sent == 0


def test_nothing_is_written_through_a_link_that_became_a_folder(
    c: Cluster, home: Path, tmp_path: Path
) -> None:
    outside = write_files(tmp_path / "outside", kept="theirs")
    source = write_files(home / "code", file="text")
    (source / "data").symlink_to(outside)
    c.sync(source, str(tmp_path / "there"))
    (source / "data").unlink()
    write_files(source, data__kept="ours")

    with pytest.raises(ShellError, match="data is no folder on the host"):
        c.sync(source, str(tmp_path / "there"))
    assert (tmp_path / "there" / "data").is_symlink()
    assert c.sync(source, str(tmp_path / "there"), delete=True).removed == ("data",)

    assert (outside / "kept").read_text() == "theirs"
    assert not (tmp_path / "there" / "data").is_symlink()
    assert (tmp_path / "there" / "data" / "kept").read_text() == "ours"


def test_only_delete_removes_and_nothing_that_is_ignored(
    c: Cluster, home: Path, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    source = write_files(home / "code", **{"main": "", ".gitignore": "*.out\nresults/\n"})
    c.sync(source, str(target))
    write_files(
        target, **{"old__a": "", "old__b.out": "", "gone": "", "results__deep__x": "", "y.out": ""}
    )

    first = c.sync(source, str(target))
    assert names(target) >= {"old/a", "gone"}
    report = c.sync(source, str(target), delete=True)

    assert first.removed == ()
    assert set(report.removed) == {"old", "old/a", "gone"}
    assert names(target) == {"main", ".gitignore", "old/b.out", "results/deep/x", "y.out"}


def test_a_folder_in_the_place_of_a_file_is_removed_on_demand_only(
    snapshot: Snapshot, c: Cluster, home: Path, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    source = write_files(home / "code", thing="text")
    write_files(target, thing__inside="")

    with snapshot.raises(ClusterError):
        c.sync(source, str(target))
    assert names(target) == {"thing/inside"}
    c.sync(source, str(target), delete=True)
    assert (target / "thing").read_text() == "text"


def test_a_folder_that_holds_what_is_ignored_is_not_removed(
    c: Cluster, home: Path, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    source = write_files(home / "code", **{"thing": "text", ".gitignore": "*.out"})
    write_files(target, **{"thing__inside": "", "thing__deep__y.out": "results"})

    with pytest.raises(ShellError, match=re.escape("thing/deep/y.out is on the host")):
        c.sync(source, str(target), delete=True)
    assert names(target) == {"thing/inside", "thing/deep/y.out"}


def test_a_file_that_changes_all_the_time_is_named(
    snapshot: Snapshot, c: Cluster, home: Path, tmp_path: Path
) -> None:
    """Here it has changed whenever it was sent."""
    source, target = write_files(home / "code", quiet="text", log=""), str(tmp_path / "there")

    def read(_: object) -> LocalTree:
        with (source / "log").open("a") as log:
            log.write("more")
        return read_tree(source, home)

    report = Sync(c.hosts.shells(), "here", read, target, {"0.mpi.here": target}).run(delete=False)
    settled = c.sync(source, target)

    assert report.changed == ("log",)
    snapshot(str(report))
    assert (settled.sent, settled.changed) == (1, ())
    assert (tmp_path / "there" / "log").read_text() == "more" * 4


def test_files_take_a_fixed_time_each_whatever_their_number(
    c: Cluster, home: Path, tmp_path: Path
) -> None:
    """The second time, none is sent, and one that changed is found."""
    source, seconds = home / "many", list[float]()
    numbers, total = itertools.count(), tries(100_000)
    for files in (total // 10, total - total // 10):
        for number in itertools.islice(numbers, files):
            if number % 1000 == 0:
                (source / f"d{number // 1000}").mkdir(parents=True)
            os.close(os.open(source / f"d{number // 1000}" / f"f{number}", os.O_CREAT))
        start = time.process_time()
        assert c.sync(source, str(tmp_path / "there")).sent == files
        seconds.append((time.process_time() - start) / files)
    (source / "d7" / "f7077").write_text("changed")

    again = c.sync(source, str(tmp_path / "there"))
    assert (again.files, again.sent, again.sent_bytes) == (total, 1, len("changed"))
    assert (tmp_path / "there" / "d7" / "f7077").read_text() == "changed"
    assert sum(1 for _ in (tmp_path / "there").rglob("f*")) == total
    assert seconds[1] < 5 * seconds[0]  # of the processor: not squared


def test_a_folder_inside_itself_is_left_out(c: Cluster, home: Path) -> None:
    """On this machine, the two may be one in the other."""
    write_files(home, main="text")

    for _ in range(3):
        report = c.sync(home, str(home / "copy"))

    assert report.left_out == ("copy/",)
    assert names(home) == {"main", "copy/main"}


@pytest.mark.parametrize("name", ["", "nothing", "file"])
def test_what_is_no_folder_is_refused(c: Cluster, home: Path, name: str) -> None:
    write_files(home, file="text")

    with pytest.raises(SpecError):
        c.sync(name, str(home / "there"))
    write_files(home / "code", a="")
    with pytest.raises(ClusterError, match="file"):
        c.sync(home / "code", str(home / "file"))


def test_the_command_says_what_it_did(c: Cluster, home: Path) -> None:
    write_files(home / "code", main="text", **{".gitignore": "*.o", "a.o": ""})

    output = command("more", "sync", "here", "code", str(home / "there")).stdout
    again = answer("more", "sync", "here", "code", str(home / "there"))

    assert "2 of 2" in output
    assert "a.o" in output
    assert (again["files"], again["sent"], again["left_out"]) == (2, 0, ["a.o"])


def test_a_time_within_this_second_says_nothing() -> None:
    file = TreeEntry(kind="f", size=1, time=5 * 10**9 + 7)
    whole = TreeEntry(kind="f", size=1, time=5 * 10**9)

    assert compare({"a": file}, {"a": file}, (), 5.5) == ([], [])
    assert compare({"a": file}, {"a": whole}, (), 6.0) == ([], [])
    assert compare({"a": file}, {"a": whole}, (), 5.5) == ([], ["a"])
