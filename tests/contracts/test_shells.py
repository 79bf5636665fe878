"""What every shell does, here, over SSH, in steps of a real Slurm, and in pods: the same."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.agent.scratch import sha256
from cluster.core import plugins
from cluster.core.errors import ShellError
from cluster.core.model.hosts import Machine
from cluster.remote.files import host_files
from cluster.remote.files.host_files import list_tree
from cluster.remote.shells import Shell
from tests.contracts.sshd import Sshd, sshd
from tests.fakes.kubernetes import Kubernetes
from tests.slurm_here import SlurmHere, slurm_here

__all__ = ["slurm_here", "sshd"]
ODD = ["a 0", 'a"=0"', "a'; echo foo", "a\n0", "$(exit 1)", "*", "-n", "ü", "\\"]
ODD_NAMES = [*(name.replace("/", "") for name in ODD), "new\nline\n", "re\rturn", "\udcff", "-rf"]


@pytest.fixture(scope="session")
def slurm_job(slurm_here: SlurmHere) -> Iterator[str]:
    """A job that holds the node of a real Slurm."""
    job = slurm_here.hold()
    yield job
    slurm_here.end(job)


@pytest.fixture
def slurm_node(slurm_here: SlurmHere, slurm_job: str, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The node that the job holds."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_here.conf))
    return Machine(  # noqa: S604 - "shell" names a plug-in
        name="0.mpi.held", id="here", address="", shell="srun", folder="", bin="", job=slurm_job
    )


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[Kubernetes]:
    """A test Kubernetes with a pod, reached by the real kubectl."""
    from tests.fakes.kubernetes import Kubernetes  # noqa: PLC0415 - few tests need its schemas

    with Kubernetes() as cluster:
        cluster.add_node("node0")
        cluster.add_pod("pod0")
        yield cluster
        assert not cluster.gaps


@pytest.fixture
def pod(kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.settings()))
    return Machine(  # noqa: S604 - "shell" names a plug-in
        name="0.mpi.held", id="pod0.team-a@fake", address="", shell="kubectl", folder="", bin=""
    )


@pytest.fixture(params=plugins.names(Shell))
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    """Every shell that there is."""
    machine = None
    if request.param == "ssh":
        server: Sshd = request.getfixturevalue("sshd")
        machine = server.machine()
    elif request.param == "kubectl":
        machine = request.getfixturevalue("pod")
    elif request.param == "srun":
        machine = request.getfixturevalue("slurm_node")
    instance = plugins.find(Shell, request.param)(machine)
    yield instance
    instance.close()


def test_words_arrive_as_they_are(shell: Shell) -> None:
    words = [*ODD, "", "`id`"]
    result = shell.run(["printf", "%s|", *words])

    assert (result.status, result.stdout, result.stderr) == (0, "".join(f"{w}|" for w in words), "")


def test_status_and_both_streams(shell: Shell) -> None:
    result = shell.run(["sh", "-c", "echo out; echo err >&2; exit 3"])

    assert (result.status, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_a_signal_is_told_as_shells_tell_it(shell: Shell) -> None:
    assert shell.run(["sh", "-c", "kill -9 $$"]).status == 137


def test_a_command_that_is_not_there(shell: Shell) -> None:
    result = shell.run(["/no/such/program"])

    assert result.status == 127


@pytest.mark.parametrize("on_line", [None, str], ids=["kept", "by line"])
def test_nothing_is_there_to_be_read(shell: Shell, on_line: Callable[[str], None] | None) -> None:
    result = shell.run(["cat"], timeout=30, on_line=on_line)

    assert (result.status, result.stdout) == (0, "")


def test_lines_come_as_they_are_printed(shell: Shell) -> None:
    """Not at the end: the command waits for what the first line makes us do."""
    folder = shell.run(["mktemp", "-d"]).stdout.strip()
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        shell.write("", f"{folder}/heard")

    script = f"echo one; until [ -e {folder}/heard ]; do sleep 0.05; done; echo two; echo err >&2"
    result = shell.run(["sh", "-c", script], on_line=hear, timeout=30)
    assert lines == ["one", "two"]
    assert (result.stdout, result.stderr) == ("", "err\n")


def test_a_great_deal_of_output_on_both_streams(shell: Shell) -> None:
    script = "head -c 20000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2"
    result = shell.run(["sh", "-c", script], timeout=60)

    assert (len(result.stdout), len(result.stderr)) == (20_000_000, 3_000_000)


@pytest.mark.parametrize("by_line", [False, True])
def test_a_deadline(shell: Shell, by_line: bool) -> None:  # noqa: FBT001 - a parameter
    start = time.monotonic()
    with pytest.raises(ShellError, match=r"0\.3 s"):
        shell.run(["sleep", "30"], timeout=0.3, on_line=print if by_line else None)

    assert time.monotonic() - start < 20
    assert shell.run(["true"]).status == 0


def test_write_then_fetch(shell: Shell, tmp_path: Path) -> None:
    """Folders are made, the mode is kept, the text is exact, and the second time is the same."""
    folder, text = tmp_path / "far" / f"folder {' '.join(ODD)}", "ü\r\n'\"\\$(x)\0\n"
    for name in ODD:
        shell.write(f"{name} {text}", str(folder / name), mode=0o750)
    shell.write("first\n", str(folder / "twice"))
    shell.write(f"twice {text}", str(folder / "twice"), mode=0o750)
    home = tmp_path / "home"
    for _ in range(2):
        shell.fetch(str(folder), home)

    assert {path.name: path.read_bytes() for path in home.iterdir()} == {
        name: f"{name} {text}".encode() for name in (*ODD, "twice")
    }
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o750}


def test_exists_and_remove(shell: Shell, tmp_path: Path) -> None:
    path = str(tmp_path / "a folder" / "file")
    shell.write("x", path)

    assert shell.exists(path)
    shell.remove(str(tmp_path / "a folder"))
    shell.remove(str(tmp_path / "a folder"))
    assert not shell.exists(path)


def test_what_cannot_be_written_or_fetched_is_an_error(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(ShellError, match=str(tmp_path / "file")):
        shell.write("x", str(tmp_path / "file" / "below"))
    with pytest.raises(ShellError, match=str(tmp_path / "nothing")):
        shell.fetch(str(tmp_path / "nothing"), tmp_path / "home")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["file"]


def test_put_a_file_then_a_folder(shell: Shell, tmp_path: Path) -> None:
    """Modes are kept; a second time is the same; nothing that was there is removed."""
    source, far = tmp_path / "here", tmp_path / "far away"
    folder, file = "in ner", "a 'file'"
    (source / folder).mkdir(parents=True)
    (source / folder / file).write_text("content")
    (source / folder / file).chmod(0o751)
    target = far / "there"
    for _ in range(2):
        shell.put(source, str(target))
        (target / "theirs").write_text("x")
    shell.put(source / folder / file, str(far / "one"))

    assert sorted(path.name for path in target.iterdir()) == [folder, "theirs"]
    assert (target / folder / file).read_text() == "content"
    assert (target / folder / file).stat().st_mode & 0o777 == 0o751
    assert (far / "one").read_text() == "content"
    assert sorted(path.name for path in target.parent.iterdir()) == ["one", "there"]


def test_a_file_comes_home(shell: Shell, tmp_path: Path) -> None:
    """Into the folder that is named, under its own name."""
    shell.write("content", str(tmp_path / "far" / "a\n'file'"), mode=0o751)
    for _ in range(2):
        shell.fetch(str(tmp_path / "far" / "a\n'file'"), tmp_path / "home")

    (file,) = (tmp_path / "home").iterdir()
    assert (file.name, file.read_text()) == ("a\n'file'", "content")
    assert file.stat().st_mode & 0o777 == 0o751


def test_modes_and_links_survive_the_way_there_and_home(shell: Shell, tmp_path: Path) -> None:
    """There a link is a link; at home it is what it means."""
    source, folder = tmp_path / "here", "a folder"
    (source / folder).mkdir(parents=True)
    (source / folder / "program").write_text("#!")
    (source / folder / "program").chmod(0o700)
    (source / folder).chmod(0o750)
    (source / "link").symlink_to(f"{folder}/program")
    (source / ("x" * 250)).write_text("a name as long as it may be")
    shell.put(source, str(tmp_path / "far"))
    shell.fetch(str(tmp_path / "far"), tmp_path / "home")

    assert (tmp_path / "far" / "link").readlink().parts == (folder, "program")
    assert not (tmp_path / "home" / "link").is_symlink()
    assert (tmp_path / "home" / "link").read_text() == "#!"
    for place in ("far", "home"):
        modes = [(tmp_path / place / name).stat().st_mode & 0o777 for name in ("a folder", "link")]
        assert modes == [0o750, 0o700]
        assert len(list((tmp_path / place).iterdir())) == 3


def test_a_link_itself_means_what_it_points_to(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").write_text("x")
    (tmp_path / "folder").symlink_to("here")
    (tmp_path / "link").symlink_to("here/file")
    shell.put(tmp_path / "folder", str(tmp_path / "far"))
    shell.put(tmp_path / "link", str(tmp_path / "far" / "second"))

    assert not (tmp_path / "far").is_symlink()
    assert not (tmp_path / "far" / "second").is_symlink()
    assert (tmp_path / "far" / "second").read_text() == "x"


def test_a_folder_that_is_there_keeps_its_mode(shell: Shell, tmp_path: Path) -> None:
    """Nobody wants /tmp to be like a folder of ours; and a file that runs can be replaced."""
    source, target = tmp_path / "here", tmp_path / "there"
    for folder in (source, target):
        (folder / "inner" / ".hidden").mkdir(parents=True)
        (folder / "inner" / "file").write_text(folder.name)
    (target / "inner").chmod(0o1777)
    with (target / "inner" / "file").open() as before:
        shell.put(source, str(target))
        assert before.read() == "there"

    assert (target / "inner" / "file").read_text() == "here"
    assert (target / "inner").stat().st_mode & 0o7777 == 0o1777
    assert sorted(path.name for path in (target / "inner").iterdir()) == [".hidden", "file"]


def test_closing_ends_what_runs(shell: Shell) -> None:
    """As when somebody presses Ctrl-C while all hosts work."""
    end = threading.Event()

    def command() -> None:
        with suppress(ShellError):
            shell.run(["sh", "-c", "echo go; sleep 100"], on_line=lambda _: closer.start())
        end.set()

    closer = threading.Thread(target=shell.close)
    threading.Thread(target=command, daemon=True).start()
    assert end.wait(20)
    closer.join()


def test_what_cannot_be_put_is_an_error_and_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ShellError, match=str(tmp_path)):
        shell.put(tmp_path / "nothing", str(tmp_path / "there"))
    with pytest.raises(ShellError, match=str(tmp_path)):
        shell.put(tmp_path / "file", str(tmp_path / "file" / "below"))

    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["file"]
    assert not list(tmp_path.glob(".there*"))


@pytest.mark.parametrize("to", ["folder", "folder/", "folder/.", "/", "..", "folder/.."])
def test_put_never_removes_a_folder(shell: Shell, tmp_path: Path, to: str) -> None:
    """Whatever somebody in a hurry types: a file does not take a folder's place."""
    place = tmp_path / "place"
    (place / "folder").mkdir(parents=True)
    (place / "folder" / "theirs").write_text("theirs")
    (place / "file").write_text("x")
    with pytest.raises(ShellError, match=rf"^'?({place}|/)"):
        shell.put(place / "file", to if to == "/" else f"{place}/{to}")

    assert (place / "folder" / "theirs").read_text() == "theirs"
    assert sorted(path.name for path in place.iterdir()) == ["file", "folder"]
    assert [path.name for path in (place / "folder").iterdir()] == ["theirs"]


def test_connect_then_close_then_go_on(shell: Shell) -> None:
    shell.connect()
    shell.close()

    assert shell.run(["echo", "on"]).stdout == "on\n"


def test_some_names_of_a_folder_go_there_and_are_listed(shell: Shell, tmp_path: Path) -> None:
    """What vanished meanwhile is left out; digests and commands take any name, too."""
    source, folder = tmp_path / "here", f"{tmp_path}/there"
    (source / "sub" / "deep").mkdir(parents=True)
    target = [*ODD_NAMES, "sub", "sub/deep", "sub/deep/file", "link"]
    for name in (*ODD_NAMES, "sub/deep/file", "sub/other"):
        (source / name).write_text(repr(name))
    (source / "link").symlink_to("nowhere")

    shell.put(source, folder, only=[*target, "vanished"])
    shell.put(source, folder, only=["sub", "sub/other"])
    entries = list_tree(shell, folder).entries
    digests = host_files.digests(shell, folder, ODD_NAMES)
    host_files.edit(shell, folder, host_files.on_names("rm", ODD_NAMES))

    assert set(entries) == {*target, "sub/other"}
    assert {entry.kind for entry in map(entries.__getitem__, ODD_NAMES)} == {"f"}
    assert (entries["link"].kind, entries["link"].link) == ("l", "nowhere")
    assert entries["sub/other"].size == len("'sub/other'")
    assert digests == {name: sha256(source / name) for name in ODD_NAMES}
    assert {path.name for path in Path(folder).iterdir()} == {"sub", "link"}


def test_a_folder_that_is_not_there_is_empty_and_a_file_is_none(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    assert list_tree(shell, f"{tmp_path}/nothing").entries == {}
    with pytest.raises(ShellError, match=str(tmp_path)):
        list_tree(shell, f"{tmp_path}/file")
