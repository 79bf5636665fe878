"""rocm-bandwidth-test: matrices of peak copy bandwidth between processors and GPUs, in GB/s.

https://github.com/ROCm/rocm_bandwidth_test
"""

import re

from cluster.core.model.results.measurements import Definition
from cluster.logs.parsers import GB, ResultBuilder, RunParser, count, define, number

PEER, PEER_BOTH, HOST, HOST_BOTH, LOCAL = DEFINITIONS = define(
    "rocm_bandwidth",
    """
    peer_copy_bandwidth (B/s, one way, GPU to GPU): the best of the sizes of a copy from one GPU to
        another, one way; in GB/s of 1e9 bytes
    peer_copy_both_ways (B/s, both ways, GPU to GPU): the best of the sizes of copies between two
        GPUs, both ways together; in GB/s
    host_copy_bandwidth (B/s, one way, host to GPU): the best of the sizes of a copy between a
        processor and a GPU, one way; in GB/s
    host_copy_both_ways (B/s, both ways, host to GPU): the best of the sizes of copies between a
        processor and a GPU, both ways; in GB/s
    local_copy_bandwidth (B/s): the best of the sizes of a copy within a GPU; printed in GB/s of 1e9
        bytes
    """,
    clock="time stamps of the GPU, or of the processor (-c)",
    synchronisation="each copy alone",
    warm_up="one copy",
)
_START = re.compile(r"\s*RocmBandwidthTest Version:\s*(\S+)")
_DEVICE = re.compile(r"\s*Device:\s*(\d{1,3}),\s+([^,]+?)\s*(?:,.*)?$")
_TABLE = re.compile(r"\s*(Uni|Bi?)directional copy peak bandwidth GB/s\s*$")
_OTHER = re.compile(
    r"\s*(?:(?:Inter-)?Device (?:Access|Numa Distance|Hops?)|\w+ copy\b.*[Ll]atency.*)\s*$"
)
_HEAD = re.compile(r"\s*D/D((?:\s+\d{1,3})+)\s*$")
_GPU = re.compile(r"AMD (?:Instinct|Radeon)|Instinct|Radeon|gfx\w+|Vega|Arcturus", re.IGNORECASE)
_BUS = re.compile(r",\s+[0-9a-f]{1,4}:[0-9a-f]{1,2}\.\d\s*$")  # the address that GPUs have
_PROCESSOR = re.compile(r"Ryzen|EPYC|Threadripper|Xeon|Processor|CPU", re.IGNORECASE)
_KNOWN = re.compile(r"\s*(?:\.+|Launch Command is:|Data Path Validation)")


class RocmBandwidth(RunParser):
    """rocm-bandwidth-test: GB/s between devices, one way and both ways."""

    marks = ("RocmBandwidthTest", "D/D", "directional copy peak")
    has_rows = True
    definitions = DEFINITIONS
    title = "rocm-bandwidth-test"

    def __init__(self) -> None:
        super().__init__()
        self._gpus: dict[int, bool] = {}  # devices, and whether each is a GPU
        self._way = ""  # of the open matrix; empty if it has no bandwidths
        self._columns: list[int] = []
        self._rows: set[int] = set()  # of the open matrix

    def take(self, line: str, lineno: int) -> bool:
        if start := _START.match(line):
            self._begin(lineno, f"rocm-bandwidth-test {start[1]}")
            self._gpus, self._way, self._columns = {}, "", []
        elif device := _DEVICE.match(line):
            is_named = _GPU.search(device[2]) is not None and not _PROCESSOR.search(device[2])
            is_gpu = is_named or _BUS.search(line) is not None
            self._gpus[int(device[1])] = is_gpu
            if is_gpu:
                self._open(lineno).set_device(device[2])
        elif table := _TABLE.match(line):
            self._way, self._columns = table[1][0], []  # old versions print Bdirectional
            self._open_table(self._way, lineno)
        elif self._run is not None and (head := _HEAD.match(line)):
            if self._columns:
                self._run.lack("rocm_no_title")
                self._way = ""
            self._columns = [int(cell) for cell in head[1].split()]
            self._rows.clear()
        elif self._run is not None and _OTHER.match(line):
            self._way, self._columns = "", []
        else:
            return self._run is not None and (
                self._row(self._run, line.split()) or _KNOWN.match(line) is not None
            )
        return True

    def _row(self, run: ResultBuilder, cells: list[str]) -> bool:
        row = count(cells[0]) if cells else None
        if row is None or not self._columns or len(cells) != len(self._columns) + 1:
            return False
        values = [number(cell) for cell in cells[1:]]
        if any(v is None and cell != "N/A" for v, cell in zip(values, cells[1:], strict=True)):
            return False
        if row in self._rows:
            self._columns = []  # of another matrix, whose first lines are missing
            return False
        self._rows.add(row)
        for column, value in zip(self._columns, values, strict=True):
            definition = self._kind(row, column)
            if value and definition and self._way:
                run.add(definition, value * GB, {"row": row, "column": column})
        return True

    def _kind(self, row: int, column: int) -> Definition | None:
        """Find the metric of a cell: two GPUs, a GPU and a processor, or one GPU alone."""
        kinds = [self._gpus.get(device) for device in (row, column)]
        both_ways = self._way == "B"
        if None in kinds or not any(kinds):
            return None
        if row == column:
            return None if both_ways else LOCAL
        if all(kinds):
            return PEER_BOTH if both_ways else PEER
        return HOST_BOTH if both_ways else HOST
