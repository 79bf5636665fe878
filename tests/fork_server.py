"""The process that `tests/forked.py` has scripts forked from: it has imported what they need."""

import atexit
import ctypes
import faulthandler
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import socket
import sys
import threading
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import NoReturn, TextIO

from cluster.providers.aws.api import service_models
from tests import prepared
from tests.forked import DIGITS, LARGEST

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
SLOW = ("boto3", "fabric", "google.cloud.compute_v1", "matplotlib.pyplot", "rich.progress")
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
                *streams, reply = files
                os.write(reply, _digits(pid))
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, reply))
                for file in streams:
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
    At Python's 700 new objects, about 7% of the suite's processor time went to the collector. What
    is garbage already stays, too: to find it takes a second after all imports.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000)


def _import_all() -> None:
    for name in SLOW:
        importlib.import_module(name)
    for package in PACKAGES:
        parent = importlib.import_module(f"cluster.{package}")
        for module in pkgutil.walk_packages(parent.__path__, f"{parent.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    service_models().load_service_model("ec2", "service-2")
    with redirect_stdout(io.StringIO()):  # what click imports when it reads a command line
        sys.modules["cluster.cli.command_line"].app(["--version"], standalone_mode=False)


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


def _anew(stream: TextIO) -> TextIO:
    """Open a standard stream again: what it leads to now may be a pipe."""
    is_input, is_error = stream.fileno() == 0, stream.fileno() == 2
    binary = os.fdopen(stream.fileno(), "rb" if is_input else "wb", closefd=False)
    by_line = is_error or binary.isatty()
    return io.TextIOWrapper(binary, stream.encoding, stream.errors, line_buffering=by_line)


def _become(words: list[str], variables: dict[str, str], folder: str, machine: int) -> None:
    if machine:
        _enter(machine)
    sys.stdin, sys.stdout, sys.stderr = map(_anew, (sys.stdin, sys.stdout, sys.stderr))
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    time.tzset()
    faulthandler.enable()  # a crash says where, on the error output of the script
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
    gc.disable()  # until all is imported
    _import_all()
    prepared.use()
    spare_the_collector()
    if request := _serve(socket.socket(fileno=int(sys.argv[1]))):
        try:
            _become(*request)
        except SystemExit as ended:
            _leave(ended.code)
        _leave(None)
