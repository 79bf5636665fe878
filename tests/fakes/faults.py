"""What goes wrong, call by call, and which process is on the other end of a connection."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fakes.values import Call, Fault

NOBODY = "0"  # holds a connection that has ended and is kept for a while


class Faults:
    """The faults that a test has asked for; the first that fits a call harms it."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._seen: list[int] = []
        self._dice: list[random.Random] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)
        self._dice.append(random.Random(fault.seed))
        self._seen.append(0)

    def of(self, call: Call) -> Fault | None:
        """Tell what happens to a call, and count it."""
        for index, fault in enumerate(self._faults):
            if not _fits(fault, call) or self._dice[index].random() >= fault.chance:
                continue
            self._seen[index] += 1
            if fault.skip < self._seen[index] <= fault.skip + fault.times:
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


def kill(port: int, ours: int) -> None:
    """Kill the process that holds the other end of a connection on loopback."""
    if pid := _holder(port, ours):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _holder(port: int, ours: int) -> int:
    inode = _inode(port, ours)
    for link in Path("/proc").glob("[0-9]*/fd/*") if inode else ():
        with contextlib.suppress(OSError):
            if str(link.readlink()) == f"socket:[{inode}]":
                pid = int(link.parts[2])
                if pid == os.getpid():
                    raise RuntimeError("A test must not kill itself: call from another process.")
                return pid
    return 0


def _inode(port: int, ours: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ends = [int(end.rpartition(":")[2], 16) for end in fields[1:3]]
        if ends == [port, ours] and fields[9] != NOBODY:
            return fields[9]
    return ""
