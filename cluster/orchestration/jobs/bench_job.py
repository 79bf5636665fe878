"""A benchmark as a job of its cluster: the verbs of any other; its first host leads the ranks."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from cluster.agent.task import BEGINS_WITHIN
from cluster.core import claims
from cluster.core.errors import ClusterError, JobError, ShellError, Timeout, Unreachable
from cluster.core.model.hang import HangAnswer
from cluster.core.model.jobs import NamedJob, State, Task, TaskEnd, TaskSpec, TaskState
from cluster.core.model.records import JobRecord
from cluster.orchestration.bench.collect import JobListener, raise_unless_done
from cluster.orchestration.cluster_jobs import Jobs
from cluster.orchestration.jobs.hang import look_on
from cluster.orchestration.jobs.job import Job, Line, Lost
from cluster.remote.hosts import Hosts
from cluster.remote.tasks import HostTasks
from cluster.remote.threads import start
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store

PREFIX = "bench-"  # of the name, before that of the benchmark
ANSWERS_WITHIN = 5.0  # seconds for its first host to say whether it runs
ENDS: Mapping[str, State] = {"done": "done", "failed": "failed", "interrupted": "stopped"}


class _Lines(JobListener):
    """Puts the lines of the ranks where they are read."""

    def __init__(self, put: Callable[[Line], None]) -> None:
        self._put = put

    def output(self, line: str) -> None:
        """Put a line that the ranks printed."""
        self._put(_line(line, "stdout"))

    def notice(self, line: str) -> None:
        """Put what was noticed."""
        self._put(_line(line, "stderr"))


class BenchJob(Job):
    """A benchmark that was started on a cluster.

    Args:
        bench: what was started.
        remote: the connections of the cluster.
        jobs: starts and collects the benchmarks.
    """

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
        super().__init__(record, remote, _never_again)
        self.bench = bench
        self._jobs = jobs

    @property
    def is_kept(self) -> bool:
        """Whether it has ended, and its results are here."""
        return self._jobs.is_collected(self.bench)

    def states(self) -> dict[str, TaskState | ClusterError]:
        """Ask the first host for the state of the benchmark, which is that of each task."""
        state = next(iter(self._ended.values()), None) or self._look()
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
            return TaskState(state="starting") if is_new else _ended("lost", -1, lost.what)
        except TimeoutError:
            self._remote.close()  # ends what waits for the host, such as a step of srun
            first = self._remote.machines[0].name
            return Unreachable(f"{first} has not answered for {ANSWERS_WITHIN:g} s.")
        except ShellError as error:
            return error
        running = TaskState(state="running", began=self.bench.at)
        return running if status is None else _ended("failed" if status else "done", status)

    def _kept_state(self) -> TaskState:
        try:
            run = store.record(Path(self.bench.run))
        except ClusterError as error:  # its folder was removed
            return _ended("lost", -1, error.what)
        status = -1 if run.exit_status is None else run.exit_status
        return _ended(ENDS.get(run.status, "lost"), status, run.reason)

    def _task_state(self, task: Task, tasks: HostTasks) -> TaskState:
        del task, tasks
        state = self._look()
        if isinstance(state, ClusterError):
            raise state
        return state

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended, and download its results."""
        ended = start(partial(self.watch, JobListener()))
        try:
            ended.result(timeout)
        except TimeoutError as error:
            raise Timeout(
                f"The job {self.name} goes on after {timeout:g} s.",
                remedy=f"Look: cluster logs {self._remote.name} {self.name} -f",
            ) from error
        raise_unless_done(store.read(self.fetch()))

    def watch(self, listener: JobListener) -> int:
        """Pass what it writes to a listener until it has ended; return its exit status.

        JobError: it was lost. Unreachable: its first host does not answer; it may still run there.
        """
        return self._jobs.wait(self.bench, listener)

    def stop_on(self, hosts: Collection[str], reason: str) -> None:
        """End its ranks, which is possible on all hosts only; keep its results."""
        del hosts
        if not self.is_kept:
            self._jobs.end(
                self.bench, reason or outcome_words("ended_by", claims.this_process().words)
            )

    def fetch(self) -> Path:
        """Download its results; return the folder of its run (SpecError: it still runs)."""
        with suppress(JobError):  # the run says how it failed
            self._jobs.fetch(self.bench)
        return Path(self.bench.run)

    def lines(self, *, follow: bool = True) -> Iterator[Line]:
        """Yield what its ranks print, as it comes; standard error at its end, if it is all."""
        if not follow or self.is_kept:
            for text in self._jobs.logs(self.bench).splitlines():
                yield _line(text, "stdout")
            return
        arrived: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        ended = start(partial(self.watch, _Lines(arrived.put)))
        ended.add_done_callback(lambda _: arrived.put(None))
        while (line := arrived.get()) is not None:
            yield line
        ended.result()

    def look_for_hang(self, *, native: bool = False) -> tuple[HangAnswer, Path]:
        """Return which of its ranks the others wait for, and the folder of the evidence.

        `native`: read native stacks, too, for which each process is stopped for milliseconds.
        SpecError: none of its ranks runs.
        """
        shells = self._remote.shells()
        machines = {machine.name: machine for machine in self._remote.machines}
        folders = dict.fromkeys(shells, self.bench.folder)
        return look_on(shells, machines, folders, Path(self.bench.run), native=native)


def _never_again(job: Job, lost: Lost) -> NamedJob:
    """Return the record as it is: a benchmark has no restarts."""
    del lost
    return job.record


def _ended(state: State, status: int, reason: str = "") -> TaskState:
    return TaskState(
        state=state, end=TaskEnd(exit_status=status, state=state, at=0.0, reason=reason)
    )


def _line(text: str, stream: str) -> Line:
    return Line(host="", rank=0, stream=stream, at=0.0, text=text)
