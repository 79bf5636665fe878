"""Runs scripts of this Python by fork: what they import is imported once, not in each process.

A script is a process as it always is, with its own arguments, environment, folder and files.
Started anew it would spend most of its processor time on imports, a thousand times in the suite.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, NoReturn

from cluster.providers.aws.api import service_models

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "analysis",
    "cli",
    "core",
    "logs",
    "orchestration",
    "providers",
    "remote",
    "reports",
    "runs",
)
SLOW = (
    "boto3",
    "duckdb",
    "fabric",
    "google.cloud.compute_v1",
    "matplotlib.pyplot",
    "rich.progress",
)
AT_IMPORT: tuple[str, ...] = (
    "PYTHON",
    "LC_",
    "LANG",
    "MPL",
    "TERMINAL_WIDTH",
    "FORCE_COLOR",
    "PY_COLORS",
)
"""How the variables begin that Python and libraries read before a script does anything."""
AT_IMPORT += ("NO_COLOR", "GITHUB_", "TYPER_", "LD_")
LARGEST = 2**17  # bytes of a request: it travels in one piece
NONE: Mapping[str, str] = MappingProxyType({})
DIGITS = 12  # of a number in a reply


def can_fork(*words: str) -> bool:
    """Say whether a script would be the same process, forked: by its variables and its words."""
    same = _read_at_import() == server().variables
    return same and len(_request(words)) < LARGEST


def run_forked(
    *words: str, timeout: float, text: str = "", machine: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, like `subprocess.run` with its output captured as text.

    Args:
        words: of its command line.
        timeout: seconds.
        text: its standard input.
        machine: a process in whose namespaces it runs; 0 for ours.
        variables: added to its environment.

    """
    reading, writing = os.pipe()
    new = tempfile.TemporaryFile
    try:
        with new() as given, new() as out, new() as err:
            given.write(text.encode())
            given.seek(0)
            try:
                files = [given.fileno(), out.fileno(), err.fileno(), writing]
                socket.send_fds(server().requests, [_request(words, machine, variables)], files)
            finally:
                os.close(writing)
            status = _status(reading, timeout)
            texts = [_text(file) for file in (out, err)]
    finally:
        os.close(reading)
    if status is None:
        raise subprocess.TimeoutExpired(words, timeout, *texts)
    return subprocess.CompletedProcess(words, status, *texts)


def _request(
    words: tuple[str, ...], machine: int = 0, variables: Mapping[str, str] = NONE
) -> bytes:
    return json.dumps([words, {**os.environ, **variables}, str(Path.cwd()), machine]).encode()


def _read_at_import() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(AT_IMPORT)}


def _status(replies: int, timeout: float) -> int | None:
    pid = int(os.read(replies, DIGITS))
    with selectors.DefaultSelector() as selector:
        selector.register(replies, selectors.EVENT_READ)
        if not selector.select(timeout):
            os.kill(pid, signal.SIGKILL)
            return None
    return int(os.read(replies, DIGITS))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


class _Server:
    """The process that all are forked from; it ends with this one."""

    def __init__(self) -> None:
        self.variables = _read_at_import()
        self.requests, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            words = [sys.executable, "-m", "tests.forked", str(its.fileno())]
            self._process = subprocess.Popen(
                words, cwd=ROOT, pass_fds=[its.fileno()], start_new_session=True
            )


@cache
def server() -> _Server:
    """Start the process that all are forked from, unless it runs."""
    return _Server()


Request = tuple[list[str], dict[str, str], str, int]
"""The words, the variables and the working folder of a script, and where it runs."""


def _serve(requests: socket.socket) -> Request | None:
    """Fork for each request; gives it in the new process, and none when nobody asks any more."""
    with requests, selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data:
                    selector.unregister(key.fileobj)
                    _reply(key.fd, *key.data)
                    continue
                message, files, *_ = socket.recv_fds(requests, LARGEST, 4)
                if not message:
                    return None
                pid = os.fork()
                if pid == 0:
                    _take(*files)
                    request: Request = json.loads(message)
                    return request
                *its, reply = files
                os.write(reply, _digits(pid))
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, reply))
                for file in its:
                    os.close(file)


def _digits(number: int) -> bytes:
    return str(number).rjust(DIGITS).encode()


def _take(*files: int) -> None:
    for standard, file in enumerate(files[:3]):
        os.dup2(file, standard)
    for file in files:
        os.close(file)


def _reply(process: int, pid: int, reply: int) -> None:
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # whoever asked has given up
        os.write(reply, _digits(os.waitstatus_to_exitcode(status)))
    os.close(reply)
    os.close(process)


def spare_the_collector() -> None:
    """Let the collector of garbage leave out what is there, and look less often for what comes.

    What is there stays to the end, and looking through it copies its pages in each forked process.
    At Python's 700 new objects, about 7% of the suite's processor time went to the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def _import_all() -> None:
    for name in SLOW:
        importlib.import_module(name)
    for package in PACKAGES:
        found = importlib.import_module(f"cluster.{package}")
        for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    service_models().load_service_model("ec2", "service-2")
    with redirect_stdout(io.StringIO()):  # what typer imports when it reads a command line
        sys.modules["cluster.cli.app"].app(["--version"], standalone_mode=False)


def _enter(machine: int) -> None:
    """Enter the namespaces of a process.

    A PID namespace holds only for children, so a child goes on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in ("net", "ipc", "pid", "mnt"):
        with Path(f"/proc/{machine}/ns/{kind}").open() as namespace:
            if libc.setns(namespace.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), f"The namespace {kind} cannot be entered")
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)


def _become(words: list[str], variables: dict[str, str], folder: str, machine: int) -> None:
    if machine:
        _enter(machine)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    time.tzset()
    sys.argv = words
    sys.path[0] = str(Path(words[0]).parent)
    runpy.run_path(words[0], run_name="__main__")


def _leave(code: str | int | None) -> NoReturn:
    """End as Python does, but do not free every object: that takes a second for all our imports.

    Threads are waited for, and what `atexit` has is run; a file that is still open is not flushed.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _import_all()
    spare_the_collector()
    if request := _serve(socket.socket(fileno=int(sys.argv[1]))):
        try:
            _become(*request)
        except SystemExit as ended:
            _leave(ended.code)
        _leave(None)
