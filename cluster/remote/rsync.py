"""rsync by the user's OpenSSH: it sends only the blocks of a file in which two copies differ."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cluster.core import plugins
from cluster.core.errors import ShellError
from cluster.core.model.hosts import Machine, ssh_words
from cluster.remote.shells import Shell

SILENCE = 60  # seconds without any data
SENT = re.compile(r"Total bytes sent: (\d+)")


def reaches(machine: Machine | None) -> bool:
    """Return whether rsync can be used here for a host, if that has it."""
    by_ssh = machine is not None and machine.shell == "ssh" and machine.access is not None
    return by_ssh and all(map(shutil.which, ("rsync", "ssh")))


def send(machine: Machine, top: Path, names: Sequence[str], to: str) -> int:
    """Bring files of a host's folder to the state of those here; return the bytes sent."""
    assert machine.access  # noqa: S101 - see `reaches`
    *options, host = ssh_words(machine.access)
    ssh = shlex.join(["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *options])
    place = f"[{host}]:{to}/" if ":" in host else f"{host}:{to}/"
    shell = plugins.find(Shell, "local")()
    with tempfile.NamedTemporaryFile() as listed:
        listed.write(os.fsencode("\0".join(names)))
        listed.flush()
        result = shell.run(
            [
                *("rsync", "--times", "--perms", "--compress", "--stats", "--no-human-readable"),
                *("--ignore-times", "--protect-args", f"--timeout={SILENCE}", f"--rsh={ssh}"),
                *("--from0", f"--files-from={listed.name}", f"{top}/", place),
            ]
        )
    match = SENT.search(result.stdout)
    if result.status != 0 or match is None:
        raise ShellError(f"rsync to {machine.name} failed: {result.stderr.strip()}")
    return int(match[1])
