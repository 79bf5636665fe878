"""Foreign programs that a rank runs: none outlives its rank, none is bound to its rank's core.

A rank may be killed at any moment, so nothing in it can be relied upon to end what it started: each
program runs on a leash, a line of Python that asks the kernel to kill it with its rank, and then
becomes the program.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.core.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEASH = """\
import ctypes, os, signal, sys
rank, cores, *argv = sys.argv[1:]
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(rank):
    sys.exit("The rank is gone.")
os.sched_setaffinity(0, map(int, cores.split(",")))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python had ignored it
os.execv(argv[0], argv)
"""
# A program that finds these would take itself for the rank, and so would whoever stops the ranks.
OF_RANKS = ("PMIX_", "PMI_", "OMPI_COMM_WORLD_")
BY_SIGNAL = 128  # how a shell says that a signal ended a process
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))  # without IPv6 there is no second
LISTEN = "0A"  # the state of a socket in /proc/net/tcp
NAP = 0.005  # seconds between two looks at a port
PATIENCE = 10.0  # seconds for a server to listen
PORTS = 3  # that are tried: somebody may take a free one before the server does


def run_program(argv: Sequence[str], *, stdout: Path, within: float) -> int | None:
    """Run a program to its end, or until its time is up.

    Call it from the rank's main thread: the kernel ends a program with the thread that started it.
    A program that fails may have lost its partner, because that one's rank was killed: ask that
    rank before you report the failure.

    Args:
        argv: the command; its first word is found on PATH.
        stdout: the file for what it prints; complaints go to the job's.
        within: time limit in seconds; then it is killed.

    Returns:
        Its exit status, as in a shell; none if it exceeded its time.

    Raises:
        ClusterError: there is no such program.

    """
    with _running(argv, stdout) as process:
        try:
            status = process.wait(within)
        except subprocess.TimeoutExpired:
            return None
    return status if status >= 0 else BY_SIGNAL - status


@contextmanager
def _running(argv: Sequence[str], stdout: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    with stdout.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LEASH, *_leash(), _found(argv[0]), *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            env={k: v for k, v in os.environ.items() if not k.startswith(OF_RANKS)},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _leash() -> tuple[str, str]:
    """Give who holds it, and the cores of whoever started the rank: those that the job may use."""
    try:
        cores = os.sched_getaffinity(os.getppid())
    except OSError:  # it is gone, or not ours to ask
        cores = os.sched_getaffinity(0)
    return str(os.getpid()), ",".join(map(str, sorted(cores)))


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise ClusterError(
            f"{program} is missing on {socket.gethostname()}.",
            remedy=f"Install it: sudo apt-get install {program}",
        )
    return path


@contextmanager
def run_server(argv: Sequence[str], address: str) -> Iterator[int]:
    """Run a server until the end of the block, where it is killed, and wait until it listens.

    Call it from the rank's main thread, as `complete`. Its output is discarded; its errors
    go to the job's.

    Args:
        argv: the command; the word `PORT` in it is replaced by a free port.
        address: of this host, that it will listen at.

    Yields:
        Its port.

    Raises:
        ClusterError: there is no such program, the address is not ours, or it does not listen.

    """
    for _ in range(PORTS):
        port = free_port(address)
        words = [str(port) if word == "PORT" else word for word in argv]
        with _running(words, Path(os.devnull)) as process:
            if _comes_to_listen(process, port):
                yield port
                return
    raise ClusterError(
        f"{argv[0]} did not start listening at {address}.",
        means="Its output is in the job's standard error.",
    )


def _comes_to_listen(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        if listens(port):
            return True
        time.sleep(NAP)
    return False


def free_port(address: str) -> int:
    """Find a free TCP port.

    Args:
        address: of this host.

    Returns:
        The port; another process may bind it at any time.

    Raises:
        ClusterError: the address is not one of this host.

    """
    try:
        family, kind, *_, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
            port: int = probe.getsockname()[1]
            return port
    except OSError as error:
        raise ClusterError(
            f"{address} is not an address of {socket.gethostname()}: {error.strerror}.",
            means="The other ranks could not reach a server there.",
        ) from error


def listens(port: int) -> bool:
    """Check whether a process listens at a TCP port, without connecting to it.

    Args:
        port: of this host.

    Returns:
        Whether it is so.

    """
    for table in TABLES:
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                return True
    return False
