"""Runs scripts of this Python by fork: what they import is imported once, not in each process.

A script is a process as it always is, with its own arguments, environment, folder and files.
Started anew it would spend most of its processor time on imports, a thousand times in the suite.
A shell starts one by `python -IS tests/forked.py`, so only the standard library is imported here.
"""

import json
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

ROOT = Path(__file__).parent.parent
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
SERVER = "CLUSTER_TESTS_SERVER"  # variable of a shell: how the server is reached, and its variables


def can_fork(*words: str) -> bool:
    """Say whether a script would be the same process, forked: by its variables and its words."""
    is_same = _read_at_import() == server().variables
    return is_same and len(_request(words)) < LARGEST


def run_forked(
    *words: str, timeout: float, text: str = "", machine: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, like `subprocess.run` with its output captured as text."""
    new = tempfile.TemporaryFile
    with new() as stdin, new() as out, new() as err:
        stdin.write(text.encode())
        stdin.seek(0)
        files = [file.fileno() for file in (stdin, out, err)]
        status = _run(server().requests, _request(words, machine, variables), files, timeout)
        texts = [_text(file) for file in (out, err)]
    if status is None:
        raise subprocess.TimeoutExpired(words, timeout, *texts)
    return subprocess.CompletedProcess(words, status, *texts)


def _request(
    words: tuple[str, ...], machine: int = 0, variables: Mapping[str, str] = NONE
) -> bytes:
    return json.dumps([words, {**os.environ, **variables}, str(Path.cwd()), machine]).encode()


def _run(
    requests: socket.socket, request: bytes, files: Sequence[int], timeout: float | None = None
) -> int | None:
    """Have a script run with these standard files; gives how it ended, and none if it was late."""
    reading, writing = os.pipe()
    try:
        try:
            socket.send_fds(requests, [request], [*files, writing])
        finally:
            os.close(writing)
        return _status(reading, timeout)
    finally:
        os.close(reading)


def _read_at_import() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(AT_IMPORT)}


def _status(replies: int, timeout: float | None) -> int | None:
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
        self.requests, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with peer:
            words = [sys.executable, "-m", "tests.fork_server", str(peer.fileno())]
            self._process = subprocess.Popen(
                words, cwd=ROOT, pass_fds=[peer.fileno()], start_new_session=True
            )


@cache
def server() -> _Server:
    """Start the process that all are forked from, unless it runs."""
    return _Server()


def put_command(script: str, folder: Path) -> dict[str, Any]:
    """Put a program into a folder that runs a script by fork, for shells."""
    path = folder / Path(script).name
    words = shlex.join([sys.executable, "-IS", __file__, script])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)
    requests = server().requests.fileno()
    setting = json.dumps([requests, server().variables])
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", SERVER: setting}
    return {"env": {**os.environ, **variables}, "pass_fds": [requests]}


def _main(*words: str) -> int:
    """Run a script for a shell, and end as it does."""
    requests, variables = json.loads(os.environ.pop(SERVER))
    if _read_at_import() != variables:
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - the same process, not forked
    status = _run(socket.socket(fileno=requests), _request(words), (0, 1, 2)) or 0
    if status < 0:
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
