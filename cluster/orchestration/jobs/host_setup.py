"""A set-up script, which each host runs once: a file there marks what ran, by its content."""

from __future__ import annotations

import hashlib
import posixpath
from collections import deque
from collections.abc import Callable
from pathlib import Path

from cluster.core.errors import TAIL_LINES, JobError, SpecError
from cluster.core.model.hosts import Machine, group_of
from cluster.orchestration.jobs.host_group import HostGroup, command_words
from cluster.remote.parallel import on_each
from cluster.remote.shells import Shell

FOLDER = "setup"  # of our folder on a host
# What the script prints goes to one stream, in the order in which it comes.
RUN = 'case $(head -c 2 "$1") in "#!") exec "$1" 2>&1;; *) exec sh -e "$1" 2>&1;; esac'


def read_script(script: str | Path) -> str:
    """Return the text of a script, which a path names if there is a file there (SpecError)."""
    text = str(script)
    is_path = isinstance(script, Path) or ("\n" not in text and " " not in text)
    if is_path and (Path(text).exists() or isinstance(script, Path) or text.endswith(".sh")):
        try:
            text = Path(text).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SpecError(f"The set-up script {script} cannot be read: {reason}.") from error
    if not text.strip():
        raise SpecError("The set-up script is empty.", remedy="Leave it out.")
    return text


def scripts_of(machine: Machine, shell: Shell) -> list[str]:
    """Return the scripts that have run on a host, in their order."""
    folder = posixpath.join(machine.folder, FOLDER, machine.name)
    names = shell.run(["sh", "-c", 'cd -- "$1" 2> /dev/null && ls -tr', "sh", folder]).stdout
    keys = [name.removesuffix(".done") for name in names.split() if name.endswith(".done")]
    return [shell.run(["cat", f"{folder}/{key}"]).stdout for key in keys]


def repeat_setup(new: HostGroup, hosts: HostGroup) -> None:
    """Run on a new host what has run on another of its group."""
    group = group_of(new.machines[0])
    neighbours = [m for m in hosts.machines if group_of(m) == group and m.name not in new.names]
    if neighbours:
        for script in scripts_of(neighbours[0], hosts.shells()[neighbours[0].name]):
            run_once(new, script)


def run_once(
    hosts: HostGroup, text: str, on_line: Callable[[str, str], None] | None = None
) -> tuple[str, ...]:
    """Run a script on the hosts that have not run it; return their names (JobError, HostErrors)."""
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    machines = {machine.name: machine for machine in hosts.machines}
    folders = {n: posixpath.join(machine.folder, FOLDER, n) for n, machine in machines.items()}

    def has_run(name: str, shell: Shell) -> bool:
        return shell.exists(f"{folders[name]}/{key}.done")

    result = on_each(hosts.shells(), has_run)
    waiting = {name: shell for name, shell in hosts.shells().items() if not result[name]}

    def run(name: str, shell: Shell) -> None:
        path, printed = f"{folders[name]}/{key}", deque[str](maxlen=TAIL_LINES)

        def hear(line: str) -> None:
            printed.append(line)
            if on_line is not None:
                on_line(name, line)

        shell.write(text, path, mode=0o700)
        words = command_words(
            machines[name], ["sh", "-c", RUN, "sh", path], hosts.path(name, ""), {}
        )
        ended = shell.run(words, on_line=hear)
        if ended.status != 0:
            raise JobError(
                f"The set-up of {name} ended with exit status {ended.status}.",
                means="What it did there stays; the next set-up runs it again.",
                stdout="\n".join(printed),
                stderr=ended.stderr,
            )
        shell.write("", f"{path}.done")

    on_each(waiting, run)
    return tuple(waiting)
