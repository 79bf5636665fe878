"""Scripts that receive and send files on a host; paths in them are always quoted.

A file appears under its name only once it is complete.
"""

import shlex
from pathlib import PurePosixPath
from typing import NamedTuple

from cluster.core.errors import ShellError
from cluster.remote.transfer import FOLDER, INSIDE, WHOLE, part_name


class Quoted(NamedTuple):
    """A path on a host, quoted."""

    to: str
    part: str
    folder: str


def _quoted(path: str) -> Quoted:
    target = PurePosixPath(path)
    if target.name in ("", ".."):
        raise ShellError(f"{path!r} could not be written: it names no file or folder.")
    part = target.with_name(part_name())
    return Quoted(*(shlex.quote(str(word)) for word in (target, part, target.parent)))


def file_script(path: str, size: int, mode: int) -> str:
    """Return the script that reads a file from standard input, and renames it into place.

    The size is checked: a broken connection looks like the end. ShellError: it is no file's path.
    """
    quoted = _quoted(path)
    return (
        f"{_begin(quoted)}(umask 077 && cat > {quoted.part}) || exit; "
        f"[ $(wc -c < {quoted.part}) -eq {size} ] || {_NOT_WHOLE}; "
        f"chmod -- {mode:o} {quoted.part} && mv -fT -- {quoted.part} {quoted.to}"
    )


def folder_script(path: str, source: str = "") -> str:
    """Return the script that unpacks standard input, or the output of `source` (ShellError)."""
    quoted = _quoted(path)
    inner, whole = f"{quoted.part}/{INSIDE}", f"{quoted.part}/{WHOLE}"
    unpack = f"tar -C {quoted.part} -xpof -"
    if source:
        unpack = f"mkdir -- {inner} && {{ {source} && : > {whole}; }} | tar -C {inner} -xpof -"
    return (
        f"{_MERGE}{_begin(quoted)}mkdir -m 700 -- {quoted.part} || exit; "
        f"{unpack} || exit; [ -e {whole} ] || {_NOT_WHOLE}; "
        # Two names may be one host: another transfer may have made the folder meanwhile.
        f"[ -d {quoted.to} ] || mv -fT -- {inner} {quoted.to} || [ -d {quoted.to} ] || exit; "
        f"[ ! -d {inner} ] || merge {inner} {quoted.to}"
    )


def _begin(quoted: Quoted) -> str:
    """Make the parent folder, and remove the partial file however the script ends."""
    clean = shlex.quote(f"rm -rf -- {quoted.part}")
    return f"mkdir -p -- {quoted.folder} || exit; trap {clean} EXIT; {_EXIT_ON_SIGNALS}; "


_EXIT_ON_SIGNALS = "trap 'exit 1' HUP INT PIPE TERM"  # a shell killed by a signal runs no EXIT trap
_NOT_WHOLE = "{ echo 'it did not arrive whole' >&2; exit 1; }"
# Each file is renamed: readers see the old or the new one, and a running program keeps the old.
_MERGE = """merge() {
  case $1 in -*) set -- "./$1" "$2" ;; esac
  find "$1" -mindepth 1 -maxdepth 1 ! -type d -exec mv -f -t "$2" -- {} + || return
  for e in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ ! -d "$e" ] || [ -L "$e" ]; then continue; fi
    if [ -d "$2/${e##*/}" ]; then (merge "$e" "$2/${e##*/}")
    else mv -fT -- "$e" "$2/${e##*/}"; fi || return
  done
}
"""


def fetch_script(path: str) -> str:
    """Return the script that prints `folder` and a packed folder, or a file's mode and content."""
    quoted = shlex.quote(path)
    return (
        f"export LC_ALL=C; "
        f"if [ -d {quoted} ]; then echo {FOLDER} && exec tar -C {quoted} -chf - .; fi; "
        f"if [ -e {quoted} ] && [ ! -f {quoted} ]; then"
        " echo 'it is neither a file nor a folder' >&2; exit 1; fi; "
        f"stat -L -c %a -- {quoted} && exec cat -- {quoted}"
    )


def only_grew(message: str) -> bool:
    """Return whether tar complains only about files that changed, as those of a running job do."""
    lines = message.splitlines()
    return bool(lines) and all(line.endswith("file changed as we read it") for line in lines)
