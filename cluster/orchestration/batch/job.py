"""A benchmark inside a batch job: no connection from outside, and a run folder at the end.

The script that `cluster more script` prints calls this module twice, around the job's own script:
`begin REQUEST` makes the run folder and prints its path; `end FOLDER` closes it.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from cluster.agent.commands import find_program, output_of
from cluster.agent.hardware import read_text
from cluster.core import decoders, plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.messages import for_command_line
from cluster.core.model.hosts import Allocation, Facts, Layout, Machine
from cluster.core.model.jobs import BatchRequest
from cluster.core.model.results.records import Condition, JobRecord
from cluster.core.model.spec import machine_name
from cluster.core.model.value import Value
from cluster.core.state.files import make_private
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.orchestration.bench.collect import JobResult, collect, job_result
from cluster.orchestration.bench.plan import (
    ANY_MPI,
    SRUN,
    JobRequest,
    RunOptions,
    check_bench,
    check_starter,
    find_pmi,
    plan_job,
)
from cluster.orchestration.cluster_jobs import with_verdict
from cluster.orchestration.hosts.setup import ReadyHosts, with_common_addresses
from cluster.remote.sessions.jobs import BATCH_PREFIXES, MpiJob
from cluster.remote.shells.local import LocalShell
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store
from cluster.runs.run import PAIRS, Run

LIMIT = 120.0  # seconds for the hosts to report
PLENTY = 1 << 16  # cores: a process that only reports needs none of its own
JOBS = ".jobs"  # the folder of the ranks' folders, in that of all runs
SCRIPT, RECORD, FACTS = "job.sh", "job.json", "facts"
# What each host does: only on a shared file system does it find the folder.
REPORT = (
    'cd -- "$1" && facts="facts.${SLURMD_NODENAME:-$(uname -n)}" && '
    '"$2" -P -m cluster.agent facts "$1" > ".$facts" && mv -- ".$facts" "$facts"'
)
CUT_SHORT = JobResult(status="interrupted", reason=outcome_words("cut_short"))


class LentHosts(Value, frozen=True, kw_only=True):
    """The hosts of an allocation, as its batch system names them."""

    system: str  # such as `slurm`
    job: str
    # how many ranks each host may run, in the order of the hosts; 0 if that is not said
    slots: dict[str, int]


def check_request(request: BatchRequest) -> tuple[Benchmark[Any], Any]:
    """Refuse what no batch job could run (SpecError)."""
    benchmark, params = check_bench(
        request.spec, request.benchmark, request.params, request.timeout
    )
    if benchmark.starter == ANY_MPI:
        check_starter(request.starter, benchmark)
    else:
        plugins.find(Starter, request.starter.partition(":")[0])
    return benchmark, params


def begin(request: BatchRequest, variables: Mapping[str, str] = os.environ) -> Path:
    """Make the run folder of a batch job, and one for its ranks and script (ClusterError)."""
    benchmark, params = check_request(request)
    allocation = find_lent_hosts(variables, partial(output_of, "scontrol", "show", "hostnames"))
    if allocation is None:
        raise SpecError(
            "This process is in no job of a batch system.",
            means="SLURM_JOB_ID, PBS_NODEFILE, LSB_JOBID and CLUSTER_HOSTFILE are not set.",
            remedy="Hand the script to the batch system: sbatch, qsub or bsub <",
        )
    name, _, variant = request.starter.partition(":")
    root = store.root()
    starter = plugins.load(Starter, name)
    machines = _machines(request, allocation, starter, root / JOBS)
    store.make_root(root)
    facts = _reports(machines, starter, allocation.system, root / JOBS)
    if not starter.places_ranks:
        machines = tuple(
            msgspec.structs.replace(machine, id=fact.host, address=fact.host)
            for machine, fact in zip(machines, facts, strict=True)
        )
    if len(machines) > 1:
        machines = with_common_addresses(machines, facts)
    hosts = ReadyHosts(
        spec=request.spec,
        machines=machines,
        facts=facts,
        starter=name if benchmark.starter == ANY_MPI else benchmark.starter,
        pmi=find_pmi(variant, benchmark, facts[0], LocalShell()) if name == SRUN else "",
        system=allocation.system,
    )
    job = JobRequest(
        benchmark=benchmark,
        params=params,
        options=RunOptions(
            condition=Condition(description=request.describe), timeout=request.timeout
        ),
        runs=root,
    )
    plan = plan_job(hosts, job, {})
    shell, folder = LocalShell(), plan.job.folder
    files = {**plan.files, SCRIPT: plan.script, RECORD: msgspec.json.encode(plan.job).decode()}
    for file_name, text in files.items():
        shell.write(text, f"{folder}/{file_name}")
    store.write(plan.folder, msgspec.structs.replace(plan.record, status="running"))
    return Path(plan.job.folder)


def end(folder: Path) -> Run:
    """Collect what the ranks wrote to the folder of `begin`, and close the run (SpecError)."""
    try:
        record = decoders.decode((folder / RECORD).read_bytes(), JobRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise SpecError(f"{folder} is not the folder of a batch job: {error}") from error
    first = store.record(Path(record.run)).machines[0]
    job = MpiJob(record, {first.name: LocalShell(first)}, first)
    text = read_text(folder / "status")
    result = job_result(int(text)) if text.isdecimal() else CUT_SHORT
    run = with_verdict(collect(job, result, {}))
    shutil.rmtree(folder, ignore_errors=True)
    return run


def _machines(
    request: BatchRequest, allocation: LentHosts, starter: Starter, folder: Path
) -> tuple[Machine, ...]:
    any_names = [f"host{number}" for number in range(request.hosts)]  # until they report
    names = _names(request, allocation) if starter.places_ranks else any_names
    return tuple(
        Machine(
            name=machine_name(request.name, number),
            id=name,
            address=name,
            shell="batch" if number else "local",
            folder=str(folder),
            bin=str(Path(sys.executable).parent),
            job=allocation.job or allocation.system,
        )
        for number, name in enumerate(names)
    )


def _names(request: BatchRequest, allocation: LentHosts) -> list[str]:
    names = list(allocation.slots)[: request.hosts]
    job = f"The {allocation.system} job {allocation.job}".rstrip()
    if len(names) < request.hosts:
        raise SpecError(
            f"{job} has {len(names)} host(s), and the script wants {request.hosts}.",
            means=f"They are: {', '.join(names)}. Nothing was measured.",
            remedy=f"Ask the batch system for {request.hosts} hosts, or print the script with "
            f"--hosts {len(names)}",
        )
    short = [name for name in names if 0 < allocation.slots[name] < request.ranks_per_host]
    if short:
        raise SpecError(
            f"{job} has {allocation.slots[short[0]]} slot(s) on {short[0]}, and the script starts "
            f"{request.ranks_per_host} ranks there.",
            means="Nothing was measured.",
            remedy=f"Ask the batch system for {request.ranks_per_host} slots on each host.",
        )
    return names


def _reports(
    machines: tuple[Machine, ...], starter: Starter, system: str, jobs: Path
) -> tuple[Facts, ...]:
    """Have every host write its facts into one folder, by a process that the starter runs there."""
    if starter.program and find_program(starter.program) is None:
        raise SpecError(
            f"There is no {starter.program} on this host, {platform.node()}.",
            means="Nothing was started.",
            remedy="Load it in the script (module load), or print one with another starter.",
        )
    make_private(jobs)
    names = tuple(machine.id for machine in machines)
    layout = Layout(
        addresses=tuple(machine.address for machine in machines),
        cores=PLENTY,
        sharing=2,  # processes are bound to no core
        root=os.geteuid() == 0,
        allocation=Allocation(job=machines[0].job, names=names, system=system),
    )
    variables = [f"{name}={value}" for name, value in starter.env(layout).items()]
    # the batch system's variables would change what mpirun and srun do
    forgotten = [n for n in os.environ if n.startswith(BATCH_PREFIXES) and n != "SLURM_CONF"]
    flags = [word for name in forgotten for word in ("-u", name)]
    with (
        closing(LocalShell()) as shell,
        tempfile.TemporaryDirectory(
            prefix="facts-", dir=jobs, ignore_cleanup_errors=True
        ) as folder,
    ):
        words = ["sh", "-c", REPORT, "sh", folder, sys.executable]
        argv = ["env", *flags, *variables, *starter.argv(words, layout)]
        result = shell.run(argv, timeout=LIMIT)
        reports = [
            (path.name.removeprefix(f"{FACTS}."), decoders.decode(path.read_bytes(), Facts))
            for path in sorted(Path(folder).glob(f"{FACTS}.*"))
        ]
    if result.status or len(reports) < len(machines):
        messages = [line for line in result.stderr.splitlines() if line.strip(" -=*")]
        reason = messages[-1] if messages else f"exit status {result.status}"
        raise ClusterError(
            f"{len(reports)} of {len(machines)} host(s) reported what they are.",
            means=f"{starter.name} says: {reason}",
            remedy=f"Every host must see {sys.executable} and the folder {jobs}, which "
            "has to be on a file system that they share: export CLUSTER_RUNS=/shared/runs",
        )
    if not starter.places_ranks:
        return tuple(fact for _, fact in reports)
    if len(machines) == 1:
        return (reports[0][1],)
    return _in_order(machines, reports)


def _in_order(
    machines: tuple[Machine, ...], reports: Sequence[tuple[str, Facts]]
) -> tuple[Facts, ...]:
    """Return the facts in the order of the machines; a host may report a longer name."""
    by_name = {name.partition(".")[0]: fact for name, fact in reports}
    missing = [machine.id for machine in machines if machine.id.partition(".")[0] not in by_name]
    if missing:
        raise ClusterError(
            f"No process ran on {', '.join(missing)}.",
            means=f"Processes ran on {', '.join(sorted(by_name))}: the batch system's names are "
            "not those of the hosts, or the starter chose other hosts.",
        )
    return tuple(by_name[machine.id.partition(".")[0]] for machine in machines)


def main(verb: str, argument: str) -> int:
    """Begin or end a batch job, for its script; `verb` is `begin` or `end`."""
    with for_command_line():
        try:
            if verb == "begin":
                sys.stdout.write(f"{begin(decoders.decode(argument, BatchRequest))}\n")
                return 0
            run = end(Path(argument))
        except ClusterError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    lines = [outcome_words("run_folder", run.folder)]
    if run.status != "done":
        lines += [outcome_words("run_ended", run.status, run.record.reason)]
    else:
        is_check = run.record.benchmark == PAIRS
        lines += [outcome_words("judge_pairs" if is_check else "show_run", run.folder)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(run.status != "done")


HOSTFILE = "CLUSTER_HOSTFILE"  # a host per line, with `slots=N`, `:N` or neither
MPIJOB_HOSTFILE = "OMPI_MCA_orte_default_hostfile"  # as the MPI operator of Kubernetes sets it
SLOTS = re.compile(r"(?:\bslots=|:)(\d+)")


def find_lent_hosts(
    variables: Mapping[str, str], expand: Callable[[str], str | None]
) -> LentHosts | None:
    """Find the hosts of the allocation of this process (SpecError: they cannot be read).

    Slurm's variables come first: its PBS wrappers set those of PBS as well. `expand` lists the
    names of a list of Slurm's, one per line; None if that failed.
    """
    if variables.get("SLURM_JOB_ID"):
        nodes = variables.get("SLURM_JOB_NODELIST", "")
        names = (expand(nodes) or "").split()
        if not names:
            raise SpecError(
                f"The hosts of the Slurm job {variables['SLURM_JOB_ID']} are not known.",
                means=f"scontrol show hostnames {nodes or '(no SLURM_JOB_NODELIST)'} gave none.",
                remedy="Start the script with sbatch, on a host that has scontrol.",
            )
        return LentHosts(
            system="slurm", job=variables["SLURM_JOB_ID"], slots=dict.fromkeys(names, 0)
        )
    if file := variables.get("PBS_NODEFILE"):
        return LentHosts(system="pbs", job=variables.get("PBS_JOBID", ""), slots=_read(file))
    if variables.get("LSB_JOBID"):
        # `a 2 b 2`; or `a a b b`, which is empty for many
        words = variables.get("LSB_MCPU_HOSTS", "").split()
        if words and len(words) % 2 == 0 and all(word.isdecimal() for word in words[1::2]):
            slots = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        else:
            slots = dict(Counter(variables.get("LSB_HOSTS", "").split()))
        if not slots:
            raise SpecError(
                f"The hosts of the LSF job {variables['LSB_JOBID']} are not known.",
                means="Neither LSB_MCPU_HOSTS nor LSB_HOSTS names any.",
                remedy="Start the script with bsub < SCRIPT.",
            )
        return LentHosts(system="lsf", job=variables["LSB_JOBID"], slots=slots)
    if file := variables.get(HOSTFILE) or variables.get(MPIJOB_HOSTFILE, ""):
        return LentHosts(system="hostfile", job="", slots=_read(file))
    return None


def _read(file: str) -> dict[str, int]:
    """Read a file of hosts: PBS names a host once per slot, others say `slots=N`."""
    try:
        lines = [line.strip() for line in Path(file).read_text().splitlines()]
    except OSError as error:
        raise SpecError(
            f"The list of hosts {file} cannot be read: {error.strerror}.",
            means="The batch system made it for this job, on its first host only.",
            remedy="Start the script with qsub, not on a login host.",
        ) from error
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise SpecError(f"The list of hosts {file} is empty.")
    slots: Counter[str] = Counter()
    for line in lines:
        slots_word = SLOTS.search(line)
        slots[line.split()[0].partition(":")[0]] += int(slots_word[1]) if slots_word else 1
    return dict(slots)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
