"""The choice of what starts the ranks: what fits the hosts, or what the user says."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.agent.protocol import TIMED_OUT
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.measure import pmi
from cluster.measure.starters import Starter
from cluster.remote.hosts import distinct

if TYPE_CHECKING:
    from cluster.core.model.hosts import Completed, Facts
    from cluster.measure.benchmark import Benchmark
    from cluster.orchestration.hosts.setup import ReadyHosts
    from cluster.remote.shells import Shell

ANY_MPI = "mpirun"  # the starter of benchmarks that leave the choice to the user
SRUN = "srun"  # the starter, and the shell of hosts that have no SSH
LIMIT = 20.0  # seconds for a program to answer


def check_starter(requested: str, benchmark: Benchmark[Any]) -> None:
    """Refuse a starter that cannot start the ranks of a benchmark (SpecError)."""
    name, colon, variant = requested.partition(":")
    if not name and not colon:
        return
    starter = plugins.find(Starter, name)
    if colon and (name != SRUN or not variant.replace("_", "").isalnum()):
        raise SpecError(
            f"--starter {requested} is not known: only srun takes a PMI.",
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
    hosts: ReadyHosts, requested: str, benchmark: Benchmark[Any], shells: Mapping[str, Shell]
) -> ReadyHosts:
    """Choose the starter, and ask the first host whether it can start ranks (SpecError)."""
    name, _, variant = requested.partition(":")
    name = name or _fitting(hosts, benchmark)
    starter = plugins.find(Starter, name)
    first = hosts.machines[0]
    if starter.needs_allocation and not first.job:
        raise SpecError(
            f"{name} starts ranks on hosts of an allocation, and {first.name} is in none.",
            remedy=f"Launch hosts that Slurm lends: cluster up {hosts.spec.name} --provider slurm\n"
            "Or start the ranks by mpirun: --starter mpirun",
        )
    if starter.program:
        folder = posixpath.join(hosts.facts[0].home, first.bin)
        _check_program(starter.program, first.name, folder, shells[first.name])
    chosen = msgspec.structs.replace(hosts, starter=name)
    if name != SRUN:
        return chosen
    pmi = find_pmi(variant, benchmark, hosts.facts[0], shells[first.name])
    return msgspec.structs.replace(chosen, pmi=pmi)


def find_pmi(variant: str, benchmark: Benchmark[Any], first: Facts, shell: Shell) -> str:
    """Return srun's `--mpi`: of the user or the MPI (SpecError: Slurm does not offer it)."""
    offered = _offered(shell, first.host)
    if variant:
        return _checked(variant, offered)
    return pmi.choose(first.mpi or "", offered) if benchmark.needs_mpi else pmi.NONE


def _fitting(hosts: ReadyHosts, benchmark: Benchmark[Any]) -> str:
    without_ssh = hosts.machines[0].shell == SRUN and len(distinct(hosts.machines)) > 1
    return SRUN if without_ssh and benchmark.starter == ANY_MPI else benchmark.starter


def _check_program(program: str, host: str, folder: str, shell: Shell) -> None:
    result = _ask(shell, ["sh", "-c", 'PATH="$1:$PATH" command -v "$2"', "sh", folder, program])
    if result.status:
        raise SpecError(
            f"There is no {program} on {host}.",
            means="Nothing was started.",
            remedy=f"Put its folder on the PATH there (module load, ~/.profile), or choose another "
            f"starter: --starter {ANY_MPI}",
        )


def _offered(shell: Shell, host: str) -> tuple[str, ...]:
    """Ask which PMIs this Slurm offers."""
    result = _ask(shell, ["timeout", f"{LIMIT:g}", "srun", "--mpi=list"])
    offered = pmi.read_list(f"{result.stdout}\n{result.stderr}")
    if result.status or not offered:
        answer = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()[-1]
        is_late = result.status == TIMED_OUT
        problem = f"did not answer within {LIMIT:g} s" if is_late else f"says: {answer}"
        raise SpecError(
            f"srun on {host} {problem}.",
            means="It cannot be asked which PMI it offers, and nothing was started.",
            remedy="Look there: srun --mpi=list; sinfo\nOr choose: --starter mpirun",
        )
    return offered


def _checked(variant: str, offered: tuple[str, ...]) -> str:
    if variant not in offered:
        raise SpecError(
            f"This Slurm has no PMI {variant!r}.",
            means="Nothing was started.",
            remedy=f"There are: {', '.join(offered)}",
        )
    return variant


def _ask(shell: Shell, words: list[str]) -> Completed:
    return shell.run(words, timeout=2 * LIMIT)
