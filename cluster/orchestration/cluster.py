"""Cluster: machines that were launched, and the only place where the layers meet."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from cluster.core import journal, plugins
from cluster.core.errors import ClusterError, JobError, ProvisionError, SpecError
from cluster.core.model.records import Condition, JobRecord, Status
from cluster.core.model.spec import ClusterSpec, check_name
from cluster.core.model.value import StateCallback, ignore
from cluster.core.units import parse_expected
from cluster.orchestration.collect import (
    JobListener,
    JobOutput,
    JobResult,
    close_run,
    collect,
    job_result,
    raise_unless_done,
    raw_text,
)
from cluster.orchestration.machines import LAUNCH_PHASES, Standing
from cluster.orchestration.prepare import Ready, check_bench, prepare
from cluster.providers import Provider
from cluster.remote import ssh_mesh
from cluster.remote.jobs import Job
from cluster.remote.parallel import connect_all, on_each
from cluster.runs import store
from cluster.runs.store import read
from cluster.runs.store import root as runs_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from cluster.remote.shells import Shell
    from cluster.runs.run import Run

TIMEOUT = 600.0  # seconds that a job may take if nothing else is said


class Listener(JobListener):
    """Hears how a benchmark goes; derive from it and override what you want to hear."""

    def preparing(self, host: str, step: str) -> None:
        """Hear how far the installation on a host is."""

    def started(self, cluster: Cluster, folder: Path) -> None:
        """Hear that the job runs: people can attach now, and files will come to `folder`."""


def attach(name: str) -> Cluster:
    """Find a cluster that this or another process launched.

    Args:
        name: of the cluster.

    Returns:
        The cluster.

    Raises:
        SpecError: there is none of this name.

    """
    book = journal.for_cluster(check_name(name))
    specs = [entry.spec for entry in book.entries() if isinstance(entry, journal.Intended)]
    if not specs:
        raise SpecError(f"There is no cluster {name!r}.", remedy="List them: cluster ls")
    return Cluster(specs[-1], book)


class Cluster(Standing):
    """Machines that were launched, and the jobs on them.

    Args:
        spec: what was asked.
        book: its journal.

    """

    def __init__(self, spec: ClusterSpec, book: journal.Journal) -> None:
        """Read from the journal what exists, and what ran there."""
        self._jobs: list[JobRecord] = []
        self._settled: set[str] = set()
        self._looked_for = ""
        super().__init__(spec, book)

    def _read_journal(self) -> None:
        self._jobs.clear()
        super()._read_journal()

    def _replay(self, entry: journal.Entry) -> None:
        match entry:
            case journal.Started():
                self._jobs.append(entry.job)
            case journal.Collected():
                self._settled.add(entry.run)
            case _:
                super()._replay(entry)

    def __repr__(self) -> str:
        """Say who it is, for the person debugging."""
        return f"<Cluster {self.name}: {len(self.machines)} x {self.spec.provider}>"

    def __enter__(self) -> Self:
        """Give the cluster; it is taken down at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the cluster down."""
        self.down()

    @property
    def looked_for(self) -> str:
        """What of it is looked for, and where."""
        return self._looked_for or plugins.load(Provider, self.spec.provider).looked_for(self.name)

    def stop(self) -> None:
        """Switch the machines off; results come home first.

        Raises:
            ClusterError: they cannot be, or were not.

        """
        with self._journal.lock():
            self._read_journal()
            provider = plugins.load(Provider, self.spec.provider)
            self._end_jobs("The cluster was stopped.")
            self.close()
            provider.stop(self.name, self.machines)
            self._journal.append(journal.Switched(on=False, at=time.time()))

    def start(self, tell: StateCallback = ignore) -> None:
        """Switch the machines on again, and wait until they answer.

        Args:
            tell: called with a machine and the state that it got to.

        Raises:
            ClusterError: they cannot be, or were not.

        """
        with self._journal.lock():
            self._read_journal()
            provider = plugins.load(Provider, self.spec.provider)
            began = time.time()
            machines = provider.start(self.name, self.machines, tell)
            self.expires = began + self._ttl if self._ttl else None
            self._journal.append(journal.Switched(on=True, at=began))
            self.note_machines(machines)
        connect_all(self.shells(), provider.ready_within, tell)

    @property
    def has_job(self) -> bool:
        """Whether any job was ever started here."""
        return bool(self._jobs)

    def bench(  # noqa: PLR0913 - each is an option of its own
        self,
        benchmark: str,
        *,
        runs: str | Path | None = None,
        timeout: float = TIMEOUT,
        detach: bool = False,
        listener: Listener | None = None,
        variables: Mapping[str, str] | None = None,
        condition: str = "",
        profile: str | None = None,
        describe: str = "",
        expect: str = "",
        **params: object,
    ) -> Run:
        """Run a benchmark and bring its results home.

        Args:
            benchmark: its name.
            runs: the folder of all runs; `CLUSTER_RUNS` or `runs` if not given.
            timeout: seconds that the job may take.
            detach: return as soon as the job runs; `wait` and `fetch` do the rest.
            listener: hears how it goes.
            variables: for the environment of every rank.
            condition: a name for what is special about it, to compare by.
            profile: `own` takes MPI profiles of all ranks, and the path of a libmpitrace on the
                hosts does so by that; they are in the run's `raw` folder.
            describe: in a sentence, for whoever reads the record.
            expect: what it should come to, such as `1.1GB/s`.
            params: of the benchmark.

        Returns:
            The run.

        Raises:
            SpecError: a parameter is wrong; nothing was started.
            JobError: the job failed; the run's folder says why, and keeps the values.
            KeyboardInterrupt: the user interrupted; ranks are stopped, values are home.

        """
        chosen, checked = check_bench(self.spec, benchmark, params, timeout)
        how = Condition(
            name=condition,
            variables=dict(variables or {}),
            description=describe,
            expected=parse_expected(expect) if expect else None,
        )
        self.phases = {phase: s for phase, s in self.phases.items() if phase in LAUNCH_PHASES}
        heard = listener or Listener()
        self.install(chosen.programs, heard.preparing)
        self._examine(chosen.programs, chosen.gpus(checked, self.spec.ranks_per_host))
        self._join()
        if profile is not None:
            how = self._profiled(how, profile)
        self._end_previous()
        ready = prepare(self, chosen, checked, runs_root(runs), timeout, how)
        job = self._job(ready.job)
        ending: JobResult | None = None
        try:
            self._start(job, ready)
            heard.started(self, ready.folder)
            if detach:
                return read(ready.folder)
            ending = self._watch(job, heard)
            return raise_unless_done(self._close(job, ending))
        except KeyboardInterrupt as interrupt:
            reason = str(interrupt) or "Ctrl-C was pressed."
            with _ignoring_interrupts():
                how_it_ended = ending or JobResult(status="interrupted", reason=reason)
                self._close(job, how_it_ended, stop=True)
            raise

    def _profiled(self, how: Condition, profile: str) -> Condition:
        """Make a profiler ready, and say that its numbers have it in them."""
        from cluster.orchestration import profiling  # noqa: PLC0415 - few runs are profiled

        places = profiling.places(self.machines, self.facts, self.image)
        told = profiling.variables(self.shells(), places, profile, self.layout.size, how.variables)
        notes = (*how.notes, profiling.note(profile))
        return msgspec.structs.replace(how, variables=told, notes=notes)

    def wait(self, listener: Listener | None = None) -> int:
        """Wait for the newest job, which any process may have started.

        Args:
            listener: hears how it goes.

        Returns:
            Its exit status.

        Raises:
            SpecError: there is no job.
            JobError: it was lost.

        """
        job = self._newest()
        if job.record.run in self._settled:
            record = store.record(Path(job.record.run))
            return (
                int(record.status != "done") if record.exit_status is None else record.exit_status
            )
        return job.watch(JobOutput(listener or Listener(), None))

    def fetch(self) -> Run:
        """Bring the newest job's results home.

        Returns:
            The run.

        Raises:
            SpecError: there is no job, or it still runs.
            JobError: it failed; the values are home all the same.

        """
        job = self._newest()
        if job.record.run in self._settled:
            return raise_unless_done(store.read(Path(job.record.run)))
        try:
            status = job.status()
        except JobError as error:
            return raise_unless_done(
                self._close(job, JobResult(status="failed", reason=error.what))
            )
        if status is None:
            raise SpecError(
                f"The job {self.name} still runs.", remedy=f"Wait for it: cluster wait {self.name}"
            )
        return raise_unless_done(self._close(job, job_result(status)))

    def job(self) -> tuple[JobRecord, Status]:
        """Tell of the newest job, and how far it is.

        Returns:
            The job, and `running` while it runs or waits to be fetched.

        Raises:
            SpecError: there is no job.

        """
        job = self._newest()
        return job.record, store.record(Path(job.record.run)).status

    def exit_status(self) -> int | None:
        """Give the newest job's exit status, none while it runs.

        Raises:
            SpecError: there is no job.
            JobError: it was lost.

        """
        job = self._newest()
        if job.record.run in self._settled:
            return store.record(Path(job.record.run)).exit_status
        return job.status()

    def logs(self) -> str:
        """Give what the ranks of the newest job printed so far.

        Returns:
            Their standard output.

        Raises:
            SpecError: there is no job.

        """
        job = self._newest()
        if job.record.run in self._settled:
            return raw_text(Path(job.record.run), "stdout")
        return job.logs()

    def down(self, *, reason: str = "The cluster was taken down.", reachable: bool = True) -> None:
        """Stop what runs, bring home what is there, and leave nothing.

        Args:
            reason: written into the run of a job that had not ended.
            reachable: the hosts can be reached; if not, nothing was ever done there.

        Raises:
            ClusterError: something could not be taken away, and still exists.

        """
        if not self._journal.path.exists():
            return
        with self._journal.lock():
            self._read_journal()
            if reachable:
                self._leave_hosts(reason)
            self.close()
            began = time.monotonic()
            self._looked_for = self.looked_for
            self.phases = {**self._timed(), **self.phases}
            self._destroy()
            self._gone_at = time.time()
            self._note_phase("teardown", began)
            self._journal.forget()
        self._write_receipt()
        self._jobs.clear()

    def _write_receipt(self) -> None:
        """Write into the newest run what all of it cost in the end."""
        receipt = self.receipt()
        if receipt is None or not self._jobs:
            return
        folder = Path(self._jobs[-1].run)
        with suppress(ClusterError):  # somebody may have removed it
            record = store.record(folder)
            phases = {**record.phases, "teardown": self.phases["teardown"]}
            store.write(folder, msgspec.structs.replace(record, phases=phases, receipt=receipt))

    def _leave_hosts(self, reason: str) -> None:
        """End what runs there, and leave nothing on hosts that stay.

        Those that we made are about to go, whether they answer or not.
        """
        if plugins.load(Provider, self.spec.provider).makes_machines:
            with suppress(ClusterError, ExceptionGroup):
                self._end_jobs(reason)
            return
        self._end_jobs(reason)
        folders = {machine.name: machine.folder for machine in self.machines}

        def leave(name: str, shell: Shell) -> None:
            if shell.exists(folders[name]):
                ssh_mesh.close_mesh(shell, folders[name])
                shell.remove(folders[name])

        on_each(self.shells(), leave)

    def _destroy(self) -> None:
        provider = plugins.load(Provider, self.spec.provider)
        provider.destroy(self.name)
        if left := provider.find(self.name):
            raise ProvisionError(
                f"{len(left)} thing(s) of {self.name} still exist: "
                + ", ".join(f"{resource.kind} {resource.id}" for resource in left),
                remedy=f"Try again: cluster down {self.name}",
            )

    def _end_jobs(self, reason: str) -> None:
        for record in self._jobs:
            if record.run not in self._settled:
                with suppress(SpecError):  # somebody removed the run's folder: it is stopped
                    ending = JobResult(status="interrupted", reason=reason)
                    self._close(self._job(record), ending, stop=True)
        if self._jobs:
            with suppress(SpecError):  # a host that has lost its tmux has no session to end
                self._job(self._jobs[-1]).end_session()

    def _end_previous(self) -> None:
        """Make room for a new job under this name; refuse before a folder is made."""
        self._end_jobs("It was replaced by a newer run of the same name.")
        probe = JobRecord(session=self.name, folder="", run="", benchmark="", at=0.0)
        if not self._job(probe).end_session():
            raise ClusterError(
                f"There is a tmux session {self.name!r} that was not made by cluster.",
                means="It is left alone, and nothing was started.",
                remedy=f"Choose another --name, or end it: tmux kill-session -t '={self.name}'",
            )

    def _start(self, job: Job, ready: Ready) -> None:
        began = time.monotonic()
        try:
            with self._journal.lock():
                self._journal.append(journal.Started(job=ready.job))
                self._jobs.append(ready.job)
                job.start(ready.script, ready.files)
                store.write(ready.folder, msgspec.structs.replace(ready.record, status="running"))
        except ClusterError as error:
            close_run(ready.folder, JobResult(status="failed", reason=error.what), self.phases)
            self._mark_settled(job)
            raise
        self._note_phase("start", began)

    def _watch(self, job: Job, listener: Listener) -> JobResult:
        began = time.monotonic()
        try:
            return job_result(job.watch(JobOutput(listener, Path(job.record.run))))
        except JobError as error:
            return JobResult(status="failed", reason=error.what)
        finally:
            self._note_phase("run", began)

    def _close(self, job: Job, ending: JobResult, *, stop: bool = False) -> Run:
        """Bring a job's files home and close its run."""
        run = collect(job, ending, self.phases, stop=stop)
        if receipt := self.receipt():
            record = msgspec.structs.replace(run.record, receipt=receipt)
            store.write(run.folder, record)
            run = msgspec.structs.replace(run, record=record)
        self._mark_settled(job)
        return run

    def _mark_settled(self, job: Job) -> None:
        self._settled.add(job.record.run)
        if self._journal.path.exists():  # another process may have taken the cluster down
            self._journal.append(journal.Collected(run=job.record.run))

    def _newest(self) -> Job:
        if not self._jobs:
            raise SpecError(
                f"The cluster {self.name} has no job.",
                remedy=f"Start one: cluster bench p2p --name {self.name}",
            )
        return self._job(self._jobs[-1])

    def _job(self, record: JobRecord) -> Job:
        return Job(record, self.shells(), self.machines[0])


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Let an impatient second Ctrl-C or SIGTERM not cost the values."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    here = threading.current_thread() is threading.main_thread()  # no signal comes elsewhere
    handled = {number: handler for number, handler in before.items() if here and callable(handler)}
    for number in handled:
        signal.signal(number, lambda *_: None)  # SIG_IGN would be inherited by programs
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
