"""SSH between the hosts of a cluster, with an sshd, a key and known hosts of the cluster's own.

No user's `~/.ssh` is changed: on every host, an sshd runs as the user who logged in, from our one
folder, listens at the address in the cluster's network, and accepts only the cluster's key.
"""

import shlex
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from cluster.core import plugins
from cluster.core.errors import ShellError
from cluster.core.model.hosts import Interface
from cluster.core.model.value import Value
from cluster.remote.jobs import COMMAND_TIMEOUT
from cluster.remote.parallel import on_each
from cluster.remote.shells import Shell

FIRST_PORT, PORTS = 20_000, 10_000
SILENCE = "5"  # seconds without an answer

# $1 our folder on the host, $2 the first port to try, $3 the configuration of sshd
AT_ONCE = 32  # connections that a host begins: more may time out where it has few cores
OPEN = r"""
set -eu
umask 077
mkdir -p -- "$1/ssh"
cd -- "$1/ssh"
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || { echo "There is no $sshd." >&2; exit 1; }
[ -s host_key ] || ssh-keygen -q -t ed25519 -N '' -C '' -f host_key
printf '%s\n' "$3" > settings.new
pid=$(cat pid 2> /dev/null || :)
ours() { tr '\0' ' ' < "/proc/$1/cmdline" | grep -qF "$PWD/settings"; }
if [ -n "$pid" ] && ours "$pid" 2> /dev/null; then
  if cmp -s settings settings.new; then echo "$(cat port) $(cat host_key.pub)"; exit; fi
  kill "$pid"
fi
mv settings.new settings
if [ "$(id -u)" = 0 ]; then
  mkdir -p /run/sshd
  # Without PAM, sshd turns away an account that has no password but a key.
  ! grep -q '^root:!' /etc/shadow || echo "UsePAM yes" >> settings
fi
port=$2
last=$((port + 100))
while [ "$port" -lt "$last" ]; do
  setsid "$sshd" -D -e -f "$PWD/settings" -p "$port" < /dev/null > log 2>&1 &
  pid=$!
  until grep -q 'Server listening' log || ! kill -0 "$pid" 2> /dev/null; do sleep 0.02; done
  if grep -q 'Server listening' log; then
    echo "$port" > port
    echo "$pid" > pid
    echo "$port $(cat host_key.pub)"
    exit
  fi
  port=$((port + 1))
done
cat log >&2
exit 1
"""

# Every process that was started through our sshd has CLUSTER_FOLDER in its environment.
CLOSE = r"""
cd -- "$1/ssh" 2> /dev/null || exit 0
pid=$(cat pid 2> /dev/null || :)
if [ -n "$pid" ] && tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -qF "$PWD/settings"; then
  kill "$pid"
fi
for file in $(grep -lzsxF "CLUSTER_FOLDER=${PWD%/ssh}" /proc/[0-9]*/environ); do
  file=${file%/environ}
  kill -9 "${file#/proc/}" 2> /dev/null || :
done
"""

SETTINGS = """\
ListenAddress {address}
HostKey "{folder}/ssh/host_key"
AuthorizedKeysFile "{folder}/ssh/authorized_keys"
SetEnv {variables}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
MaxStartups 1000
MaxSessions 1000"""

CONFIG = """\
Host *
  IdentityFile "{folder}/ssh/id"
  IdentitiesOnly yes
  UserKnownHostsFile "{folder}/ssh/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ConnectTimeout 5
  ServerAliveInterval 6
  ServerAliveCountMax 2
"""


class MeshHost(Value, frozen=True, kw_only=True):
    """A host that the other hosts reach by SSH."""

    address: str
    user: str
    folder: str  # our one folder on the host, absolute
    path: str  # prepended to `PATH` for programs that other hosts start there
    variables: dict[str, str]
    # other addresses of its interface that Open MPI tries before `address`
    tried_first: tuple[Interface, ...] = ()


Endpoint = tuple[int, str]  # the port and the key of a host's sshd


def config_file(folder: str) -> str:
    """Return the path of the file with which `ssh -F` on a host reaches the others."""
    return f"{folder}/ssh/config"


def open_mesh(
    shells: Mapping[str, Shell],
    hosts: Mapping[str, MeshHost],
    name: str,
    folder: Path,
    *,
    needs_every_host: bool = True,
) -> None:
    """Let every host of a cluster reach every other by SSH.

    `folder`, a local one, holds the key until the hosts have it. Without `needs_every_host`, only
    if the first host reaches no other is that an error (ShellError, HostErrors).
    """
    first_port = FIRST_PORT + zlib.crc32(name.encode()) % PORTS
    endpoints = on_each(shells, lambda host, shell: _open(host, shell, hosts[host], first_port))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        _write_files(Path(place), hosts, endpoints)
        on_each(shells, lambda host, shell: shell.put(Path(place), f"{hosts[host].folder}/ssh"))
    silent = _unreachable(shells, hosts)
    if silent and (needs_every_host or len(silent) == len(hosts) - 1):
        raise _not_reached(hosts, silent)
    reached = {name: host for name, host in hosts.items() if name not in silent}
    _try_first_addresses(shells, reached, endpoints)


def close_mesh(shell: Shell, folder: str) -> None:
    """End the sshd that `open_mesh` started on a host, and all processes started through it."""
    shell.run(["sh", "-c", CLOSE, "sh", folder], timeout=COMMAND_TIMEOUT)


def _open(name: str, shell: Shell, host: MeshHost, first_port: int) -> Endpoint:
    variables = {
        "CLUSTER_FOLDER": host.folder,
        "CLUSTER_PATH": host.path,
        "PATH": f"{host.path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        **host.variables,
    }
    settings = SETTINGS.format(
        address=host.address,
        folder=host.folder,
        variables=" ".join(f'{key}="{value}"' for key, value in variables.items()),
    )
    argv = ["sh", "-c", OPEN, "sh", host.folder, str(first_port), settings]
    result = shell.run(argv, timeout=COMMAND_TIMEOUT)
    if result.status != 0:
        raise ShellError(
            f"{name} could not start an sshd for the other hosts.",
            means=result.stderr.strip(),
            remedy="Ranks on several hosts need sshd and ssh-keygen there: "
            "sudo apt-get install openssh-server",
        )
    port, key = result.stdout.splitlines()[-1].split(maxsplit=1)
    return int(port), key.strip()


def _write_files(
    place: Path, hosts: Mapping[str, MeshHost], endpoints: Mapping[str, Endpoint]
) -> None:
    local = plugins.find(Shell, "local")()
    generated = local.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", f"{place}/id"]
    )
    if generated.status != 0:
        raise ShellError(
            "The key of the cluster could not be made.",
            means=generated.stderr.strip(),
            remedy="Type: sudo apt-get install openssh-client",
        )
    (place / "id.pub").rename(place / "authorized_keys")
    config = [CONFIG.format(folder=next(iter(hosts.values())).folder)]
    known_hosts = []
    for name, host in hosts.items():
        port, key = endpoints[name]
        known_hosts.append(f"[{host.address}]:{port} {key}\n")
        config.append(f"Host {host.address}\n  User {host.user}\n  Port {port}\n")
    for file, lines in (("known_hosts", known_hosts), ("config", config)):
        (place / file).write_text("".join(lines))


def _unreachable(shells: Mapping[str, Shell], hosts: Mapping[str, MeshHost]) -> dict[str, str]:
    """Connect from the first host to every other, and return what ssh says of each that fails."""
    first = next(iter(hosts))
    config = shlex.quote(config_file(hosts[first].folder))
    tries = [
        f'{{ said=$(ssh -F {config} {host.address} true 2>&1) || echo "{name} $said"; }} &'
        for name, host in hosts.items()
        if name != first
    ]
    waves = (tries[at : at + AT_ONCE] for at in range(0, len(tries), AT_ONCE))
    script = "\n".join(line for wave in waves for line in (*wave, "wait"))
    result = shells[first].run(["sh", "-c", script], timeout=COMMAND_TIMEOUT)
    lines = (line.partition(" ") for line in result.stdout.splitlines())
    return {name: message for name, _, message in lines if name in hosts}


def _not_reached(hosts: Mapping[str, MeshHost], silent: Mapping[str, str]) -> ShellError:
    first, config = next((name, config_file(host.folder)) for name, host in hosts.items())
    alone = len(silent) == len(hosts) - 1
    peers = "any other host" if alone else "every other host"
    blocked = f"A firewall may be around {first}, or" if alone else "A firewall may"
    failed = "; ".join(f"{name} {message}" for name, message in silent.items())
    return ShellError(
        f"{first} cannot reach {peers}: {failed}",
        means=f"Nothing could be started there. {blocked} stand between them.",
        remedy=f"Try it there: ssh -v -F {shlex.quote(config)} {hosts[next(iter(silent))].address}",
    )


def _try_first_addresses(
    shells: Mapping[str, Shell], hosts: Mapping[str, MeshHost], endpoints: Mapping[str, Endpoint]
) -> None:
    """Refuse an address that does not answer, if Open MPI tries it before the one that does.

    Each connection would wait for more than two minutes (net.ipv4.tcp_syn_retries), or end the job
    if no route leads there. A refused connection is an answer.
    """
    for name, host in hosts.items() if len(hosts) > 1 else ():
        other = next(host for host in hosts if host != name)
        for dead in host.tried_first:
            attempt = f"< /dev/tcp/{dead.address}/{endpoints[name][0]}"
            argv = ["env", "LC_ALL=C", "timeout", SILENCE, "bash", "-c", attempt]
            result = shells[other].run(argv, timeout=COMMAND_TIMEOUT)
            if result.status != 0 and "Connection refused" not in result.stderr:
                raise ShellError(
                    f"{other} cannot reach {dead.address}, which {name} has beside {host.address}.",
                    means="Open MPI tries it first: each attempt takes over two minutes, or fails.",
                    remedy="If nothing needs it, remove it there, and it alone:\n"
                    f"sudo sysctl -w net/ipv4/conf/{dead.name}/promote_secondaries=1\n"
                    f"sudo ip address del {dead.address}/{dead.prefix} dev {dead.name}",
                )
