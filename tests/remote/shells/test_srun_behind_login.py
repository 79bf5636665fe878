"""Slurm's commands by way of a login host: what is given up here ends there."""

import getpass
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.core.errors import ProvisionError, ShellError
from cluster.core.model.hosts import Machine
from cluster.providers.slurm.client import SlurmClient
from cluster.remote.shells.srun import SrunShell
from tests.conftest import until, write_program
from tests.contracts.sshd import Sshd
from tests.snapshots import Snapshot

# Stands for a node or a slurmctld that does not answer: srun says nothing, and waits. A command
# that the node runs at once is run here. Words that begin no step of the job are refused.
SRUN = """\
#!/bin/sh
[ "$1 $2" = "--jobid=7 --overlap" ] || exit 64
while [ "$1" != -c ]; do shift; done
case $2 in *answers*) exec sh -c "$2" ;; esac
exec {folder}/squeue
"""
HANGS = """\
#!/bin/sh
echo $$ > {folder}/waits
exec sleep 600
"""
OWN_SSH = """\
#!/bin/sh
exec /usr/bin/ssh -i {key} -o UserKnownHostsFile={known} {more} "$@"
"""
SHARED = "-o ControlMaster=auto -o ControlPath={folder}/shared -o ControlPersist=60"


class Login:
    """A login host, with programs in a folder of its own."""

    def __init__(self, folder: Path, sshd: Sshd) -> None:
        self.folder, self.sshd = folder, sshd

    @property
    def shell(self) -> SrunShell:
        machine = self.sshd.machine()
        return SrunShell(
            Machine(  # noqa: S604 - "shell" names a plug-in
                name="0.mpi.x", id="node7", address="", shell="srun", folder="", bin="", job="7",
                access=machine.access,
            )
        )  # fmt: skip

    @property
    def client(self) -> SlurmClient:
        return SlurmClient(place=f"login:{getpass.getuser()}@127.0.0.1:{self.sshd.port}")

    def waits(self) -> bool:
        """Tell whether the command runs there."""
        file = self.folder / "waits"
        words = file.read_text() if file.exists() else ""
        return bool(words) and Path(f"/proc/{words.strip()}").exists()


@pytest.fixture
def login(
    servers: Callable[..., Sshd],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Login]:
    """Log in by a connection per command, or by one for all, as where a login asks for a code."""
    host, local = tmp_path / "there", tmp_path / "here"
    path = f"PATH={shlex.quote(str(host))}:$PATH"
    sshd = servers(f'ForceCommand {path} exec sh -c "$SSH_ORIGINAL_COMMAND"')
    known_hosts = sshd.folder / "known_hosts"
    more = request.param.format(folder=tmp_path) if hasattr(request, "param") else ""
    ssh = OWN_SSH.format(key=sshd.folder / "user", known=known_hosts, more=more)
    for folder, name, text in ((host, "srun", SRUN), (host, "squeue", HANGS), (local, "ssh", ssh)):
        write_program(folder / name, text.replace("{folder}", str(host)))
    monkeypatch.setenv("PATH", str(local), prepend=":")
    yield Login(host, sshd)
    if more:
        words = ["ssh", "-O", "exit", "-p", str(sshd.port), "127.0.0.1"]
        subprocess.run(words, capture_output=True, check=False)


BOTH = pytest.mark.parametrize("login", ["", SHARED], indirect=True, ids=["alone", "shared"])


@BOTH
def test_a_step_that_is_given_up_leaves_no_srun_there(snapshot: Snapshot, login: Login) -> None:
    shell, errors = login.shell, list[ShellError]()

    def run() -> None:
        with pytest.raises(ShellError) as error:
            shell.run(["true"])
        errors.append(error.value)

    thread = threading.Thread(target=run)
    thread.start()
    until(login.waits, "srun waits")
    shell.close()
    thread.join()

    snapshot(errors[0].what)
    until(lambda: not login.waits(), "srun has ended")


@BOTH
def test_a_command_of_slurm_that_is_given_up_ends_there(login: Login) -> None:
    with pytest.raises(ProvisionError, match="squeue"):
        login.client.run(("squeue", "--me"), within=1.0, tries=1)

    until(lambda: not login.waits(), "squeue has ended")


def test_streams_and_status_of_a_step_arrive_as_they_are(login: Login) -> None:
    result = login.shell.run(["sh", "-c", "cat; echo answers; echo err >&2; exit 3"])

    assert (result.status, result.stdout, result.stderr) == (3, "answers\n", "err\n")


def test_what_is_sent_to_a_step_arrives_whole(login: Login, tmp_path: Path) -> None:
    text = "line\n" * 100_000
    login.shell.write(text, str(tmp_path / "answers"))

    assert (tmp_path / "answers").read_text() == text


def test_a_status_that_ssh_uses_itself_is_no_lost_step(login: Login) -> None:
    assert login.shell.run(["sh", "-c", "exit 255 # answers"]).status == 1
