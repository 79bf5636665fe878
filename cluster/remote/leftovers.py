"""Processes that commands and jobs left on a host that stays: found by a variable, and ended.

What a command starts inherits the variable, also a daemon that left its session and its parents;
its children count as well. Not found is a process that cleared its environment after its parents
ended, whose environment cannot be read (ssh-agent, a main thread that ended), or of another user.

A terminal session among them (tmux, screen, ...) may hold what a person started there, and leave
daemons behind; one that runs `cluster down` would end it. Then all are named, and none is ended.
"""

from __future__ import annotations

from cluster.core.errors import ShellError
from cluster.core.model.value import Value
from cluster.remote.shells import Shell

MARK = "CLUSTER_HOST_FOLDER"  # the variable: the folder on the host of the cluster that started it
TIMEOUT = 60.0  # seconds
CANNOT_LOOK = 9  # exit status
SPARED = "spared"  # the last line, if none was ended
# what it does not name: what has ended, itself, and the agent that ends what a supervisor left
OUR_OWN = "'' | *'grep -lszxF'* | *'cluster.agent task-close'*"
# $1 is the variable with its value. A zombie has no command line. Of the words of /proc/PID/stat
# behind the name, the fifth is the controlling terminal (proc(5)). This search names itself not. It
# counts only if it finds a probe that was started for it: where a fork fails, all else is missed.
END = f"""
printf 'a\\0b\\0' | grep -qzxF b || exit {CANNOT_LOOK}
marked() {{
  for pid in $(grep -lszxF -- "$1" /proc/[0-9]*/environ | cut -d / -f 3); do
    [ ! -O "/proc/$pid" ] || echo "$pid"
  done
}}
below() {{ for pid; do echo "$pid"; below $(cat "/proc/$pid/task/"*/children 2> /dev/null); done; }}
line() {{ tr '\\0\\n' '  ' < "/proc/$1/cmdline"; }}
alive() {{ for pid; do [ -z "$(line "$pid")" ] || echo "$pid"; done 2> /dev/null; }}
ours() {{ alive $(below "$@" $(marked "$mark") | sort -u); }}
gone() {{ for pid; do ! kill -s 0 "$pid" 2> /dev/null || return 1; done; }}
named() {{
  for pid; do
    words=$(line "$pid")
    case $words in {OUR_OWN}) ;; *) printf '%s\\n' "$pid $words" ;; esac
  done
}}
search() {{
  probed='' others=''
  for pid in $(ours "$@"); do
    if [ "$pid" = "$probe" ]; then probed=1; else others="$others $pid"; fi
  done
  [ -n "$probed" ] && left=$others
}}
session() {{
  for pid; do
    [ "$pid" != $$ ] || return 0
    read -r stat < "/proc/$pid/stat" || continue
    case $stat in *"(tmux"* | *"(screen"*) return 0 ;; esac
    set -- ${{stat##*) }}
    [ "$5" = 0 ] || return 0
  done
  return 1
}}
mark=$1 left='' tries=0
(export "$mark"; exec sleep {TIMEOUT:g}) < /dev/null > /dev/null 2>&1 &
probe=$!
trap 'kill $probe 2> /dev/null' EXIT
until search; do
  [ $tries -lt 20 ] || exit {CANNOT_LOOK}
  sleep 0.1
  tries=$((tries + 1))
done
named $left 2> /dev/null
if session $left 2> /dev/null; then echo {SPARED}; exit; fi
for signal in TERM KILL KILL KILL; do
  [ -n "$left" ] || break
  kill -s $signal $left 2> /dev/null
  tries=0
  until gone $left || [ $tries -ge 20 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  search $left || :
done
[ -z "$left" ] || {{ echo $left >&2; exit 1; }}
"""


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
        spared = processes[-1:] == (SPARED,)
        return Leftovers(running=processes[:-1]) if spared else Leftovers(ended=processes)
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
