"""Rank, one rank of a running benchmark: its number, its files, its progress.

Values survive everything but SIGKILL: a thread that sleeps in `read` wakes up on SIGTERM, writes
the values of the open series, and ends the process, also while the main thread is inside MPI.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from cluster.agent.processes import process_info, processor_times, sent_bytes, times_since
from cluster.agent.protocol import NOTICE
from cluster.core.errors import ClusterError
from cluster.core.model.hosts import PROCESS_FILE, ProcessorTimes
from cluster.core.model.results.measurements import Definition, Measurement, Progress
from cluster.core.model.results.records import NOTES_FILE
from cluster.measure.mpi import ADDRESSES

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Intracomm

    from cluster.core.model.value import Scalar


PROGRESS_EVERY = 0.1  # seconds between two lines of progress
WATCHED = 0.25  # seconds that all ranks sleep before they measure
NAP = 0.005  # seconds between two checks for a message
LINGER = 1.0  # seconds that a stopped rank waits, while the others write their values


class OpenSeries(NamedTuple):
    """One series of values while it is being measured."""

    definition: Definition
    params: dict[str, Scalar]
    bytes: int
    unit: str
    values: list[float]


class Rank:
    def __init__(self, comm: Intracomm, folder: Path) -> None:
        self.comm = comm
        self.number = comm.Get_rank()
        self.size = comm.Get_size()
        self._folder = folder
        self._progress: IO[bytes] | None = None
        if self.number == 0:
            self._progress = (folder / "progress.jsonl").open("ab", buffering=0)
        self._file = (folder / f"measurements.{self.number}.jsonl").open("ab", buffering=0)
        self._open: list[OpenSeries] = []
        self._writing = threading.Lock()
        self._is_stopped = False
        self._reported_at = 0.0
        self._before = ProcessorTimes()
        self._began, self._traffic = processor_times(), sent_bytes()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # the thread below does the work
        threading.Thread(target=self._stop_on_signal, args=(reader,), daemon=True).start()

    def watch_others(self) -> None:
        """Measure what others use of the host's processors, while all ranks sleep: all call it."""
        self.barrier()
        start = processor_times()
        time.sleep(WATCHED)
        self._before, self._began = times_since(start), processor_times()
        self._traffic = sent_bytes()

    def begin(
        self,
        definition: Definition,
        params: dict[str, Scalar],
        *,
        size: int = 0,
        unit: str = "s",
        is_beside: bool = False,
    ) -> list[float]:
        """Begin a series of values at a data point; return the list to append them to.

        `size` bytes move during each value. Values but those of foreign programs are seconds. A
        series `is_beside` those that were begun before: all of them end together.
        """
        series = OpenSeries(definition, params, size, unit, [])
        self._open = [*self._open, series] if is_beside else [series]
        return series.values

    def end(self) -> None:
        """Write the open series, but none without values."""
        self._write(complete=True)

    def give_up(self) -> None:
        """Write what the open series have so far: the benchmark failed."""
        self._write(complete=False)

    def add(self, measurement: Measurement) -> None:
        """Write a measurement that was not taken by this rank, such as one between two hosts."""
        with self._writing:
            self._file.write(msgspec.json.encode(measurement) + b"\n")

    def print_line(self, line: str) -> None:
        """Print a line for users who watch the session."""
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{line}\n".encode())  # UTF-8 whatever the host's locale is
        sys.stdout.buffer.flush()

    def notice(self, line: str) -> None:
        """Say something to the user at once; ignored on all ranks but rank 0."""
        if self.number == 0:
            sys.stderr.write(f"{NOTICE}{line}\n")
            sys.stderr.flush()

    def note(self, line: str) -> None:
        """Add a note to the run for readers of its values; ignored on all ranks but rank 0."""
        if self.number == 0:
            with (self._folder / NOTES_FILE).open("a") as file:
                file.write(line + "\n")

    def write_process_info(self) -> None:
        """Write the cores and connections of this process, after its last value."""
        path = self._folder / PROCESS_FILE.format(rank=self.number)
        process = process_info(self.number, self._began, self._before, self._traffic)
        path.write_bytes(msgspec.json.encode(process))

    def progress(self, current: float, total: int, label: str) -> None:
        """Report the job's progress, at most ten times a second; ignored on all ranks but rank 0.

        `current` has the fraction of the current step; `label` names it.
        """
        now = time.monotonic()
        if self._progress is None or (current < total and now - self._reported_at < PROGRESS_EVERY):
            return
        self._reported_at = now
        line = msgspec.json.encode(Progress(done=current, total=total, what=label))
        self._progress.write(line + b"\n")

    def receive(self, comm: Comm, source: int) -> Any:  # noqa: ANN401 - whatever was sent
        """Wait, without busy-waiting, for an object from another rank, by its number there."""
        request = comm.irecv(source=source)
        while True:
            has_arrived, message = request.test()
            if has_arrived:
                return message
            time.sleep(NAP)

    def addresses(self) -> list[str]:
        """Return the addresses by which the ranks reach one another, by rank; all ranks call this.

        ClusterError: they are not known, and the ranks are on several hosts.
        """
        hosts = self.comm.allgather(platform.node())
        addresses = os.environ.get(ADDRESSES, "")
        if addresses:
            return addresses.split(",")
        if len(set(hosts)) == 1:
            return ["127.0.0.1"] * self.size
        raise ClusterError(
            "The addresses of the ranks are not known.",
            means=f"{ADDRESSES} is not set, and the ranks are on several hosts.",
            remedy=f"Set it to an address per rank: export {ADDRESSES}=10.0.0.1,10.0.0.2",
        )

    def barrier(self) -> None:
        """Wait until all ranks are here, without busy-waiting: others may need the core."""
        request = self.comm.Ibarrier()
        while not request.Test():
            time.sleep(NAP)

    def _write(self, *, complete: bool) -> None:
        """Write the open series once: after a stop, the main thread may still call this."""
        with self._writing:
            results, self._open = [series for series in self._open if series.values], []
            if not results or self._is_stopped:
                return
            self._is_stopped = not complete
            for series in results:
                measurement = Measurement(
                    metric=series.definition.metric,
                    definition=series.definition.id,
                    unit=series.unit,
                    params=series.params,
                    rank=self.number,
                    host=platform.node(),
                    values=tuple(series.values),
                    bytes=series.bytes,
                    complete=complete,
                )
                self._file.write(msgspec.json.encode(measurement) + b"\n")

    def _stop_on_signal(self, reader: int) -> None:
        number = os.read(reader, 1)[0]
        self._write(complete=False)
        with self._writing:
            self._is_stopped = True
        time.sleep(LINGER)  # the first rank that ends makes mpirun kill the others
        os._exit(128 + number)
