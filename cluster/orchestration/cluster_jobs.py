"""The jobs of a cluster, which any process can start, watch and collect."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from cluster.agent.protocol import HOST_LOST
from cluster.core import plugins
from cluster.core.errors import ClusterError, JobError, SpecError, Unreachable
from cluster.core.model.hosts import SIMULATED
from cluster.core.model.resources import Receipt
from cluster.core.model.results.records import JobRecord, Status
from cluster.core.state import claims, journal
from cluster.orchestration.bench.collect import (
    JobOutput,
    JobResult,
    Listener,
    close_run,
    collect,
    job_result,
    raise_unless_done,
    raw_text,
)
from cluster.orchestration.bench.plan import JobPlan
from cluster.orchestration.bench.working_folder import temporary_copy
from cluster.orchestration.hosts.machines import RevocationWatch
from cluster.orchestration.hosts.state import StateOnDisk
from cluster.providers import Provider, Revocable, RevokedAtOnce
from cluster.remote.hosts import Hosts
from cluster.remote.parallel import start
from cluster.remote.sessions.jobs import MpiJob
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store
from cluster.runs.run import PAIRS, WITHIN, Run

GIVE_UP_AFTER = 6.0  # seconds for reclaimed hosts to end a job; then nobody waits
ANSWERS_WITHIN = 3.0  # seconds for them to answer after that; those that do not are not asked again


class Jobs:
    """The jobs of a cluster; at most the newest one runs.

    `phases` are seconds of the newest job that this process prepared or collected; `is_superseded`
    says that another process has taken the cluster over.
    """

    def __init__(self, disk: StateOnDisk, hosts: Hosts) -> None:
        self._disk = disk
        self._hosts = hosts
        self.phases: dict[str, float] = {}
        self._claim: claims.Claim | None = None
        self.is_superseded = False

    @contextmanager
    def claim_hosts(self, *, replace: bool = False) -> Iterator[None]:
        """Keep other processes from starting a job here during a block, which may be nested.

        `replace` ends the job of a process that uses the cluster; without it, InUse is raised.
        """
        if self._claim is not None:
            yield
            return
        with claims.claim(self._disk.journal, replace=replace) as claim:
            self._claim = claim
            try:
                self._disk.refresh()  # what others have started
                yield
            finally:
                self.is_superseded = claim.successor() is not None
                self._claim = None

    @contextmanager
    def sole(self) -> Iterator[None]:
        """Keep the claim during a block that changes what another's job needs (ClusterError)."""
        with self._disk.journal.lock():
            if self._claim and (successor := self._claim.successor()):
                raise ClusterError(
                    f"Before its job began, {outcome_words('replaced_by', successor)}",
                    remedy=f"Look: cluster status {self._hosts.name}",
                )
            yield

    def user(self) -> claims.Controller | None:
        """Return the other process that uses the cluster now."""
        return None if self._claim else claims.holder(self._disk.journal)

    def _refuse_if_running(self, job: MpiJob) -> None:
        session, machine = None, job.machine
        if machine.shell == SIMULATED:
            return
        with suppress(SpecError):  # a host without tmux runs no job
            session = job.running()
        if session is None:
            return
        controller = claims.decode(session.by)
        is_own = any(job.folder == session.folder for job in self._disk.state.jobs)
        if controller and not is_own and controller.has_left(self._disk.journal.folder):
            return  # its cluster is down, and could not end it: such as when Slurm took the node
        means = "That process has ended, or left it; the job goes on in tmux." if is_own else ""
        user = controller.words if controller else f"the job in {session.folder} on {machine.name}"
        raise claims.in_use_error(self._hosts.name, user, means)

    def make_room(self, *, replace: bool = False) -> None:
        """Collect the previous job, and free its session's name (InUse: a job runs there)."""
        name = self._hosts.name  # of the session, whatever job is in it
        job = self.open(JobRecord(session=name, folder="", run="", benchmark="", at=0.0))
        if not replace:
            self._refuse_if_running(job)
        reason = outcome_words(
            "replaced_by", self._claim.by if self._claim else claims.this_process()
        )
        self.end_all(reason)
        if not job.end_session(reason):
            raise ClusterError(
                f"There is a tmux session {name!r} that was not made by cluster.",
                means="It is left alone, and nothing was started.",
                remedy=f"Choose another name, or end it: tmux kill-session -t '={name}'",
            )
        self.phases = {}

    def end_all(self, reason: str) -> None:
        """Stop all jobs that run, and download the results of all (ClusterError)."""
        for record in self._disk.state.open_jobs:
            self.end(record, reason)
        for record in self._disk.state.jobs[-1:]:
            with suppress(SpecError):  # a host without tmux has no session to end
                self.open(record).end_session()

    def end(self, record: JobRecord, reason: str) -> None:
        """Stop a job if it runs, and download its results (ClusterError)."""
        with suppress(SpecError):  # the run's folder was removed; the job is stopped
            job = self.open(record)
            self.close(job, _result_so_far(job, reason), stop=True)

    def start(self, job: MpiJob, plan: JobPlan) -> None:
        """Start a job of `open`; if that fails, its run says so (ClusterError)."""
        start_time = time.monotonic()
        controller = claims.encode(self._claim.by) if self._claim else ""
        status: Status = "interrupted"  # unless it fails itself
        try:
            with self.sole():
                status = "failed"
                self._disk.record(journal.Started(job=plan.job))
                with temporary_copy(plan.workdir) as folder:
                    job.start(plan.script, plan.files, folder, controller)
                running = msgspec.structs.replace(plan.record, status="running")
                store.write(plan.folder, running)
        except ClusterError as error:
            failure = JobResult(status=status, reason=error.what)
            close_run(plan.folder, failure, self.phases)
            job.clean()
            self._disk.record_if_up(journal.Collected(run=job.record.run))
            raise
        self.phases["start"] = time.monotonic() - start_time

    def watch(self, job: MpiJob, listener: Listener) -> JobResult:
        """Wait for the end of a job, whose values are written as they arrive (Unreachable)."""
        start = time.monotonic()
        run = Path(job.record.run)
        try:
            with self._revocation(job) as revocation:
                try:
                    result = job_result(job.watch(JobOutput(listener, run)))
                except JobError as lost:
                    result = JobResult(status="failed", reason=lost.what)
                except Unreachable:
                    if not revocation.ask():
                        raise
                    result = JobResult(status="interrupted")
                if result.status != "done" and (cause := revocation.ask()):
                    result = JobResult(status="interrupted", reason=cause.what)
        except Unreachable as error:
            self.explain(error, self._hosts.machines[0].name)
            # the job may still run there
            since = time.strftime("%F %T UTC", time.gmtime())
            with suppress(ClusterError):  # the folder may have been removed
                record = store.record(run)
                reason = f"Unreachable since {since}: {error.what}"
                store.write(run, msgspec.structs.replace(record, reason=reason))
            raise
        finally:
            self.phases["run"] = time.monotonic() - start
        return result

    def _revocation(self, job: MpiJob) -> RevocationWatch:
        """Notice that the hosts are reclaimed, and end what still runs there."""
        spec, machines = self._disk.state.spec, self._hosts.machines
        provider = plugins.load(Provider, spec.provider)

        def stop() -> None:
            future = start(job.stop)
            try:
                future.result(GIVE_UP_AFTER)
            except TimeoutError:  # such as a node whose processes were stopped: nothing ends there
                self._hosts.close()
                self._hosts.give_up_dead(ANSWERS_WITHIN)
            finally:
                self._hosts.close()  # ends what waits for the job

        if not isinstance(provider, RevokedAtOnce):
            return RevocationWatch(None, stop)
        return RevocationWatch(partial(provider.revocation_reason, spec, machines), stop)

    def close(self, job: MpiJob, result: JobResult, *, stop: bool = False) -> Run:
        """Download a job's files, and close its run (SpecError)."""
        lost_hosts = job.lost_hosts() if result.exit_status == HOST_LOST else ()
        with self._hosts.omit(lost_hosts):  # a download from them would wait for seconds, in vain
            job = self.open(job.record)  # a shell may have been given up since
            cause = self._known_of(lost_hosts)
            run = collect(job, result, self.phases, stop=stop, cause=cause)
        if receipt := self._disk.state.receipt(time.time()):
            record = msgspec.structs.replace(run.record, receipt=receipt)
            store.write(run.folder, record)
            run = msgspec.structs.replace(run, record=record)
        self._disk.record_if_up(journal.Collected(run=job.record.run))
        return run

    def explain(self, error: Unreachable, host: str) -> None:
        """Add to an error what the provider knows of a host that does not answer."""
        if cause := self._known_of({host}):
            error.means = f"{cause.rstrip('.')}. {error.means}".strip()

    def _known_of(self, names: Collection[str]) -> str:
        """Say what the provider knows of hosts that do not answer; empty if nothing."""
        machines = tuple(m for m in self._hosts.machines if m.name in names)
        spec = self._disk.state.spec
        provider = plugins.load(Provider, spec.provider)
        if not (machines and isinstance(provider, Revocable)):
            return ""
        return provider.describe_unreachable(spec, machines)

    def wait(self, record: JobRecord, listener: Listener) -> int:
        """Wait for a job; return its exit status (JobError: it was lost)."""
        job = self.open(record)
        if not self.is_collected(record):
            with self._revocation(job) as revocation:
                try:
                    status = job.watch(JobOutput(listener, None))
                except (JobError, Unreachable):
                    if not revocation.ask():
                        raise
                    status = None
            if status != 0 and (cause := revocation.ask()):
                raise JobError(
                    cause.what, remedy=f"Keep its values: cluster fetch {self._hosts.name}"
                )
            return status or 0
        run = store.record(Path(record.run))
        return int(run.status != "done") if run.exit_status is None else run.exit_status

    def fetch(self, record: JobRecord) -> Run:
        """Download a job's results (SpecError: it still runs; JobError: it failed)."""
        job = self.open(record)
        if self.is_collected(record):
            return raise_unless_done(store.read(Path(record.run)))
        if self._revocation(job).ask():
            self._hosts.give_up_dead(ANSWERS_WITHIN)
            job = self.open(record)
        try:
            status = job.status()
        except (JobError, Unreachable) as error:
            cause = self._revocation(job).ask()
            if not cause and isinstance(error, Unreachable):
                raise
            result = JobResult(
                status="interrupted" if cause else "failed", reason=(cause or error).what
            )
            return raise_unless_done(with_verdict(self.close(job, result)))
        if status is None:
            name = self._hosts.name
            raise SpecError(
                f"The job {name} still runs.", remedy=f"Wait for it: cluster wait {name}"
            )
        return raise_unless_done(with_verdict(self.close(job, job_result(status))))

    def exit_status(self, record: JobRecord) -> int | None:
        """Return the exit status of a job; None while it runs (JobError: it was lost)."""
        return self.open(record).status()

    def logs(self, record: JobRecord) -> str:
        """Return what a job printed so far; standard error if there is nothing else."""
        if self.is_collected(record):
            folder = Path(record.run)
            return raw_text(folder, "stdout") or raw_text(folder, "stderr")
        return self.open(record).logs()

    def note_receipt(
        self, record: JobRecord, receipt: Receipt, teardown: Mapping[str, float]
    ) -> None:
        """Write the final cost of the machines and the seconds of the teardown into a job's run."""
        folder = Path(record.run)
        with suppress(ClusterError):  # the folder may have been removed
            run = store.record(folder)
            phases = {**run.phases, **teardown}
            store.write(folder, msgspec.structs.replace(run, phases=phases, receipt=receipt))

    def newest(self) -> JobRecord:
        """Return the newest job (SpecError)."""
        jobs = self._disk.state.jobs
        if not jobs:
            name = self._hosts.name
            raise SpecError(
                f"The cluster {name} has no job.", remedy=f"Start one: cluster bench p2p {name}"
            )
        return jobs[-1]

    def open(self, record: JobRecord) -> MpiJob:
        """Return a job that this or another process started."""
        return MpiJob(record, self._hosts.shells(), self._disk.state.machines[0])

    def is_collected(self, record: JobRecord) -> bool:
        """Tell whether a job has ended, and its results are here."""
        return record.run in self._disk.state.collected


def with_verdict(run: Run) -> Run:
    """Return a run, with its final verdict if it is a check: one written earlier covers less."""
    if run.record.benchmark not in (PAIRS, WITHIN):
        return run
    from cluster.orchestration.fleet_check import judge_check  # noqa: PLC0415 - slow: numpy

    return msgspec.structs.replace(run, fleet=judge_check(run))


def _result_so_far(job: MpiJob, reason: str) -> JobResult:
    """Return how a job ended by itself; else it ends now, for a reason."""
    with suppress(ClusterError):  # it was lost, or its host does not answer
        if (status := job.status()) is not None:
            return job_result(status)
    with suppress(ClusterError):  # the folder may have been removed
        reason = f"{store.record(Path(job.record.run)).reason} {reason}".strip()
    return JobResult(status="interrupted", reason=reason)
