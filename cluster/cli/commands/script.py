"""Print a script for a batch system, or a manifest for Kubernetes.

Example: cluster script srun p2p --hosts 8 --sizes 8:1MiB > job.sh; sbatch job.sh
"""

from __future__ import annotations

import re
import shlex
import sys
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.main import get_command

from cluster.cli import flags
from cluster.cli.flags import param_flags
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.batch import BatchRequest
from cluster.core.units import parse_seconds
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.batch import kubernetes_manifests
from cluster.orchestration.batch import script as batch_script
from cluster.orchestration.batch.job import checked
from cluster.orchestration.batch.script import BatchOptions
from cluster.runs import store
from cluster.runs.run import PAIRS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What is printed, and what starts the ranks there.
SYSTEMS = {
    "slurm": ("slurm", "srun"),
    "sbatch": ("slurm", "srun"),
    "srun": ("slurm", "srun"),
    "mpirun": ("slurm", "mpirun"),
    "torchrun": ("slurm", "torchrun"),
    "pbs": ("pbs", "mpirun"),
    "qsub": ("pbs", "mpirun"),
    "lsf": ("lsf", "mpirun"),
    "bsub": ("lsf", "mpirun"),
    "aprun": ("cray", "aprun"),
    "mpijob": ("mpijob", "mpirun"),
    "jobset": ("jobset", "mpirun"),
}
EMULATED = {"pbs": "PBS", "lsf": "LSF", "cray": "aprun and Cobalt"}
CHECK = "check"


def _print_script(
    context: typer.Context,
    *,
    system: str,
    benchmark: str,
    time: str,
    **given: Any,  # noqa: ANN401
) -> None:
    kind, usual = _system(system)
    options = BatchOptions(
        seconds=int(parse_seconds(time)),
        queue=given["queue"],
        account=given["account"],
        extra=tuple(given["extra"] or ()),
    )
    what = PAIRS if benchmark == CHECK else benchmark
    request = BatchRequest(
        benchmark=what,
        params=_params(what, context.args),
        starter=given["starter"] or usual,
        timeout=batch_script.ranks_seconds(options),
        **{key: given[key] for key in ("hosts", "ranks_per_host", "name", "describe")},
    )
    _check(kind, request)
    if kind in kubernetes_manifests.KINDS:
        sys.stdout.write(_manifest(kind, request, options, given))
        return
    paths = {
        "python": given["python"] or sys.executable,
        "runs": str(store.root(given["runs"])),
        "command": _command(),
    }
    sys.stdout.write(batch_script.shell_script(kind, request, options, paths))
    if kind in EMULATED:
        sys.stderr.write(
            f"{EMULATED[kind]}: the script was proven by emulation only; read its header.\n"
        )


def _command() -> str:
    return shlex.join(["cluster", *sys.argv[1:]])


def _manifest(
    kind: str, request: BatchRequest, options: BatchOptions, given: Mapping[str, Any]
) -> str:
    if not given["image"]:
        raise SpecError(
            f"{kind} needs the image of its pods.",
            remedy="Name one with Python, cluster and sshd: --image registry/cluster:1",
        )
    paths = {
        "python": given["python"] or "python3",
        "runs": kubernetes_manifests.RUNS,
        "command": _command(),
    }
    pods = kubernetes_manifests.PodOptions(
        name=request.name,
        image=given["image"],
        claim=given["claim"],
        cpus=request.ranks_per_host,
        gpus=given["gpus"],
        seconds=options.seconds,
        script=batch_script.body(request, paths),
    )
    return kubernetes_manifests.manifest(kind, request, pods)


def _system(name: str) -> tuple[str, str]:
    if name not in SYSTEMS:
        raise SpecError(
            f"There is no script for {name!r}.", remedy=f"There are: {', '.join(SYSTEMS)}"
        )
    return SYSTEMS[name]


def _check(kind: str, request: BatchRequest) -> None:
    """Refuse what the job would refuse, before it waits in a queue."""
    checked(request)
    name = request.starter.partition(":")[0]
    if (name == "srun" and kind != "slurm") or (name == "aprun" and kind != "cray"):
        raise SpecError(f"{name} does not start ranks on {kind}.", remedy="Leave --starter out.")
    if kind == "cray" and request.benchmark == PAIRS:
        raise SpecError(
            "check starts a process on each host by itself, which aprun does not do.",
            remedy="Run a benchmark of ranks: cluster script aprun collectives",
        )


def _params(benchmark: str, words: Sequence[str]) -> dict[str, str]:
    """Read the benchmark's own flags, as `cluster bench` takes them."""
    kind: Benchmark[Any] = plugins.load(Benchmark, benchmark)

    def take(**values: object) -> dict[str, object]:
        return values

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(flags.with_flags(take, list(param_flags(kind.Params))))  # type: ignore[arg-type]
    found = get_command(app)(
        args=list(words), prog_name=f"cluster bench {benchmark}", standalone_mode=False
    )
    if not isinstance(found, dict):  # --help was asked for
        raise typer.Exit
    given = {re.sub("-", "_", w[2:].partition("=")[0]) for w in words if w.startswith("--")}
    return {key: _text(value) for key, value in found.items() if key in given}


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _option(kind: Any, flag: str, what: str, metavar: str | None = None) -> Any:  # noqa: ANN401
    return Annotated[kind, typer.Option(flag, metavar=metavar, help=what)]


SCRIPT: flags.Declared = {
    "context": (typer.Context, Parameter.empty),
    "system": (
        Annotated[
            str,
            typer.Argument(
                metavar="STARTER|SYSTEM",
                help="srun, mpirun, torchrun, aprun, slurm, pbs, lsf, mpijob or jobset.",
                autocompletion=lambda: list(SYSTEMS),
            ),
        ],
        Parameter.empty,
    ),
    "benchmark": (
        Annotated[
            str,
            typer.Argument(
                metavar="[BENCHMARK|check]", help="What to run; its own flags are those of bench."
            ),
        ],
        "p2p",
    ),
    "hosts": (_option(int, "--hosts", "How many hosts.", "N"), 2),
    "ranks_per_host": (_option(int, "--ranks-per-host", "MPI processes on each.", "N"), 1),
    "starter": (_option(str, "--starter", "Another one than usual there.", "NAME"), ""),
    "time": (_option(str, "--time", "Of the job: 30min, 2h.", "SPAN"), "30min"),
    "queue": (_option(str, "--queue", "Partition or queue."), ""),
    "account": (_option(str, "--account", "Account or project that pays."), ""),
    "extra": (
        _option(list[str] | None, "--extra", "More for the header; repeatable.", "LINE"),
        None,
    ),
    "python": (_option(str, "--python", "Python with cluster, on every host.", "PATH"), ""),
    "name": (_option(str, "--name", "Name under which the run is kept."), "batch"),
    "describe": (flags.Describe, ""),
    "image": (_option(str, "--image", "Kubernetes: of the pods."), ""),
    "claim": (_option(str, "--claim", "Kubernetes: volume claim of the runs."), "cluster-runs"),
    "gpus": (_option(int, "--gpus", "Kubernetes: of each pod.", "N"), 0),
    "runs": (flags.Runs, None),
}
flags.with_flags(_print_script, flags.parameters(SCRIPT))
command = typer.Typer(add_completion=False, rich_markup_mode=None)
command.command(
    help=__doc__, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)(_print_script)
