"""Rotation of the host keys that a cloud has seen.

A machine gets its first host key in its user data, so that we know it before the first connection;
but everyone who may read the user data can read that key. So each machine generates a new key and
sends us its public half over the verified connection. It switches to the new key only once we have
pinned it: at no time can we be locked out, or connect to an impostor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cluster.core import ssh_keys
from cluster.core.errors import ClusterError, ShellError
from cluster.core.model.hosts import Machine
from cluster.remote.jobs import COMMAND_TIMEOUT
from cluster.remote.parallel import connect_all, on_each
from cluster.remote.shells import Shell

WITHIN = 30.0  # seconds for every sshd to switch to its new key
PAUSE = 0.2  # seconds between two attempts

AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec sh -c "$1"; else exec sudo -n sh -c "$1"; fi'

# The sshd that listens is our topmost ancestor of that name; its configuration names its key.
FIND = r"""
set -eu
umask 077
pid=$$ sshd=
while [ "$pid" -gt 0 ]; do
  case $(cat "/proc/$pid/comm") in sshd*) sshd=$pid ;; esac
  pid=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 2)
done
[ -n "$sshd" ] || { echo "This did not come through an sshd." >&2; exit 1; }
settings=$(tr '\0' ' ' < "/proc/$sshd/cmdline" | sed -n 's/.* -f *\([^ ]*\).*/-f \1/p')
for key in $(/usr/sbin/sshd -T $settings | sed -n 's/^hostkey //p'); do
  [ -s "$key" ] || continue
  case $(ssh-keygen -y -f "$key") in ssh-ed25519*) break ;; esac
done
"""
MAKE = (
    FIND
    + r"""
if [ ! -e "$key.ours" ]; then
  [ -s "$key.new" ] || ssh-keygen -q -t ed25519 -N '' -C '' -f "$key.new"
  key=$key.new
fi
ssh-keygen -y -f "$key" | cut -d ' ' -f 1,2
"""
)
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
USE = (
    FIND
    + LISTENS
    + r"""
if [ ! -e "$key.ours" ]; then
  mv "$key.new" "$key"
  ssh-keygen -y -f "$key" > "$key.pub"
  rm -f "$key.new.pub"
  touch "$key.ours"
fi
if listens "$(tr '\0' ' ' < "/proc/$sshd/cmdline")"; then kill -HUP "$sshd"; fi
"""
)


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
    _reconnect(shells, between)


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


def _reconnect(shells: Mapping[str, Shell], between: Callable[[], None]) -> None:
    """Connect again with only the new keys pinned; an sshd needs a moment to switch."""
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
