"""The plan of a job: one frozen value, made of hosts that are ready and a checked request.

A request is checked before anything is launched or installed. The plan holds all that a start
needs: the run's record, the script, and the files of the job's folder. The user names the starter
of the ranks, or the one that fits the hosts is chosen.
"""

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
from cluster.agent.protocol import TIMED_OUT
from cluster.analysis.statistics.factors import MCA
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Facts, Machine
from cluster.core.model.resources import Plan
from cluster.core.model.results.records import Condition, JobRecord, Note, Record, Status
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.text.options import convert, encode
from cluster.core.text.units import format_bytes
from cluster.core.version import __version__, revision
from cluster.measure import mpi
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.bench.working_folder import WorkingFolder, find_files
from cluster.orchestration.hosts.setup import ReadyHosts, needs_every_host
from cluster.orchestration.hosts.state import ClusterState
from cluster.providers import Provider, gpu_advice
from cluster.remote import open_mpi
from cluster.remote.environment.steps import PROGRAM as IN_IMAGE
from cluster.remote.hosts import distinct, place_of
from cluster.remote.network import libfabric
from cluster.remote.sessions.jobs import script
from cluster.remote.sessions.leftovers import MARK
from cluster.remote.shells import Shell
from cluster.runs import store

LONGEST = 30 * 24 * 3600.0  # seconds
HostOrder = Literal["given", "near"]
NAMED = 16  # hosts in a note


class RunOptions(Value, frozen=True, kw_only=True):
    """How a benchmark runs, and under which condition; see `BenchCall.__call__`."""

    condition: Condition
    timeout: float  # seconds that the job may take
    runs: str | Path | None = None
    detach: bool = False
    listener: Listener | None = None
    # `own`, or the path of a libmpitrace on the hosts; None for no profiles
    profile: str | None = None
    workdir: str | Path | WorkingFolder | None = None
    order: HostOrder = "given"
    starter: str = ""  # `--starter`; empty for what fits the hosts
    replace: bool = False
    yes: bool = False  # to a download above 100 MB
    busy: bool = False


class JobRequest(Value, frozen=True, kw_only=True):
    """A benchmark that a cluster can run, and how it is to run."""

    benchmark: Benchmark[Any]
    params: Any
    options: RunOptions
    runs: Path  # the folder of all runs
    # the numbers of the hosts in the order of the ranks; empty for that of the cluster
    order: tuple[int, ...] = ()
    workdir: WorkingFolder | None = None


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
    benchmark, values = check_bench(state.spec, name, params, options.timeout)
    check_starter(options.starter, benchmark)
    runs, workdir = store.root(options.runs), options.workdir
    return JobRequest(
        benchmark=benchmark,
        params=values,
        options=options,
        runs=runs,
        order=host_order(options.order, benchmark, runs, state),
        workdir=find_files(workdir, runs) if isinstance(workdir, str | Path) else workdir,
    )


def check_bench(
    spec: ClusterSpec, name: str, params: Mapping[str, object], timeout: float
) -> tuple[Benchmark[Any], Any]:
    """Refuse a benchmark that a cluster could not run, before anything is launched (SpecError)."""
    benchmark = plugins.load(Benchmark, name)
    values = convert(params, benchmark.Params, "parameter")
    benchmark.check(values, spec.hosts * spec.ranks_per_host)
    if not 0 < timeout <= LONGEST:
        raise SpecError(f"--timeout is {timeout:g} s; it must be more than 0 and at most 30 days.")
    return benchmark, values


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
        from cluster.measure.gpu import missing_gpus_error  # noqa: PLC0415 - few benchmarks want any

        raise missing_gpus_error(
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
    options, condition = request.options, request.options.condition
    hosts = with_starter(hosts, options.starter, request.benchmark, shells)
    size = request.benchmark.memory(request.params, max(hosts.layout.slots.values()))
    for fact in hosts.facts:
        limits = [fact.memory, *([fact.cgroup_memory] if fact.cgroup_memory else [])]
        if 0 < min(limits) < size:
            raise SpecError(
                f"{request.benchmark.name} would allocate {format_bytes(size)} for messages on "
                f"{fact.host}, which has {format_bytes(min(limits))} of memory.",
                means="Nothing was started.",
                remedy="Choose smaller --sizes.",
            )
    if not hosts.image:
        first = hosts.machines[0]
        check_mca_parameters(condition.variables, first, hosts.facts[0].home, shells[first.name])
    if options.profile is None:
        return hosts, request
    from cluster.orchestration.bench import mpi_profile  # noqa: PLC0415 - few runs are profiled

    variables = mpi_profile.prepare(condition.variables, options.profile, hosts, shells)
    condition = msgspec.structs.replace(condition, variables=variables)
    options = msgspec.structs.replace(options, condition=condition)
    return hosts, msgspec.structs.replace(request, options=options)


def plan_job(hosts: ReadyHosts, request: JobRequest, phases: Mapping[str, float]) -> JobPlan:
    """Plan a job on hosts that are ready, and make the folder of its run (ClusterError)."""
    benchmark, machine, now = request.benchmark, hosts.machines[0], time.time()
    options = request.options
    session = hosts.spec.name
    starter = plugins.load(Starter, hosts.starter or benchmark.starter)
    home = hosts.facts[0].home  # a machine's paths may be relative to it
    bin_ = posixpath.join(home, machine.bin)
    mark = {MARK: machine.folder}  # also on other hosts, where the script's is not known
    variables = {**benchmark.variables, **options.condition.variables, **mark}
    program = ["env", *(f"{name}={value}" for name, value in variables.items())]
    program += benchmark.program(request.params)
    if hosts.image:  # whose own Python is used
        program = [posixpath.join(bin_, IN_IMAGE), *program]
    else:  # mpirun may prepend its folder to PATH
        program = [posixpath.join(bin_, word) if word == "python3" else word for word in program]
    argv = starter.argv(program, hosts.layout)
    folder = store.create(request.runs, session, benchmark.name, now)
    record = msgspec.structs.replace(
        make_record(
            hosts.spec, hosts.machines, request, run=folder.name, status="planned", now=now
        ),
        command=tuple(argv),
        environment=tuple(msgspec.structs.replace(f, topology="") for f in hosts.facts),
        planned=tuple(benchmark.plan(request.params, hosts.layout.size)),
        notes=tuple(_notes(hosts, request)),
        phases=dict(phases),
        variables=options.condition.variables,
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
            at=now,
            workdir=request.workdir is not None,
            hosts=tuple(machine.name for machine in hosts.machines),
        ),
        script=script(
            session,
            remote_folder,
            argv,
            _environment(hosts, starter, bin_),
            request.options.timeout,
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
    now: float,
) -> Record:
    """Make the record of a run that begins `now`, in seconds since the epoch."""
    benchmark, condition = request.benchmark, request.options.condition
    return Record(
        id=run,
        benchmark=benchmark.name,
        status=status,
        at=now,
        spec=spec,
        machines=machines,
        params=msgspec.Raw(msgspec.json.encode(request.params, enc_hook=encode)),
        argv=tuple(sys.argv),
        definitions={
            definition.id: definition for definition in benchmark.variants(request.params)
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
        text = ", ".join(map(str, order[:NAMED])) + (", ..." if len(order) > NAMED else "")
        changes = list(order) != sorted(order)
        yield Note("order", (text,)) if changes else Note("same_order")
    if request.options.profile is not None:
        yield Note("profiled", (request.options.profile,))
    yield from libfabric.notes(hosts.fabric, request.options.condition.variables)


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


def _peers(hosts: ReadyHosts, starter: Starter) -> dict[str, str]:
    """Return the file that names the other hosts to the first one, if the starter needs it."""
    layout, (first, *rest) = hosts.layout, hosts.machines
    is_lent = bool(first.job)  # by Slurm; there may be no SSH between them
    if not (layout.ssh_config or is_lent) or not starter.needs_every_host:
        return {}
    peers = tuple(Peer(name=m.name, address=m.address) for m in rest)
    peer_list = PeerList(peers=peers, ssh_config=layout.ssh_config, probed=is_lent)
    return {PEERS_FILE: msgspec.json.encode(peer_list).decode()}


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
    settings = [name for name in names if not name.startswith(OPTIONAL)]
    if not settings:
        return
    program = posixpath.join(home, machine.bin, "ompi_info")
    result = shell.run(["sh", "-c", LIST, "sh", program], timeout=PATIENCE)
    parameters = result.stdout.split()
    if parameters:  # an MPI other than Open MPI has no ompi_info
        _refuse_unknown(settings, parameters)


def _refuse_unknown(settings: Iterable[str], parameters: list[str]) -> None:
    for name in settings:
        if name in parameters:
            continue
        guesses = get_close_matches(name, parameters, SHOWN, ALIKE)
        similar = f"Did you mean {' or '.join(guesses)}? " if guesses else ""
        raise SpecError(
            f"Open MPI has no MCA parameter {name!r} on these hosts, so it would have no effect.",
            remedy=f"{similar}List them: ompi_info --param all all --level 9",
        )


ANY_MPI = "mpirun"  # the starter of benchmarks that leave the choice to the user
SRUN = "srun"  # the starter, and the shell of hosts that have no SSH
LIMIT = 20.0  # seconds for a program to answer


def check_starter(choice: str, benchmark: Benchmark[Any]) -> None:
    """Refuse a starter that cannot start the ranks of a benchmark (SpecError)."""
    name, colon, variant = choice.partition(":")
    if not name and not colon:
        return
    starter = plugins.find(Starter, name)
    if colon and (name != SRUN or not variant.replace("_", "").isalnum()):
        raise SpecError(
            f"--starter {choice} is not known: only srun takes a PMI.",
            remedy="Such as: --starter srun:pmix",
        )
    if benchmark.starter not in (name, ANY_MPI):
        raise SpecError(
            f"{benchmark.name} starts its own processes, and no {name} can.",
            remedy="Leave --starter out.",
        )
    if benchmark.needs_mpi and not starter.starts_mpi:
        raise SpecError(
            f"{benchmark.name} needs ranks of MPI, and {name} starts none.",
            means="Each of its processes would be rank 0 of 1.",
            remedy="Choose --starter mpirun or srun; torchrun starts programs: cluster run --mpi",
        )


def with_starter(
    hosts: ReadyHosts, choice: str, benchmark: Benchmark[Any], shells: Mapping[str, Shell]
) -> ReadyHosts:
    """Choose the starter, and ask the first host whether it can start ranks (SpecError)."""
    name, _, variant = choice.partition(":")
    first = hosts.machines[0]
    without_ssh = first.shell == SRUN and len(distinct(hosts.machines)) > 1
    fitting = SRUN if without_ssh and benchmark.starter == ANY_MPI else benchmark.starter
    name = name or fitting
    starter = plugins.find(Starter, name)
    if starter.needs_allocation and not first.job:
        raise SpecError(
            f"{name} starts ranks on hosts of an allocation, and {first.name} is in none.",
            remedy=f"Launch hosts that Slurm lends: cluster up {hosts.spec.name} --provider slurm\n"
            "Or start the ranks by mpirun: --starter mpirun",
        )
    if starter.program:
        folder = posixpath.join(hosts.facts[0].home, first.bin)
        result = shells[first.name].run(
            ["sh", "-c", 'PATH="$1:$PATH" command -v "$2"', "sh", folder, starter.program],
            timeout=2 * LIMIT,
        )
        if result.status:
            raise SpecError(
                f"There is no {starter.program} on {first.name}.",
                means="Nothing was started.",
                remedy="Put its folder on the PATH there (module load, ~/.profile), or choose "
                f"another starter: --starter {ANY_MPI}",
            )
    ready = msgspec.structs.replace(hosts, starter=name)
    if name != SRUN:
        return ready
    pmi = find_pmi(variant, benchmark, hosts.facts[0], shells[first.name])
    return msgspec.structs.replace(ready, pmi=pmi)


def find_pmi(variant: str, benchmark: Benchmark[Any], first: Facts, shell: Shell) -> str:
    """Return srun's `--mpi`, as the user or the MPI has it (SpecError: Slurm does not offer it)."""
    # ask which PMIs this Slurm offers
    words = ["timeout", f"{LIMIT:g}", "srun", "--mpi=list"]
    result = shell.run(words, timeout=2 * LIMIT)
    pmis = mpi.read_list(f"{result.stdout}\n{result.stderr}")
    if result.status or not pmis:
        answer = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()[-1]
        is_late = result.status == TIMED_OUT
        problem = f"did not answer within {LIMIT:g} s" if is_late else f"says: {answer}"
        raise SpecError(
            f"srun on {first.host} {problem}.",
            means="It cannot be asked which PMI it offers, and nothing was started.",
            remedy="Look there: srun --mpi=list; sinfo\nOr choose: --starter mpirun",
        )
    if variant:
        if variant not in pmis:
            raise SpecError(
                f"This Slurm has no PMI {variant!r}.",
                means="Nothing was started.",
                remedy=f"There are: {', '.join(pmis)}",
            )
        return variant
    return mpi.choose_pmi(first.mpi or "", pmis) if benchmark.needs_mpi else mpi.NONE
