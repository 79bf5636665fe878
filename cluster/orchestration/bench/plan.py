"""The plan of a job: one frozen value, made of hosts that are ready and a checked request.

A request is checked before anything is launched or installed. The plan holds all that a start
needs: the run's record, the script, and the files of the job's folder.
"""

from __future__ import annotations

import posixpath
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from cluster.agent.peers import FILE as PEERS_FILE
from cluster.agent.peers import Peer, PeerList
from cluster.analysis.statistics.factors import MCA
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.notes import Note
from cluster.core.model.records import Condition, JobRecord, Record, Status
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.options import convert, encode
from cluster.core.units import format_bytes
from cluster.core.version import __version__, revision
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.orchestration.bench.listener import Listener
from cluster.orchestration.bench.starter import check_starter, with_starter
from cluster.orchestration.bench.working_folder import WorkingFolder, find_files
from cluster.orchestration.hosts.setup import ReadyHosts, needs_every_host
from cluster.orchestration.hosts.state import ClusterState
from cluster.providers import Provider, gpu_advice
from cluster.remote import libfabric, open_mpi
from cluster.remote.environment.steps import PROGRAM as IN_IMAGE
from cluster.remote.hosts import distinct, place_of
from cluster.remote.jobs import script
from cluster.remote.leftovers import MARK
from cluster.remote.shells import Shell
from cluster.runs import store

LONGEST = 30 * 24 * 3600.0  # seconds
HostOrder = Literal["given", "near"]
NAMED = 16  # hosts in a note


class RunOptions(Value, frozen=True, kw_only=True):
    """How a benchmark runs, and under which condition; see `BenchCall.__call__`."""

    condition: Condition
    runs: str | Path | None
    timeout: float
    detach: bool
    listener: Listener | None
    profile: str | None
    workdir: str | Path | WorkingFolder | None
    order: HostOrder
    starter: str
    replace: bool
    yes: bool
    busy: bool = False


class JobRequest(Value, frozen=True, kw_only=True):
    """A benchmark that a cluster can run, and how it is to run."""

    benchmark: Benchmark[Any]
    params: Any
    timeout: float  # seconds that the job may take
    condition: Condition
    runs: Path  # the folder of all runs
    # the numbers of the hosts in the order of the ranks; empty for that of the cluster
    order: tuple[int, ...] = ()
    starter: str = ""  # `--starter`; empty for what fits the hosts
    # `own`, or the path of a libmpitrace on the hosts; None for no profiles
    profile: str | None = None
    workdir: WorkingFolder | None = None
    yes: bool = False  # to a download above 100 MB


class JobPlan(Value, frozen=True, kw_only=True):
    """A job that is ready to start."""

    folder: Path  # of its run, which exists
    record: Record  # of its run, with the status `planned`
    job: JobRecord
    script: str
    files: dict[str, str]  # texts for the job's folder on the first host, by name
    workdir: WorkingFolder | None = None


def make_request(
    state: ClusterState, name: str, options: RunOptions, params: Mapping[str, object]
) -> JobRequest:
    """Check a benchmark and its options, before anything is started (SpecError)."""
    benchmark, checked = check_bench(state.spec, name, params, options.timeout)
    check_starter(options.starter, benchmark)
    runs, workdir = store.root(options.runs), options.workdir
    return JobRequest(
        benchmark=benchmark,
        params=checked,
        timeout=options.timeout,
        condition=options.condition,
        runs=runs,
        order=host_order(options.order, benchmark, runs, state),
        starter=options.starter,
        profile=options.profile,
        workdir=find_files(workdir, runs) if isinstance(workdir, str | Path) else workdir,
        yes=options.yes,
    )


def check_bench(
    spec: ClusterSpec, name: str, params: Mapping[str, object], timeout: float
) -> tuple[Benchmark[Any], Any]:
    """Refuse a benchmark that a cluster could not run, before anything is launched (SpecError)."""
    benchmark = plugins.load(Benchmark, name)
    checked = convert(params, benchmark.Params, "parameter")
    benchmark.check(checked, spec.hosts * spec.ranks_per_host)
    if not 0 < timeout <= LONGEST:
        raise SpecError(f"--timeout is {timeout:g} s; it must be more than 0 and at most 30 days.")
    return benchmark, checked


def host_order(
    order: HostOrder, benchmark: Benchmark[Any], runs: Path, state: ClusterState
) -> tuple[int, ...]:
    """Return the hosts' numbers in rank order; `near` follows the newest placement."""
    if order not in get_args(HostOrder):
        raise SpecError(f"There is no order {order!r}.", remedy="There are: given, near")
    if order == "given":
        return ()
    if not needs_every_host(benchmark):  # it has no ranks
        raise SpecError(
            f"--order near has no effect on {benchmark.name}: it tests hosts by their numbers.",
            remedy="Leave --order out, or choose another benchmark.",
        )
    from cluster.orchestration.proximity import newest_placement  # noqa: PLC0415 - NumPy

    return newest_placement(runs, state).order


def check_plan(benchmark: Benchmark[Any], params: object, spec: ClusterSpec, plan: Plan) -> None:
    """Refuse a plan whose machines lack the GPUs that a benchmark needs (SpecError)."""
    gpus = benchmark.gpus(params, spec.ranks_per_host)
    if plan.gpus is not None and plan.gpus < gpus:
        from cluster.measure import gpu_requirements  # noqa: PLC0415 - few benchmarks want any

        raise gpu_requirements.missing_gpus_error(
            "Each of these machines",
            plan.gpus,
            gpus,
            means="According to the provider's data; no machine was requested.",
            advice=gpu_advice(plugins.find(Provider, spec.provider)),
            instead=benchmark.instead_of_gpus(params),
        )


def check_on_hosts(
    hosts: ReadyHosts, request: JobRequest, shells: Mapping[str, Shell]
) -> tuple[ReadyHosts, JobRequest]:
    """Choose the starter, and check what only the hosts know; prepare a profiler."""
    hosts = with_starter(hosts, request.starter, request.benchmark, shells)
    _check_memory(request.benchmark, request.params, hosts)
    condition = request.condition
    if not hosts.image:
        first = hosts.machines[0]
        check_mca_parameters(condition.variables, first, hosts.facts[0].home, shells[first.name])
    if request.profile is None:
        return hosts, request
    from cluster.orchestration.bench import mpi_profile  # noqa: PLC0415 - few runs are profiled

    variables = mpi_profile.profiled(condition.variables, request.profile, hosts, shells)
    condition = msgspec.structs.replace(condition, variables=variables)
    return hosts, msgspec.structs.replace(request, condition=condition)


def plan_job(hosts: ReadyHosts, request: JobRequest, phases: Mapping[str, float]) -> JobPlan:
    """Plan a job on hosts that are ready, and make the folder of its run (ClusterError)."""
    benchmark, machine, at = request.benchmark, hosts.machines[0], time.time()
    session = hosts.spec.name
    starter = plugins.load(Starter, hosts.starter or benchmark.starter)
    home = hosts.facts[0].home  # a machine's paths may be relative to it
    bin_ = posixpath.join(home, machine.bin)
    mark = {MARK: machine.folder}  # also on other hosts, where the script's is not known
    variables = {**benchmark.variables, **request.condition.variables, **mark}
    program = [*_with_environment(variables), *benchmark.program(request.params)]
    argv = starter.argv(_with_python(program, bin_, hosts.image), hosts.layout)
    folder = store.create(request.runs, session, benchmark.name, at)
    record = msgspec.structs.replace(
        make_record(hosts.spec, hosts.machines, request, run=folder.name, status="planned", at=at),
        command=tuple(argv),
        environment=tuple(msgspec.structs.replace(f, topology="") for f in hosts.facts),
        planned=tuple(benchmark.planned(request.params, hosts.layout.size)),
        notes=tuple(_notes(hosts, request)),
        phases=dict(phases),
        variables=request.condition.variables,
        order=request.order,
    )
    store.write(folder, record)
    for fact in hosts.facts:
        if fact.topology:  # as the GPUs' driver prints it
            store.write_raw(folder, f"topology.{fact.host}.txt", fact.topology)
    remote_folder = posixpath.join(home, machine.folder, folder.name)
    return JobPlan(
        folder=folder,
        record=record,
        job=JobRecord(
            session=session,
            folder=remote_folder,
            run=str(folder),
            benchmark=benchmark.name,
            at=at,
            workdir=request.workdir is not None,
            hosts=tuple(machine.name for machine in hosts.machines),
        ),
        script=script(
            session, remote_folder, argv, _environment(hosts, starter, bin_), request.timeout
        ),
        files={f"{benchmark.name}.py": benchmark.source.read_text(), **_peers(hosts, starter)},
        workdir=request.workdir,
    )


def make_record(
    spec: ClusterSpec,
    machines: tuple[Machine, ...],
    request: JobRequest,
    *,
    run: str,
    status: Status,
    at: float,
) -> Record:
    """Make the record of a run that begins `at`, in seconds since the epoch."""
    benchmark, condition = request.benchmark, request.condition
    return Record(
        id=run,
        benchmark=benchmark.name,
        status=status,
        at=at,
        spec=spec,
        machines=machines,
        params=msgspec.Raw(msgspec.json.encode(request.params, enc_hook=encode)),
        argv=tuple(sys.argv),
        definitions={
            definition.id: definition for definition in benchmark.recorded(request.params)
        },
        software=__version__,
        revision=revision(),
        condition=condition.name,
        description=condition.description,
        launch_of=condition.launch_of,
        expected=condition.expected,
    )


def _notes(hosts: ReadyHosts, request: JobRequest) -> Iterator[Note | str]:
    """Return what a reader of the numbers must know."""
    if hosts.image:
        yield Note("container_image", (hosts.image,))
    layout = hosts.layout
    if layout.oversubscribed:
        ranks = max(layout.slots.values()) * layout.sharing
        yield Note("shared_cores", (ranks, layout.cores))
    yield from request.benchmark.notes(request.params, hosts.facts)
    if order := request.order:
        named = ", ".join(map(str, order[:NAMED])) + (", ..." if len(order) > NAMED else "")
        changes = list(order) != sorted(order)
        yield Note("order", (named,)) if changes else Note("same_order")
    if request.profile is not None:
        yield Note("profiled", (request.profile,))
    yield from libfabric.notes(hosts.fabric, request.condition.variables)


def in_order(hosts: ReadyHosts, order: tuple[int, ...]) -> ReadyHosts:
    """Put hosts, and their facts, into the order of the ranks."""
    if not order:
        return hosts
    places = map(place_of, distinct(hosts.machines))
    facts = dict(zip(places, hosts.facts, strict=True))
    machines = tuple(hosts.machines[number] for number in order)
    return msgspec.structs.replace(
        hosts,
        machines=machines,
        facts=tuple(facts[place_of(machine)] for machine in distinct(machines)),
    )


def _check_memory(benchmark: Benchmark[Any], params: object, hosts: ReadyHosts) -> None:
    needed = benchmark.memory(params, max(hosts.layout.slots.values()))
    for fact in hosts.facts:
        limits = [fact.memory, *([fact.cgroup_memory] if fact.cgroup_memory else [])]
        if 0 < min(limits) < needed:
            raise SpecError(
                f"{benchmark.name} would allocate {format_bytes(needed)} for messages on "
                f"{fact.host}, which has {format_bytes(min(limits))} of memory.",
                means="Nothing was started.",
                remedy="Choose smaller --sizes.",
            )


def _with_python(program: list[str], folder: str, image: str) -> list[str]:
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
    layout, (first, *rest) = hosts.layout, hosts.machines
    lent = bool(first.job)  # by Slurm; there may be no SSH between them
    if not (layout.ssh_config or lent) or not starter.needs_every_host:
        return {}
    peers = tuple(Peer(name=m.name, address=m.address) for m in rest)
    listed = PeerList(peers=peers, ssh_config=layout.ssh_config, probed=lent)
    return {PEERS_FILE: msgspec.json.encode(listed).decode()}


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
    """Refuse MCA parameters that the Open MPI of a host lacks and would ignore (SpecError)."""
    names = [name.removeprefix(MCA) for name in variables if name.startswith(MCA)]
    checked = [name for name in names if not name.startswith(OPTIONAL)]
    if not checked:
        return
    program = posixpath.join(home, machine.bin, "ompi_info")
    result = shell.run(["sh", "-c", LIST, "sh", program], timeout=PATIENCE)
    parameters = result.stdout.split()
    if parameters:  # an MPI other than Open MPI has no ompi_info
        _refuse_unknown(checked, parameters)


def _refuse_unknown(checked: Iterable[str], parameters: list[str]) -> None:
    for name in checked:
        if name in parameters:
            continue
        near = get_close_matches(name, parameters, SHOWN, ALIKE)
        similar = f"Did you mean {' or '.join(near)}? " if near else ""
        raise SpecError(
            f"Open MPI has no MCA parameter {name!r} on these hosts, so it would have no effect.",
            remedy=f"{similar}List them: ompi_info --param all all --level 9",
        )
