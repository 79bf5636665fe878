"""Print a script for a batch system.

Example: cluster more script srun p2p --hosts 8 --sizes 8:1MiB > job.sh; sbatch job.sh
"""

import shlex
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import click
import msgspec
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from cluster.cli import flags
from cluster.cli.flags import Command, argument, group, make_command, option, param_flags
from cluster.core import decoders, plugins
from cluster.core.errors import SpecError
from cluster.core.model.jobs import BatchRequest
from cluster.core.model.value import Value
from cluster.core.text.units import parse_seconds
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.batch import script as batch_script
from cluster.orchestration.batch.job import check_request
from cluster.orchestration.batch.kubernetes_gate import KubernetesGate, gated_job
from cluster.orchestration.batch.script import BatchOptions
from cluster.orchestration.batch.slurm_gate import SlurmGate
from cluster.runs import store
from cluster.runs.run import PAIRS

# What is printed, and what starts the ranks there.
SYSTEMS = {
    **dict.fromkeys(("slurm", "sbatch", "srun"), ("slurm", "srun")),
    "mpirun": ("slurm", "mpirun"),
    "torchrun": ("slurm", "torchrun"),
    **dict.fromkeys(("pbs", "qsub"), ("pbs", "mpirun")),
    **dict.fromkeys(("lsf", "bsub"), ("lsf", "mpirun")),
    "aprun": ("cray", "aprun"),
}
EMULATED = {"pbs": "PBS", "lsf": "LSF", "cray": "aprun and Cobalt"}
CHECK = "check"
# What is around jobs, and does not measure by itself.
GATES: dict[str, type[Any]] = {"gate-slurm": SlurmGate, "gate-kubernetes": KubernetesGate}
GATE = "gate"  # in what a context keeps: the one that is named


class Written(Value, frozen=True, kw_only=True):
    """What is written into a script, as it was typed."""

    hosts: Annotated[int, option("--hosts N", "How many hosts.")] = 2
    ranks_per_host: Annotated[int, option("--ranks-per-host N", "MPI processes on each.")] = 1
    starter: Annotated[str, option("--starter NAME", "Another one than usual there.")] = ""
    time: Annotated[str, option("--time SPAN", "Of the job: 30min, 2h.")] = "30min"
    queue: Annotated[str, option("--queue", "Partition or queue.")] = ""
    account: Annotated[str, option("--account", "Account or project that pays.")] = ""
    extra: Annotated[
        list[str] | None, option("--extra LINE", "More for the header; repeatable.")
    ] = None
    python: Annotated[str, option("--python PATH", "Python with cluster, on every host.")] = ""
    name: Annotated[str, option("--name", "Name under which the run is kept.")] = "batch"
    describe: flags.Describe = ""
    runs: flags.Runs = None


def _print_script(
    system: Annotated[
        str,
        argument(
            "STARTER|SYSTEM",
            "srun, mpirun, torchrun, aprun, slurm, pbs, lsf, "
            "gate-slurm or gate-kubernetes (with --help: its flags).",
            autocompletion=lambda: [*SYSTEMS, *GATES],
        ),
    ],
    benchmark: Annotated[
        str, argument("BENCHMARK|check", "What to run; its own flags are those of bench.")
    ] = "p2p",
    *,
    settings: Annotated[Written, group(Written)],
) -> None:
    paths = {
        "python": settings.python or sys.executable,
        "runs": str(store.root(settings.runs)),
        "command": shlex.join(["cluster", *sys.argv[1:]]),
    }
    if system in GATES:
        sys.stdout.write(_gate(system, benchmark, settings, paths))
        return
    if system not in SYSTEMS:
        systems = ", ".join((*SYSTEMS, *GATES))
        raise SpecError(f"There is no script for {system!r}.", remedy=f"There are: {systems}")
    kind, usual = SYSTEMS[system]
    options = BatchOptions(
        seconds=int(parse_seconds(settings.time)),
        queue=settings.queue,
        account=settings.account,
        extra=tuple(settings.extra or ()),
    )
    name = PAIRS if benchmark == CHECK else benchmark
    plugin: Benchmark[Any] = plugins.load(Benchmark, name)
    params = _read_flags(f"cluster bench {name}", plugin.Params)
    request = BatchRequest(
        benchmark=name,
        params={
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in params.items()
        },
        starter=settings.starter or usual,
        timeout=batch_script.ranks_seconds(options),
        hosts=settings.hosts,
        ranks_per_host=settings.ranks_per_host,
        name=settings.name,
        describe=settings.describe,
    )
    check_request(request)
    starter = request.starter.partition(":")[0]
    if (starter == "srun" and kind != "slurm") or (starter == "aprun" and kind != "cray"):
        raise SpecError(f"{starter} does not start ranks on {kind}.", remedy="Leave --starter out.")
    if kind == "cray" and name == PAIRS:
        raise SpecError(
            "check starts a process on each host by itself, which aprun does not do.",
            remedy="Run a benchmark of ranks: cluster more script aprun collectives",
        )
    sys.stdout.write(batch_script.shell_script(kind, request, options, paths))
    if kind in EMULATED:
        sys.stderr.write(
            f"{EMULATED[kind]}: the script was proven by emulation only; read its header.\n"
        )


def _gate(system: str, first: str, settings: Written, paths: Mapping[str, str]) -> str:
    """Return the script of a gate, or the Job on standard input with one."""
    if settings != Written(python=settings.python, runs=settings.runs):
        raise SpecError("A gate takes --python and --runs beside its own flags, and no hosts.")
    context = click.get_current_context()
    source = context.get_parameter_source("benchmark")
    # the first flag of a gate, which is not one of this command, stands there
    words = (first,) if source is ParameterSource.COMMANDLINE else ()
    params = _read_flags(f"{context.command_path} {system}", GATES[system], words)
    gate = decoders.convert(params, GATES[system])
    gate.figures()
    if isinstance(gate, KubernetesGate):
        return gated_job(sys.stdin.read(), gate, settings.python or "python3")
    return batch_script.gate_script(gate, paths)


class _ScriptCommand(Command):
    """The command, whose help and completion are those of a gate where one is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GATE] = next((word for word in args if word in GATES), "")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        Command.format_options(self._gate_command(ctx), ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return Command.shell_complete(self._gate_command(ctx), ctx, incomplete)

    def _gate_command(self, ctx: click.Context) -> Command:
        """Return a command with the flags that may be typed."""
        if not (gate := ctx.meta[GATE]):
            return self
        flags = [flag for flag in self.params if flag.name in ("system", "python", "runs")]
        return Command(None, params=[*flags, *param_flags(GATES[gate])])


def _read_flags(command: str, kind: type[Value], first: tuple[str, ...] = ()) -> dict[str, object]:
    """Read the flags of these parameters from `first` and the words that this command leaves."""
    reader = Command(None, params=list(param_flags(kind)))
    context = reader.make_context(command, [*first, *click.get_current_context().args])
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


command = make_command(
    "script",
    _print_script,
    __doc__,
    kind=_ScriptCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
