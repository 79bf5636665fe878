"""Foreign programs that a rank runs: none outlives its rank, none is bound to its rank's core.

A rank may be killed at any moment, before it can end what it started. So each program is started by
a few lines of Python, which ask the kernel to kill the process together with its rank, and then
replace themselves by the program.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.core.errors import ClusterError

END_WITH_RANK = """\
import ctypes, os, signal, sys
rank, cores, *argv = sys.argv[1:]
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(rank):
    sys.exit("The rank is gone.")
os.sched_setaffinity(0, map(int, cores.split(",")))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python had ignored it
os.execv(argv[0], argv)
"""
START = (sys.executable, "-I", "-S", "-c", END_WITH_RANK)
# With these variables, a program would take itself for the rank, and so would the agent.
OF_RANKS = ("PMIX_", "PMI_", "OMPI_COMM_WORLD_")
BY_SIGNAL = 128  # plus the signal's number: the exit status of a process that a signal ended
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))  # without IPv6, only the first exists
LISTEN = "0A"  # the state of a socket in /proc/net/tcp
NAP = 0.005  # seconds between two checks of a port
PATIENCE = 10.0  # seconds for a server to listen
PORTS = 3  # that are tried: another process may bind a free one before the server does


def run_program(argv: Sequence[str], *, stdout: Path, within: float) -> int | None:
    """Run a program to its end, or until its time is up.

    Call it from the rank's main thread: the kernel ends a program with the thread that started it.
    A program may fail only because its peer is gone, whose rank was killed: check that the other
    rank still answers before the failure is reported.

    Its standard error is the job's. Returns its exit status, as in a shell; None if it was killed
    because it took longer than `within` seconds. ClusterError: its first word is not on PATH.
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
    try:
        cores = os.sched_getaffinity(os.getppid())  # the rank's parent has all cores of the job
    except OSError:  # it has ended, or is another user's
        cores = os.sched_getaffinity(0)
    with stdout.open("wb") as out:
        path = shutil.which(argv[0])
        if path is None:
            raise ClusterError(
                f"{argv[0]} is missing on {socket.gethostname()}.",
                remedy=f"Install it: sudo apt-get install {argv[0]}",
            )
        process = subprocess.Popen(
            [*START, str(os.getpid()), ",".join(map(str, sorted(cores))), path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            env={k: v for k, v in os.environ.items() if not k.startswith(OF_RANKS)},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def run_server(argv: Sequence[str], address: str) -> Iterator[int]:
    """Run a server, wait until it listens, and kill it at the end of the block.

    Call it from the rank's main thread, like `run_program`. Its output is discarded; its standard
    error is the job's. The word `PORT` of the command is replaced by a free port, which is yielded.
    ClusterError: there is no such program, it does not listen, or the address is not one of this
    host.
    """
    for _ in range(PORTS):
        port = free_port(address)
        words = [str(port) if word == "PORT" else word for word in argv]
        with _running(words, Path(os.devnull)) as process:
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < deadline:
                if listens(port):
                    yield port
                    return
                time.sleep(NAP)
    raise ClusterError(
        f"{argv[0]} did not start listening at {address}.",
        means="Its output is in the job's standard error.",
    )


def free_port(address: str) -> int:
    """Return a free TCP port, which others may bind at any time (ClusterError: no such address)."""
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
    """Check whether a process of this host listens at a TCP port, without connecting to it."""
    for table in TABLES:
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                return True
    return False
