"""Files to many hosts: once over the line of this machine, and from host to host after that."""

import logging
import os
import posixpath
import queue
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster.core.errors import ClusterError, ShellError
from cluster.remote.files.host_files import write_list
from cluster.remote.network import ssh_mesh
from cluster.remote.parallel import on_each, start, try_each
from cluster.remote.sessions.jobs import COMMAND_TIMEOUT
from cluster.remote.shells import Shell
from cluster.remote.transfer import file_script, folder_script

_log = logging.getLogger(__name__)
WORTH = 16_000_000  # bytes that this machine need not send; connecting the hosts takes a second
AT_ONCE = 2  # copies that a host sends at a time

# $1 our folder; the last line is missing if the other hosts are not reached from there yet
WHO = """
id -un && pwd && cd -- "$1/ssh" 2> /dev/null && [ -s config ] && kill -0 "$(cat pid)" && echo yes
exit 0
"""


def is_worth(shells: Mapping[str, Shell], savings: float) -> bool:
    """Return whether hosts should pass files on, if that saves us so many bytes."""
    machines = [shell.machine for shell in shells.values()]
    return savings >= WORTH and all(machine and machine.shell == "ssh" for machine in machines)


class Meeting:
    """Hosts that are to reach one another by SSH; that is prepared while something else is done."""

    def __init__(self, shells: Mapping[str, Shell], name: str) -> None:
        self._configs = start(lambda: _connect(shells, name))
        self._addresses = {n: shell.machine.address for n, shell in shells.items() if shell.machine}

    def spread(
        self,
        targets: Mapping[str, Shell],
        sources: Sequence[str],
        pull: Callable[[str, Shell, str], None],
    ) -> dict[str, ClusterError]:
        """Let each target take files from a source, then pass them on; return the errors by host.

        `pull` gets the target's name, its shell, and a command there that runs shell on a source.
        """
        free = queue.SimpleQueue[str]()
        for source in [*sources] * AT_ONCE:
            free.put(source)

        def do(name: str, shell: Shell) -> None:
            configs, source = self._configs.result(), free.get()
            try:
                pull(name, shell, shlex.join(["ssh", "-F", configs[name], self._addresses[source]]))
                for _ in range(AT_ONCE):
                    free.put(name)
            finally:
                free.put(source)

        results = try_each(targets, do)
        errors = {name: end for name, end in results.items() if isinstance(end, ClusterError)}
        for name, error in errors.items():
            _log.warning("%s gets its files from here: %s", name, error)
        return errors


def _connect(shells: Mapping[str, Shell], name: str) -> dict[str, str]:
    """Let hosts reach one another, if they do not; return each one's settings of ssh."""
    hosts = on_each(shells, _identify)
    folders = {host: folder for host, (_, folder, _) in hosts.items()}
    if not all(is_meshed for *_, is_meshed in hosts.values()):
        mesh = {
            host: ssh_mesh.MeshHost(
                address=shell.machine.address,
                user=hosts[host][0],
                folder=folders[host],
                path=posixpath.join(folders[host], posixpath.basename(shell.machine.bin)),
                variables={},
            )
            for host, shell in shells.items()
            if shell.machine
        }
        with tempfile.TemporaryDirectory() as private:
            ssh_mesh.open_mesh(shells, mesh, name, Path(private), needs_every_host=False)
    return {host: ssh_mesh.config_file(folder) for host, folder in folders.items()}


def _identify(name: str, shell: Shell) -> tuple[str, str, bool]:
    folder = shell.machine.folder if shell.machine else ""
    result = shell.run(["sh", "-c", WHO, "sh", folder], timeout=COMMAND_TIMEOUT)
    user, home, *mesh = result.stdout.splitlines() or ["", ""]
    if not home:
        raise ShellError(
            f"{name} does not say who we are there: {result.stderr.strip()}", host=name
        )
    return user, posixpath.join(home, folder), bool(mesh)


def pull_names(shell: Shell, ssh: str, folder: str, names: Sequence[str]) -> None:
    """Copy files of a folder from another host, which `ssh` leads to; nothing is there half."""
    file = shlex.quote(write_list(shell, "\0".join(names)))
    tar = f"exec tar -C {shlex.quote(folder)} -cf - --format=gnu --null --no-unquote "
    source = f"base64 -d < {file} | {ssh} {shlex.quote(f'{tar} --no-recursion -T -')}"
    _pull(shell, folder, f"{folder_script(folder, source)}; end=$?; rm -f -- {file}; exit $end")


def _pull(shell: Shell, to: str, script: str) -> None:
    result = shell.run(["sh", "-c", script])
    if result.status != 0:
        raise ShellError(f"{to} could not be copied from another host: {result.stderr.strip()}")


def put(shells: Mapping[str, Shell], path: Path, places: Mapping[str, str], name: str) -> None:
    """Copy a file or folder to hosts; what is large goes to the first, and from there to others."""
    size, names = _weigh(path.resolve())
    first, *rest = shells
    if not rest or not is_worth(shells, size * len(rest)):
        on_each(shells, lambda host, shell: shell.put(path, places[host]))
        return
    meeting = Meeting(shells, name)
    to = places[first]
    shells[first].put(path, to)

    def pull(_: str, shell: Shell, ssh: str) -> None:
        if names:
            pull_names(shell, ssh, to, names)
            return
        command = shlex.quote(f"exec cat -- {shlex.quote(to)}")
        script = shlex.quote(file_script(to, size, path.stat().st_mode & 0o777))
        _pull(shell, to, f"{ssh} {command} | sh -c {script}")

    errors = meeting.spread({other: shells[other] for other in rest}, [first], pull)
    on_each({host: shells[host] for host in errors}, lambda _, shell: shell.put(path, to))


def _weigh(path: Path) -> tuple[int, list[str]]:
    """Return the bytes of a file or folder, and the paths in the folder in the order of a walk."""
    if not path.is_dir():
        return path.stat().st_size, []
    size, names = 0, []
    for folder, folders, files in os.walk(path):
        prefix = Path(folder).relative_to(path)
        names += [str(prefix / name) for name in (*folders, *files)]
        size += sum((Path(folder) / name).lstat().st_size for name in files)
    return size, names
