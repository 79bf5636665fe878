"""Whether the host of a long command still answers, asked from where its commands are started.

For shells without keepalives of their own. A kernel answers a connection to a closed port at once,
however busy its processes are, and nothing runs on that host for it (`cluster/agent/probes.py` asks
the other hosts of a job in the same way).
"""

import platform
import shlex
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from cluster.agent import probes
from cluster.core.model.hosts import Machine, ssh_command

# The host where srun is may have no Python, and may be old: bash and coreutils are enough.
# $1 a host, $2 a port; seconds: $3 between two questions, $4 for an answer, $5 of silence.
# It ends with its standard input, as when this process or the connection has ended.
ASK = """\
read -r place _ < <(getent ahosts "$1") || exit
port=$2
answers() {
  said=$(LC_ALL=C timeout "$1" bash -c ': <> "/dev/tcp/$0/$1"' "$place" "$port" 2>&1) ||
    [[ $said == *refused* ]]
}
answers "$4" || exit
while read -r -t "$3"; [ $? -gt 128 ]; do
  SECONDS=0
  while left=$(($5 - SECONDS)); [ "$left" -gt 0 ]; do # timeout takes 0 for no limit
    answers $((left < $4 ? left : $4)) && continue 2
    sleep 0.2
  done
  echo silent
  exit
done
"""
SILENT = "silent"


class KernelWatch:
    """Asks a host's kernel, while a block runs, whether it is there.

    A host that does not answer the first question is not watched: a firewall may drop it. Nor is
    this machine itself. The question comes from the host in `machine.access`; `lost` is called in
    another thread after `probes.SILENT` seconds, and `why` then says what happened.
    """

    def __init__(self, machine: Machine, lost: Callable[[], object]) -> None:
        self._machine = machine
        self._lost = lost
        self._process: subprocess.Popen[str] | None = None
        self.why = ""

    def __enter__(self) -> Self:
        here, _, _ = platform.node().partition(".")
        if self._machine.access is None and self._machine.id.partition(".")[0] == here:
            return self
        with suppress(OSError):  # there is no bash, or no ssh: the host is not watched
            self._process = subprocess.Popen(
                _words(self._machine),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        if self._process.stdin:
            self._process.stdin.close()  # the script ends; ssh may wait for a dead host
        self._process.terminate()
        self._process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if line.strip() == SILENT:
                self.why = f"{self._machine.address} has not answered for {probes.SILENT:g} s"
                self._lost()
        if process.stdout:
            process.stdout.close()


def _words(machine: Machine) -> list[str]:
    """Return the command that asks; its seconds are whole numbers, as bash counts them."""
    seconds = (probes.BETWEEN, probes.ANSWERS_WITHIN, probes.SILENT)
    words = ["bash", "-c", ASK, "bash", machine.address, str(probes.PORT)]
    words += [f"{value:.0f}" for value in seconds]
    return words if machine.access is None else ssh_command(machine.access, shlex.join(words))
