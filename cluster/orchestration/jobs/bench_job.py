"""A benchmark as a job, with the verbs of any other; its first host leads the ranks."""

import queue
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from cluster.agent.task import BEGINS_WITHIN
from cluster.core.errors import ClusterError, JobError, ShellError, Timeout, Unreachable
from cluster.core.model.hang import HangAnswer
from cluster.core.model.jobs import NamedJob, State, Task, TaskEnd, TaskSpec, TaskState
from cluster.core.model.results.records import JobRecord
from cluster.core.state import claims
from cluster.orchestration.bench.collect import Listener, raise_unless_done
from cluster.orchestration.cluster_jobs import Jobs
from cluster.orchestration.jobs.hang import look_on
from cluster.orchestration.jobs.job import Job, Line
from cluster.remote.hosts import Hosts
from cluster.remote.parallel import start
from cluster.remote.sessions.tasks import HostTasks
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store

PREFIX = "bench-"  # of the name, before that of the benchmark
ANSWERS_WITHIN = 5.0  # seconds for its first host to say whether it runs
ENDS: Mapping[str, State] = {"done": "done", "failed": "failed", "interrupted": "stopped"}


class _Lines(Listener):
    """Puts the lines of the ranks where they are read."""

    def __init__(self, put: Callable[[Line], None]) -> None:
        self._put = put

    def output(self, line: str) -> None:
        self._put(_line(line, "stdout"))

    def notice(self, line: str) -> None:
        self._put(_line(line, "stderr"))


class BenchJob(Job):
    """A benchmark that was started on a cluster."""

    def __init__(self, bench: JobRecord, remote: Hosts, jobs: Jobs) -> None:
        record = NamedJob(
            name=f"{PREFIX}{bench.benchmark}",
            spec=TaskSpec(argv=("cluster", "bench", bench.benchmark)),
            tasks=tuple(
                Task(host=host, rank=number, folder=bench.folder, session=bench.session)
                for number, host in enumerate(bench.hosts)
            ),
            at=bench.at,
            by="",
            folder=bench.run,
        )
        super().__init__(record, remote, lambda job, _: job.record)  # it has no restarts
        self.bench = bench
        self._jobs = jobs

    @property
    def is_kept(self) -> bool:
        """Whether the benchmark has ended, and its results are here."""
        return self._jobs.is_collected(self.bench)

    def states(self) -> dict[str, TaskState | ClusterError]:
        """Ask the first host for the state of the benchmark, which is that of each task."""
        state = next(iter(self._ends.values()), None) or self._look()
        states = {task.host: state for task in self.record.tasks}
        self._keep(states)
        return states

    def _look(self) -> TaskState | ClusterError:
        if self.is_kept:
            return self._kept_state()
        try:
            status = start(partial(self._jobs.exit_status, self.bench)).result(ANSWERS_WITHIN)
        except JobError as lost:
            is_new = time.time() < self.bench.at + BEGINS_WITHIN  # its folder may not be there yet
            return TaskState(state="starting") if is_new else _make_state("lost", -1, lost.what)
        except TimeoutError:
            self._remote.close()  # ends what waits for the host, such as a step of srun
            first = self._remote.machines[0].name
            return Unreachable(f"{first} has not answered for {ANSWERS_WITHIN:g} s.")
        except ShellError as error:
            return error
        running = TaskState(state="running", began=self.bench.at)
        return running if status is None else _make_state("failed" if status else "done", status)

    def _kept_state(self) -> TaskState:
        try:
            run = store.record(Path(self.bench.run))
        except ClusterError as error:  # its folder was removed
            return _make_state("lost", -1, error.what)
        status = -1 if run.exit_status is None else run.exit_status
        return _make_state(ENDS.get(run.status, "lost"), status, run.reason)

    def _task_state(self, task: Task, tasks: HostTasks) -> TaskState:
        del task, tasks
        state = self._look()
        if isinstance(state, ClusterError):
            raise state
        return state

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the benchmark has ended, and download its results."""
        future = start(partial(self.watch, Listener()))
        try:
            future.result(timeout)
        except TimeoutError as error:
            raise Timeout(
                f"The job {self.name} goes on after {timeout:g} s.",
                remedy=f"Look: cluster logs {self._remote.name} {self.name} -f",
            ) from error
        raise_unless_done(store.read(self.fetch()))

    def watch(self, listener: Listener) -> int:
        """Pass what the benchmark writes to a listener until it ends; return its exit status.

        JobError: the benchmark was lost. Unreachable: its first host does not answer.
        """
        return self._jobs.wait(self.bench, listener)

    def stop_on(self, hosts: Collection[str], reason: str) -> None:
        """End the ranks, which is possible only on all hosts at once; keep the results."""
        del hosts
        if not self.is_kept:
            self._jobs.end(
                self.bench, reason or outcome_words("ended_by", claims.this_process().words)
            )

    def fetch(self) -> Path:
        """Download the results; return the run's folder (SpecError: the benchmark still runs)."""
        with suppress(JobError):  # the run says how it failed
            self._jobs.fetch(self.bench)
        return Path(self.bench.run)

    def lines(self, *, follow: bool = True) -> Iterator[Line]:
        """Yield what the ranks print, as it comes; if it is nothing, standard error at the end."""
        if not follow or self.is_kept:
            for text in self._jobs.logs(self.bench).splitlines():
                yield _line(text, "stdout")
            return
        arrivals: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        future = start(partial(self.watch, _Lines(arrivals.put)))
        future.add_done_callback(lambda _: arrivals.put(None))
        while (line := arrivals.get()) is not None:
            yield line
        future.result()

    def look_for_hang(self, *, native: bool = False) -> tuple[HangAnswer, Path]:
        """Return which rank the others wait for, and the folder of the evidence.

        `native` also reads native stacks, for which each process is stopped for milliseconds.
        SpecError: no rank runs.
        """
        shells = self._remote.shells()
        machines = {machine.name: machine for machine in self._remote.machines}
        folders = dict.fromkeys(shells, self.bench.folder)
        return look_on(shells, machines, folders, Path(self.bench.run), native=native)


def _make_state(state: State, status: int, reason: str = "") -> TaskState:
    return TaskState(
        state=state, end=TaskEnd(exit_status=status, state=state, at=0.0, reason=reason)
    )


def _line(text: str, stream: str) -> Line:
    return Line(host="", rank=0, stream=stream, at=0.0, text=text)
