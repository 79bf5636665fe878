"""The tasks of jobs on their hosts: each is a command in a tmux session of its own."""

import posixpath
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from cluster.agent.protocol import AGENT, HEARTBEAT
from cluster.agent.task import OUTPUT, SPEC
from cluster.core import decoders
from cluster.core.errors import ShellError, Unreachable
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.jobs import Task, TaskOutput, TaskSpec, TaskState
from cluster.remote.remote_shell import Watchdog
from cluster.remote.sessions.leftovers import MARK
from cluster.remote.sessions.tmux import tmux_on
from cluster.remote.shells import Shell

TIMEOUT = 60.0  # seconds for a command that should end at once
STOPS_WITHIN = 60.0  # seconds beyond the task's own grace
SCREEN = 300  # characters of a session whose supervisor could not run
SILENT = 3 * HEARTBEAT  # seconds without a word, after which a connection is dead
# Prints the home folder, as a machine's paths may be relative to it.
WRITE = (
    'umask 077 && pwd && mkdir -p -- "$1" && '
    f'printf %s "$2" | cat > "$1/{SPEC}.part" && mv "$1/{SPEC}.part" "$1/{SPEC}"'
)
# The pane's shell outlives the supervisor if that is killed, and then ends what it left.
PANE = 'trap "" HUP; "$@" task "$0" || "$@" task-close "$0"'


class HostTasks:
    def __init__(self, machine: Machine, shell: Shell) -> None:
        self.machine, self._shell = machine, shell
        self._tmux = tmux_on(machine.name, shell)
        self._python = f"{machine.bin}/python3"

    def start(self, task: Task, spec: TaskSpec) -> TaskState:
        """Start a task; return once its command was started, or could not be (ShellError)."""
        text = msgspec.json.encode(spec).decode()
        result = self._shell.run(["sh", "-c", WRITE, "sh", task.folder, text], timeout=TIMEOUT)
        home = result.stdout.rstrip("\n")
        if result.status != 0:
            raise ShellError(
                f"The job cannot be written to {self.machine.name}: {result.stderr.strip()}",
                host=self.machine.name,
            )
        folder, python = posixpath.join(home, task.folder), posixpath.join(home, self._python)
        mark = f"{MARK}={self.machine.folder}"
        self._tmux.kill(task.session)  # that of an earlier job of this name, which has ended
        self._tmux.start(
            task.session, folder, ["sh", "-c", PANE, folder, "env", mark, python, *AGENT]
        )
        state = self._state(self._agent("task-begun", task.folder).stdout)
        if state.end and state.state == "lost":  # its supervisor could not run
            screen = " ".join(self._tmux.capture(task.session).split()) or "nothing."
            reason = f"{state.end.reason} Its session shows: {screen[:SCREEN]}"
            state = replace(state, end=replace(state.end, reason=reason))
        return state

    def states(self, tasks: Sequence[Task]) -> list[TaskState]:
        """Return the states of tasks, in their order (ShellError: the host cannot say)."""
        lines = self._agent("task-states", *(task.folder for task in tasks)).stdout.splitlines()
        return [self._state(line) for line in lines]

    def follow(
        self,
        task: Task,
        offset: int,
        on_output: Callable[[TaskOutput], None],
        *,
        to_end: bool = True,
    ) -> None:
        """Pass on what a task prints after an offset, until it ends or just so far.

        Unreachable: the task may still run there.
        """
        last: list[TaskState] = []
        silence = Silence(self._shell.close)

        def receive(line: str) -> None:
            silence.restart()
            event = decoders.decode(line, TaskOutput | TaskState)
            if isinstance(event, TaskOutput):
                on_output(event)
            else:
                last[:] = [event]

        words = self._words("task-follow", task.folder, str(offset), *([] if to_end else ["once"]))
        with self._shell.watch(), silence:
            result = self._shell.run(words, on_line=receive)
        if not last or (to_end and last[0].end is None):
            raise Unreachable(
                f"{self.machine.name} stopped reporting: {result.stderr.strip() or 'no reason'}",
                state="broken",
                transient=True,
                host=self.machine.name,
            )

    def stop(self, task: Task, grace: float, reason: str) -> TaskState:
        """End all processes of a task; the reason becomes a part of its end (ShellError)."""
        return self._state(
            self._agent("task-stop", task.folder, reason, timeout=grace + STOPS_WITHIN).stdout
        )

    def test(self, words: Sequence[str]) -> bool:
        """Return whether a command succeeds (ShellError: the host cannot be reached)."""
        return self._shell.run(words, timeout=TIMEOUT).status == 0

    def fetch(self, task: Task, to: Path) -> None:
        parts = self._shell.run(["sh", "-c", f'ls -- "$1"/{OUTPUT}.*', "sh", task.folder])
        with (to / OUTPUT).open("wb") as whole:
            for part in parts.stdout.splitlines():  # none if the command never began
                self._shell.fetch(part, to)
                with (to / posixpath.basename(part)).open("rb") as file:
                    shutil.copyfileobj(file, whole)
                (to / posixpath.basename(part)).unlink()

    def close(self, task: Task) -> None:
        self._tmux.kill(task.session)

    def _agent(self, verb: str, *words: str, timeout: float = TIMEOUT) -> Completed:
        result = self._shell.run(self._words(verb, *words), timeout=timeout)
        if result.status != 0:
            raise ShellError(
                f"{self.machine.name} cannot say how its tasks are.",
                means=result.stderr.strip(),
                host=self.machine.name,
            )
        return result

    def _words(self, verb: str, *words: str) -> list[str]:
        return [self._python, *AGENT, verb, *words]

    def _state(self, text: str) -> TaskState:
        return decoders.decode(text, TaskState)


class Silence(Watchdog):
    """Calls `end` once, in another thread, if `restart` is not called for some time in a block."""

    def __init__(self, end: Callable[[], object]) -> None:
        super().__init__(lambda: self._last + SILENT, end)
        self.restart()

    def restart(self) -> None:
        self._last = time.monotonic()
