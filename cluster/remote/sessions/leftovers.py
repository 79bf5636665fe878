"""Processes that commands and jobs left on a host that stays: found by a variable, and ended.

What a command starts inherits the variable, also a daemon that left its session and its parents;
its children count as well. Not found is a process that cleared its environment after its parents
ended, whose environment cannot be read (ssh-agent, a main thread that ended), or of another user.

A terminal session among them (tmux, screen, ...) may hold what a person started there, and leave
daemons behind; one that runs `cluster down` would end it. Then all are named, and none is ended.
"""

from cluster.core.errors import ShellError
from cluster.core.model.value import Value
from cluster.core.state.files import load_script
from cluster.remote.shells import Shell

MARK = "CLUSTER_HOST_FOLDER"  # the variable: the folder on the host of the cluster that started it
TIMEOUT = 60.0  # seconds
CANNOT_LOOK = 9  # exit status
SPARED = "spared"  # the last line, if none was ended
END = load_script(
    __file__, "end_leftovers.sh", CANNOT_LOOK=CANNOT_LOOK, SPARED=SPARED, WITHIN=int(TIMEOUT)
)


class Leftovers(Value, frozen=True, kw_only=True):
    """The processes that were found on a host: the id and command line of each."""

    ended: tuple[str, ...] = ()  # those that were ended
    running: tuple[str, ...] = ()  # those that were not, as a person may use them


def end_leftovers(shell: Shell, value: str, mark: str = MARK) -> Leftovers:
    """End the processes of a host that have a variable (ShellError: it cannot be done).

    By default those that the commands and jobs of a cluster with this folder left.
    """
    result = shell.run(["/bin/sh", "-c", END, "sh", f"{mark}={value}"], timeout=TIMEOUT)
    processes = tuple(line.strip() for line in result.stdout.splitlines())
    if result.status == 0:
        is_spared = processes[-1:] == (SPARED,)
        return Leftovers(running=processes[:-1]) if is_spared else Leftovers(ended=processes)
    if result.status == CANNOT_LOOK:
        raise ShellError(
            "Processes that were left on the host cannot be looked for.",
            means="Its grep knows no -z, or its search misses what it started itself.",
            remedy=f"Look for those with {mark}={value} in /proc/*/environ",
        )
    raise ShellError(
        f"Processes that were started there could not be ended: {result.stderr.strip()}",
        means="\n".join(processes),
        remedy="End them, and try again: kill -KILL PID",
    )
