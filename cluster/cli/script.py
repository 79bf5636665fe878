"""`cluster script`: a batch script or manifest, for sites where nothing else is allowed."""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.main import get_command

from cluster.cli import flags
from cluster.cli.param_flags import param_flags
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.batch import BatchRequest
from cluster.core.units import parse_seconds
from cluster.measure.benchmark import Benchmark
from cluster.orchestration import batch_script, kubernetes_manifests
from cluster.orchestration.batch_job import checked
from cluster.orchestration.batch_script import BatchOptions
from cluster.runs import store
from cluster.runs.run import PAIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def script(  # noqa: PLR0913, PLR0917 - each is a flag
    context: typer.Context,
    system: Annotated[
        str,
        typer.Argument(
            metavar="STARTER|SYSTEM",
            help="srun, mpirun, torchrun, aprun, slurm, pbs, lsf, mpijob or jobset.",
            autocompletion=lambda: list(SYSTEMS),
        ),
    ],
    benchmark: Annotated[
        str, typer.Argument(metavar="[BENCHMARK|check]", help="What to run, with its own flags.")
    ] = "p2p",
    hosts: Annotated[int, typer.Option("--hosts", metavar="N", help="How many hosts.")] = 2,
    ranks_per_host: Annotated[
        int, typer.Option("--ranks-per-host", metavar="N", help="MPI processes on each.")
    ] = 1,
    starter: Annotated[
        str, typer.Option("--starter", metavar="NAME", help="Another one than usual there.")
    ] = "",
    time: Annotated[str, typer.Option("--time", metavar="SPAN", help="Of the job: 30min, 2h.")] = (
        "30min"
    ),
    queue: Annotated[str, typer.Option("--queue", help="Partition or queue.")] = "",
    account: Annotated[str, typer.Option("--account", help="Account or project that pays.")] = "",
    extra: Annotated[
        list[str] | None,
        typer.Option("--extra", metavar="LINE", help="More for the header: '-C gpu'; repeatable."),
    ] = None,
    python: Annotated[
        str, typer.Option("--python", metavar="PATH", help="Python with cluster, on every host.")
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="Name under which the run is kept.")
    ] = "batch",
    describe: flags.Describe = "",
    image: Annotated[str, typer.Option("--image", help="Kubernetes: of the pods.")] = "",
    claim: Annotated[
        str, typer.Option("--claim", help="Kubernetes: volume claim for the runs.")
    ] = "cluster-runs",
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="Kubernetes: per pod.")] = 0,
    runs: flags.Runs = None,
) -> None:
    """Print a script for a batch system, or a manifest for Kubernetes.

    Example: cluster script srun p2p --hosts 8 --sizes 8:1MiB > job.sh; sbatch job.sh
    """
    kind, usual = _system(system)
    options = BatchOptions(
        seconds=int(parse_seconds(time)), queue=queue, account=account, extra=tuple(extra or ())
    )
    what = PAIRS if benchmark == CHECK else benchmark
    request = BatchRequest(
        benchmark=what,
        params=_params(what, context.args),
        starter=starter or usual,
        hosts=hosts,
        ranks_per_host=ranks_per_host,
        timeout=batch_script.ranks_seconds(options),
        name=name,
        describe=describe,
    )
    _check(kind, request)
    in_pods = kind in kubernetes_manifests.KINDS
    paths = {
        "python": python or ("python3" if in_pods else sys.executable),
        "runs": kubernetes_manifests.RUNS if in_pods else str(store.root(runs)),
        "command": shlex.join(["cluster", *sys.argv[1:]]),
    }
    if not in_pods:
        sys.stdout.write(batch_script.shell_script(kind, request, options, paths))
        if kind in EMULATED:
            sys.stderr.write(
                f"{EMULATED[kind]}: the script was proven by emulation only; read its header.\n"
            )
        return
    if not image:
        raise SpecError(
            f"{kind} needs the image of its pods.",
            remedy="Name one with Python, cluster and sshd: --image registry/cluster:1",
        )
    pods = kubernetes_manifests.PodOptions(
        name=name,
        image=image,
        claim=claim,
        cpus=ranks_per_host,
        gpus=gpus,
        seconds=options.seconds,
        script=batch_script.body(request, paths),
    )
    sys.stdout.write(kubernetes_manifests.manifest(kind, request, pods))


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
