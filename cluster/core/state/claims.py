"""Claims: one process at a time starts jobs on a cluster, and the others learn which.

A claim is the file `claim` in the cluster's state folder, locked while its process lives. Who takes
it over puts a new file in its place, so the old process can see that it lost it.
"""

import fcntl
import getpass
import os
import platform
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from cluster.core import decoders
from cluster.core.errors import InUse
from cluster.core.model.value import Value
from cluster.core.state import files
from cluster.core.state.journal import Journal

FILE = "claim"
BOOT = Path("/proc/sys/kernel/random/boot_id")
LONGEST = 120  # characters of a command that are kept
OWN_COMMANDS = ("cluster", "__main__.py")  # of sys.argv[0]


class Controller(Value, frozen=True, kw_only=True):
    """A process that starts jobs."""

    user: str
    host: str
    pid: int
    command: str
    at: float  # when it claimed the cluster, in seconds since the epoch
    state: str = ""
    boot: str = ""  # of its kernel; empty if that is not known

    def has_left(self, folder: Path) -> bool:
        """Tell whether its cluster, one of this user here and not that in `folder`, is down."""
        process = this_process()
        is_same_boot = bool(self.boot) and (self.user, self.host, self.boot) == (
            process.user, process.host, process.boot
        )  # fmt: skip
        exists = Path(self.state, "journal.jsonl").exists() and self.state != str(folder)
        return is_same_boot and bool(self.state) and not exists

    @property
    def words(self) -> str:
        start = time.strftime("%F %T UTC", time.gmtime(self.at))
        return f"{self.user}@{self.host}, process {self.pid}, since {start}: {self.command}"


class Claim(Value, frozen=True, kw_only=True):
    path: Path
    handle: int
    by: Controller

    def successor(self) -> Controller | None:
        """Return who took the claim over; none while it is ours, or once the cluster is down."""
        try:
            is_same_file = os.path.samestat(os.fstat(self.handle), self.path.stat())
        except FileNotFoundError:
            return None
        return None if is_same_file else _read(self.path)


def this_process() -> Controller:
    program, *words = sys.argv or [""]
    name = Path(program).name
    arguments = ["cluster", *words] if name in OWN_COMMANDS else ["python", name, *words]
    command = " ".join(shlex.join(word for word in arguments if word).split())
    user, boot = f"uid {os.getuid()}", ""
    with suppress(KeyError, OSError):  # a container may have no name for its user
        user = getpass.getuser()
    with suppress(OSError):  # not Linux
        boot = BOOT.read_text().strip()
    return Controller(
        user=user,
        host=platform.node(),
        pid=os.getpid(),
        command=command if len(command) <= LONGEST else f"{command[: LONGEST - 3]}...",
        at=time.time(),
        boot=boot,
    )


def holder(journal: Journal) -> Controller | None:
    """Return the live process that has claimed a cluster."""
    path = journal.folder / FILE
    return _read(path) if files.is_locked(path) else None


@contextmanager
def claim(journal: Journal, *, replace: bool = False) -> Iterator[Claim]:
    """Claim a cluster during a block (InUse: another process has it; ClusterError: it is down)."""
    if not replace:
        _refuse_if_held(journal)  # at once: who holds the lock may be copying files to the hosts
    path = journal.folder / FILE
    part = path.with_name(f"{FILE}.{secrets.token_hex(4)}.part")
    with journal.lock():
        if not replace:
            _refuse_if_held(journal)
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        controller = msgspec.structs.replace(this_process(), state=str(journal.folder))
        os.write(handle, encode(controller).encode())
        part.replace(path)
    try:
        yield Claim(path=path, handle=handle, by=controller)
    finally:
        os.close(handle)


def _refuse_if_held(journal: Journal) -> None:
    if controller := holder(journal):
        raise in_use_error(journal.name, controller.words)


def in_use_error(name: str, holder: str, goes_on: str = "") -> InUse:
    return InUse(
        f"{name} is in use by {holder}",
        means=" ".join(filter(None, (goes_on, "It is left alone, and nothing was started."))),
        remedy=f"Look: cluster status {name}; watch: cluster connect {name}; "
        f"results: cluster wait {name} && cluster fetch {name}\n"
        "To end it: cluster bench or cluster run --mpi with --replace (Python: replace=True); "
        f"or cluster down {name}",
    )


def _read(path: Path) -> Controller | None:
    try:
        return decode(path.read_text())
    except FileNotFoundError:  # it was taken down just now
        return None


def encode(controller: Controller) -> str:
    """Write a process as text, for a host where its job runs."""
    return msgspec.json.encode(controller).decode()


def decode(text: str) -> Controller | None:
    """Read what `encode` wrote; none if it is something else."""
    try:
        return decoders.decode(text, Controller)
    except msgspec.DecodeError:
        return None
