"""One contract for the tmux server of this machine, by libtmux, and for one behind a shell."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cluster.core.errors import ShellError, SpecError
from cluster.core.model.hosts import Completed
from cluster.remote.sessions.tmux import Tmux, escape, tmux_on
from cluster.remote.shells import Shell
from cluster.remote.shells.local import LocalShell
from cluster.remote.shells.ssh import SshShell
from tests.conftest import run, sessions, until, write_program
from tests.contracts.sshd import Sshd, servers, sshd

__all__ = ["servers", "sshd"]

HOSTILE = [
    "#(touch PWNED)",
    "##(touch PWNED)",
    "###(touch PWNED)",
    "#{session_name}",
    "#{E:#(touch PWNED)}",
    "#S",
    "#[fg=red]#(touch PWNED)",
    "%H%M",
    "a'b\"c $(touch PWNED) `touch PWNED`",
    "; run-shell 'touch PWNED'",
    "ends;",
    "#(touch PWNED);",
    "two\nlines #(touch PWNED)",
    "ü #(touch PWNED)",
]
WAIT = ["sleep", "1000.5"]


@pytest.fixture(params=["here", "behind a shell", "over SSH"])
def shell(request: pytest.FixtureRequest, tools: None) -> Iterator[Shell | None]:
    if request.param == "over SSH":
        server: Sshd = request.getfixturevalue("sshd")
        ssh = SshShell(server.machine())
        yield ssh
        ssh.close()
        return
    yield None if request.param == "here" else LocalShell()


@pytest.fixture
def tmux(shell: Shell | None) -> Iterator[Tmux]:
    server = Tmux("h", shell)
    yield server
    for name in ("mine", "mine_too"):
        server.kill(name)


def has_ended(pid: int) -> bool:
    """Whether or not tmux, which may take its time, has already asked for its exit status."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it is gone, or goes while it is read
        return True
    return state in "ZX"


def touched(tmp_path: Path) -> list[Path]:
    """Return what a command that was run has left."""
    return [*tmp_path.rglob("PWNED"), *Path.cwd().rglob("PWNED")]


def test_a_session_is_made_found_read_and_ended(tmux: Tmux, tmp_path: Path) -> None:
    assert not tmux.exists("mine")
    assert tmux.folder_of("mine") == tmux.capture("mine") == ""
    tmux.start("mine", str(tmp_path), ["sh", "-c", "echo ready; pwd; exec sleep 1000.5"])

    assert tmux.exists("mine")
    assert tmux.folder_of("mine") == str(tmp_path)
    until(lambda: tmux.capture("mine").startswith("ready\n/"), "it has printed")
    tmux.kill("mine")
    assert not tmux.exists("mine")
    tmux.kill("mine")


def test_a_name_is_never_a_prefix(tmux: Tmux, tmp_path: Path) -> None:
    tmux.start("mine_too", str(tmp_path), WAIT)

    assert not tmux.exists("mine")
    assert tmux.folder_of("mine") == ""
    tmux.kill("mine")
    assert tmux.exists("mine_too")


def test_a_session_outlives_its_command(tmux: Tmux, tmp_path: Path) -> None:
    """Its text is read first: tmux 3.3a may lose what a command prints in the moment it exits.

    It looks whether text is waiting (FIONREAD) when the child ends, and the kernel may hand the
    text over after that: 5 of 60 starts of `echo first; exit 3` on a busy machine. The session
    and the exit status were there each time.
    """
    script = "echo first; until [ -e go ]; do sleep 0.05; done; echo $$ > pid; exit 3"
    tmux.start("mine", str(tmp_path), ["sh", "-c", script])

    until(lambda: "first" in tmux.capture("mine"), "it has printed")
    (tmp_path / "go").touch()
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text().endswith("\n"), "it goes on")
    until(lambda: has_ended(int(pid.read_text())), "it has ended")
    assert "first" in tmux.capture("mine")
    assert tmux.exists("mine")


def test_a_second_session_of_a_name_is_refused(tmux: Tmux, tmp_path: Path) -> None:
    tmux.start("mine", str(tmp_path), WAIT)
    with pytest.raises(ShellError, match=r"mine .* h"):
        tmux.start("mine", "/elsewhere", WAIT)
    assert tmux.folder_of("mine") == str(tmp_path)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_folder_is_run(tmux: Tmux, tmp_path: Path, name: str) -> None:
    """Every call is made with it, and the folder is still the one that was meant."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    script = folder / "job;"
    script.write_text('printf "%s" "$PWD" > "$1"; exec sleep 1000.5\n')
    tmux.start("mine", str(folder), ["sh", str(script), str(tmp_path / "where")])

    until(lambda: (tmp_path / "where").exists() and (tmp_path / "where").read_text(), "it runs")
    assert tmux.folder_of("mine") == str(folder)
    tmux.capture("mine")
    tmux.kill("mine")
    assert touched(tmp_path) == []
    if "#[" not in name:  # which tmux cannot be told (it begins elsewhere then)
        assert (tmp_path / "where").read_text() == str(folder)


@pytest.mark.parametrize("name", [name for name in HOSTILE if "#[" not in name])
def test_what_is_escaped_is_expanded_to_itself(name: str, tools: None) -> None:
    """By tmux itself; `%` is for strftime, and only in a status line."""
    run("tmux", "new-session", "-d", "-s", "probe", "sleep", "1000.5")
    output = run("tmux", "display-message", "-p", "-t", "=probe:", escape(name)).stdout

    assert output.removesuffix("\n") == name or "%" in name
    assert sessions() == ["probe"]


def test_a_server_that_ends_with_its_last_session_is_asked_again(
    tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("tmux")
    mark = tmp_path / "asked"
    tmux = write_program(
        tmp_path / "bin" / "tmux",
        f'#!/bin/sh\n[ -e {mark} ] && exec {real} "$@"\n'
        f"touch {mark}; echo server exited unexpectedly >&2; exit 1\n",
    )
    monkeypatch.setenv("PATH", f"{tmux.parent}:{os.environ['PATH']}")
    server = Tmux("h", LocalShell())

    server.start("mine", str(tmp_path), WAIT)
    assert mark.exists()
    assert server.folder_of("mine") == str(tmp_path)
    server.kill("mine")


class Without(LocalShell):
    """A host without tmux."""

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        return Completed(argv=tuple(argv), status=127, stdout="", stderr="tmux: not found")


@pytest.mark.parametrize("shell", [None, Without()], ids=["here", "behind a shell"])
def test_where_there_is_no_tmux_the_command_that_installs_it_is_named(
    shell: Shell | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    server = Tmux("h", shell)
    for call in (
        lambda: server.start("mine", "/", WAIT),
        lambda: server.exists("mine"),
        lambda: server.folder_of("mine"),
        lambda: server.capture("mine"),
        lambda: server.kill("mine"),
    ):
        with pytest.raises(SpecError, match="tmux") as missing:
            call()
        assert "apt-get install tmux" in missing.value.remedy


def test_this_machine_is_driven_by_libtmux_and_others_through_their_shell(sshd: Sshd) -> None:
    shell = SshShell(sshd.machine())

    assert tmux_on("h", LocalShell())._shell is None
    assert tmux_on("h", shell)._shell is shell
