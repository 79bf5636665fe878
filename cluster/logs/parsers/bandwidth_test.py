"""CUDA's bandwidthTest: copies between host and device, as text, as a range, as CSV.

Up to CUDA 10.0 it prints "MB/s" and means MiB/s (2**20 bytes); since 10.1 it prints GB/s of 1e9
bytes. A copy within the device counts its bytes twice: read and written.
"""

import re

from cluster.core.model.logs import Parsed
from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, MIB, ResultBuilder, RunParser, count, define, number

SCALE = {"MB/s": MIB, "GB/s": GB}

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = DEFINITIONS = define(
    "bandwidth_test",
    """
    host_to_device (B/s, one way, host to GPU): copies from the host's memory to the GPU's, of all
        devices together; printed in MB/s of 2**20 bytes or in GB/s of 1e9 bytes
    device_to_host (B/s, one way, host to GPU): copies from the GPU's memory to the host's, of all
        devices together; printed in MB/s of 2**20 bytes or in GB/s of 1e9 bytes
    device_to_device (B/s, GPU memory): copies within the GPU's memory, each byte counted twice
        (read and written), of all devices together; printed in MB/s of 2**20 bytes or in GB/s of
        1e9 bytes
    """,
    clock="CUDA events, or the host's clock for pageable memory",
    synchronisation="the device is idle before the first copy",
    warm_up="none",
    aggregation="all ranks",
)
_DEFINITIONS = {
    **dict.fromkeys(("H2D", "Host to Device"), HOST_TO_DEVICE),
    **dict.fromkeys(("D2H", "Device to Host"), DEVICE_TO_HOST),
    **dict.fromkeys(("D2D", "Device to Device"), DEVICE_TO_DEVICE),
}

_START = re.compile(r"\s*\[CUDA Bandwidth Test\] - Starting")
_TITLE = re.compile(
    r"\s*(Host to Device|Device to Host|Device to Device) Bandwidth, (\d{1,3}) Device"
)
_MEMORY = re.compile(r"\s*(PINNED|PAGEABLE|WRITE-COMBINED \w+|\w+) Memory Transfers")
_UNIT = re.compile(r"\s*Transfer Size \(Bytes\)\s+Bandwidth\s*\((MB/s|GB/s)\)")
_ROW = re.compile(r"\s*(\d{1,15})\s+(\d+[.,]\d)\s*$")  # always with one decimal
_CSV = re.compile(
    r"\s*bandwidthTest-([HD]2[HD])(?:-(\w+))?, Bandwidth = (\S+) (MB/s|GB/s), Time = (\S+) s,"
    r" Size = (\d{1,15}) bytes, NumDevsUsed = (\d{1,3})"
)
_MEMORY_OF_CSV = {"Pinned": "pinned", "Paged": "pageable"}
_FAILED = re.compile(
    r"\s*(?:CUDA error at \S*bandwidthTest\.cu|!+No devices found!|cuda\w+ returned \d+\s*$)"
)
_RESULT = re.compile(r"\s*Result = (\w+)")
_DEVICE = re.compile(r"\s*Device (\d+): (.*\S)")
_KNOWN = re.compile(
    r"\s*(?:Running on\.|(?:Quick|Range|Shmoo) Mode|!+Cumulative|NOTE: The CUDA Samples|\.+$)"
)


class BandwidthTest(RunParser):
    """bandwidthTest: host to device, device to host, and within the device."""

    marks = ("CUDA Bandwidth Test", "Memory Transfers", "bandwidthTest-")
    has_rows = True
    definitions = DEFINITIONS
    title = "bandwidthTest"
    _title: re.Match[str] | None = None
    _memory = ""
    _unit = ""

    def _reset(self) -> None:
        self._has_result = False

    def take(self, line: str, lineno: int) -> bool:
        if _START.match(line):
            is_mixed = self._run is not None and self._run.empty and not self._has_result
            run = self._begin(lineno)
            if is_mixed:
                run.doubt()
            self._title, self._unit = None, ""
            return True
        if line.lstrip()[:1].isdigit():
            return self._row(line, lineno)
        if self._csv(line, lineno) or self._heading(line, lineno):
            return True
        return self._run is not None and self._rest(self._run, line)

    def awaits(self, line: str) -> bool:
        is_open = self._run is not None and self._run.empty and bool(self._unit)
        return is_open and _ROW.match(line) is not None

    def _heading(self, line: str, lineno: int) -> bool:
        title, memory, unit = _TITLE.match(line), _MEMORY.match(line), _UNIT.match(line)
        if title:
            self._title, self._unit, self._memory = title, "", ""
        elif (memory or unit) and self._unit:
            self._title = None  # of another table, whose title is missing
        elif memory and self._title:
            self._memory = memory[1].lower()
        elif unit and self._title:
            self._unit = unit[1]
            table = (*self._title.groups(), self._memory)
            if table in self._tables:
                self._begin(lineno)  # another run, whose first lines are missing
            self._tables.add(table)
        return bool(title or memory or unit)

    def _row(self, line: str, lineno: int) -> bool:
        match = _ROW.match(line) if self._unit else None
        if match is None or self._title is None or not count(match[1]):
            return False  # also for a row of column numbers of another tool: no transfer has 0 B
        return self._add(lineno, self._title[1], match[2], self._unit, match[1], self._title[2])

    def _csv(self, line: str, lineno: int) -> bool:
        match = _CSV.match(line)
        if match is None or match[1] not in _DEFINITIONS:
            return False
        self._memory = _MEMORY_OF_CSV.get(match[2] or "", match[2] or "")
        return self._add(lineno, match[1], match[3], match[4], match[6], match[7])

    def _add(self, lineno: int, way: str, rate: str, unit: str, bytes_: str, devices: str) -> bool:
        definition, size, value = _DEFINITIONS[way], int(bytes_), number(rate)
        if value is None:
            return False
        params: dict[str, Scalar] = {"size": size, "devices": int(devices)}
        if self._memory and definition is not DEVICE_TO_DEVICE:
            params["memory"] = self._memory
        self._open(lineno).add(definition, value * SCALE[unit], params, size=size)
        return True

    def _rest(self, run: ResultBuilder, line: str) -> bool:
        if result := _RESULT.match(line):
            self._has_result = True
            if result[1] != "PASS":
                run.fail(f"Result = {result[1]}")
        elif device := _DEVICE.match(line):
            run.note("device", device[1], device[2])
            run.set_device(device[2])
        elif _FAILED.match(line):
            run.fail(line.strip())
        else:
            return _KNOWN.match(line) is not None
        return True

    def results(self) -> tuple[Parsed, ...]:
        if self._run and not self._has_result:
            self._run.lack("no_verdict")
        return super().results()
