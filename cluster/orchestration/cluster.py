"""Cluster: launched hosts, with shells, jobs, benchmarks and teardown."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self

import msgspec

from cluster import providers
from cluster.core import plugins
from cluster.core.errors import ClusterError, InUse, SpecError
from cluster.core.model.hosts import Completed, Facts, Machine
from cluster.core.model.jobs import MOST_OUTPUT, TaskSpec
from cluster.core.model.resources import Price, Receipt
from cluster.core.model.results.records import JobRecord, Status
from cluster.core.model.spec import ClusterSpec, Environment, check_name
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state import claims, journal
from cluster.orchestration.bench.bench_methods import Bench
from cluster.orchestration.bench.collect import (
    JobResult,
    Listener,
    interrupts_ignored,
    raise_unless_done,
)
from cluster.orchestration.bench.plan import (
    JobPlan,
    JobRequest,
    RunOptions,
    check_on_hosts,
    in_order,
    make_request,
    plan_job,
)
from cluster.orchestration.cluster_jobs import Jobs, with_verdict
from cluster.orchestration.hosts import setup as host_setup
from cluster.orchestration.hosts.machines import (
    can_replace,
    check_gone,
    clean_hosts,
    destroy,
    replace_lost,
    unless_revoked,
)
from cluster.orchestration.hosts.setup import ReadyHosts
from cluster.orchestration.hosts.state import ClusterState, StateOnDisk, machine_states
from cluster.orchestration.jobs.host_group import (
    Host,
    HostGroup,
    check_task,
    read_script,
    repeat_setup,
    run_once,
)
from cluster.orchestration.jobs.job import Job
from cluster.orchestration.jobs.registry import NamedJobs
from cluster.orchestration.notebook import default_listener
from cluster.orchestration.simulated import simulate
from cluster.orchestration.sync import SyncReport
from cluster.remote.files.mounts import mount_all, unmount_all
from cluster.remote.hosts import DEAD_AFTER, Hosts
from cluster.remote.network.forward import Forward
from cluster.remote.parallel import connect_all
from cluster.remote.sessions.leftovers import Leftovers
from cluster.remote.shells import Shell
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store
from cluster.runs.run import Run


def attach(name: str) -> Cluster:
    """Find a cluster that this or another process launched (SpecError: there is none).

    Example: `cluster.attach("mine").jobs["train"].state`
    """
    return Cluster(journal.for_cluster(check_name(name)))


class Cluster:
    """Launched hosts: their state, shells to them, and their jobs.

    Args:
        journal_: Journal of the cluster, in which a launch was recorded.

    Attributes:
        remote: Shells to the machines.
        hosts: The hosts, with verbs: `c.hosts[0].run("nproc")`.
        jobs: Jobs by name, those of `start` and benchmarks: `c.jobs["train"]`, `["bench-p2p"]`.
        bench_jobs: What starts and collects the benchmarks.
        launch_phases: Seconds of each phase of the launch, if this process launched the cluster.
        leftovers: Processes that commands had left on hosts that stay, as `down` found them.
        uncleaned: Why hosts that stay were not cleaned; empty if they were.
    """

    def __init__(self, journal_: journal.Journal) -> None:
        self.disk = StateOnDisk(journal_)
        self._environment: Environment | None = None
        self._looked_for = ""
        self.launch_phases: dict[str, float] = {}
        self._teardown: dict[str, float] = {}
        self.leftovers: Mapping[str, Leftovers] = {}
        self.uncleaned = ""
        self._block = ""  # for messages, inside a `with` block
        self.remote = Hosts(journal_.name, self._standing_machines)
        self.bench_jobs = Jobs(self.disk, self.remote)
        self.remote.explain = self.bench_jobs.explain
        self.hosts = HostGroup(self.remote, self.start)
        self.jobs = NamedJobs(self.disk, self.hosts, self.remote, self._bring_back, self.bench_jobs)

    def __repr__(self) -> str:
        down = "" if self.state.ended_at is None else ", taken down"
        return f"<Cluster {self.name}: {len(self.machines)} x {self.spec.provider}{down}>"

    def __enter__(self) -> Self:
        """Return the cluster; it is taken down at the end of the block."""
        self._block = " at the end of its `with` block"
        return self

    def __exit__(self, *error: object) -> None:
        """Take the cluster down, unless another process uses it."""
        user = self.bench_jobs.user()
        if user is None and not isinstance(error[1], InUse):
            self.down()
            return
        self.close()
        if user is not None and error[1] is None:
            raise claims.in_use_error(self.name, user.words)

    @property
    def state(self) -> ClusterState:
        """Everything that is known about the cluster, folded from its journal."""
        return self.disk.state

    @property
    def name(self) -> str:
        """The name that `attach` takes."""
        return self.state.name

    @property
    def spec(self) -> ClusterSpec:
        """The spec that it was launched with."""
        return self.state.spec

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Its machines, in the order of the ranks."""
        return self.state.machines

    @property
    def facts(self) -> tuple[Facts, ...]:
        """The facts of each real machine; empty until the hosts were examined."""
        return self.state.facts

    @property
    def expires(self) -> float | None:
        """When its machines end by themselves, in seconds since the epoch; None if they do not."""
        return self.state.expires

    @property
    def phases(self) -> dict[str, float]:
        """Seconds that each phase took in this process, such as `launch` or `run`."""
        return {**self.launch_phases, **self.bench_jobs.phases, **self._teardown}

    @property
    def costs(self) -> bool:
        """Whether its machines cost money while they exist."""
        return self.state.costs

    @property
    def price(self) -> Price | None:
        """The price of one machine; None if it is not known."""
        return self.state.price

    @property
    def looked_for(self) -> str:
        """Which kinds of resources are searched for, and where."""
        return self._looked_for or providers.scope_of(self._provider, self.name)

    def _standing_machines(self) -> tuple[Machine, ...]:
        """Return the machines; raise if they were taken down."""
        if self.state.ended_at is None:
            return self.state.machines
        raise SpecError(
            f"The cluster {self.name!r} was taken down{self._block}.",
            means="Its machines are gone; its runs are kept.",
            remedy=f"Read its newest run: cluster.load({self.name!r}); or launch it again.",
        )

    @cached_property
    def _provider(self) -> providers.Provider:
        return plugins.load(providers.Provider, self.spec.provider)

    @property
    def _switch(self) -> providers.Stops:
        provider = self._provider
        if isinstance(provider, providers.Stops):
            return provider
        raise SpecError(
            f"The machines of {self.name} cannot be switched off and on: the provider "
            f"{provider.name!r} has no such switch.",
            remedy=f"Take it down instead: cluster down {self.name}",
        )

    def machine_states(self) -> tuple[str, ...]:
        """Ask the provider for the state of each machine that costs money: `c.machine_states()`.

        Empty if there are none, or they cost nothing. ProvisionError: the provider does not say.
        """
        return machine_states(self._provider, self.state)

    def receipt(self) -> Receipt | None:
        """Return the cost so far, and what was proven: `c.receipt()`; None if there is neither."""
        return self.state.receipt(time.time())

    def shells(self) -> dict[str, Shell]:
        """Return a shell to each real machine: `c.shells()["0.mpi.mine"].exists("data")`."""
        return self.remote.shells()

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        check: bool = True,
        on_line: Callable[[str, str], None] | None = None,
    ) -> dict[str, Completed]:
        """Run a command on every host in parallel, and wait for it; see `HostGroup.run`.

        Example: `c.run("pip install -r requirements.txt", cwd="adder")`
        """
        return self.hosts.run(
            command, cwd=cwd, env=env, timeout=timeout, check=check, on_line=on_line
        )

    def start(  # noqa: PLR0913 - each is an option of its own
        self,
        command: str | Sequence[str],
        *,
        hosts: Host | HostGroup | str | None = None,
        name: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        hang_after: float | None = None,
        grace: float = 10.0,
        restarts: int = 0,
        most_output: int = MOST_OUTPUT,
        runs: str | Path | None = None,
    ) -> Job:
        """Start a job: a command on some hosts, which goes on without this process.

        Example: `c.start("python train.py", name="train").wait()`

        Each host runs one task, in a tmux session of its own, with `CLUSTER_NODE_RANK`,
        `CLUSTER_NUM_NODES`, `CLUSTER_NODE_IPS`, `CLUSTER_HEAD_IP`, and as a rank of
        torch.distributed. Several jobs run at once. A job of the same name, command and options
        that runs is returned as it is, so a script that is run twice starts nothing twice.

        Args:
            command: a line for `sh`, or the words of a command, unquoted.
            hosts: the hosts to run on, such as `c.hosts[1:]` or a group `"worker"`; all by default.
            name: name of the job; by default that of its program.
            cwd: a folder on the hosts; by default the home folder, on `local` one for each host.
            env: environment variables, in addition to those of the login.
            timeout: seconds after which a task is ended.
            hang_after: seconds without output after which the waiting process looks which rank
                the others wait for, as `cluster hang` does, and ends it unless its ranks go on.
            grace: seconds between SIGTERM and SIGKILL when a task is ended.
            restarts: how often a process that waits or follows lines (`cluster wait`) starts
                the job again on all its hosts, with `CLUSTER_RESTART`, after one was lost. A host
                that does not answer is replaced if the provider can do that, and gets `cwd` from
                another; else the job waits for it. Programs continue from their own checkpoints.
            most_output: bytes that each host keeps of what its task prints; the oldest lines go.
            runs: the local folder that gets the output, in `NAME/jobs`.

        Raises:
            SpecError: another job of this name runs.
            JobError: the command cannot be started on one host; tasks on the others are ended.
            ShellError: one host does not answer.
            HostErrors: several of these.
        """
        self._standing_machines()
        words = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
        spec = TaskSpec(
            argv=words,
            line=command if isinstance(command, str) else "",
            cwd=cwd,
            env=dict(env or {}),
            timeout=timeout,
            hang_after=hang_after,
            grace=grace,
            most_output=most_output,
        )
        check_task(spec, restarts)
        if self._environment is None:
            self.install()
        return self.jobs.start(name, spec, self._select(hosts), store.root(runs), restarts)

    def _select(self, hosts: Host | HostGroup | str | None) -> HostGroup:
        """Return hosts as a group; all of them if none are named."""
        if isinstance(hosts, str):
            return self.hosts[hosts]
        if isinstance(hosts, Host):
            return hosts.group
        return self.hosts if hosts is None else hosts

    def setup(
        self,
        script: str | Path,
        *,
        hosts: Host | HostGroup | str | None = None,
        on_line: Callable[[str, str], None] | None = None,
    ) -> tuple[str, ...]:
        """Run a script on hosts that have not run it yet: once for each host and content.

        Example: `c.setup("pip install -r requirements.txt")`

        Args:
            script: a file here, or lines of shell, which stop at the first that fails.
            hosts: the hosts to run it on; all by default.
            on_line: called with a machine's name and each line that it prints.

        Returns:
            The names of the machines on which the script ran now.

        Raises:
            SpecError: the file cannot be read.
            JobError: the script failed on one host; its last lines are quoted.
            HostErrors: on several.
        """
        self._standing_machines()
        text = read_script(script)
        if self._environment is None:
            self.install()
        return run_once(self._select(hosts), text, on_line)

    def _bring_back(self, names: Collection[str]) -> tuple[str, ...]:
        """Replace hosts that do not answer, or wait for them; return the names of the new ones."""
        places = tuple(n for n, m in enumerate(self.machines) if m.name in names)
        if can_replace(self.disk) and len(places) < len(self.machines):
            replace_lost(self.disk, self.remote, places)
            self.install()
            for place in places:
                repeat_setup(self.hosts[place].group, self.hosts)
            return tuple(self.machines[place].name for place in places)
        shells = {name: shell for name, shell in self.shells().items() if name in names}
        connect_all(shells, providers.seconds_to_answer(self._provider, self.spec))
        return ()

    def end_jobs(self, reason: str) -> None:
        """Stop all jobs and benchmarks, and keep what they left here: `c.end_jobs("too slow")`.

        ClusterError: one could not be stopped; HostErrors: several.
        """
        self.jobs.end_all(reason)
        self.bench_jobs.end_all(reason)

    def put(self, path: str | Path, to: str) -> None:
        """Copy to every host, as `HostGroup.put` does: `c.put("train.py", "work/")`."""
        self.hosts.put(path, to)

    def sync(
        self,
        here: str | Path,
        there: str = "",
        *,
        hosts: Host | HostGroup | str | None = None,
        delete: bool = False,
        runs: str | Path | None = None,
    ) -> SyncReport:
        """Send what differs, as `HostGroup.sync` does: `c.sync(".", "work", hosts="worker")`."""
        return self._select(hosts).sync(here, there, delete=delete, runs=runs)

    def forward(self, port: int, local: int = 0, *, host: Host | None = None) -> Forward:
        """Forward a port of a host, by default the first, to the same or another port here.

        It is open until it or the process is closed. Example: `c.forward(8888).address`
        """
        machine = (host or self.hosts[0]).machine
        shell = self.remote.shell(machine)
        return Forward(shell, machine.name, machine.address, port, local)

    def get(self, path: str, to: str | Path) -> dict[str, Path]:
        """Download from every host, as `HostGroup.get` does: `c.get("out", "results")`."""
        return self.hosts.get(path, to)

    def close(self) -> None:
        """Close all connections, `c.close()`; the next use opens new ones."""
        self.remote.close()

    def pause(self) -> None:
        """Switch the machines off, after downloading what their jobs left: `c.pause()`.

        ClusterError: the provider cannot stop machines, or failed to.
        """
        self._standing_machines()
        provider = self._switch
        if self.spec.max_cost is not None:
            raise SpecError(
                f"{self.name} was launched with --max-cost, and cannot be paused.",
                means="The timer of its machines starts again at each boot: they could cost more.",
                remedy=f"Take it down instead: cluster down {self.name}",
            )
        with self.disk.lock():
            self.end_jobs(outcome_words("paused"))
            self.close()
            provider.stop(self.name, self.machines)
            self.disk.record(journal.Switched(on=False, at=time.time()))

    def resume(self, on_state: StateCallback = ignore) -> None:
        """Switch paused machines on again, and wait until they answer: `c.resume()`.

        `on_state` is called with a machine and its new state. ClusterError: they do not answer.
        """
        self._standing_machines()
        provider = self._switch
        with self.disk.lock():
            start = time.time()
            machines = provider.start(self.name, self.machines, on_state)
            expires = start + self.state.ttl if self.state.ttl else None
            self.disk.record(journal.Switched(on=True, at=start))
            self.disk.record(journal.Created(machines=machines, expires=expires))
        within = providers.seconds_to_answer(self._provider, self.spec)
        shells = self.shells()
        with unless_revoked(self._provider, self.state, shells) as check:
            connect_all(shells, within, on_state, between=check)
            mount_all(shells, providers.mounts_of(self._provider, self.spec))

    def install(
        self,
        programs: tuple[str, ...] = (),
        on_state: StateCallback = ignore,
        libraries: tuple[str, ...] = (),
        *,
        yes: bool = False,
    ) -> None:
        """Install what jobs and benchmarks need on every host, where it is missing.

        Example: `c.install(libraries=("torch",), yes=True)`

        Args:
            programs: Programs that a benchmark needs beyond Python, MPI and tmux.
            on_state: Called with a machine and the step of the installation that it begins.
            libraries: Python libraries that it needs; a container image has its own.
            yes: Whether they may be downloaded even if they exceed 100 MB.

        Raises:
            ClusterError: the installation failed on one host.
            HostErrors: on several.
        """
        self._standing_machines()
        self._install(programs, libraries, on_state, large=yes)

    def _install(
        self,
        programs: Sequence[str],
        libraries: tuple[str, ...],
        on_state: StateCallback,
        *,
        large: bool,
    ) -> Environment | None:
        """Install what is missing; return the environment, None where hosts use this machine's."""
        provider = self._provider
        if not isinstance(provider, providers.PreparesHosts):
            return None
        environment = provider.environment(self.spec)
        if environment is None:
            return None
        environment = msgspec.structs.replace(
            environment,
            programs=(*environment.programs, *programs),
            libraries=() if environment.image else libraries,
            large=large,
        )
        from cluster.remote.environment.install import install  # noqa: PLC0415 - slow

        start = time.monotonic()
        machines = {machine.name: machine for machine in self.machines}
        logs, shells = self.disk.journal.folder / "logs", self.shells()
        with self.disk.journal.lock("install"), unless_revoked(provider, self.state, shells):
            install(shells, machines, environment, logs, on_state)
        self.bench_jobs.phases["install"] = time.monotonic() - start
        self._environment = environment
        return environment

    @property
    def bench(self) -> Bench:
        """Runs benchmarks: `c.bench("p2p", sizes=[8])`, or `c.bench.p2p(sizes=[8])`.

        Its methods are typed; `Bench.__call__` says what all benchmarks take.
        """
        return Bench(self._bench)

    def _bench(self, name: str, options: RunOptions, params: Mapping[str, object]) -> Run:
        """Run a benchmark: check the request, prepare its plan, start the plan."""
        self._standing_machines()
        request = make_request(self.state, name, options, params)
        listener = options.listener or default_listener()
        if isinstance(self._provider, providers.Simulates):
            return with_verdict(simulate(self.state, request, listener))
        with self.bench_jobs.claim_hosts(replace=options.replace):
            if not options.busy:
                self.jobs.make_room(replace=options.replace)
            whole = host_setup.needs_every_host(request.benchmark)  # else it leaves out dead hosts
            self.remote.leave_out_dead(None if whole else DEAD_AFTER)
            self.bench_jobs.make_room(replace=options.replace)
            plan = self.prepare(request, listener.preparing)
            try:
                return self._start(plan, listener, detach=options.detach)
            finally:
                listener.ended()

    def prepare(self, request: JobRequest, on_state: StateCallback = ignore) -> JobPlan:
        """Set up the hosts for a request, and plan its job (ClusterError: they cannot run it)."""
        shells = self.shells()
        with unless_revoked(self._provider, self.state, shells):
            hosts = in_order(self._set_up(request, shells, on_state), request.order)
            hosts, request = check_on_hosts(hosts, request, shells)
        return plan_job(hosts, request, self.phases)

    def _set_up(
        self, request: JobRequest, shells: Mapping[str, Shell], on_state: StateCallback
    ) -> ReadyHosts:
        """Install what a benchmark needs, examine and connect the hosts."""
        benchmark, params = request.benchmark, request.params
        gpus = benchmark.gpus(params, self.spec.ranks_per_host)
        libraries = benchmark.libraries(params)
        # Hosts with GPUs have a torch whose CUDA fits their driver.
        environment = self._install(
            benchmark.programs, () if gpus else libraries, on_state, large=request.options.yes
        )
        if environment and environment.image:
            gpus = 0  # in an image, the ranks check the GPUs
        absent = self.remote.absent
        hosts = host_setup.examine_for(benchmark, params, gpus, self.disk, shells, absent)
        folder = ""
        if environment is None:
            folder = host_setup.install_beside(
                libraries, benchmark.name, hosts.machines[0], on_state, large=request.options.yes
            )
        hosts = msgspec.structs.replace(hosts, environment=environment, libraries=folder)
        try:
            with self.bench_jobs.sole():  # new keys would end a job of another process
                host_setup.connect(hosts, shells, self.disk.journal.folder, benchmark)
        except ClusterError:  # addresses may change: the next launch looks again
            self.disk.record(journal.Examined(facts=()))
            raise
        return hosts

    def _start(self, plan: JobPlan, listener: Listener, *, detach: bool) -> Run:
        """Start a job, and download its results unless it is detached (JobError: it failed)."""
        job, result = self.bench_jobs.open(plan.job), None
        try:
            self.bench_jobs.start(job, plan)
            listener.started(self, plan.folder)
            if detach:
                return store.read(plan.folder)
            result = self.bench_jobs.watch(job, listener)
            return raise_unless_done(with_verdict(self.bench_jobs.close(job, result)))
        except KeyboardInterrupt as interrupt:
            reason = str(interrupt) or outcome_words("interrupted")
            with interrupts_ignored():
                outcome = result or JobResult(status="interrupted", reason=reason)
                self.bench_jobs.close(job, outcome, stop=True)
            raise

    def wait(self, listener: Listener | None = None) -> int:
        """Wait for the newest benchmark, of any process, as `Jobs.wait` does: `c.wait()`."""
        self._standing_machines()
        return self.bench_jobs.wait(self.bench_jobs.newest(), listener or default_listener())

    def fetch(self) -> Run:
        """Download the newest benchmark's results, as `Jobs.fetch` does: `c.fetch().summary()`."""
        self._standing_machines()
        return self.bench_jobs.fetch(self.bench_jobs.newest())

    def job(self) -> tuple[JobRecord, Status]:
        """Return the newest benchmark and its status, `running` until it is fetched: `c.job()`."""
        self._standing_machines()
        record = self.bench_jobs.newest()
        return record, store.record(Path(record.run)).status

    def logs(self) -> str:
        """Return what the ranks of the newest benchmark printed so far: `print(c.logs())`."""
        self._standing_machines()
        return self.bench_jobs.logs(self.bench_jobs.newest())

    def down(self, *, reason: str = "", reachable: bool = True) -> None:
        """Stop jobs, download their results, and delete all resources: `c.down()`.

        Args:
            reason: Text for the record of a job that had not ended.
            reachable: Whether the hosts can be reached; if not, no job ever ran there.

        Raises:
            ClusterError: a resource could not be deleted, and still exists.
        """
        if not self.disk.journal.path.exists():
            if self.state.ended_at is None:  # another process took it down, or the state is lost
                check_gone(self._provider, self.name, again=f"cluster down {self.name}")
            return
        with self.disk.lock():
            if reachable:
                self._leave_hosts(reason or outcome_words("down"))
            self.close()
            start = time.monotonic()
            self._looked_for = self.looked_for
            self.launch_phases = {**self.state.phases, **self.launch_phases}
            count = 0
            with suppress(ClusterError):  # then the deletion fails, too, and says what remains
                count = self.machine_states().count(providers.ENDED)
            destroy(self._provider, self.name, again=f"cluster down {self.name}")
            newest = self.state.jobs[-1:]
            self.disk.end(time.time(), count)
            self._teardown = {"teardown": time.monotonic() - start}
            self.disk.journal.forget()
        if receipt := self.receipt():
            for record in newest:
                self.bench_jobs.note_receipt(record, receipt, self._teardown)

    def _leave_hosts(self, reason: str) -> None:
        """End all jobs, and remove our files from hosts that stay; others need not answer."""
        provider = self._provider
        errors: tuple[type[ClusterError], ...] = ()
        revocation = None
        if isinstance(provider, providers.RevokedAtOnce):
            # A node that is dead must not keep the others from being handed back.
            errors = (ClusterError,)
            revocation = provider.revocation_reason(self.spec, self.machines)
        if revocation or not isinstance(provider, providers.ExistingHosts):
            # Also end their sessions: some providers' machines stay.
            if self.state.jobs or self.state.named_jobs:
                self.remote.give_up_dead(DEAD_AFTER)
                with suppress(ClusterError):
                    self.end_jobs(reason)
            if providers.mounts_of(provider, self.spec):
                self.remote.give_up_dead(DEAD_AFTER)
                unmount_all(self.shells())
            return
        self.remote.give_up_dead(DEAD_AFTER)
        with suppress(*errors):
            self.end_jobs(reason)
        try:
            self.leftovers = clean_hosts(self.remote)
        except errors as error:
            self.uncleaned = error.what
