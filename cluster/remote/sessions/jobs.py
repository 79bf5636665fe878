"""A job: one script in a detached tmux session, which outlives our connection and our process.

The state of a job is in the files of its folder on the host: `job.sh` (the script), `pid`,
`stdout`, `stderr`, `progress.jsonl`, `measurements.RANK.jsonl` (its output) and `status` (its exit
status, renamed into place once everything else is written).
"""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cluster.agent import protocol
from cluster.agent.scratch import OWNER, PREFIX, SHARED_MEMORY, scratch_of
from cluster.core import decoders
from cluster.core.errors import HostErrors, JobError, ShellError, Unreachable
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.results.records import JobRecord
from cluster.core.model.value import Value
from cluster.core.state.files import load_script
from cluster.remote.parallel import on_each, try_each
from cluster.remote.sessions.tasks import Silence
from cluster.remote.sessions.tmux import BY, tmux_on
from cluster.remote.shells import Shell

COMMAND_TIMEOUT = 60.0  # seconds for a command that should end at once
BETWEEN_LOOKS = 2.0  # seconds, at a job that has no watcher any more

SCRIPT = load_script(__file__, "job.sh")


# Variables of an allocation or a step around us. With them, mpirun would start its daemons by srun,
# and count the slots of the allocation; srun would take them as its own flags.
BATCH_PREFIXES = (
    *("SLURM_", "PMI_", "PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_"),
    *("PBS_NODEFILE", "PBS_ENVIRONMENT", "LSB_", "PE_HOSTFILE"),
)
# Variables of Open MPI 5, then 4, that set where it keeps a job's session directory and the memory
# that the ranks of a host share. It leaves both behind when mpirun and the ranks are killed.
SCRATCH_VARIABLES = (
    *("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_btl_sm_backing_directory"),
    *("OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_btl_vader_backing_directory"),
)
LOGS = 'cd "$1" || exit; [ -s stdout ] && exec cat stdout; exec cat stderr'
# The arguments run the agent. It starts slowly, so it runs only if there is something to remove.
SWEEP = f'for one in {SHARED_MEMORY}/{PREFIX}*; do [ ! -O "$one" ] || exec "$@"; done'
# $1 the scratch folder, $2 that of the job. Another user may have created $1: it must be ours.
MAKE_SCRATCH = (
    f"(shift 2; {SWEEP}) > /dev/null 2>&1; "
    'umask 077; mkdir -p -- "$1" && [ -O "$1" ] && [ ! -L "$1" ] && '
    f'printf %s "$2" > "$1/{OWNER}"'
)
REMOVE_SCRATCH = '[ ! -O "$1" ] || [ -L "$1" ] || rm -rf -- "$1"'


def sweep_words(folder: str) -> list[str]:
    return [f"{folder}/python3", *protocol.AGENT, "sweep"]


def sweep(shell: Shell, folder: str) -> None:
    """Remove files of our ended jobs from a host's shared memory (ShellError)."""
    shell.run(["sh", "-c", SWEEP, "sh", *sweep_words(folder)], timeout=COMMAND_TIMEOUT)


def script(
    session: str, folder: str, argv: Sequence[str], env: Mapping[str, str], timeout: float
) -> str:
    """Write the script of a job.

    The ranks run under the agent, so that a job is stopped at its timeout even if no process waits
    for it. The script passes a signal on to the agent, and waits until the agent has ended. `PATH`
    is prepended to that of the host, and finds the environment's `python3`.
    """
    exports = [
        f'export PATH={shlex.quote(value)}:"$PATH"'
        if name == "PATH"
        else f"export {name}={shlex.quote(value)}"
        for name, value in env.items()
    ]
    return SCRIPT.format(
        agent=" ".join(protocol.AGENT),
        session=session,
        folder=shlex.quote(folder),
        scratch=scratch_of(folder),
        scratch_variables=" ".join(SCRATCH_VARIABLES),
        exports="\n".join(exports),
        seconds=f"{timeout:g}",
        command=shlex.join(argv),
        batch_systems=" ".join(f"${{!{prefix}@}}" for prefix in BATCH_PREFIXES),
        # The tmux server may still have other values, from when it was started.
        forget=" ".join(
            [
                *protocol.VARIABLE_NAMES,
                *(f"${{!{prefix}@}}" for prefix in protocol.VARIABLE_PREFIXES),
            ]
        ),
    )


class RunningJob(Value, frozen=True, kw_only=True):
    folder: str
    by: str  # who started it; empty if that is not known


class MpiJob:
    """A job: ranks on all hosts, and on the first host its script and tmux session."""

    def __init__(self, record: JobRecord, shells: Mapping[str, Shell], machine: Machine) -> None:
        self.record = record
        self._shells = shells
        self._shell = shells[machine.name]
        self.machine = machine
        self._tmux = tmux_on(machine.name, self._shell)

    def start(
        self, text: str, files: Mapping[str, str], source: Path | None = None, caller: str = ""
    ) -> None:
        """Start the script in a detached session; the folder `source` is copied into the job's.

        ShellError: the session could not be started.
        """
        folder = self.record.folder

        def write(_: str, shell: Shell) -> None:
            if source is not None:
                shell.put(source, folder)
            for name, content in files.items():
                shell.write(content, f"{folder}/{name}")

        on_each(self._shells, write)
        # files that our ended jobs left in shared memory are removed: this one may need it
        agent = sweep_words(self.machine.bin)
        words = ["sh", "-c", MAKE_SCRATCH, "sh", scratch_of(folder), folder, *agent]

        def make(_: str, shell: Shell) -> bool:
            return shell.run(words, timeout=COMMAND_TIMEOUT).status == 0

        if all(is_done is True for is_done in try_each(self._shells, make).values()):
            self._shell.write("", f"{folder}/scratch")
        self._shell.write(text, f"{folder}/job.sh", mode=0o755)
        self._tmux.start(self.record.session, folder, ["bash", f"{folder}/job.sh"], caller)

    def clean(self) -> None:
        """Remove what MPI left in shared memory, on all hosts that can be reached."""
        try_each(self._shells, lambda _, shell: self._clean(shell))

    def _clean(self, shell: Shell) -> None:
        words = ["sh", "-c", REMOVE_SCRATCH, "sh", scratch_of(self.record.folder)]
        with suppress(ShellError):
            shell.run(words, timeout=COMMAND_TIMEOUT)

    def watch(self, on_event: Callable[[protocol.Wrote], None]) -> int:
        """Wait for the end of the job, also if the process that watches it is stopped or killed.

        JobError: its session or its host is gone. Unreachable: the job may still run there.
        """
        end: list[protocol.Ended | protocol.Lost] = []
        watcher = Silence(self._shell.close)

        def receive(line: str) -> None:
            watcher.restart()
            event = decoders.decode(line, protocol.Event)
            if isinstance(event, protocol.Wrote):
                on_event(event)
            elif not isinstance(event, protocol.Running):
                end.append(event)

        complaint = ""
        try:
            with self._shell.watch(), watcher:
                complaint = self._agent("watch", on_line=receive).stderr
        except Unreachable as error:
            if not watcher.came:
                raise self._out_of_reach(error) from error
        if not end:
            return self._end_unwatched(complaint)
        if isinstance(end[0], protocol.Lost):
            raise self._loss_error(end[0].reason)
        return end[0].status

    def _end_unwatched(self, complaint: str) -> int:
        """Look at the job until it has ended; what it wrote is downloaded then."""
        try:
            while (status := self.status()) is None:
                time.sleep(BETWEEN_LOOKS)
        except Unreachable as error:
            raise self._out_of_reach(error) from error
        except ShellError as error:
            raise JobError(
                f"The job {self.record.session} could not be watched.", stderr=complaint
            ) from error
        return status

    def exists(self) -> bool:
        return self._shell.exists(self.record.folder)

    def stop(self) -> None:
        """End the job's processes and wait until they are gone; its files and session stay."""
        try:
            if not self.exists():
                return
            result = self._agent("stop")
        except ShellError:
            self.halt()  # the first host cannot do it any more
            raise
        if result.status != 0:
            raise ShellError(
                f"The job {self.record.session} could not be stopped.", means=result.stderr.strip()
            )

    def halt(self) -> None:
        """End the ranks on all hosts but the first, as far as they can be reached."""
        words = self._words("halt", self.record.folder)
        peers = {name: s for name, s in self._shells.items() if name != self.machine.name}
        with suppress(ShellError, HostErrors):
            on_each(peers, lambda _, shell: shell.run(words, timeout=COMMAND_TIMEOUT))

    def status(self) -> int | None:
        """Return the exit status of the job; None while it runs (JobError: it was lost)."""
        result = self._agent("look")
        try:
            event = decoders.decode(result.stdout, protocol.Event)
        except msgspec.DecodeError as error:
            raise ShellError(
                f"The job {self.record.session} has an unknown status.", means=result.stderr.strip()
            ) from error
        if isinstance(event, protocol.Lost):
            raise self._loss_error(event.reason)
        return event.status if isinstance(event, protocol.Ended) else None

    def lost_hosts(self) -> tuple[str, ...]:
        """Return the names of the machines that the job has lost; none if that cannot be read."""
        words = ["cat", f"{self.record.folder}/{protocol.LOST_HOSTS}"]
        with suppress(ShellError):
            return tuple(self._shell.run(words, timeout=COMMAND_TIMEOUT).stdout.split())
        return ()

    def logs(self) -> str:
        """Return the job's standard output so far; if it has none, its standard error."""
        words = ["sh", "-c", LOGS, "sh", self.record.folder]
        return self._shell.run(words, timeout=COMMAND_TIMEOUT).stdout

    def fetch(self, to: Path) -> None:
        """Download the job's files from every host, and remove MPI's files from shared memory.

        A host that fails (ShellError, HostErrors) does not stop the download from the others.
        """

        def fetch(_: str, shell: Shell) -> None:
            try:
                self._keep_results(shell)
                shell.fetch(self.record.folder, to)
            except Unreachable:
                raise
            except ShellError:
                self._clean(shell)
                raise
            self._clean(shell)

        on_each(self._shells, fetch)

    def _keep_results(self, shell: Shell) -> None:
        """Remove unchanged files from the copy of the user's folder, so that none is downloaded."""
        if not self.record.workdir:
            return
        result = shell.run(self._words("results", self.record.folder), timeout=COMMAND_TIMEOUT)
        if result.status != 0:
            raise ShellError(
                f"The results of {self.record.session} could not be separated from its input.",
                means=f"{result.stderr.strip()}\nIts files are still in {self.record.folder}",
            )

    def running(self) -> RunningJob | None:
        """Return the job that runs in the session of this name, from any process."""
        session = self.record.session
        _, alive = self._tmux.look(session)
        folder = self._tmux.folder_of(session) if alive else ""
        if not folder:
            return None
        with suppress(msgspec.DecodeError):  # what the host cannot say may still run
            event = decoders.decode(self._agent("look", folder=folder).stdout, protocol.Event)
            if event != protocol.Running():
                return None
        return RunningJob(folder=folder, by=self._tmux.option(session, BY))

    def end_session(self, reason: str = "") -> bool:
        """Stop the job in the session of this name; False if the session is not ours, and stays."""
        session = self.record.session
        id_, alive = self._tmux.look(session)
        if not id_:
            return True
        folder = self._tmux.folder_of(session)
        if not folder:
            return False
        if self._shell.exists(folder):
            if alive and reason:
                self._shell.write(reason, f"{folder}/{protocol.REASON}")
            self._agent("stop", folder=folder)
        self._tmux.kill(id_)
        return True

    def _agent(
        self, verb: str, *, folder: str = "", on_line: Callable[[str], None] | None = None
    ) -> Completed:
        return self._shell.run(self._words(verb, folder or self.record.folder), on_line=on_line)

    def _words(self, verb: str, folder: str) -> list[str]:
        return [f"{self.machine.bin}/python3", *protocol.AGENT, verb, folder]

    def _out_of_reach(self, error: Unreachable) -> Unreachable:
        session = self.record.session
        return Unreachable(
            f"{self.machine.name}, which leads the job {session}, is out of reach: {error.what}",
            state=error.state,
            transient=error.transient,
            means="It continues if only the connection is broken, and ends if the host is gone.",
            remedy=f"Look again: cluster wait {session} && cluster fetch {session}\n"
            f"To give it up: cluster down {session}",
        )

    def _loss_error(self, reason: str) -> JobError:
        return JobError(
            f"The job {self.record.session} on {self.machine.name} was lost: {reason}.",
            remedy=f"What it wrote until then is in {self.record.folder}",
        )
