"""The tree of files of a host: read and changed by GNU tools, or brought up to date by rsync.

Names in base64 may be any bytes. rsync goes by the user's OpenSSH, and sends only the blocks of a
file in which two copies differ.
"""

import gzip
import os
import posixpath
import re
import shlex
import shutil
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path

from cluster.core import plugins
from cluster.core.errors import ShellError
from cluster.core.model.hosts import Machine, ssh_words
from cluster.core.model.value import Value
from cluster.core.state.files import load_script
from cluster.remote.shells import Shell
from cluster.remote.transfer import part_name

MOST_NAMES = 200  # in one command
END = "end"  # the last word of a list, which marks it as complete

LIST = load_script(__file__, "list_files.sh", END=END)
# $1 a list of names, which is removed; $2 the folder
DIGESTS = """
exec < "$1" && rm -f -- "$1" && cd -- "$2" || exit
base64 -d | xargs -0 -r sha256sum -z -- | gzip -1 | base64
"""
EDIT = 'exec < "$1" && rm -f -- "$1" && cd -- "$2" && base64 -d | sh -e'
SILENCE = 60  # seconds without any data, after which rsync fails
SENT = re.compile(r"Total bytes sent: (\d+)")


class TreeEntry(Value, frozen=True, kw_only=True):
    kind: str  # `f`, `d` or `l`, as GNU find names them, or another letter of its
    size: int = 0  # of a file in bytes
    time: int = 0  # when it was modified, in nanoseconds since the epoch
    mode: int = 0
    link: str = ""  # where a link leads


class HostTree(Value, frozen=True, kw_only=True):
    entries: dict[str, TreeEntry]  # by their paths in the folder; empty if there is no such folder
    rsync: bool  # whether the host has it
    free: int  # bytes that may still be written there


def list_tree(shell: Shell, folder: str) -> HostTree:
    """List a folder of a host; raise if it is none, or a part of it may not be read."""
    result = shell.run(["sh", "-c", LIST, "sh", folder])
    rsync, free, *words = _unpack(result.stdout) or ["", ""]
    if not words or words[-1] != END:
        raise ShellError(
            f"{folder} could not be listed: {result.stderr.strip() or 'its end did not come'}",
            means="Nothing was sent to this host. It needs GNU find, gzip and base64.",
        )
    entries = {}
    for fields, link in zip(words[:-1:2], words[1::2], strict=True):
        kind, size, when, mode, name = fields.split(" ", 4)
        seconds, _, fraction = when.partition(".")
        time = int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))
        entry = TreeEntry(kind=kind, size=int(size), time=time, mode=int(mode, 8), link=link)
        entries[name] = entry
    return HostTree(entries=entries, rsync=bool(rsync), free=int(free))


def digests(shell: Shell, folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of files of a host, by their paths in a folder; unread ones are absent."""
    if not names:
        return {}
    result = _with_list(shell, DIGESTS, folder, "\0".join(names))
    lines = (word.partition("  ") for word in _unpack(result))
    return {name: digest for digest, _, name in lines}


def edit(shell: Shell, folder: str, commands: Iterable[str]) -> None:
    """Run lines of shell in a folder of a host; raise if one fails."""
    if text := "\n".join(commands):
        _with_list(shell, EDIT, folder, text)


def on_names(command: str, names: Sequence[str]) -> list[str]:
    """Return lines of shell that run a command on names, as many at a time as fit."""
    return [
        f"{command} -- {shlex.join(names[start : start + MOST_NAMES])}"
        for start in range(0, len(names), MOST_NAMES)
    ]


def write_list(shell: Shell, text: str) -> str:
    """Write a text with any bytes into a file on a host, as base64; return its path."""
    path = posixpath.join(shell.machine.folder if shell.machine else "/tmp", part_name())  # noqa: S108
    shell.write(b64encode(os.fsencode(text)).decode(), path)
    return path


def _with_list(shell: Shell, script: str, folder: str, text: str) -> str:
    """Run a script that reads a list; its path is absolute, or starts where the script does."""
    result = shell.run(["sh", "-c", script, "sh", write_list(shell, text), folder])
    if result.status != 0:
        raise ShellError(f"{folder} could not be changed: {result.stderr.strip()}")
    return result.stdout


def _unpack(text: str) -> list[str]:
    try:
        return os.fsdecode(gzip.decompress(b64decode(text))).split("\0")[:-1]
    except (OSError, EOFError, ValueError):  # it was cut off
        return []


def rsync_reaches(machine: Machine | None) -> bool:
    """Return whether rsync can be used here for a host, if that has it."""
    by_ssh = machine is not None and machine.shell == "ssh" and machine.access is not None
    return by_ssh and all(map(shutil.which, ("rsync", "ssh")))


def send_by_rsync(machine: Machine, top: Path, names: Sequence[str], to: str) -> int:
    """Bring files of a host's folder to the state of those here; return the bytes sent."""
    assert machine.access  # noqa: S101 - see `rsync_reaches`
    *options, host = ssh_words(machine.access)
    ssh = shlex.join(["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *options])
    place = f"[{host}]:{to}/" if ":" in host else f"{host}:{to}/"
    shell = plugins.find(Shell, "local")()
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.fsencode("\0".join(names)))
        file.flush()
        result = shell.run(
            [
                *("rsync", "--times", "--perms", "--compress", "--stats", "--no-human-readable"),
                *("--ignore-times", "--protect-args", f"--timeout={SILENCE}", f"--rsh={ssh}"),
                *("--from0", f"--files-from={file.name}", f"{top}/", place),
            ]
        )
    match = SENT.search(result.stdout)
    if result.status != 0 or match is None:
        raise ShellError(
            f"rsync to {machine.name} failed: {result.stderr.strip()}", host=machine.name
        )
    return int(match[1])
