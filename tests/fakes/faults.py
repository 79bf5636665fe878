"""What goes wrong, call by call, and which process is on the other end of a connection."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

from tests.fakes.values import Call, Fault

LOOKS = 50  # a client that has gone by itself is not there either
NOBODY = "0"  # holds a connection that has ended and is kept for a while


class Faults:
    """The faults that a test has asked for; the first that fits a call harms it."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._counts: list[int] = []
        self._dice: list[random.Random] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)
        self._dice.append(random.Random(fault.seed))
        self._counts.append(0)

    def match(self, call: Call) -> Fault | None:
        """Tell what happens to a call, and count it."""
        for index, fault in enumerate(self._faults):
            if not _fits(fault, call) or self._dice[index].random() >= fault.chance:
                continue
            self._counts[index] += 1
            if fault.skip < self._counts[index] <= fault.skip + fault.times:
                return fault
        return None


def _fits(fault: Fault, call: Call) -> bool:
    kinds = {"*", call.action} | ({"mutating"} if call.mutating else set())
    return fault.action in kinds and all(
        _value(call, path) == value for path, value in fault.where.items()
    )


def _value(call: Call, path: str) -> str:
    if path == "region":
        return call.region
    value: object = call.params
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return str(value)


def kill(port: int, local_port: int) -> None:
    """Kill the process that holds the other end of a connection on loopback.

    The kernel's table may lack a connection while others come and go, so it is read again.
    """
    for _ in range(LOOKS):
        if pid := _holder(port, local_port):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.02)


def _holder(port: int, local_port: int) -> int:
    inode = _inode(port, local_port)
    for link in Path("/proc").glob("[0-9]*/fd/*") if inode else ():
        with contextlib.suppress(OSError):
            if str(link.readlink()) == f"socket:[{inode}]":
                pid = int(link.parts[2])
                if pid == os.getpid():
                    raise RuntimeError("A test must not kill itself: call from another process.")
                return pid
    return 0


def _inode(port: int, local_port: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ends = [int(end.rpartition(":")[2], 16) for end in fields[1:3]]
        if ends == [port, local_port] and fields[9] != NOBODY:
            return fields[9]
    return ""
