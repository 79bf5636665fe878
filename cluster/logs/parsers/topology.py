"""`nvidia-smi topo -m` and `-p2p`: how the GPUs and NICs of a host are connected.

There are no measurements in it. From fast to slow: NV# (bonded NVLinks), PIX (one PCIe bridge), PXB
(several), PHB (the CPU's host bridge), NODE (host bridges of one NUMA node), SYS (between sockets).
"""

import re
from sys import intern

from cluster.core.model.logs import Device, Parsed, PeerAccess, Topology
from cluster.logs.parsers import ResultBuilder, RunParser

PATH = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
STATUS = re.compile(r"X|OK|NS|CNS|GNS|TNS|DR|U")
_GPU = re.compile(r"GPU\d{1,3}")
_NAMES = re.compile(r"(?:(?:GPU|NIC)\d{1,3}){2,}")  # wide tables have no space between names
_CELLS = re.compile(f"(?:{PATH.pattern}){{2,}}")
_NAME = re.compile(r"[A-Za-z][\w.:-]{0,40}")
_LEGEND = re.compile(r"\s*(NIC\d+): (\S+)\s*$")
_KNOWN = re.compile(r"\s*(?:(?:NIC )?Legend:|[A-Z]{1,4}#? +=\s)")
_TAIL = ("CPU", "NUMA", "GPU NUMA")


class NvidiaTopology(RunParser):
    """nvidia-smi topo: the class of the path between each pair of devices."""

    marks = ("GPU0", "NIC Legend")
    definitions = ()
    _matrix: "_Matrix | None" = None  # the open one

    def take(self, line: str, lineno: int) -> bool:
        if self._matrix and (":" in line or "=" in line) and self._matrix.legend(line):
            return True
        cells = line.split()
        if self._matrix and self._matrix.take(cells, plain=True):
            return True
        cells = _split(cells)
        is_header = all(map(_NAME.fullmatch, cells)) and not any(map(PATH.fullmatch, cells))
        if cells and _GPU.fullmatch(cells[0]) and is_header:
            words = " ".join(cells)
            for tail in _TAIL:
                words = words.partition(f" {tail} A")[0].partition(f" {tail} I")[0]
            names = words.split()
            if len(set(names)) < len(names):
                return False  # the matrices cannot be separated
            self._end()
            self._matrix = _Matrix(names, lineno, has_numa="NUMA" in cells)
            return True
        return self._matrix is not None and self._matrix.take(cells)

    def _end(self) -> None:
        if self._matrix and self._matrix.rows:
            self._runs.append(self._matrix.result())
        self._matrix = None


def _split(cells: list[str]) -> list[str]:
    """Split cells without a space between them, such as `SYSPIX` and `NIC7NIC8`."""
    parts: list[str] = []
    for cell in cells:
        if _NAMES.fullmatch(cell):
            parts += re.findall(r"(?:GPU|NIC)\d{1,3}", cell)
        else:
            parts += PATH.findall(cell) if _CELLS.fullmatch(cell) else [cell]
    return parts


class _Matrix:
    """One matrix, as far as its rows were read."""

    def __init__(self, names: list[str], first: int, *, has_numa: bool) -> None:
        self._first = first
        self._names = names
        self._has_numa = has_numa
        self.rows: dict[str, list[str]] = {}
        self._kinds: frozenset[str] = frozenset()  # all cells of its columns
        self.models: dict[str, str] = {}

    def take(self, cells: list[str], *, plain: bool = False) -> bool:
        if len(cells) < 2 or cells[0] not in self._names or cells[0] in self.rows:  # noqa: PLR2004
            return False
        row = cells[1:]
        inner = frozenset(row[: len(self._names)])
        if plain and (len(row) < len(self._names) or "X" not in inner):
            return False
        if not (all(map(PATH.fullmatch, inner)) or all(map(STATUS.fullmatch, inner))):
            return False
        self._kinds |= inner
        self.rows[cells[0]] = list(map(intern, row))
        return True

    def legend(self, line: str) -> bool:
        if legend := _LEGEND.match(line):
            self.models[legend[1]] = legend[2]
        return bool(legend or _KNOWN.match(line))

    def result(self) -> Parsed:
        missing = [name for name in self._names if name not in self.rows]
        builder = ResultBuilder("topology", self._first, f"{len(self._names)} devices")
        if missing:
            builder.lack("no_rows", ", ".join(missing))
        cells = self._kinds - {"X"}
        if cells and all(map(STATUS.fullmatch, cells)):
            rows = tuple(self._inner(name) for name in self._names)
            return builder.result(PeerAccess(devices=tuple(self._names), status=rows))
        return builder.result(Topology(devices=tuple(self._device(name) for name in self._names)))

    def _inner(self, name: str) -> tuple[str, ...]:
        width = len(self._names)
        row = tuple(self.rows.get(name, ())[:width])
        return row + ("?",) * (width - len(row))

    def _device(self, name: str) -> Device:
        tail_cells = self.rows.get(name, [])[len(self._names) :]
        return Device(
            name=name,
            paths=self._inner(name),
            cpus=_value(tail_cells[0]) if tail_cells else "",
            numa=_value(tail_cells[1]) if self._has_numa and len(tail_cells) > 1 else "",
            model=self.models.get(name, ""),
        )


def _value(cell: str) -> str:
    return "" if cell == "N/A" else cell
