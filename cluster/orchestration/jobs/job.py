"""One job: a command on some hosts, which goes on without the process that started it."""

from __future__ import annotations

import posixpath
import queue
import shlex
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from cluster.agent.task import OUTPUT
from cluster.core import decoders
from cluster.core.errors import ClusterError, JobError, ShellError, SpecError, Timeout
from cluster.core.model.hang import HangAnswer
from cluster.core.model.hosts import Machine
from cluster.core.model.jobs import NamedJob, State, Task, TaskOutput, TaskState
from cluster.core.model.value import Value
from cluster.core.state.files import make_private
from cluster.orchestration.jobs.hang import look_on
from cluster.remote.hosts import Hosts
from cluster.remote.network.forward import Forward
from cluster.remote.parallel import name_host, on_each, results, start, try_each
from cluster.remote.sessions.tasks import HostTasks
from cluster.remote.shells import Shell
from cluster.reports.words.hang import answer_line
from cluster.reports.words.outcomes import outcome_words

T = TypeVar("T")
Lost = Mapping[str, TaskState | ClusterError]  # by the names of the hosts
POLL = 0.2  # seconds
AGAIN = 2.0  # seconds between attempts to reach a host that does not answer
GIVE_UP = 30.0  # seconds after which a host that does not answer is an error
TAIL = 40  # lines of a failed task that its error shows
STATES = "states.json"  # how the tasks ended, by the names of their hosts
STREAMS = {"o": "stdout", "e": "stderr"}
ORDER: tuple[State, ...] = (
    *("failed", "lost", "unreachable", "stopped", "starting", "running", "done"),
)
# Sockets that listen, by their ports (/proc/net/tcp, state 0A), on any address of the host.
LISTENS = 'cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -q ":$1 [0-9A-F]*:0000 0A "'


class Line(Value, frozen=True, kw_only=True):
    """A line printed by a task of a job."""

    host: str  # the name of the machine; empty for a benchmark, whose ranks share one stream
    rank: int  # of the task
    stream: str  # `stdout` or `stderr`
    at: float  # when it was printed, in seconds since the epoch, by the clock of this machine
    text: str  # without its newline; bytes that are no UTF-8 are replaced
    whole: bool = True  # false for a part of a very long line, or a last one without a newline

    @property
    def printed(self) -> str:
        """The text, behind the name of its host."""
        return f"{self.host}: {self.text}" if self.host else self.text


class Job:
    """A job of a cluster, as `Cluster.start` and `Cluster.jobs` return it."""

    def __init__(
        self, record: NamedJob, remote: Hosts, restart: Callable[[Job, Lost], NamedJob]
    ) -> None:
        self.record = record  # what was started, and where
        self._remote = remote
        self._restart = restart  # again, after the loss of hosts
        self._ends: dict[int, TaskState] = {}
        self._next_look = 0.0  # for a hang, by the monotonic clock

    def __repr__(self) -> str:
        return f"<Job {self.name} on {', '.join(task.host for task in self.record.tasks)}>"

    @property
    def name(self) -> str:
        """The name of the job in its cluster."""
        return self.record.name

    @property
    def is_kept(self) -> bool:
        """Whether the job has ended, and its output is here."""
        return all(self._output_file(task).exists() for task in self.record.tasks)

    @property
    def command(self) -> str:
        """The command, as it was typed."""
        return self.record.spec.line or shlex.join(self.record.spec.argv)

    def states(self) -> dict[str, TaskState | ClusterError]:
        """Ask each host for the state of its task; return the error of one that does not answer.

        Example: `job.states()["0.mpi.mine"]`
        """
        self._keep(self._kept_states())
        tasks = {task.host: task for task in self.record.tasks if task.rank not in self._ends}
        answers = try_each(
            {name: self._shell(name) for name in tasks},
            lambda name, shell: self._host_tasks(name, shell).states([tasks[name]])[0],
        )
        self._keep(answers)
        return {t.host: self._ends.get(t.rank) or answers[t.host] for t in self.record.tasks}

    def _kept_states(self) -> dict[str, TaskState]:
        """Return the states of the tasks whose output is here, by the names of their hosts."""
        with suppress(FileNotFoundError):
            states = Path(self.record.folder, STATES).read_bytes()
            return decoders.decode(states, dict[str, TaskState])
        return {}

    def ended(self) -> tuple[TaskState, ...]:
        """Return the states of tasks that are known to have ended, by rank: `job.ended()`."""
        return tuple(self._ends[rank] for rank in sorted(self._ends))

    def _keep(self, answers: Mapping[str, TaskState | ClusterError]) -> None:
        """Remember the states that will not change any more."""
        for task in self.record.tasks:
            state = answers.get(task.host)
            if isinstance(state, TaskState) and state.end is not None:
                self._ends[task.rank] = state

    @property
    def state(self) -> State:
        """The state of the worst task; `unreachable` if a host does not answer."""
        return worst(self.states().values())

    def runs_on(self) -> tuple[str, ...]:
        """Return the hosts where the job runs, even if it has lost others: `job.runs_on()`."""
        answers = self.states().items()
        return tuple(host for host, a in answers if isinstance(a, TaskState) and a.end is None)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all tasks have ended, and keep their output here.

        Example: `c.start("make -j8", name="build").wait(timeout=600)`, in seconds.

        Raises:
            JobError: a task failed, was stopped or lost; its last lines are in the error.
            Timeout: the job goes on after the timeout.
            Unreachable: a host does not answer; its task may still run there.
            HostErrors: several of these; each is listed.
        """
        deadline = time.monotonic() + (timeout if timeout is not None else float("inf"))
        last_answer = time.monotonic()
        while True:
            states = self.states()
            silent = [error for error in states.values() if isinstance(error, ClusterError)]
            last_answer = last_answer if silent else time.monotonic()
            if self._begin_again(states, unreachable=time.monotonic() > last_answer + GIVE_UP):
                last_answer = time.monotonic()
                continue
            if len(self._ends) == len(self.record.tasks):
                break
            self._end_if_hung(states)
            if silent and time.monotonic() > last_answer + GIVE_UP:
                results(states)
            if time.monotonic() > deadline:
                raise Timeout(
                    f"The job {self.name} goes on after {timeout:g} s.",
                    remedy=f"Look: cluster logs {self._remote.name} {self.name} -f",
                )
            time.sleep(AGAIN if silent else POLL)
        self.fetch()
        results({task.host: self._failure(task) or self for task in self.record.tasks})

    def _begin_again(self, states: Lost, *, unreachable: bool) -> bool:
        """Start the job again if it has lost hosts and a restart is left; return whether it was."""
        losses = {
            name: state
            for name, state in states.items()
            if (unreachable if isinstance(state, ClusterError) else state.state == "lost")
        }
        if not losses or len(self.record.attempts) >= self.record.restarts:
            return False
        self.record = self._restart(self, losses)
        self._ends = {}
        return True

    def _failure(self, task: Task) -> JobError | None:
        """Return the error of a task that has ended, with its last lines, unless it is done."""
        state = self._ends[task.rank]
        if state.end is None or state.state == "done":
            return None
        lines = list(self._kept_lines(task, 0))[-TAIL:]
        status = f", exit status {state.end.exit_status}" if state.end.exit_status >= 0 else ""
        return JobError(
            f"{task.host}: the job {self.name} is {state.state}{status}.",
            means=state.end.reason,
            host=task.host,
            stdout="\n".join(line.text for line in lines if line.stream == "stdout"),
            stderr="\n".join(line.text for line in lines if line.stream == "stderr"),
        )

    def stop(self, reason: str = "") -> None:
        """End all processes of the job, by SIGTERM, then SIGKILL after its grace; keep its output.

        Example: `job.stop("The loss is NaN.")`, with a reason for its record.

        Raises:
            ClusterError: a host does not answer, or cannot say what became of the job.
            HostErrors: several of these.
        """
        self.stop_on([task.host for task in self.record.tasks], reason)

    def stop_on(self, hosts: Collection[str], reason: str) -> None:
        """End tasks as `stop` does, on some hosts: `job.stop_on(["1.mpi.mine"], "")`."""
        tasks = [task for task in self.record.tasks if task.host in hosts]
        grace = self.record.spec.grace
        self._keep(self._on_hosts(lambda task, host: host.stop(task, grace, reason), tasks))
        self.fetch()

    def look_for_hang(self, *, native: bool = False) -> tuple[HangAnswer, Path]:
        """Return which rank the others wait for, and the folder of the evidence.

        Example: `answer, evidence = job.look_for_hang()`

        `native` also reads native stacks, for which each process is stopped for milliseconds.
        SpecError: no rank of the job runs.
        """
        tasks = {task.host: task for task in self.record.tasks}
        return look_on(
            {name: self._shell(name) for name in tasks},
            {name: self._machine(name) for name in tasks},
            {name: task.folder for name, task in tasks.items()},
            Path(self.record.folder),
            native=native,
        )

    def _end_if_hung(self, states: Lost) -> None:
        """End a job that has printed nothing for `hang_after`, unless its ranks go on."""
        after, now = self.record.spec.hang_after, time.monotonic()
        running = [s for s in states.values() if isinstance(s, TaskState) and not s.end]
        quiet = min((state.quiet for state in running), default=0.0)
        if after is None or quiet < after or now < self._next_look:
            return
        self._next_look = now + after
        with suppress(SpecError):
            answer, evidence = self.look_for_hang()
            if answer.verdict not in ("slow", "moving"):
                self.stop(outcome_words("hung", after, answer_line(answer), evidence))

    def _watch_for_hang(self) -> None:
        """Watch until all tasks have ended, beside the process that reads their lines."""
        while len(self._ends) < len(self.record.tasks):
            with suppress(ClusterError):
                self._end_if_hung(self.states())
            time.sleep(AGAIN)

    def fetch(self) -> Path:
        """Download what ended tasks printed: `job.fetch() / "0.mpi.mine.output"`.

        Raises:
            ClusterError: a host does not answer.
            HostErrors: several do not.
        """
        folder = Path(self.record.folder)
        make_private(folder)

        def download(task: Task, tasks: HostTasks) -> None:
            if not self._output_file(task).exists():
                with tempfile.TemporaryDirectory(dir=folder) as part:
                    tasks.fetch(task, Path(part))
                    Path(part, OUTPUT).replace(self._output_file(task))
                tasks.close(task)

        ended_tasks = [task for task in self.record.tasks if task.rank in self._ends]
        states = {task.host: self._ends[task.rank] for task in ended_tasks}
        (folder / STATES).write_bytes(msgspec.json.encode(states))
        (folder / "job.json").write_bytes(msgspec.json.encode(self.record))
        self._on_hosts(download, ended_tasks)
        return folder

    def logs(self) -> str:
        """Return what tasks have printed, with the names of their hosts: `print(job.logs())`."""
        return "".join(f"{line.printed}\n" for line in self.lines(follow=False))

    def lines(self, *, follow: bool = True) -> Iterator[Line]:
        """Yield what the tasks print, as it comes; the lines of one host are in their order.

        Example: `[line.text for line in job.lines() if line.rank == 0]`

        Args:
            follow: wait for more until all tasks have ended, including those of a restart.

        Raises:
            ClusterError: a host does not answer any more; its task may still run there.
        """
        arrivals: queue.SimpleQueue[Line | ClusterError | None] = queue.SimpleQueue()
        for task in self.record.tasks:
            start(partial(self._collect, task, arrivals.put, to_end=follow))
        if follow and self.record.spec.hang_after is not None:
            start(self._watch_for_hang)
        failure = None
        for _ in self.record.tasks:
            while isinstance(item := arrivals.get(), Line):
                yield item
            failure = failure or item
        if follow and self.record.restarts and self._begin_again(self.states(), unreachable=True):
            yield from self.lines()
        elif failure:
            raise failure

    def _collect(
        self, task: Task, put: Callable[[Line | ClusterError | None], None], *, to_end: bool
    ) -> None:
        """Put the lines of a task; then nothing, or why there are no more."""
        offset, last_output = 0, time.monotonic()

        def take(output: TaskOutput) -> None:
            nonlocal offset, last_output
            offset, last_output = output.end, time.monotonic()
            for line in read_lines(output, task):
                put(line)

        error: ClusterError | None = None
        while True:
            try:
                if self._output_file(task).exists():
                    for line in self._kept_lines(task, offset):
                        put(line)
                else:
                    shell = self._shell(task.host)
                    self._host_tasks(task.host, shell).follow(task, offset, take, to_end=to_end)
                break
            except ClusterError as broken:  # the network may be back in a moment
                if time.monotonic() > last_output + GIVE_UP:
                    error = broken
                    break
                time.sleep(AGAIN)
        put(error and name_host(error, task.host))

    def wait_for_port(self, port: int, timeout: float = 60.0) -> None:
        """Wait until something listens on a port of each of the job's hosts.

        Example: `c.start("python serve.py").wait_for_port(8000, timeout=600)`, in seconds.

        Raises:
            JobError: the job ended before.
            Timeout: nothing listens in time.
            HostErrors: several of these.
        """
        words = ["sh", "-c", LISTENS, "sh", f"{port:04X}"]
        self._wait_for(lambda _: words, f"port {port}", timeout)

    def forward(self, port: int, local: int = 0) -> Forward:
        """Forward a port of the job's first host to the same or another port here.

        It is open until it or the process is closed. Example: `job.forward(8888).address`
        """
        name = self.record.tasks[0].host
        try:
            return Forward(self._shell(name), name, self._machine(name).address, port, local)
        except ShellError as error:
            state = self.states()[name]
            if isinstance(state, TaskState) and state.end is not None:
                error.means = f"The job {self.name} is {state.state}. {state.end.reason}".strip()
            raise

    def wait_for_file(self, path: str, timeout: float = 60.0) -> None:
        """Wait until a file exists on each of the job's hosts; a relative path begins in its `cwd`.

        Example: `job.wait_for_file("out/checkpoint.pt", timeout=600)`, in seconds.

        Raises:
            JobError: the job ended before.
            Timeout: the file does not appear in time.
            HostErrors: several of these.
        """
        self._wait_for(lambda task: ["test", "-e", posixpath.join(task.cwd, path)], path, timeout)

    def _wait_for(
        self, words: Callable[[Task], Sequence[str]], target: str, timeout: float
    ) -> None:
        deadline = time.monotonic() + timeout

        def wait(task: Task, tasks: HostTasks) -> None:
            while not tasks.test(words(task)):
                state = self._task_state(task, tasks)
                self._keep({task.host: state})
                if state.end is not None:
                    self.fetch()
                    raise self._failure(task) or JobError(
                        f"{self.name} ended before {target} was there."
                    )
                if time.monotonic() > deadline:
                    raise Timeout(
                        f"{task.host}: {target} is not there after {timeout:g} s.",
                        remedy=f"Look: cluster logs {self._remote.name} {self.name}",
                        host=task.host,
                    )
                time.sleep(POLL)

        self._on_hosts(wait)

    def _task_state(self, task: Task, tasks: HostTasks) -> TaskState:
        return tasks.states([task])[0]

    def _on_hosts(
        self, do: Callable[[Task, HostTasks], T], tasks: Sequence[Task] | None = None
    ) -> dict[str, T]:
        by_host = {task.host: task for task in (self.record.tasks if tasks is None else tasks)}
        shells = {name: self._shell(name) for name in by_host}
        return on_each(shells, lambda name, shell: do(by_host[name], self._host_tasks(name, shell)))

    def _host_tasks(self, name: str, shell: Shell) -> HostTasks:
        return HostTasks(self._machine(name), shell)

    def _shell(self, name: str) -> Shell:
        return self._remote.shell(self._machine(name))

    def _machine(self, name: str) -> Machine:
        return next(machine for machine in self._remote.machines if machine.name == name)

    def _output_file(self, task: Task) -> Path:
        return Path(self.record.folder, f"{task.host}.output")

    def _kept_lines(self, task: Task, offset: int) -> Iterator[Line]:
        state = self._kept_states().get(task.host)
        base = state.end.dropped if state and state.end else 0
        if offset < base:
            yield _note(task, outcome_words("older_output", base - offset))
        with suppress(FileNotFoundError), self._output_file(task).open("rb") as file:
            file.seek(max(0, offset - base))
            for raw in file:
                yield from parse(raw.decode(errors="replace"), task, 0.0)


def may_run(state: TaskState | ClusterError) -> bool:
    """Tell whether a task runs, or may do so as its host does not answer."""
    return isinstance(state, ClusterError) or state.end is None


def worst(states: Iterable[TaskState | ClusterError]) -> State:
    """Return the state of a job: that of its worst task."""
    kinds = {"unreachable" if isinstance(a, ClusterError) else a.state for a in states}
    return next(state for state in ORDER if state in kinds)


def read_lines(output: TaskOutput, task: Task) -> Iterator[Line]:
    """Read the lines of output as it arrives, with times of this machine's clock."""
    if output.dropped:
        yield _note(task, outcome_words("older_output", output.dropped))
    yield from parse(output.text, task, time.time() - output.now)


def _note(task: Task, text: str) -> Line:
    return Line(host=task.host, rank=task.rank, stream="stderr", at=time.time(), text=text)


def parse(text: str, task: Task, ahead: float) -> Iterator[Line]:
    """Read the lines of a task's output; `ahead` is this clock minus the host's, in seconds."""
    for row in text.split("\n"):
        timestamp, _, rest = row.partition(" ")
        mark, _, words = rest.partition(" ")
        if mark.lower() in STREAMS:
            yield Line(
                host=task.host,
                rank=task.rank,
                stream=STREAMS[mark.lower()],
                at=float(timestamp) + ahead,
                text=words,
                whole=mark.islower(),
            )
