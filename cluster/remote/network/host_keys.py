"""Rotation of the host keys that a cloud has seen.

A machine gets its first host key in its user data, so that we know it before the first connection;
but everyone who may read the user data can read that key. So each machine generates a new key and
sends us its public half over the verified connection. It switches to the new key only once we have
pinned it: at no time can we be locked out, or connect to an impostor.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cluster.core.errors import ClusterError, ShellError
from cluster.core.model.hosts import Machine
from cluster.core.state import ssh_keys
from cluster.core.state.files import load_script
from cluster.remote.parallel import connect_all, on_each
from cluster.remote.sessions.jobs import COMMAND_TIMEOUT
from cluster.remote.shells import Shell

WITHIN = 30.0  # seconds for every sshd to switch to its new key
PAUSE = 0.2  # seconds between two attempts

AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec sh -c "$1"; else exec sudo -n sh -c "$1"; fi'

FIND = load_script(__file__, "find_host_key.sh")
MAKE = FIND + load_script(__file__, "make_host_key.sh")
# systemd may start one sshd per connection (`ssh.socket` of Debian 12). It is then the topmost one,
# and a signal would end our own connection; the next sshd reads the new key anyway.
LISTENS = r"""
listens() {
  case $1 in
    *"[listener]"*) return 0 ;;
    *" -i"* | sshd-session* | "sshd: "*"[priv]"* | "sshd: "*@*) return 1 ;;
  esac
}
"""
USE = FIND + LISTENS + load_script(__file__, "use_host_key.sh")


def rotate(
    shells: Mapping[str, Shell],
    machines: Mapping[str, Machine],
    known_hosts: Path,
    between: Callable[[], None] = lambda: None,
) -> None:
    """Make a new host key for each machine, whose private half never leaves it, and pin it."""
    publics = on_each(shells, lambda _, shell: _as_root(shell, MAKE).strip())
    new = [(_alias(machines[name]), public) for name, public in publics.items()]
    before = [tuple(line.split(" ", 1)) for line in known_hosts.read_text().splitlines()]
    ssh_keys.write_known_hosts(known_hosts, [*((alias, public) for alias, public in before), *new])
    on_each(shells, lambda _, shell: _as_root(shell, USE))
    ssh_keys.add_known_hosts(known_hosts, new)
    # connect again with only the new keys pinned; an sshd needs a moment to switch
    deadline = time.monotonic() + WITHIN
    for shell in shells.values():
        shell.close()
    while True:
        try:
            connect_all(shells, WITHIN, between=between)
        except ClusterError:
            between()
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
        else:
            return


def _alias(machine: Machine) -> str:
    access = machine.access
    return (access and (access.alias or access.host)) or machine.address


def _as_root(shell: Shell, script: str) -> str:
    result = shell.run(["sh", "-c", AS_ROOT, "sh", script], timeout=COMMAND_TIMEOUT)
    if result.status != 0:
        raise ShellError(
            "The host key could not be changed.",
            means=f"Others may know it. The host says: {result.stderr.strip()}",
            remedy="It needs sudo without a password there, and OpenSSH's sshd.",
        )
    return result.stdout
