"""GPUs: what a benchmark needs of a host with some, their copies and launches, and how busy one is.

CUDA's events give the time on the device, where the copies run one after another; they resolve
half a microsecond (`cudaEventElapsedTime`). A copy from pageable memory is the processor's work as
well, so the wall clock times it.
"""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from threading import Thread
from time import perf_counter
from typing import Any

from cluster.agent.commands import find_program
from cluster.agent.hardware.gpus import BUILT, ENABLED, PACKAGES
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Facts

INSTEAD = "the processor's memory: --buffer cpu"  # of messages between ranks
WARM_UP = 3  # copies or launches before those that are timed
PATTERN = 0x5A  # what the source of a copy holds; its target holds 0 before
MS = 1e-3  # of CUDA's events, in seconds


def check_host(
    facts: Facts, need: int, advice: str = "", *, by_mpi: bool = True, instead: str = INSTEAD
) -> None:
    """Refuse hosts that lack GPUs, or the software that a benchmark needs to use them (SpecError).

    Without `by_mpi`, NCCL sends: it needs no MPI with CUDA, and torch installs itself.
    """
    if len(facts.gpus) < need:
        raise missing_gpus_error(facts.host, len(facts.gpus), need, advice=advice, instead=instead)
    if not by_mpi:
        return
    if not set(PACKAGES) & set(facts.libraries):
        raise missing_library_error(facts.host, facts.executable)
    check_mpi(facts.host, facts.mpi_flags)


def missing_gpus_error(
    host: str,
    count: int,
    need: int,
    means: str = "Its driver finds none: nvidia-smi is missing, or lists none.",
    advice: str = "",
    instead: str = INSTEAD,
) -> SpecError:
    """Make the error for a host that has too few GPUs.

    `advice` is the option that gives GPUs, with `{gpus}` for their number; `instead` is a flag that
    does without.
    """
    option = f", such as {advice.format(gpus=need)}" if advice else ""
    if count:
        return SpecError(
            f"{host} has {count} GPU(s) for {need} ranks.",
            means="Each rank needs a GPU of its own.",
            remedy=f"Ask for machines with {need}{option}, or for a rank on each: "
            "--ranks-per-host 1",
        )
    return SpecError(
        f"{host} has no GPU.",
        means=means,
        remedy=f"Use machines that have some{option}" + (f", or {instead}" if instead else ""),
    )


def missing_library_error(host: str, python: str) -> SpecError:
    """Make the error for a host whose Python has no library for the memory of GPUs."""
    return SpecError(
        f"Neither torch nor CuPy is installed for the ranks on {host}.",
        means="One of them is needed for GPU memory; cluster installs neither, because "
        "they take gigabytes.",
        remedy="Name a Python there that has torch: --option python=PATH\n"
        f"Or type there: python3 -m pip --python {python} install torch",
    )


def check_mpi(host: str, flags: Mapping[str, str]) -> None:
    """Refuse an MPI that would treat an address in GPU memory as one in host memory (SpecError).

    `flags` are what `ompi_info` reports about CUDA.
    """
    if flags.get(BUILT) != "true":
        words = (
            "was built without CUDA" if BUILT in flags else "does not report whether it has CUDA"
        )
        raise SpecError(
            f"The MPI on {host} {words}.",
            means="It would treat an address in GPU memory as one in host memory, and "
            "crash. The Open MPI that cluster installs has no CUDA.",
            remedy="Name one that has (ompi_info --parsable --all | grep "
            f"{BUILT}:value says true): --option mpi=PREFIX",
        )
    if flags.get(ENABLED, "true") != "true":
        raise SpecError(
            f"The MPI on {host} has CUDA, but it is switched off.",
            remedy=f"Use --mca {ENABLED}=true",
        )


class CudaCopies:
    """Timed copies of one GPU, of a size in bytes."""

    def __init__(self, torch: Any, gpu: int, size: int) -> None:  # noqa: ANN401 - a module
        self._torch, self._size = torch, size
        self._device = f"cuda:{gpu}"
        self._gpu = gpu

    def from_host(self, count: int, *, pin: bool) -> list[float]:
        """Time copies of the host's memory to the GPU; pinned memory is locked."""
        source, target = self._host(PATTERN, pin=pin), self._on_gpu(0)
        return self._time_copies(source, target, count, by_events=pin)

    def to_host(self, count: int, *, pin: bool) -> list[float]:
        """Time copies of the GPU's memory to the host, as in `from_host`."""
        source, target = self._on_gpu(PATTERN), self._host(0, pin=pin)
        return self._time_copies(source, target, count, by_events=pin)

    def both_ways(self, count: int) -> list[float]:
        """Time a copy to the GPU and one from it at once, in two streams, of locked memory.

        Each value is the seconds of a pair, from the first begin to the last end.
        """
        torch = self._torch
        down, gpu_copy = self._host(PATTERN, pin=True), self._on_gpu(0)
        up, host_copy = self._on_gpu(PATTERN), self._host(0, pin=True)
        with torch.cuda.device(self._gpu):
            first, second = torch.cuda.Stream(), torch.cuda.Stream()

            def once() -> None:
                second.wait_stream(first)  # neither begins before the event that begins the time
                with torch.cuda.stream(first):
                    gpu_copy.copy_(down, non_blocking=True)
                with torch.cuda.stream(second):
                    host_copy.copy_(up, non_blocking=True)
                first.wait_stream(second)

            seconds = self._by_events(once, count, first)
        self._compare(gpu_copy, down)
        self._compare(host_copy, up)
        return seconds

    def within(self, count: int) -> list[float]:
        return self._time_copies(self._on_gpu(PATTERN), self._on_gpu(0), count, by_events=True)

    def to_peer(self, peer: int, count: int) -> list[float]:
        """Time copies to another GPU's memory: wall-clock seconds until both are idle."""
        torch = self._torch
        source = self._on_gpu(PATTERN)
        target = torch.zeros(self._size, dtype=torch.uint8, device=f"cuda:{peer}")

        def once() -> None:
            target.copy_(source, non_blocking=True)

        seconds = self._by_clock(once, count, (self._gpu, peer))
        self._compare(target, source)
        return seconds

    def wall_clock(self, count: int) -> list[float]:
        """Time copies of locked memory to the GPU by the wall clock, to check the events."""
        source, target = self._host(PATTERN, pin=True), self._on_gpu(0)
        return self._by_clock(lambda: target.copy_(source, non_blocking=True), count, (self._gpu,))

    def _time_copies(self, source: Any, target: Any, count: int, *, by_events: bool) -> list[float]:  # noqa: ANN401
        torch = self._torch
        with torch.cuda.device(self._gpu):

            def once() -> None:
                target.copy_(source, non_blocking=by_events)

            differences = (
                self._by_events(once, count, torch.cuda.current_stream())
                if by_events
                else self._by_clock(once, count, (self._gpu,))
            )
        self._compare(target, source)
        return differences

    def _by_events(self, once: Callable[[], object], count: int, stream: Any) -> list[float]:  # noqa: ANN401
        torch = self._torch
        events = []
        for _ in range(WARM_UP + count):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize(self._gpu)
            begin.record(stream)
            once()
            end.record(stream)
            end.synchronize()
            events.append(begin.elapsed_time(end) * MS)
        return events[WARM_UP:]

    def _by_clock(
        self, once: Callable[[], object], count: int, gpus: tuple[int, ...]
    ) -> list[float]:
        seconds = []
        for _ in range(WARM_UP + count):
            self._wait(gpus)
            begin = perf_counter()
            once()
            self._wait(gpus)
            seconds.append(perf_counter() - begin)
        return seconds[WARM_UP:]

    def _wait(self, gpus: tuple[int, ...]) -> None:
        for gpu in gpus:
            self._torch.cuda.synchronize(gpu)

    def _host(self, value: int, *, pin: bool) -> Any:  # noqa: ANN401
        """Return memory of the NUMA node on which this thread runs: `fill_` touches it first."""
        torch = self._torch
        tensor = torch.empty(self._size, dtype=torch.uint8, pin_memory=pin)
        return tensor.fill_(value)

    def _on_gpu(self, value: int) -> Any:  # noqa: ANN401
        torch = self._torch
        return torch.full((self._size,), value, dtype=torch.uint8, device=self._device)

    def _compare(self, first: Any, second: Any) -> None:  # noqa: ANN401
        if not self._torch.equal(first.cpu(), second.cpu()):
            raise ClusterError(
                f"A copy of {self._size} B with GPU {self._gpu} arrived wrong.",
                means="Its time means nothing: the memory, the link or the driver is broken.",
                remedy="Look at nvidia-smi -q, at ECC errors and Xid messages of dmesg.",
            )


class CudaLaunches:
    def __init__(self, torch: Any, gpu: int) -> None:  # noqa: ANN401
        self._torch, self._gpu = torch, gpu
        self._number = torch.zeros(1, device=f"cuda:{gpu}")

    def launch(self, count: int) -> list[float]:
        """Time how long the processor needs to start a kernel; it does not wait for its end."""
        return self._times(count, end=False)

    def round_trip(self, count: int) -> list[float]:
        """Time a kernel from its launch until the processor knows that it has ended."""
        return self._times(count, end=True)

    def events(self, count: int) -> list[float]:
        torch, seconds = self._torch, []
        with torch.cuda.device(self._gpu):
            for _ in range(WARM_UP + count):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                end.record()
                end.synchronize()
                seconds.append(begin.elapsed_time(end) * MS)
        return seconds[WARM_UP:]

    def _times(self, count: int, *, end: bool) -> list[float]:
        wait, seconds = self._torch.cuda.synchronize, []
        for _ in range(WARM_UP + count):
            wait(self._gpu)  # the queue is empty, or a launch would wait for room in it
            begin = perf_counter()
            self._number.add_(1)
            if end:
                wait(self._gpu)
            seconds.append(perf_counter() - begin)
        return seconds[WARM_UP:]


EVERY = 200  # milliseconds between two samples; the driver's own period is a sixth to one second
STOPPED_WITHIN = 5.0  # seconds


class BusySampler:
    """Samples of one GPU, from now on until it is closed.

    They are the lines of the driver's tool, by default for the GPU `gpu`: its uuid, such as
    `GPU-5e0b...`, or its number.
    """

    def __init__(self, gpu: str, lines: Iterable[str] | None = None) -> None:
        self._samples: list[tuple[float, float]] = []
        self._process: subprocess.Popen[str] | None = None
        if lines is None and (path := find_program("nvidia-smi")):
            query = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
            argv = [path, *query, f"--id={gpu}", f"--loop-ms={EVERY}"]
            self._process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            lines = self._process.stdout
        self._thread = Thread(target=self._listen, args=(lines or (),), daemon=True)
        self._thread.start()

    def between(self, begin: float, end: float) -> list[float]:
        """Return the samples of a time by `time.perf_counter`; empty if there are none.

        Each is the percent of the driver's period in which any kernel ran.
        """
        return [busy for time, busy in self._samples if begin <= time <= end]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOPPED_WITHIN)
        self._thread.join(STOPPED_WITHIN)

    def _listen(self, lines: Iterable[str]) -> None:
        for line in lines:
            text = line.strip().removesuffix("%").strip()
            if text.isdigit():  # `[N/A]` of a GPU that is divided, or an error
                self._samples.append((perf_counter(), float(text)))
