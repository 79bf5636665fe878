"""What `nccl-tests -J` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.logs.parsers import numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.logs.parsers.nccl_tests.perf_test import PerfTest

MOST_RANKS = 1024  # of a process: a larger figure is an error


class _Half(msgspec.Struct):
    alg_bw: float | str
    bus_bw: float | str
    time: float | str | None = None
    cpu_time: float | str | None = None
    nwrong: float | str | None = None

    @property
    def figures(self) -> list[float] | None:
        """Time, algorithm and bus bandwidth; none if one of them is not a number."""
        time = self.time if self.time is not None else self.cpu_time or 0.0
        return numbers(map(str, (time, self.alg_bw, self.bus_bw)))


class _Row(msgspec.Struct):
    size: int
    type: str = ""
    redop: str = ""
    out_of_place: _Half | None = None
    in_place: _Half | None = None


class _Process(msgspec.Struct):
    rank: int
    hostname: str = ""
    device: int = 0
    device_info: str = ""


class _Config(msgspec.Struct):
    nthreads: int = 1
    ngpus: int = 1
    validation: int = 1
    devices: list[_Process] = []


class _Outcome(msgspec.Struct):
    count: int = 0
    bandwidth: float | str = 0.0
    okay: str = ""


class NcclJsonReport(msgspec.Struct):
    """The parts of the file that we read."""

    results: list[_Row]
    args: list[str] = []
    config: _Config = msgspec.field(default_factory=_Config)
    out_of_bounds: _Outcome = msgspec.field(default_factory=_Outcome)
    average_bus_bandwidth: _Outcome = msgspec.field(default_factory=_Outcome)
    errors: list[str] = []

    def fill(self, test: PerfTest) -> None:
        """Add everything to a test."""
        test.headed = test.ended = True
        test.name = (self.args or [""])[0].rpartition("/")[2]
        test.checked = bool(self.config.validation)
        self._place(test)
        for error in self._failures():
            test.fail(error)
        for row in self.results:
            for place, half in (("out", row.out_of_place), ("in", row.in_place)):
                if half is not None and (figures := half.figures):
                    test.add(row.size, (row.type, row.redop, place), figures, str(half.nwrong))

    def _place(self, test: PerfTest) -> None:
        """Name all ranks: the file names only the first one of each process."""
        each = self.config.nthreads * self.config.ngpus
        for process in self.config.devices:
            for at in range(min(each, MOST_RANKS)):
                test.ranks[process.rank + at] = process.hostname, process.device + at
            if process.device_info:
                test.models[process.device_info] = None

    def _failures(self) -> Iterable[str]:
        yield from (error for error in self.errors if error.strip())
        if self.out_of_bounds.okay == "false":
            yield f"Out of bounds values : {self.out_of_bounds.count} FAILED"
        if self.average_bus_bandwidth.okay == "false":
            yield f"Avg bus bandwidth : {self.average_bus_bandwidth.bandwidth} FAILED"
