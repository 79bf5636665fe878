"""The cores and NUMA nodes of this host, and how near they are, as Linux reports them; copies.

One core copies what another one wrote.
"""

import mmap
import os
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from cluster.agent.hardware import read_text
from cluster.agent.processes import parse_cpu_list

SYSTEM = Path("/sys/devices/system")
NODE, SYS = "NODE", "SYS"  # classes of cores without a common cache: of one NUMA node, or not


class CoreUnit(NamedTuple):
    """A core, or a NUMA node."""

    number: int
    cpu: int


def usable_cpus() -> set[int]:
    """Find the processors that this rank may use; a starter may have bound it to one of them."""
    return os.sched_getaffinity(os.getppid()) | os.sched_getaffinity(0)


def numa_nodes(cpus: set[int], system: Path = SYSTEM) -> tuple[list[CoreUnit], list[int]]:
    """Return the NUMA nodes with a usable core, and the numbers of those without one."""
    folder = system / "node"
    by_node = {
        n: parse_cpu_list(read_text(folder / f"node{n}" / "cpulist")) & cpus for n in _order(system)
    }
    nodes = [CoreUnit(number, min(usable)) for number, usable in by_node.items() if usable]
    return nodes, [number for number, usable in by_node.items() if not usable]


def cores(cpus: set[int], system: Path = SYSTEM) -> list[CoreUnit]:
    """Return the cores, numbered by the first usable one of their threads."""
    first_threads: dict[frozenset[int], int] = {}
    for cpu in sorted(cpus):
        threads = read_text(system / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list")
        first_threads.setdefault(parse_cpu_list(threads) or frozenset({cpu}), cpu)
    return [CoreUnit(cpu, cpu) for cpu in first_threads.values()]


def node_distance(first: CoreUnit, second: CoreUnit, system: Path = SYSTEM) -> str:
    """Return the distance of two NUMA nodes, such as `10` or `21`; empty if it is not known."""
    row = read_text(system / "node" / f"node{first.number}" / "distance").split()
    order = _order(system)
    index = order.index(second.number)
    return row[index] if len(row) == len(order) else ""


def _order(system: Path) -> list[int]:
    return sorted(int(f.name.removeprefix("node")) for f in (system / "node").glob("node[0-9]*"))


def core_path(first: CoreUnit, second: CoreUnit, system: Path = SYSTEM) -> str:
    """Return the class of two cores: their smallest common cache, as `L3`, or `NODE`, `SYS`."""
    caches = (system / "cpu" / f"cpu{first.cpu}" / "cache").glob("index*")
    levels = [
        read_text(cache / "level")
        for cache in caches
        if second.cpu in parse_cpu_list(read_text(cache / "shared_cpu_list"))
    ]
    if levels:
        return f"L{min(levels)}"
    nodes = (system / "node").glob("node[0-9]*")
    near = any(
        {first.cpu, second.cpu} <= parse_cpu_list(read_text(node / "cpulist")) for node in nodes
    )
    return NODE if near else SYS


class CoreCopies:
    """Memory that cores of this host write and read, of a size in bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def times(self, reader: CoreUnit, writer: CoreUnit, count: int) -> list[float]:
        """Time copies: the reader copies what the writer wrote before, into memory of its own.

        Linux places a page on the node of the core that writes it first.
        """
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {reader.cpu})
            target = self._fresh()
            os.sched_setaffinity(0, {writer.cpu})
            other = self._fresh()
            seconds = []
            for _ in range(count):
                os.sched_setaffinity(0, {writer.cpu})
                other[:] = 2
                os.sched_setaffinity(0, {reader.cpu})
                start = perf_counter()
                np.copyto(target, other)
                seconds.append(perf_counter() - start)
            return seconds
        finally:
            os.sched_setaffinity(0, before)

    def _fresh(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return memory that the core of this moment has written."""
        array = np.frombuffer(mmap.mmap(-1, self.size), dtype=np.uint8)
        array[:] = 1
        return array
