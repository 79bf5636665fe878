"""Installation of the environment on hosts, in steps; completed steps are skipped."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from cluster.core.errors import ClusterError, HostErrors, LargeDownload, ShellError, tail
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import Environment
from cluster.remote.environment import benchmark_libraries as extra
from cluster.remote.environment import steps, wheels
from cluster.remote.environment.steps import HostProbe, PendingStep, Step
from cluster.remote.parallel import on_each
from cluster.remote.sessions.jobs import COMMAND_TIMEOUT
from cluster.remote.shells import Shell

STEP_TIMEOUT = 900.0  # seconds for one step on one host
TAIL = 8  # lines of a failed step in its error; the log has all of them
ROOM = "150 MB"  # disk space for the environment, and for its wheels during the installation
FULL = ("No space left on device", "Disk quota exceeded")


def install(
    shells: Mapping[str, Shell],
    machines: Mapping[str, Machine],
    environment: Environment,
    logs: Path,
    on_state: Callable[[str, str], None] = lambda _name, _step: None,
) -> None:
    """Install the environment in each machine's folder `env`; a host that has it is only probed.

    `on_state` gets each host's steps, the last is `ready`. ShellError has the failed step and its
    last lines; HostErrors: several hosts failed, the others are ready; LargeDownload: more would
    be downloaded than the environment allows.
    """
    logs.mkdir(parents=True, exist_ok=True)
    installation = Installation(environment, tuple(shells))

    def do(name: str, shell: Shell) -> None:
        try:
            with (logs / f"{name}.log").open("a") as log:
                HostInstaller(
                    machines[name], shell, log, partial(on_state, name), installation
                ).install()
        finally:
            installation.ends[name].set()

    try:
        on_each(shells, do)
    except HostErrors as errors:
        large = (error for error in errors.exceptions if isinstance(error, LargeDownload))
        raise next(large, errors) from None


class Installation:
    """State that all hosts of one installation share."""

    def __init__(self, environment: Environment, names: Sequence[str]) -> None:
        self.environment = environment
        self.token = os.urandom(4).hex()
        self.ends = {name: threading.Event() for name in names}
        self.own = wheels.project_wheel()
        self._lock = threading.Lock()
        self._downloads: dict[tuple[wheels.Target, tuple[str, ...]], Path | ClusterError] = {}

    def wheels(self, target: wheels.Target, step: Step, on_download: Callable[[str], None]) -> Path:
        """Download the wheels for a kind of host, once; a failure (ClusterError) is not retried."""
        with self._lock:
            key = target, step.libraries
            if key not in self._downloads:
                try:
                    self._downloads[key] = wheels.fetch(
                        *key,
                        with_dependencies=step.with_dependencies,
                        large=self.environment.large,
                        on_download=on_download,
                    )
                except ClusterError as error:
                    self._downloads[key] = error
            result = self._downloads[key]
        if isinstance(result, ClusterError):
            raise result
        return result


class HostInstaller:
    def __init__(
        self,
        machine: Machine,
        shell: Shell,
        log: IO[str],
        on_state: Callable[[str], None],
        installation: Installation,
    ) -> None:
        self._machine = machine
        self._error = partial(ShellError, host=machine.name)
        self._shell = shell
        self._log = log
        self._on_state = on_state
        self._installation = installation
        self._step = ""
        self._output: list[str] = []  # lines that the step has printed so far
        self._refusal = ""  # why this machine has no wheels for the host

    def install(self) -> None:
        """Run the steps that are not done yet; the first that fails is a ShellError."""
        probe, pending = self._probe()
        if pending and probe.claim in self._installation.ends.keys() - {self._machine.name}:
            # another host, or name of this one, installs in the same folder
            self._installation.ends[probe.claim].wait(STEP_TIMEOUT)
            if self._probe()[1]:
                raise self._error(
                    f"{self._machine.name} has the folder {self._machine.folder} in common with "
                    f"{probe.claim}, and what was installed there does not work on it.",
                    remedy=f"See what became of {probe.claim}: "
                    f"{Path(self._log.name).parent}/{probe.claim}.log",
                )
        elif pending:
            self._check(probe)
            self._do(pending, probe)
        self._begin("ready")

    def _do(self, pending: list[PendingStep], probe: HostProbe) -> None:
        self._push(pending, probe)
        script = steps.BEGIN + "".join(item.script for item in pending)
        self._log.write(f"\n{script}")
        self._run(script, [self._machine.folder, self._installation.token], STEP_TIMEOUT)

    def _begin(self, step: str) -> None:
        self._step = step
        self._output.clear()
        self._log.write(f"\n{steps.HEAD}{step}, {time.strftime('%F %T')}\n")
        self._on_state(step)

    def _probe(self) -> tuple[HostProbe, list[PendingStep]]:
        self._begin("look")
        environment, machine = self._installation.environment, self._machine
        words = [machine.folder, self._installation.token, machine.name]
        libraries = environment.libraries
        words += [environment.mpi, environment.image, environment.python]
        words += [extra.folder(libraries), " ".join(extra.names(libraries))]
        self._run(steps.LOOK, [*words, *environment.programs], COMMAND_TIMEOUT)
        probe = steps.read_probe(self._output)
        return probe, steps.pending_steps(
            steps.steps(environment, probe, self._installation.own), probe, libraries
        )

    def _check(self, probe: HostProbe) -> None:
        name, mpi = self._machine.name, self._installation.environment.mpi
        self._check_python(probe)
        install = f"Type there: sudo {probe.install_words}"
        if probe.missing and not probe.may_install:
            missing = " ".join(probe.missing)
            raise self._error(
                f"{name} has no {missing}, and this account cannot install packages there.",
                means="It is not root, and sudo asks for a password.",
                remedy=self._installation.environment.remedy or f"{install} {missing}",
            )
        if not probe.has_mpi:
            raise self._error(
                f"There is no {mpi}/bin/mpirun on {name}.",
                means="The option mpi names the prefix of an MPI that is on every host.",
                remedy="Correct it, or leave it out: then Open MPI is installed.",
            )
        if self._installation.environment.image and not probe.engine:
            means = "The option image names a container that the ranks are to run in."
            for engine in probe.engineless:
                raise self._error(
                    f"{name} can run no container: {engine} is there, but does not work.",
                    means=means,
                    remedy=f"See there why: {engine} info",
                )
            raise self._error(
                f"{name} can run no container: it has neither docker nor podman.",
                means=means,
                remedy=f"{install} podman. Or leave the option image out.",
            )

    def _check_python(self, probe: HostProbe) -> None:
        name, path = self._machine.name, self._installation.environment.python
        if not probe.python and path:
            raise self._error(
                f"{name} has no {path} that cluster can use: {steps.NEEDED} with the module venv.",
                means=f"There is {', '.join(probe.pythons) or 'no such program'}.",
                remedy="Name another one, or leave the option python out.",
            )
        if not probe.python:
            raise self._error(
                f"{name} has no {steps.NEEDED}.",
                means=f"There is {', '.join(probe.pythons) or 'no python3 on its PATH'}.",
                remedy=f"Type there: sudo {probe.install_words} python3.11",
            )

    def _push(self, pending: list[PendingStep], probe: HostProbe) -> None:
        self._begin("push")
        try:
            with tempfile.TemporaryDirectory(dir=Path(self._log.name).parent) as staging:
                for item in pending:
                    self._lay_out(item.step, probe, Path(staging, item.place))
                remote_folder = f"{self._machine.folder}/{steps.NEW}/{self._installation.token}"
                self._shell.put(Path(staging), remote_folder)
        except LargeDownload:
            raise
        except ClusterError as error:
            raise self._failure(error.what, error.means, error.remedy) from error
        except OSError as error:
            reason = f"{error.filename} could not be written here: {error.strerror}."
            raise self._failure(reason, "", "Choose another folder: CLUSTER_STATE=DIR") from error

    def _lay_out(self, step: Step, probe: HostProbe, place: Path) -> None:
        files = list(step.files)
        has_wheels = bool(step.libraries) and self._lay_out_wheels(step, probe, place)
        if step.libraries and (step.with_dependencies or not has_wheels):
            files.append(wheels.pip())
        for name, content in files:
            place.mkdir(exist_ok=True)
            (place / name).write_bytes(content)

    def _lay_out_wheels(self, step: Step, probe: HostProbe, place: Path) -> bool:
        """Add the libraries' wheels from this machine; return whether that was possible."""
        environment = self._installation.environment
        source = environment.source
        if source == "index":
            if step.with_dependencies and not environment.large:
                wheels.check_size(probe.target, step.libraries)
            return False
        try:
            folder = self._installation.wheels(probe.target, step, self._on_state)
        except LargeDownload:
            raise
        except ClusterError as error:
            if source == "controller":
                raise
            self._refusal = str(error)
            return False
        shutil.copytree(folder, place, copy_function=_link)
        return True

    def _run(self, script: str, words: list[str], timeout: float) -> None:
        """Run a script; log its output, and report each step that begins."""
        argv = ["sh", "-c", script, "sh", *words]
        try:
            result = self._shell.run(argv, timeout=timeout, on_line=self._hear)
        except ShellError as error:
            raise self._failure(error.what, error.means, error.remedy) from error
        if result.status != 0:
            text = "\n".join([*self._output, result.stderr]).strip()
            raise self._failure(f"exit status {result.status}.", tail(text, TAIL))

    def _hear(self, line: str) -> None:
        if line.startswith(steps.HEAD):
            self._begin(line.removeprefix(steps.HEAD))
        else:
            if download := wheels.parse_download(line):
                self._on_state(download)
            self._output.append(line)
            self._log.write(f"{line}\n")

    def _failure(self, reason: str, output: str, remedy: str = "") -> ShellError:
        self._log.write(f"{reason}\n{output}\n")
        step = f"{self._machine.name}: the step {self._step!r} failed"
        if not remedy and any(words in f"{reason}\n{output}" for words in FULL):
            libraries = ", ".join(self._installation.environment.libraries)
            extra = f", and what {libraries} take" if libraries else ""
            return self._error(
                f"{step}: the disk there is full.",
                means=output or reason,
                remedy=f"Make room there for {self._machine.folder}: {ROOM} are needed{extra}.",
            )
        of_libraries = self._step in (steps.LIBRARIES_STEP, steps.BENCHMARK_STEP)
        parts = (self._refusal if of_libraries else "", output)
        error = self._error(
            f"{step}: {reason}", means="\n".join(filter(None, parts)), remedy=remedy
        )
        if not remedy:
            error.file, error.remedy = self._log.name, f"All of it: {self._log.name}"
        return error


def _link(source: str, target: str) -> None:
    """Hard-link a file, or copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
