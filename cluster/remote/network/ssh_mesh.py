"""SSH between the hosts of a cluster, with an sshd, a key and known hosts of the cluster's own.

No user's `~/.ssh` is changed: on every host, an sshd runs as the user who logged in, from our one
folder, listens at the address in the cluster's network, and accepts only the cluster's key.
"""

import shlex
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Interface
from cluster.core.model.value import Value
from cluster.core.state import ssh_keys
from cluster.core.state.files import load_script
from cluster.remote.parallel import on_each
from cluster.remote.sessions.jobs import COMMAND_TIMEOUT
from cluster.remote.shells import Shell

FIRST_PORT, PORTS = 20_000, 10_000
SILENCE = "5"  # seconds without an answer

AT_ONCE = 32  # connections that a host begins: more may time out where it has few cores
OPEN = load_script(__file__, "open_mesh.sh")

CLOSE = load_script(__file__, "close_mesh.sh")

SETTINGS = load_script(__file__, "sshd_config")

CONFIG = load_script(__file__, "ssh_config")


class MeshHost(Value, frozen=True, kw_only=True):
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
    first = next(iter(hosts))
    config = shlex.quote(config_file(hosts[first].folder))
    tries = [
        f'{{ said=$(ssh -F {config} {host.address} true 2>&1) || echo "{name} $said"; }} &'
        for name, host in hosts.items()
        if name != first
    ]
    waves = (tries[start : start + AT_ONCE] for start in range(0, len(tries), AT_ONCE))
    script = "\n".join(line for wave in waves for line in (*wave, "wait"))
    result = shells[first].run(["sh", "-c", script], timeout=COMMAND_TIMEOUT)
    lines = (line.partition(" ") for line in result.stdout.splitlines())
    silent = {name: message for name, _, message in lines if name in hosts}
    alone = len(silent) == len(hosts) - 1
    if silent and (needs_every_host or alone):
        peers = "any other host" if alone else "every other host"
        guess = f"A firewall may be around {first}, or" if alone else "A firewall may"
        failures = "; ".join(f"{name} {message}" for name, message in silent.items())
        raise ShellError(
            f"{first} cannot reach {peers}: {failures}",
            means=f"Nothing could be started there. {guess} stand between them.",
            remedy=f"Try it there: ssh -v -F {config} {hosts[next(iter(silent))].address}",
        )
    live_hosts = {name: host for name, host in hosts.items() if name not in silent}
    _try_first_addresses(shells, live_hosts, endpoints)


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
            host=name,
        )
    port, key = result.stdout.splitlines()[-1].split(maxsplit=1)
    return int(port), key.strip()


def _write_files(
    place: Path, hosts: Mapping[str, MeshHost], endpoints: Mapping[str, Endpoint]
) -> None:
    (place / "authorized_keys").write_text(f"{ssh_keys.load_or_create(place / 'id').public}\n")
    config = [CONFIG.format(folder=next(iter(hosts.values())).folder)]
    known_hosts = []
    for name, host in hosts.items():
        port, key = endpoints[name]
        known_hosts.append(f"[{host.address}]:{port} {key}\n")
        config.append(f"Host {host.address}\n  User {host.user}\n  Port {port}\n")
    for file, lines in (("known_hosts", known_hosts), ("config", config)):
        (place / file).write_text("".join(lines))


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
