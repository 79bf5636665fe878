"""`numactl --hardware`: the NUMA nodes of a host, and the distance between each two.

There are no measurements in it. A distance is what the firmware reports: 10 for a node's own
memory, and more for others; it is relative, not a time.
"""

import re

from cluster.core.model.logs import NUMA, Device, Parsed, Topology
from cluster.logs.parsers import ResultBuilder, RunParser

_FIRST = re.compile(r"\s*available: (\d{1,4}) nodes? \(")
_CPUS = re.compile(r"\s*node (\d{1,4}) cpus:((?:\s+\d{1,5})*)\s*$")
_SIZE = re.compile(r"\s*node \d{1,4} (?:size|free): \d+ MB\s*$")
_TITLE = re.compile(r"\s*node distances:\s*$")
_HEADER = re.compile(r"\s*node((?:\s+\d{1,4})+)\s*$")
_ROW = re.compile(r"\s*(\d{1,4}):((?:\s+\d{1,3})+)\s*$")


class Numactl(RunParser):
    """numactl --hardware: the distance between NUMA nodes."""

    marks = ("node distances:", "numactl", "available: ")
    definitions = ()
    _nodes: "_Nodes | None" = None  # of the list that was read last

    def take(self, line: str, lineno: int) -> bool:
        nodes = self._nodes if self._nodes and not self._nodes.is_complete else None
        is_title = _TITLE.match(line) is not None
        if _FIRST.match(line) or (is_title and nodes is None):
            self._end()
            self._nodes = _Nodes(lineno, has_title=is_title)
            return True
        return nodes is not None and nodes.take(line)

    def _end(self) -> None:
        if self._nodes and self._nodes.rows:
            self._runs.append(self._nodes.result())
        self._nodes = None


class _Nodes:
    """What was read of the nodes of one host."""

    def __init__(self, first: int, *, has_title: bool) -> None:
        self._first = first
        self._has_title = has_title
        self._columns: tuple[str, ...] = ()
        self._cpus: dict[str, list[str]] = {}  # of nodes
        self.rows: dict[str, list[str]] = {}

    @property
    def is_complete(self) -> bool:
        return bool(self._columns) and len(self.rows) == len(self._columns)

    def take(self, line: str) -> bool:
        if cpus := _CPUS.match(line):
            self._cpus[cpus[1]] = cpus[2].split()
        elif _TITLE.match(line):
            self._has_title = True
        elif self._has_title and not self._columns and (header := _HEADER.match(line)):
            self._columns = tuple(header[1].split())
        elif (row := _ROW.match(line)) and row[1] in self._columns and row[1] not in self.rows:
            if len(row[2].split()) != len(self._columns):
                return False
            self.rows[row[1]] = row[2].split()
        else:
            return bool(_SIZE.match(line))
        return True

    def result(self) -> Parsed:
        missing = [node for node in self._columns if node not in self.rows]
        builder = ResultBuilder("numactl", self._first, f"{len(self._columns)} NUMA nodes")
        if missing:
            builder.lack("no_node_rows", ", ".join(missing))
        devices = (
            Device(
                name=f"{NUMA}{node}",
                paths=tuple(self.rows.get(node, ["?"] * len(self._columns))),
                cpus=",".join(self._cpus.get(node, ())),
                numa=node,
            )
            for node in self._columns
        )
        return builder.result(Topology(devices=tuple(devices)))
