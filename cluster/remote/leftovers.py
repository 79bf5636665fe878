"""Processes that commands and jobs left on a host that stays: found by a variable, and ended.

What a command starts inherits the variable, also a daemon that left its session and its parents;
its children count as well. A process that cleared its environment after its parents ended is not
found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import ShellError

if TYPE_CHECKING:
    from cluster.remote.shells import Shell

MARK = "CLUSTER_HOST_FOLDER"  # the variable: the folder on the host of the cluster that started it
TIMEOUT = 60.0  # seconds
CANNOT_LOOK = 9  # exit status
# $1 is the variable with its value. A zombie has no command line.
END = f"""
printf 'a\\0b\\0' | grep -qzxF b || exit {CANNOT_LOOK}
marked() {{ grep -lszxF -- "$1" /proc/[0-9]*/environ | cut -d / -f 3; }}
below() {{ for pid; do echo "$pid"; below $(cat "/proc/$pid/task/"*/children 2> /dev/null); done; }}
line() {{ tr '\\0' ' ' < "/proc/$1/cmdline"; }}
alive() {{ for pid; do [ -z "$(line "$pid")" ] || echo "$pid"; done 2> /dev/null; }}
ours() {{ alive $(below "$@" $(marked "$mark") | sort -u); }}
mark=$1
left=$(ours)
for pid in $left; do echo "$pid $(line "$pid")"; done 2> /dev/null
for signal in TERM KILL; do
  tries=0
  while [ -n "$left" ] && [ $tries -lt 20 ]; do
    [ $tries -gt 0 ] && [ $signal = TERM ] || kill -s $signal $left 2> /dev/null
    sleep 0.1
    left=$(ours $left)
    tries=$((tries + 1))
  done
done
[ -z "$left" ] || {{ echo $left >&2; exit 1; }}
"""


def end_leftovers(shell: Shell, folder: str) -> tuple[str, ...]:
    """End the processes that a cluster's commands and jobs left on a host.

    Raises:
        ShellError: some could not be ended, or the host has no means to look for them.

    """
    done = shell.run(["sh", "-c", END, "sh", f"{MARK}={folder}"], timeout=TIMEOUT)
    found = tuple(line.strip() for line in done.stdout.splitlines())
    if done.status == 0:
        return found
    if done.status == CANNOT_LOOK:
        raise ShellError(
            "Processes that were left on the host cannot be looked for.",
            means="Its grep knows no -z.",
            remedy=f"Look for those with {MARK}={folder} in /proc/*/environ",
        )
    raise ShellError(
        f"Processes that were started there could not be ended: {done.stderr.strip()}",
        means="\n".join(found),
        remedy="End them, and try again: kill -KILL PID",
    )
