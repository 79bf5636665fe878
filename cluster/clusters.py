"""Cluster: machines that were launched, and the only place where the layers meet."""

from __future__ import annotations

import posixpath
import signal
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from cluster import gpus, hostkeys, journal, mesh, plugins, profiling, runs
from cluster.cloud.keys import KNOWN
from cluster.cloud.money import dollars
from cluster.environment import check_tools, examine, install
from cluster.errors import ClusterError, JobError, ProvisionError, SpecError
from cluster.fanout import connect_all, on_each
from cluster.hosts import Hosts
from cluster.jobs import Job
from cluster.model import (
    ClusterSpec,
    Condition,
    Environment,
    Facts,
    JobRecord,
    Layout,
    Machine,
    Plan,
    Price,
    Receipt,
    Status,
    Tell,
    check_name,
    nothing,
)
from cluster.network import Network, common
from cluster.providers import Provider
from cluster.runs import read
from cluster.runs import root as runs_root
from cluster.settling import (
    Ending,
    Hearer,
    Hearing,
    conclude,
    ending_of,
    raw_text,
    settle,
    succeeded,
)
from cluster.starting import Ready, check_bench, prepare
from cluster.steps import variables
from cluster.units import parse_expected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from cluster.runs import Run
    from cluster.shells import Shell

LAUNCH_PHASES = ("launch", "create", "running", "ssh")
ANSWER_WITHIN = 5.0  # seconds for hosts that were reachable before
TIMEOUT = 600.0  # seconds that a job may take if nothing else is said


class Listener(Hearer):
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
    book = journal.of(check_name(name))
    specs = [entry.spec for entry in book.entries() if isinstance(entry, journal.Intended)]
    if not specs:
        raise SpecError(f"There is no cluster {name!r}.", remedy="List them: cluster ls")
    return Cluster(specs[-1], book)


class Cluster(Hosts):
    """Machines that were launched, and the jobs on them.

    Args:
        spec: what was asked.
        book: its journal.

    """

    def __init__(self, spec: ClusterSpec, book: journal.Journal) -> None:
        """Read from the journal what exists."""
        super().__init__(spec.name)
        self.spec = spec
        self._journal = book
        self.facts: tuple[Facts, ...] = ()
        self.costs = False
        self.price: Price | None = None
        self.expires: float | None = None
        self.phases: dict[str, float] = {}
        self._launched = False
        self._ttl: float | None = None
        self._orders: dict[str, float] = {}  # when each call was sent first
        self._given = 0  # machines that such a call gave
        self._switched: list[float] = []  # when they were on, off, on ...
        self._gone_at: float | None = None
        self._looked_for = ""
        self._environment: Environment | None = None
        self._jobs: list[JobRecord] = []
        self._settled: set[str] = set()
        self._read_journal()

    def _read_journal(self) -> None:
        """Learn what exists; another process may have added to it."""
        self._jobs.clear()
        self._switched.clear()
        self._launched = False
        for entry in self._journal.entries():
            self._replay(entry)
            self._replay_cost(entry)

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

    def _replay(self, entry: journal.Entry) -> None:
        match entry:
            case journal.Intended():
                self.at = entry.at
                self.costs, self.price, self._ttl = entry.costs, entry.price, entry.ttl
            case journal.Created():
                self.machines, self.expires = entry.machines, entry.expires
            case journal.Launched():
                self._launched = True
            case journal.Examined():
                self.facts = entry.facts
            case journal.Started():
                self._jobs.append(entry.job)
            case journal.Settled():
                self._settled.add(entry.run)

    def _replay_cost(self, entry: journal.Entry) -> None:
        """Learn how many machines cost money, and when: from the call that asked for them."""
        match entry:
            case journal.Ordered():
                self._orders.setdefault(entry.token, entry.at)
            case journal.Answered() if entry.ids:
                self._given = len(entry.ids)
                self._switched = self._switched or [self._orders[entry.token]]
            case journal.Switched():
                self._switched.append(entry.at)

    @property
    def plan(self) -> Plan:
        """What a launch of the same spec would do: nothing, at the price that was agreed."""
        price = f", ${self.price.hourly * len(self.machines):.4g} an hour" if self.price else ""
        line = f"{self.name} is there already: {len(self.machines)} machine(s){price}; none is made"
        return Plan(lines=(line,), costs=self.costs, price=self.price, ttl=self._ttl)

    def can_serve(self, spec: ClusterSpec) -> bool:
        """Tell whether this cluster is what a spec asks for, and every machine answers.

        Args:
            spec: what is asked.

        Returns:
            Whether there is nothing to make.

        """
        if not self.was_launched_as(spec):
            return False
        try:
            connect_all(self.shells(), ANSWER_WITHIN)
        except (ClusterError, ExceptionGroup):
            self.close()
            return False
        return True

    def was_launched_as(self, spec: ClusterSpec) -> bool:
        """Tell whether a spec was launched to its end, without asking whether it still stands.

        Args:
            spec: what is asked.

        Returns:
            Whether its machines were all there once.

        """
        return spec == self.spec and self._launched

    def is_unfinished(self, spec: ClusterSpec) -> bool:
        """Tell whether this is a launch of a spec that was interrupted, and could go on.

        Args:
            spec: what is asked.

        Returns:
            Whether nobody is at it any more, and it was not over.

        """
        return spec == self.spec and not self._launched

    def note_launch(self, seconds: float) -> None:
        """Keep how long our own launch took, and each of its phases.

        Args:
            seconds: in all.

        """
        self.phases = {"launch": seconds, **self._timed()}

    def _timed(self) -> dict[str, float]:
        """Give how long each phase of the launch took, whichever process launched it."""
        timed = [e for e in self._journal.entries() if isinstance(e, journal.Timed)]
        return {entry.phase: entry.seconds for entry in timed}

    def note_connected(self, seconds: float) -> None:
        """Keep how long it took until every machine answered.

        Args:
            seconds: since they were there.

        """
        self._journal.append(journal.Timed(phase="ssh", seconds=seconds))

    def rotate_host_keys(self) -> None:
        """Give each machine a host key that nobody else has.

        Raises:
            ClusterError: it could not be done on one host.
            ExceptionGroup: on several.

        """
        hosts = {machine.name: machine for machine in self.machines}
        hostkeys.rotate(self.shells(), hosts, self._journal.folder / KNOWN)

    @property
    def looked_for(self) -> str:
        """What of it is looked for, and where."""
        return self._looked_for or plugins.load(Provider, self.spec.provider).looked_for(self.name)

    def stop(self) -> None:
        """Switch the machines off; results come home first.

        Raises:
            ClusterError: they cannot be, or were not.

        """
        with self._journal.held():
            self._read_journal()
            provider = plugins.load(Provider, self.spec.provider)
            self._end_jobs("The cluster was stopped.")
            self.close()
            provider.stop(self.name, self.machines)
            self._journal.append(journal.Switched(on=False, at=time.time()))

    def start(self, tell: Tell = nothing) -> None:
        """Switch the machines on again, and wait until they answer.

        Args:
            tell: called with a machine and the state that it got to.

        Raises:
            ClusterError: they cannot be, or were not.

        """
        with self._journal.held():
            self._read_journal()
            provider = plugins.load(Provider, self.spec.provider)
            began = time.time()
            machines = provider.start(self.name, self.machines, tell)
            self.expires = began + self._ttl if self._ttl else None
            self._journal.append(journal.Switched(on=True, at=began))
            self.note_machines(machines)
        connect_all(self.shells(), provider.ready_within, tell)

    def receipt(self) -> Receipt | None:
        """Tell what the machines cost so far.

        Returns:
            The receipt; none if they cost nothing.

        """
        if not self._switched:
            return None
        until = self._gone_at or time.time()
        times = [*self._switched, until]
        seconds = sum(off - on for on, off in zip(times[::2], times[1::2], strict=False))
        price, hosts = self.price, len(self.machines) or self._given
        return Receipt(
            hosts=hosts,
            seconds=seconds,
            price=price,
            dollars=None if price is None else dollars(price, hosts, seconds),
            final=self._gone_at is not None,
        )

    def install(self, programs: tuple[str, ...] = (), tell: Tell = nothing) -> None:
        """Install what benchmarks need on every host; where it is there already, do nothing.

        Args:
            programs: that a benchmark needs beyond Python, MPI and tmux.
            tell: called with a machine and the step that it begins.

        Raises:
            ClusterError: it could not be installed on one host.
            ExceptionGroup: on several.

        """
        wanted = plugins.load(Provider, self.spec.provider).environment(self.spec)
        if wanted is None:
            return
        wanted = msgspec.structs.replace(wanted, programs=(*wanted.programs, *programs))
        began = time.monotonic()
        hosts = {machine.name: machine for machine in self.machines}
        install(self.shells(), hosts, wanted, self._journal.folder / "logs", tell)
        self._environment = wanted
        self._note_phase("install", began)

    def _examine(self, programs: Sequence[str], gpus_: int = 0) -> None:
        """Ask every host what it is, and whether a job could run there.

        One that was asked before is asked again only if it lacks something, which may be there now.
        """
        if self.facts and all(set(programs) <= set(fact.programs) for fact in self.facts):
            with suppress(SpecError):
                self._check_gpus(self.facts, gpus_)
                return
        hosts = {machine.name: machine for machine in self.machines}
        found = on_each(self.shells(), lambda name, shell: examine(shell, hosts[name], programs))
        facts = tuple(found.values())
        check_tools(facts, programs)
        self._check_gpus(facts, gpus_)
        if len(found) > 1:
            self._note_addresses(common(self.machines, facts))
        self._journal.append(journal.Examined(facts=facts))
        self.facts = facts

    def _check_gpus(self, facts: Iterable[Facts], wanted: int) -> None:
        """Refuse hosts without what GPUs need; in an image the ranks look for themselves."""
        if wanted and not self.image:
            for fact in facts:
                gpus.check(fact, wanted)

    def _note_addresses(self, network: Network) -> None:
        """Keep where hosts reach one another, which is not always where we reach them."""
        self.note_machines(
            msgspec.structs.replace(machine, address=address)
            for machine, address in zip(self.machines, network.addresses, strict=True)
        )

    def note_machines(self, machines: Iterable[Machine]) -> None:
        """Keep what is now known of the machines.

        Args:
            machines: all of them, in the same order.

        """
        self.machines = tuple(machines)
        self._journal.append(journal.Created(machines=self.machines, expires=self.expires))

    def _join(self) -> None:
        """Let the hosts reach one another, if ranks are to be on several."""
        if len(self.shells()) > 1:
            homes = {fact.home for fact in self.facts}
            if len(homes) > 1:
                raise SpecError(
                    f"Our folder is not at the same place on every host: {', '.join(homes)}.",
                    remedy="Log in with the same name everywhere: --option hosts=me@h1,me@h2",
                )
            mesh.join(self.shells(), self._mesh_hosts(), self.name, self._journal.folder)

    def _mesh_hosts(self) -> dict[str, mesh.Host]:
        return {
            machine.name: mesh.Host(
                address=machine.address,
                user=fact.user,
                folder=posixpath.join(fact.home, machine.folder),
                path=posixpath.join(fact.home, machine.bin),
                variables=self.variables,
            )
            for machine, fact in zip(self.machines, self.facts, strict=True)
        }

    @property
    def layout(self) -> Layout:
        """Which hosts run how many ranks."""
        several = len(self.shells()) > 1
        folder = posixpath.join(self.facts[0].home, self.machines[0].folder) if several else ""
        sharing = Counter(fact.boot for fact in self.facts)
        return Layout(
            addresses=tuple(machine.address for machine in self.machines),
            ranks_per_host=self.spec.ranks_per_host,
            cores=min((fact.usable_cores for fact in self.facts), default=1),
            sharing=max(sharing.values(), default=1),
            root=any(fact.user == "root" for fact in self.facts),
            networks=common(self.machines, self.facts).networks if several else (),
            ssh_config=mesh.config_file(folder) if several else "",
        )

    @property
    def variables(self) -> dict[str, str]:
        """What the environment wants in that of every rank."""
        return variables(self._environment) if self._environment else {}

    @property
    def image(self) -> str:
        """The container image that ranks run in, if any."""
        return self._environment.image if self._environment else ""

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
        ending = Ending(status="interrupted", reason="Ctrl-C was pressed.")
        try:
            self._start(job, ready)
            heard.started(self, ready.folder)
            if detach:
                return read(ready.folder)
            ending = self._watch(job, heard)
            return succeeded(self._close(job, ending))
        except KeyboardInterrupt:
            with _ignoring_interrupts():
                self._close(job, ending, stop=True)
            raise

    def _profiled(self, how: Condition, profile: str) -> Condition:
        """Make a profiler ready, and say that its numbers have it in them."""
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
            record = runs.record(Path(job.record.run))
            return (
                int(record.status != "done") if record.exit_status is None else record.exit_status
            )
        return job.watch(Hearing(listener or Listener(), None))

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
            return succeeded(runs.read(Path(job.record.run)))
        try:
            status = job.status()
        except JobError as error:
            return succeeded(self._close(job, Ending(status="failed", reason=error.what)))
        if status is None:
            raise SpecError(
                f"The job {self.name} still runs.", remedy=f"Wait for it: cluster wait {self.name}"
            )
        return succeeded(self._close(job, ending_of(status)))

    def job(self) -> tuple[JobRecord, Status]:
        """Tell of the newest job, and how far it is.

        Returns:
            The job, and `running` while it runs or waits to be fetched.

        Raises:
            SpecError: there is no job.

        """
        job = self._newest()
        return job.record, runs.record(Path(job.record.run)).status

    def exit_status(self) -> int | None:
        """Give the newest job's exit status, none while it runs.

        Raises:
            SpecError: there is no job.
            JobError: it was lost.

        """
        job = self._newest()
        if job.record.run in self._settled:
            return runs.record(Path(job.record.run)).exit_status
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
        with self._journal.held():
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
            record = runs.record(folder)
            phases = {**record.phases, "teardown": self.phases["teardown"]}
            runs.write(folder, msgspec.structs.replace(record, phases=phases, receipt=receipt))

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
                mesh.leave(shell, folders[name])
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
                    ending = Ending(status="interrupted", reason=reason)
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
            with self._journal.held():
                self._journal.append(journal.Started(job=ready.job))
                self._jobs.append(ready.job)
                job.start(ready.script, ready.files)
                runs.write(ready.folder, msgspec.structs.replace(ready.record, status="running"))
        except ClusterError as error:
            conclude(ready.folder, Ending(status="failed", reason=error.what), self.phases)
            self._mark_settled(job)
            raise
        self._note_phase("start", began)

    def _watch(self, job: Job, listener: Listener) -> Ending:
        began = time.monotonic()
        try:
            return ending_of(job.watch(Hearing(listener, Path(job.record.run))))
        except JobError as error:
            return Ending(status="failed", reason=error.what)
        finally:
            self._note_phase("run", began)

    def _close(self, job: Job, ending: Ending, *, stop: bool = False) -> Run:
        """Bring a job's files home and close its run."""
        run = settle(job, ending, self.phases, stop=stop)
        if receipt := self.receipt():
            record = msgspec.structs.replace(run.record, receipt=receipt)
            runs.write(run.folder, record)
            run = msgspec.structs.replace(run, record=record)
        self._mark_settled(job)
        return run

    def _mark_settled(self, job: Job) -> None:
        self._settled.add(job.record.run)
        if self._journal.path.exists():  # another process may have taken the cluster down
            self._journal.append(journal.Settled(run=job.record.run))

    def _newest(self) -> Job:
        if not self._jobs:
            raise SpecError(
                f"The cluster {self.name} has no job.",
                remedy=f"Start one: cluster bench p2p --name {self.name}",
            )
        return self._job(self._jobs[-1])

    def _job(self, record: JobRecord) -> Job:
        return Job(record, self.shells(), self.machines[0])

    def _note_phase(self, phase: str, began: float) -> None:
        self.phases[phase] = time.monotonic() - began


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Let an impatient second Ctrl-C not cost the values."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread: no Ctrl-C comes here
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
