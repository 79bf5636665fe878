"""Preparation of a job: check its parameters, make the run folder, write the script."""

from __future__ import annotations

import posixpath
import time
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.agent.peers import FILE as PEERS_FILE
from cluster.agent.peers import Peer, PeerList
from cluster.analysis.statistics.factors import MCA
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.records import Condition, JobRecord, Record
from cluster.core.model.value import Value
from cluster.core.options import convert
from cluster.core.units import format_bytes, parse_expected
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.orchestration.bench.record import make_record
from cluster.orchestration.bench.working_folder import WorkingFolder
from cluster.providers import Provider, gpu_advice
from cluster.remote import libfabric, open_mpi
from cluster.remote.environment.containers import PROGRAM as IN_IMAGE
from cluster.remote.hosts import DEAD_AFTER
from cluster.remote.jobs import script
from cluster.remote.leftovers import MARK
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cluster.core.model.hosts import Facts, Machine
    from cluster.core.model.resources import Plan
    from cluster.core.model.spec import ClusterSpec
    from cluster.orchestration.hosts.setup import ReadyHosts
    from cluster.remote.shells import Shell

LONGEST = 30 * 24 * 3600.0  # seconds


class PreparedJob(Value, frozen=True, kw_only=True):
    """A job that is ready to start.

    Args:
        record: of its run, with the status `planned`.

    """

    folder: Path
    record: Record
    job: JobRecord
    script: str
    files: dict[str, str]
    copied: WorkingFolder | None = None


def check_bench(
    spec: ClusterSpec, name: str, params: Mapping[str, object], timeout: float
) -> tuple[Benchmark[Any], Any]:
    """Refuse a benchmark that a cluster could not run, before anything is launched.

    Args:
        timeout: seconds that its job may take.

    Raises:
        SpecError: it cannot be run.

    """
    benchmark = plugins.load(Benchmark, name)
    checked = convert(params, benchmark.Params, "parameter")
    benchmark.check(checked, spec.hosts * spec.ranks_per_host)
    if not 0 < timeout <= LONGEST:
        raise SpecError(f"--timeout is {timeout:g} s; it must be more than 0 and at most 30 days.")
    return benchmark, checked


def needs_every_host(benchmark: Benchmark[Any]) -> bool:
    """Tell whether a benchmark cannot run without a host that others do not reach."""
    return plugins.load(Starter, benchmark.starter).needs_every_host


def host_timeout(benchmark: Benchmark[Any]) -> float | None:
    """Return the time that hosts have to answer, for benchmarks that leave out dead hosts.

    Returns:
        Seconds; None if the benchmark needs every host.

    """
    return None if needs_every_host(benchmark) else DEAD_AFTER


def check_hosts(
    hosts: ReadyHosts,
    benchmark: Benchmark[Any],
    params: object,
    condition: Condition,
    shells: Mapping[str, Shell],
) -> None:
    """Refuse parameters that these hosts cannot run, before anything is started.

    Raises:
        SpecError: their memory is too small, or their MPI has no such parameter.

    """
    _check_memory(benchmark, params, hosts)
    if not hosts.image:
        first = hosts.machines[0]
        variables = condition.variables
        check_mca_parameters(variables, first, hosts.facts[0].home, shells[first.name])


def _check_memory(benchmark: Benchmark[Any], params: object, hosts: ReadyHosts) -> None:
    wanted = benchmark.memory(params, max(hosts.layout.slots.values()))
    for fact in hosts.facts:
        limits = [fact.memory, *([fact.cgroup_memory] if fact.cgroup_memory else [])]
        if 0 < min(limits) < wanted:
            raise SpecError(
                f"{benchmark.name} would allocate {format_bytes(wanted)} for messages on "
                f"{fact.host}, which has {format_bytes(min(limits))} of memory.",
                means="Nothing was started.",
                remedy="Choose smaller --sizes.",
            )


def check_plan(benchmark: Benchmark[Any], params: object, spec: ClusterSpec, plan: Plan) -> None:
    """Refuse a plan whose machines lack what a benchmark needs, before they cost anything.

    Raises:
        SpecError: they have too few GPUs.

    """
    wanted = benchmark.gpus(params, spec.ranks_per_host)
    if plan.gpus is not None and plan.gpus < wanted:
        from cluster.measure import gpu_requirements  # noqa: PLC0415 - few benchmarks want any

        raise gpu_requirements.missing_gpus_error(
            "Each of these machines",
            plan.gpus,
            wanted,
            means="According to the provider's data; no machine was requested.",
            advice=gpu_advice(plugins.find(Provider, spec.provider)),
            instead=benchmark.instead_of_gpus(params),
        )


def make_condition(
    name: str, variables: Mapping[str, str], description: str, expected: str, launch_of: str
) -> Condition:
    """Make the condition of a run.

    Args:
        name: runs are compared by it; may be empty.
        expected: the expected result, such as `1.1GB/s`; may be empty.
        launch_of: what all launches of one command share; may be empty.

    Raises:
        SpecError: `expected` is no value with a unit.

    """
    return Condition(
        name=name,
        variables=dict(variables),
        description=description,
        expected=parse_expected(expected) if expected else None,
        launch_of=launch_of,
    )


def with_profile(
    condition: Condition, profile: str | None, hosts: ReadyHosts, shells: Mapping[str, Shell]
) -> Condition:
    """Add MPI profiles of all ranks to a condition, if they are asked for.

    Args:
        profile: `own`, or the path of a libmpitrace on the hosts; None for no profiles.

    Returns:
        The condition, with the variables that load the profiler and a note.

    Raises:
        SpecError: the library is not there, or cannot be compiled there.

    """
    if profile is None:
        return condition
    from cluster.orchestration.bench import mpi_profile  # noqa: PLC0415 - few runs are profiled

    return mpi_profile.profiled(condition, profile, hosts, shells)


def prepare(
    hosts: ReadyHosts,
    benchmark: Benchmark[Any],
    params: object,
    where: Path,
    timeout: float,
    condition: Condition,
    phases: Mapping[str, float],
    copied: WorkingFolder | None = None,
) -> PreparedJob:
    """Make the run's folder, its record and the job's script.

    Args:
        timeout: seconds that the job may take.
        phases: seconds that each phase took so far.

    Raises:
        ClusterError: the folder cannot be written.

    """
    machine, session, at = hosts.machines[0], hosts.spec.name, time.time()
    starter = plugins.load(Starter, hosts.starter or benchmark.starter)
    home = hosts.facts[0].home  # a machine's paths may be relative to it
    bin_ = posixpath.join(home, machine.bin)
    mark = {MARK: machine.folder}  # also on other hosts, where the script's is not known
    variables = {**benchmark.variables, **condition.variables, **mark}
    program = [*_with_environment(variables), *benchmark.program(params)]
    argv = starter.argv(_found(program, bin_, hosts.image), hosts.layout)
    folder = store.create(where, session, benchmark.name, at)
    planned = _planned(hosts, benchmark, params, argv, folder.name, at)
    record = _with_condition(planned, condition, phases, hosts.fabric)
    store.write(folder, record)
    _write_topologies(folder, hosts.facts)
    there = posixpath.join(home, machine.folder, folder.name)
    return PreparedJob(
        folder=folder,
        record=record,
        job=_job(record, there, folder, has_copy=copied is not None),
        script=script(session, there, argv, _environment(hosts, starter, bin_), timeout),
        files={f"{benchmark.name}.py": benchmark.source.read_text(), **_peers(hosts, starter)},
        copied=copied,
    )


def _job(record: Record, there: str, folder: Path, *, has_copy: bool) -> JobRecord:
    """Make the job's entry for the journal."""
    return JobRecord(
        session=record.spec.name,
        folder=there,
        run=str(folder),
        benchmark=record.benchmark,
        at=record.at,
        workdir=has_copy,
    )


def _found(program: list[str], folder: str, image: str) -> list[str]:
    """Replace `python3` by the path of the environment's: mpirun may prepend its folder to PATH.

    In an image, the image's own Python is used.
    """
    if image:
        return [posixpath.join(folder, IN_IMAGE), *program]
    return [posixpath.join(folder, word) if word == "python3" else word for word in program]


def _with_environment(variables: Mapping[str, str]) -> list[str]:
    """Return an `env` command that sets variables for a program, whatever the starter."""
    return ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []


def _peers(hosts: ReadyHosts, starter: Starter) -> dict[str, str]:
    """Return the file that names the other hosts to the first one, if the starter needs it."""
    layout, (first, *others) = hosts.layout, hosts.machines
    lent = bool(first.job)  # by Slurm; there may be no SSH between them
    if not (layout.ssh_config or lent) or not starter.needs_every_host:
        return {}
    peers = tuple(Peer(name=m.name, address=m.address) for m in others)
    listed = PeerList(peers=peers, ssh_config=layout.ssh_config, probed=lent)
    return {PEERS_FILE: msgspec.json.encode(listed).decode()}


def _planned(
    hosts: ReadyHosts,
    benchmark: Benchmark[Any],
    params: object,
    argv: list[str],
    run: str,
    at: float,
) -> Record:
    """Make the record of a run before its job starts."""
    return msgspec.structs.replace(
        make_record(
            hosts.spec, hosts.machines, benchmark, params, run=run, status="planned", at=at
        ),
        command=tuple(argv),
        environment=tuple(msgspec.structs.replace(f, topology="") for f in hosts.facts),
        planned=tuple(benchmark.planned(params, hosts.layout.size)),
        notes=(*_notes(hosts), *benchmark.notes(params, hosts.facts)),
    )


def _environment(hosts: ReadyHosts, starter: Starter, bin_: str) -> dict[str, str]:
    """Return the variables of the job's script; those of the starter override the others."""
    return {
        "PATH": bin_,
        MARK: hosts.machines[0].folder,
        **open_mpi.local_variables(hosts.machines[0], Path.home()),
        **hosts.facts[0].variables,
        **hosts.variables,
        **starter.env(hosts.layout),
    }


def _with_condition(
    planned: Record, condition: Condition, phases: Mapping[str, float], fabric: str
) -> Record:
    """Add the condition, the seconds of each phase, and notes on the fabric."""
    passed = libfabric.notes(fabric, condition.variables)
    return msgspec.structs.replace(
        planned,
        phases=dict(phases),
        variables=condition.variables,
        condition=condition.name,
        notes=(*planned.notes, *condition.notes, *passed),
        description=condition.description,
        launch_of=condition.launch_of,
        expected=condition.expected,
        order=condition.order,
    )


def _write_topologies(folder: Path, facts: Sequence[Facts]) -> None:
    """Keep the GPU topology of each host, as its driver prints it."""
    for fact in facts:
        if fact.topology:
            store.write_raw(folder, f"topology.{fact.host}.txt", fact.topology)


def _notes(hosts: ReadyHosts) -> tuple[str, ...]:
    inside = (f"Ranks ran in the container image {hosts.image}.",) if hosts.image else ()
    layout = hosts.layout
    if not layout.oversubscribed:
        return inside
    ranks = max(layout.slots.values()) * layout.sharing
    what = f"{ranks} ranks share {layout.cores} usable core(s)"
    means = "a waiting rank gives its core away (mpi_yield_when_idle), and that is in every time"
    return (*inside, f"{what}: {means}.")


LIST = """\
"$1" --param all all --level 9 --parsable | sed -n 's/^mca:.*:param:\\([^:]*\\):value:.*/\\1/p'
"""
OPTIONAL = ("btl_smcuda_",)  # only builds with CUDA have these; others ignore them
PATIENCE = 60.0  # seconds for ompi_info to answer
SHOWN = 3  # similar names that an error suggests, at most
ALIKE = 0.75  # similarity, from 0 to 1, that a suggested name has at least


def check_mca_parameters(
    variables: Mapping[str, str], machine: Machine, home: str, shell: Shell
) -> None:
    """Refuse MCA parameters that the Open MPI of a host does not have: it would ignore them.

    Args:
        variables: of the ranks' environment; those named `OMPI_MCA_...` are MCA parameters.

    Raises:
        SpecError: there is no such parameter; those with a similar name are listed.

    """
    names = [name.removeprefix(MCA) for name in variables if name.startswith(MCA)]
    wanted = [name for name in names if not name.startswith(OPTIONAL)]
    if not wanted:
        return
    program = posixpath.join(home, machine.bin, "ompi_info")
    done = shell.run(["sh", "-c", LIST, "sh", program], timeout=PATIENCE)
    known = done.stdout.split()
    if known:  # an MPI other than Open MPI has no ompi_info
        _refuse_unknown(wanted, known)


def _refuse_unknown(wanted: Iterable[str], known: list[str]) -> None:
    for name in wanted:
        if name in known:
            continue
        near = get_close_matches(name, known, SHOWN, ALIKE)
        similar = f"Did you mean {' or '.join(near)}? " if near else ""
        raise SpecError(
            f"Open MPI has no MCA parameter {name!r} on these hosts, so it would have no effect.",
            remedy=f"{similar}List them: ompi_info --param all all --level 9",
        )
