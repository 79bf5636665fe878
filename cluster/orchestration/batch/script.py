"""Batch scripts: what a site that allows nothing else runs, as text."""

import re
import shlex
from collections.abc import Callable, Mapping

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.jobs import BatchRequest
from cluster.core.model.value import Value

MARGIN = 60  # seconds of the job's time that are left to collect what the ranks wrote
MODULE = "cluster.orchestration.batch.job"
BODY = """\
# Written by: {command}
# Every host must see this Python and this folder of runs at the same paths.
python="${{CLUSTER_PYTHON:-{python}}}"
export CLUSTER_RUNS="${{CLUSTER_RUNS:-{runs}}}"
request={request}

job=
trap '[ -z "$job" ] || kill -TERM "$job" 2> /dev/null' TERM INT
folder=$("$python" -P -m {module} begin "$request") || exit
bash "$folder/job.sh" & job=$!
while kill -0 "$job" 2> /dev/null; do wait "$job"; done
"$python" -P -m {module} end "$folder"
"""

SLURM_GATE = """\
#!/bin/bash
# Written by: {command}
# PrologSlurmctld and EpilogSlurmctld of slurm.conf, run by SlurmUser on the host of slurmctld, who
# reaches the nodes by SSH without a password. This Python with cluster is on all of them.
# What gates have drained goes back to work by this script with the word undo.
python="${{CLUSTER_PYTHON:-{python}}}"
export CLUSTER_RUNS="${{CLUSTER_RUNS:-{runs}}}" HOME=~ PATH
mkdir -p "$CLUSTER_RUNS"
[ "$1" = undo ] || exec >> "$CLUSTER_RUNS/gates.log" 2>&1
"$python" -P -m cluster.orchestration.batch.slurm_gate {request} "$@"
[ $? != 100 ] # any other failure is not the fault of the nodes: the job starts
"""


class BatchOptions(Value, frozen=True, kw_only=True):
    """What a batch system needs to know besides what is measured."""

    seconds: int = 1800  # of the whole job
    queue: str = ""  # partition or queue; that of the site, if empty
    account: str = ""  # that pays; the user's own, if empty
    extra: tuple[str, ...] = ()  # more lines for the batch system, with or without its prefix


def shell_script(
    system: str, request: BatchRequest, options: BatchOptions, paths: Mapping[str, str]
) -> str:
    """Write the script for `slurm`, `pbs`, `cray` or `lsf`.

    `paths` are `python`, `runs` and `command`: defaults of the script, and what printed it.
    """
    lines = [*HEADERS[system](request, options), *_extra(system, options)]
    return "\n".join(["#!/bin/bash", *lines, _filled(BODY, request, paths)])


def gate_script(gate: Value, paths: Mapping[str, str]) -> str:
    """Write the script for gates of Slurm; `paths` are those of `shell_script`."""
    return _filled(SLURM_GATE, gate, paths)


def _filled(text: str, request: Value, paths: Mapping[str, str]) -> str:
    return text.format(
        command=" ".join(paths["command"].splitlines()),
        python=_default(paths["python"]),
        runs=_default(paths["runs"]),
        request=shlex.quote(msgspec.json.encode(request).decode()),
        module=MODULE,
    )


def _default(path: str) -> str:
    """Quote a path inside of a double-quoted `${NAME:-...}`."""
    return re.sub(r'([\\$`"}])', r"\\\1", path)


def ranks_seconds(options: BatchOptions) -> float:
    """Return the seconds of ranks, less those to collect their values (SpecError: none left)."""
    if options.seconds <= 2 * MARGIN:
        raise SpecError(
            f"--time is {options.seconds} s; a batch job needs more than {2 * MARGIN} s.",
            means=f"{MARGIN} s of it are kept to collect what the ranks wrote.",
        )
    return float(options.seconds - MARGIN)


def _clock(seconds: int) -> str:
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"


def _slurm(request: BatchRequest, options: BatchOptions) -> list[str]:
    chosen = {"--partition": options.queue, "--account": options.account}
    return [
        f"#SBATCH --job-name=cluster-{request.benchmark}",
        f"#SBATCH --nodes={request.hosts}",
        f"#SBATCH --ntasks-per-node={request.ranks_per_host}",
        "#SBATCH --exclusive",
        f"#SBATCH --time={_clock(options.seconds)}",
        f"#SBATCH --signal=B:TERM@{MARGIN}",
        f"#SBATCH --output=cluster-{request.benchmark}.%j.out",
        *(f"#SBATCH {flag}={value}" for flag, value in chosen.items() if value),
    ]


def _pbs(request: BatchRequest, options: BatchOptions) -> list[str]:
    ranks = request.ranks_per_host
    return [
        "# PBS: proven by emulation only.",
        f"#PBS -N cluster-{request.benchmark}",
        f"#PBS -l select={request.hosts}:ncpus={ranks}:mpiprocs={ranks}",
        "#PBS -l place=scatter:excl",
        f"#PBS -l walltime={_clock(options.seconds)}",
        "#PBS -j oe",
        *_queue("#PBS -q ", "#PBS -A ", options),
    ]


def _cray(request: BatchRequest, options: BatchOptions) -> list[str]:
    """Return the lines of Cobalt, as document 003 of the origin submits: whole nodes, minutes."""
    return [
        "# aprun and Cobalt: proven by emulation only.",
        f"#COBALT -n {request.hosts}",
        f"#COBALT -t {-(-options.seconds // 60)}",
        f"#COBALT --jobname cluster-{request.benchmark}",
        *_queue("#COBALT -q ", "#COBALT -A ", options),
    ]


def _lsf(request: BatchRequest, options: BatchOptions) -> list[str]:
    ranks = request.ranks_per_host
    return [
        "# LSF: proven by emulation only.",
        f"#BSUB -J cluster-{request.benchmark}",
        f"#BSUB -n {request.hosts * ranks}",
        f'#BSUB -R "span[ptile={ranks}]"',
        "#BSUB -x",
        f"#BSUB -W {-(-options.seconds // 60)}",
        f"#BSUB -o cluster-{request.benchmark}.%J.out",
        *_queue("#BSUB -q ", "#BSUB -P ", options),
    ]


def _queue(queue: str, account: str, options: BatchOptions) -> list[str]:
    chosen = ((queue, options.queue), (account, options.account))
    return [f"{prefix}{value}" for prefix, value in chosen if value]


def _extra(system: str, options: BatchOptions) -> list[str]:
    prefix = PREFIXES[system]
    return [f"{prefix} {line.removeprefix(prefix).lstrip()}" for line in options.extra]


HEADERS: dict[str, Callable[[BatchRequest, BatchOptions], list[str]]] = {
    "slurm": _slurm,
    "pbs": _pbs,
    "cray": _cray,
    "lsf": _lsf,
}
PREFIXES = {"slurm": "#SBATCH", "pbs": "#PBS", "cray": "#COBALT", "lsf": "#BSUB"}
