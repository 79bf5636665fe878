"""The tree of files of a host, and its changes, by GNU tools; names in base64 may be any bytes."""

from __future__ import annotations

import gzip
import os
import posixpath
import shlex
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

from cluster.core.errors import ShellError
from cluster.core.model.value import Value
from cluster.remote.shells import Shell
from cluster.remote.transfer import part_name

MOST_NAMES = 200  # in one command
END = "end"  # the last word of a list, which marks it as complete

# $1 the folder
LIST = f"""
export LC_ALL=C
disk=$1
until [ -d "$disk" ]; do disk=$(dirname -- "$disk"); done
{{ command -v rsync > /dev/null && printf 'rsync\\0' || printf '\\0'
  df -B1 --output=avail -- "$disk" | tail -n 1
  printf '\\0'
  if [ -d "$1" ]; then
    cd -- "$1" && find . -mindepth 1 -printf '%y %s %T@ %m %P\\0%l\\0' && printf '{END}\\0'
  elif [ -e "$1" ] || [ -L "$1" ]; then echo "it is no folder" >&2
  else printf '{END}\\0'; fi
}} | gzip -1 | base64
"""
# $1 a list of names, which is removed; $2 the folder
DIGESTS = """
exec < "$1" && rm -f -- "$1" && cd -- "$2" || exit
base64 -d | xargs -0 -r sha256sum -z -- | gzip -1 | base64
"""
EDIT = 'exec < "$1" && rm -f -- "$1" && cd -- "$2" && base64 -d | sh -e'


class TreeEntry(Value, frozen=True, kw_only=True):
    """A file, a folder or a link in a tree."""

    kind: str  # `f`, `d` or `l`, as GNU find names them, or another letter of its
    size: int = 0  # of a file in bytes
    time: int = 0  # when it was modified, in nanoseconds since the epoch
    mode: int = 0
    link: str = ""  # where a link leads


class HostTree(Value, frozen=True, kw_only=True):
    """What a host has in a folder."""

    entries: dict[str, TreeEntry]  # by their paths in the folder; empty if there is no such folder
    rsync: bool  # whether the host has it
    free: int  # bytes that may still be written there


def list_tree(shell: Shell, folder: str) -> HostTree:
    """List a folder of a host; raise if it is none, or a part of it may not be read."""
    result = shell.run(["sh", "-c", LIST, "sh", folder])
    rsync, free, *words = _unpacked(result.stdout) or ["", ""]
    if not words or words[-1] != END:
        raise ShellError(
            f"{folder} could not be listed: {result.stderr.strip() or 'its end did not come'}",
            means="Nothing was sent to this host. It needs GNU find, gzip and base64.",
        )
    pairs = zip(words[:-1:2], words[1::2], strict=True)
    entries = dict(_entry(*pair) for pair in pairs)
    return HostTree(entries=entries, rsync=bool(rsync), free=int(free))


def _entry(about: str, link: str) -> tuple[str, TreeEntry]:
    kind, size, when, mode, name = about.split(" ", 4)
    seconds, _, fraction = when.partition(".")
    time = int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))
    return name, TreeEntry(kind=kind, size=int(size), time=time, mode=int(mode, 8), link=link)


def digests(shell: Shell, folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of files of a host, by their paths in a folder; unread ones are absent."""
    if not names:
        return {}
    result = _with_list(shell, DIGESTS, folder, "\0".join(names))
    lines = (word.partition("  ") for word in _unpacked(result))
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


def _unpacked(text: str) -> list[str]:
    try:
        return os.fsdecode(gzip.decompress(b64decode(text))).split("\0")[:-1]
    except (OSError, EOFError, ValueError):  # it was cut off
        return []
