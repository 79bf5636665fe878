"""The jobs of a cluster by their names, such as `c.jobs["sender"]`, from any process."""

import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from msgspec import structs

from cluster.core.errors import ClusterError, InUse, JobError, SpecError, collect_errors, raise_all
from cluster.core.model.hosts import Machine, group_of
from cluster.core.model.jobs import Attempt, NamedJob, Task, TaskSpec, TaskState
from cluster.core.model.results.records import JobRecord
from cluster.core.state import claims, journal
from cluster.orchestration.cluster_jobs import Jobs
from cluster.orchestration.hosts.state import StateOnDisk
from cluster.orchestration.jobs.bench_job import PREFIX, BenchJob
from cluster.orchestration.jobs.host_group import HostGroup
from cluster.orchestration.jobs.job import Job, Lost, may_run, worst
from cluster.remote.hosts import Hosts
from cluster.remote.parallel import on_each
from cluster.remote.sessions.tasks import HostTasks
from cluster.remote.shells import Shell
from cluster.reports.words.outcomes import outcome_words

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
FOLDER = "jobs"  # of the cluster's folder on a host, and of its runs here
MASTER_PORT = 29500  # torch's own default (torch.distributed.run)


class NamedJobs(Mapping[str, Job]):
    """The jobs of a cluster, the newest of each name: those of `Cluster.start`, and benchmarks."""

    def __init__(
        self,
        disk: StateOnDisk,
        hosts: HostGroup,
        remote: Hosts,
        bring_back: Callable[[Collection[str]], tuple[str, ...]],
        benches: Jobs,
    ) -> None:
        self._disk = disk
        self._hosts = hosts
        self._remote = remote
        self._bring_back = bring_back  # replaces silent hosts, or waits; returns the new ones
        self._benches = benches
        self._jobs: dict[str, Job] = {}

    def __getitem__(self, name: str) -> Job:
        """Return the newest job of this name (SpecError)."""
        record = self._records().get(name)
        if record is None:
            names = ", ".join(self) or "none"
            raise SpecError(
                f"The cluster {self._remote.name} has no job {name!r}; it has: {names}.",
                remedy=f"List them: cluster status {self._remote.name}",
            )
        if isinstance(record, JobRecord):
            return BenchJob(record, self._remote, self._benches)
        if name not in self._jobs or self._jobs[name].record != record:
            self._jobs[name] = Job(record, self._remote, self.restart)
        return self._jobs[name]

    def newest(self) -> Job:
        """Return the job or benchmark that was started last (SpecError: none was)."""
        if not self:
            raise SpecError(
                f"The cluster {self._remote.name} has no job.",
                remedy=f"Start one: cluster run {self._remote.name} --detach -- COMMAND",
            )
        return max(self.values(), key=lambda job: job.record.at)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records())

    def __len__(self) -> int:
        return len(self._records())

    def __contains__(self, name: object) -> bool:
        return name in self._records()

    def _records(self) -> dict[str, NamedJob | JobRecord]:
        state = self._disk.refresh()
        benches = {f"{PREFIX}{job.benchmark}": job for job in state.jobs}
        return {**state.named_jobs, **benches}

    def start(
        self, name: str, spec: TaskSpec, hosts: HostGroup, runs: Path, restarts: int = 0
    ) -> Job:
        """Start a job, or return the one that runs with this name, command and options."""
        name = name or self._free_name(spec)
        check_name(name)
        with self._disk.lock():
            if (running := self._same_job(name, spec, hosts, restarts)) is not None:
                return running
            record = NamedJob(
                name=name,
                spec=spec,
                tasks=(),
                at=0.0,
                by=claims.encode(claims.this_process()),
                folder=str(runs / self._remote.name / FOLDER / name),
                port=self._free_port(name),
                restarts=restarts,
            )
            self._start(record, hosts)
        return self[name]

    def restart(self, job: Job, losses: Lost) -> NamedJob:
        """Start a job again everywhere that has lost hosts, by new ones or the same.

        A new host gets the job's `cwd` from one that was not lost. If another process does the same
        meanwhile, its restart counts. ClusterError: a host cannot be replaced and does not
        answer, or the command cannot be started again.
        """
        record, name = job.record, job.name
        with self._disk.journal.lock(f"restart-{name}"):
            if (newest := self._disk.refresh().named_jobs[name]).at != record.at:
                return newest
            hosts = self._hosts[",".join(task.host for task in record.tasks)]
            silent = [host for host, state in losses.items() if isinstance(state, ClusterError)]
            answering = [host for host in hosts.names if host not in silent]
            # Tasks go on until there are hosts for all: without, they are not stopped for nothing.
            replacements = self._bring_back(silent) if silent else ()
            job.stop_on(answering, outcome_words("lost_a_host"))
            job.stop_on([h for h in silent if h not in replacements], outcome_words("host_lost"))
            if replacements and answering and record.spec.cwd:
                with tempfile.TemporaryDirectory() as staging:
                    self._hosts[answering[0]][0].get(record.spec.cwd, Path(staging, "cwd"))
                    self._hosts[",".join(replacements)].put(Path(staging, "cwd"), record.spec.cwd)
            attempt = Attempt(
                at=record.at,
                folder=record.folder,
                lost={host: _reason(state) for host, state in losses.items()},
                replaced=replacements,
            )
            with self._disk.lock():
                new_record = structs.replace(record, attempts=(*record.attempts, attempt))
                return self._start(new_record, self._hosts[",".join(hosts.names)])

    def _free_name(self, spec: TaskSpec) -> str:
        """Name a job after its program, with a number if that name is taken."""
        word = spec.line.split()[0] if spec.line.split() else spec.argv[0]
        base = re.sub(r"[^A-Za-z0-9_-]", "", word.rpartition("/")[2].partition(".")[0])[:30]
        base = base if NAME.fullmatch(base) and not base.startswith(PREFIX) else "job"
        records, number = self._disk.refresh().named_jobs, 1
        while (name := base if number == 1 else f"{base}-{number}") in records:
            number += 1
        return name

    def _free_port(self, name: str) -> int:
        """Return a port for torch's store that no other job of the cluster has."""
        ports = {
            job.port for other, job in self._disk.refresh().named_jobs.items() if other != name
        }
        return next(port for port in count(MASTER_PORT) if port not in ports)

    def _same_job(self, name: str, spec: TaskSpec, hosts: HostGroup, restarts: int) -> Job | None:
        """Return the job of this name if it runs and is the same; refuse another (SpecError).

        What lost tasks of an ended job left behind is ended.
        """
        if name not in self._disk.state.named_jobs:
            return None
        job = self[name]
        states = job.states()
        state = worst(states.values())
        names = tuple(states)
        rest = ", ".join(host for host in names if may_run(states[host]))
        if not rest:
            if state == "lost" or not job.is_kept:
                job.stop(outcome_words("started_again"))
            return None
        is_same = (job.record.spec, names, job.record.restarts) == (spec, hosts.names, restarts)
        if is_same and state in ("starting", "running"):
            return job
        controller = claims.decode(job.record.by)
        whole = state in ("starting", "running", "unreachable")
        goes_on = "" if whole else f" It goes on on {rest}."
        raise SpecError(
            f"A job {name!r} is {state} on {', '.join(names)}: {job.command}",
            means=f"{f'Started by {controller.words}.' if controller else ''}{goes_on}".strip(),
            remedy=f"Choose another name, or end it: cluster kill {self._remote.name} {name}",
        )

    def _start(self, record: NamedJob, hosts: HostGroup) -> NamedJob:
        """Start the tasks, with a new record; if one cannot be started, the others are ended.

        JobError: one cannot be started. ClusterError: its host is silent. HostErrors: several.
        """
        shells, now = hosts.shells(), time.time()
        key = f"{record.name}-{int(now * 1000):x}"
        record = structs.replace(
            record,
            tasks=tuple(
                Task(
                    host=machine.name,
                    rank=rank,
                    folder=f"{machine.folder}/{FOLDER}/{key}/{rank}",
                    session=f"{self._remote.name}/{record.name}/{rank}",
                    cwd=hosts.path(machine.name, record.spec.cwd),
                )
                for rank, machine in enumerate(hosts.machines)
            ),
            at=now,
            folder=str(Path(record.folder).with_name(key)),
        )
        self._disk.record(journal.JobStarted(job=record))
        machines = {machine.name: machine for machine in hosts.machines}
        tasks = {task.host: task for task in record.tasks}
        addresses = [machine.address for machine in hosts.machines]

        def begin(name: str, shell: Shell) -> TaskState:
            task, machine = tasks[name], machines[name]
            variables = {  # of what it knows of itself and the others, also as torch.distributed
                "PATH": machine.bin,
                "PYTHONUNBUFFERED": "1",
                "CLUSTER_NAME": self._remote.name,
                "CLUSTER_JOB": record.name,
                "CLUSTER_NODE_IPS": " ".join(addresses),
                "CLUSTER_RESTART": str(len(record.attempts)),
                "CLUSTER_GROUP": group_of(machine),
                "MASTER_PORT": str(record.port),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                **dict.fromkeys(("CLUSTER_HEAD_IP", "MASTER_ADDR"), addresses[0]),
                **dict.fromkeys(("CLUSTER_NODE_RANK", "NODE_RANK", "RANK"), str(task.rank)),
                **dict.fromkeys(
                    ("CLUSTER_NUM_NODES", "NNODES", "WORLD_SIZE"), str(len(record.tasks))
                ),
            }
            env = {**variables, **group_variables(self._remote.machines), **record.spec.env}
            spec = structs.replace(record.spec, env=env, cwd=task.cwd)
            state = HostTasks(machine, shell).start(task, spec)
            if state.end is not None and not state.began:
                raise JobError(
                    f"{name}: {record.name} cannot be started: {state.end.reason}", host=name
                )
            return state

        try:
            on_each(shells, begin)
        except ClusterError:
            # The state of the job says what became of it.
            job = Job(record, self._remote, self.restart)
            _stop([job], outcome_words("not_started"))
            raise
        return record

    def make_room(self, *, replace: bool) -> None:
        """Refuse to measure beside running jobs, which would disturb both; or end them (InUse)."""
        running = [job for job in self._running() if not isinstance(job, BenchJob)]
        if running and not replace:
            name, first = self._remote.name, running[0].name
            raise InUse(
                f"{len(running)} job(s) run on {name}: {', '.join(job.name for job in running)}.",
                means="A measurement beside them would disturb both.",
                remedy=f"Wait: cluster wait {name} {first}. End it: cluster kill {name} {first}. "
                "End all: --replace. Measure beside them: --busy",
            )
        if running:
            self._end(running, outcome_words("ended_by", claims.this_process().words))

    def _running(self) -> list[Job]:
        jobs = [job for job in self.values() if not job.is_kept]
        return [job for job in jobs if job.runs_on()]

    def running(self) -> dict[str, tuple[str, ...]]:
        """Return the running jobs, by name, with the names of their hosts (ClusterError)."""
        return {job.name: job.runs_on() for job in self._running()}

    def end_all(self, reason: str) -> None:
        """Stop all jobs, and keep their output here (ClusterError, HostErrors)."""
        self._end([job for job in self.values() if not job.is_kept], reason)

    def _end(self, jobs: Sequence[Job], reason: str) -> None:
        errors = _stop(jobs, reason)
        raise_all(errors, f"of {len(jobs)} jobs could not be ended")


def check_name(name: str) -> None:
    """Refuse a name that no job can have (SpecError)."""
    if NAME.fullmatch(name) is None or name.startswith(PREFIX):
        raise SpecError(
            f"{name!r} cannot be the name of a job.",
            means="A name is a letter or digit, then at most 39 letters, digits, '_' or '-'; "
            f"those with {PREFIX} are of benchmarks.",
        )


def _stop(jobs: Sequence[Job], reason: str) -> list[ClusterError]:
    """Stop jobs one after the other; return the errors of those that could not be."""
    errors: list[ClusterError] = []
    for job in jobs:
        with collect_errors(errors):
            job.stop(reason)
    return errors


def _reason(state: TaskState | ClusterError) -> str:
    if isinstance(state, ClusterError):
        return state.what
    return state.end.reason if state.end else ""


def group_variables(machines: Sequence[Machine]) -> dict[str, str]:
    """Return the addresses of each group's hosts, such as `CLUSTER_IPS_WORKER`; none without."""
    groups: dict[str, list[str]] = {}
    for machine in machines:
        groups.setdefault(group_of(machine), []).append(machine.address)
    if len(groups) == 1:
        return {}
    return {f"CLUSTER_IPS_{name.upper()}": " ".join(ips) for name, ips in groups.items()}
