"""Preparation of hosts for ranks: install the environment, examine, connect."""

from __future__ import annotations

import posixpath
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec

from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Allocation, Facts, Layout, Machine
from cluster.core.model.spec import ClusterSpec, Environment
from cluster.core.model.value import StateCallback, Value
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.remote import libfabric, ssh_mesh
from cluster.remote.common_network import find_common_network, listed_before
from cluster.remote.hosts import distinct
from cluster.remote.parallel import on_each
from cluster.remote.shells import Shell


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

    @property
    def several(self) -> bool:
        """Whether ranks run on more than one real machine."""
        return len(distinct(self.machines)) > 1

    @property
    def examined(self) -> tuple[Machine, ...]:
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
        several, meshed = self.several, self.is_meshed
        folder = posixpath.join(self.facts[0].home, self.machines[0].folder) if several else ""
        sharing = Counter(fact.boot for fact in self.facts)
        return Layout(
            addresses=tuple(machine.address for machine in self.machines),
            ranks_per_host=self.spec.ranks_per_host,
            cores=min((fact.usable_cores for fact in self.facts), default=1),
            sharing=max(sharing.values(), default=1),
            root=any(fact.user == "root" for fact in self.facts),
            networks=find_common_network(self.examined, self.facts).networks if several else (),
            ssh_config=ssh_mesh.config_file(folder) if meshed else "",
            allocation=self._allocation,
        )

    @property
    def _allocation(self) -> Allocation | None:
        job = self.machines[0].job
        names = tuple(machine.id for machine in self.machines)
        return Allocation(job=job, names=names, system=self.system, pmi=self.pmi) if job else None

    @cached_property
    def variables(self) -> dict[str, str]:
        """Environment variables that every rank needs for the MPI that is installed."""
        from cluster.remote.environment.steps import variables  # noqa: PLC0415 - local hosts need none

        needed = variables(self.environment) if self.environment else {}
        libraries = self.libraries or self._libraries_there
        path = {"PYTHONPATH": libraries} if libraries else {}
        return {**needed, **path, **libfabric.variables(self.fabric)}

    @property
    def _libraries_there(self) -> str:
        """The folder on each host of the libraries that were installed for the benchmark."""
        if not (self.environment and self.environment.libraries):
            return ""
        from cluster.remote.environment import benchmark_libraries  # noqa: PLC0415 - few want any

        inside = benchmark_libraries.folder(self.environment.libraries)
        return posixpath.join(self.facts[0].home, self.machines[0].folder, inside)

    @property
    def fabric(self) -> str:
        """The provider of libfabric that messages must pass; empty for TCP."""
        return libfabric.provider_of(self.machines)

    @property
    def image(self) -> str:
        """The container image that ranks run in; empty if they run in none."""
        return self.environment.image if self.environment else ""


def needs_every_host(benchmark: Benchmark[Any]) -> bool:
    """Tell whether a benchmark cannot run without a host that others do not reach."""
    return plugins.load(Starter, benchmark.starter).needs_every_host


def install_beside(
    libraries: Sequence[str],
    benchmark: str,
    machine: Machine,
    on_state: StateCallback,
    *,
    large: bool,
) -> str:
    """Install the libraries that ranks on this machine lack; return their folder, or nothing."""
    if not libraries or machine.bin != str(Path(sys.executable).parent):
        return ""

    on_state(machine.name, "libraries")
    on_download = partial(on_state, machine.name)
    from cluster.remote.environment import benchmark_libraries  # noqa: PLC0415 - few want any

    return str(
        benchmark_libraries.install_beside(libraries, benchmark, on_download, large=large) or ""
    )


def install(
    shells: Mapping[str, Shell],
    machines: Iterable[Machine],
    environment: Environment,
    logs: Path,
    on_state: StateCallback,
) -> None:
    """Install what benchmarks need on every host that lacks it (ClusterError, HostErrors)."""
    from cluster.remote.environment import install as steps  # noqa: PLC0415 - slow, and local hosts need none

    by_name = {machine.name: machine for machine in machines}
    steps.install(shells, by_name, environment, logs, on_state)


def examine(
    shells: Mapping[str, Shell], machines: Iterable[Machine], programs: Sequence[str]
) -> tuple[Facts, ...]:
    """Return the facts of hosts, which have a job's tools (ClusterError, HostErrors)."""
    from cluster.remote.environment.tools import check_tools  # noqa: PLC0415 - not for known hosts
    from cluster.remote.environment.tools import examine as ask  # noqa: PLC0415

    hosts = {machine.name: machine for machine in machines}
    by_host = on_each(shells, lambda name, shell: ask(shell, hosts[name], programs))
    facts = tuple(by_host.values())
    check_tools(facts, programs)
    return facts


class GpuNeed(Value, frozen=True, kw_only=True):
    """What a benchmark needs of the GPUs of each host."""

    count: int = 0  # how many; nothing is checked if it is 0
    by_mpi: bool = True
    instead: str = ""


def gpu_need(benchmark: Benchmark[Any], params: object, ranks_per_host: int) -> GpuNeed:
    """Ask a benchmark what it needs."""
    return GpuNeed(
        count=benchmark.gpus(params, ranks_per_host),
        by_mpi=benchmark.transport(params) in ("", "mpi"),
        instead=benchmark.instead_of_gpus(params),
    )


def check_gpus(facts: Iterable[Facts], need: GpuNeed, advice: str = "") -> None:
    """Refuse hosts that lack GPUs, or the software that GPUs need (SpecError)."""
    if need.count:
        from cluster.measure import gpu_requirements  # noqa: PLC0415 - few benchmarks want any

        for fact in facts:
            gpu_requirements.check_host(
                fact, need.count, advice, by_mpi=need.by_mpi, instead=need.instead
            )


def have(facts: Sequence[Facts], programs: Sequence[str], gpus: GpuNeed) -> bool:
    """Return whether the facts of hosts, if they are known, show all that a job needs."""
    if not facts or not all(set(programs) <= set(fact.programs) for fact in facts):
        return False
    with suppress(SpecError):
        check_gpus(facts, gpus)
        return True
    return False


def with_common_addresses(
    machines: tuple[Machine, ...], facts: tuple[Facts, ...], silent: Collection[str] = ()
) -> tuple[Machine, ...]:
    """Return machines with addresses of the network that they share (SpecError)."""
    examined = tuple(machine for machine in machines if machine.name not in silent)
    network = find_common_network(examined, facts)
    address = {m.name: a for m, a in zip(examined, network.addresses, strict=True)}
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
        for machine, fact in zip(hosts.examined, hosts.facts, strict=True)
        if machine.name in shells
    }
    needs_all = needs_every_host(benchmark)
    ssh_mesh.open_mesh(shells, mesh, hosts.spec.name, folder, needs_every_host=needs_all)
