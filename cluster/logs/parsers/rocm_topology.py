"""`rocm-smi --showtopo` and `amd-smi topology`: how the GPUs of a host are connected.

There are no measurements in it. XGMI is AMD's link between GPUs (Infinity Fabric); all other paths
are PCIE.
https://rocm.docs.amd.com/projects/rocm_smi_lib
"""

import re

from cluster.core.model.logs import Device, Parsed, Topology
from cluster.logs.parsers import Parser, ResultBuilder

_TITLE = re.compile(
    r"\s*=*\s*(ROCm System|Link Type|Weight|Hops|Link [Aa]ccess\w*|Access\w*|Numa Nodes?)\b.*=+\s*$"
)
_TABLE = re.compile(
    r"\s*(LINK TYPE|ACCESS|WEIGHT|HOPS|NUMA BW|CACHE COHERENCY|ATOMICS|DMA|BI-DIRECTIONAL) TABLE:"
)
_HEAD = re.compile(r"\s*(?:GPU\d{1,3}\s*)+$")
_ROW = re.compile(r"\s*(GPU\d{1,3})((?:\s+(?:0|XGMI|PCIE|N/A|X|SELF)\b)+)\s*$")
_NUMBERS = re.compile(r"\s*GPU\d{1,3}(?:\s+(?:\d{1,6}|True|False|N/A))+\s*$")
_NUMA = re.compile(
    r"\s*GPU(?:\[| )(\d{1,3})\]?\s*: \(Topology\) Numa (Node|Affinity): (\d{1,4})\s*$"
)
_KNOWN = re.compile(r"\s*(?:=+ .* =+|={20,}|GPU(?:\[| )\d+\]?\s*:.*)\s*$")


class RocmTopology(Parser):
    """rocm-smi --showtopo: XGMI or PCIE between each pair of GPUs."""

    marks = (*("Link Type between", "LINK TYPE TABLE", "ROCm System Management"),)
    definitions = ()

    def __init__(self) -> None:
        self._first = 0
        self._names: list[str] = []
        self._rows: dict[str, list[str]] = {}
        self._numa: dict[str, str] = {}
        self._is_links = False

    def take(self, line: str, lineno: int) -> bool:
        if title := _TITLE.match(line) or _TABLE.match(line):
            self._is_links = title[1].lower() == "link type"
            self._first = self._first or lineno
        elif self._first and _HEAD.match(line):
            self._names = line.split()
        elif self._is_links and (row := _ROW.match(line)):
            self._rows[row[1]] = row[2].split()
        elif numa := _NUMA.match(line):
            if numa[2] == "Node":
                self._numa[f"GPU{numa[1]}"] = numa[3]
        else:
            return bool(self._first and (_NUMBERS.match(line) or _KNOWN.match(line)))
        return True

    def results(self) -> tuple[Parsed, ...]:
        names = [name for name in self._names if name in self._rows]
        if not names:
            return ()
        builder = ResultBuilder("rocm_topology", self._first, f"{len(self._names)} devices")
        if missing := [name for name in self._names if name not in self._rows]:
            builder.lack("no_rows", ", ".join(missing))
        return (builder.result(Topology(devices=tuple(map(self._device, self._names)))),)

    def _device(self, name: str) -> Device:
        width = len(self._names)
        cells = self._rows.get(name, [])[:width]
        paths = [cell if cell in ("XGMI", "PCIE") else "?" for cell in cells]
        paths += ["?"] * (width - len(paths))
        paths[self._names.index(name)] = "X"
        return Device(name=name, paths=tuple(paths), numa=self._numa.get(name, ""))
