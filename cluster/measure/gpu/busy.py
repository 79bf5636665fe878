"""How busy a GPU is, sampled by nvidia-smi while something else runs."""

import subprocess
from collections.abc import Iterable
from threading import Thread
from time import perf_counter

from cluster.agent.commands import find_program

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
        if lines is None:
            self._process = _started(gpu)
            lines = (self._process and self._process.stdout) or ()
        self._thread = Thread(target=self._listen, args=(lines,), daemon=True)
        self._thread.start()

    def between(self, begin: float, end: float) -> list[float]:
        """Return the samples of a time by `time.perf_counter`; empty if there are none.

        Each is the percent of the driver's period in which any kernel ran.
        """
        return [busy for at, busy in self._samples if begin <= at <= end]

    def close(self) -> None:
        """Stop the driver's tool."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOPPED_WITHIN)
        self._thread.join(STOPPED_WITHIN)

    def _listen(self, lines: Iterable[str]) -> None:
        for line in lines:
            text = line.strip().removesuffix("%").strip()
            if text.isdigit():  # `[N/A]` of a GPU that is divided, or an error
                self._samples.append((perf_counter(), float(text)))


def _started(gpu: str) -> subprocess.Popen[str] | None:
    path = find_program("nvidia-smi")
    if path is None:
        return None
    query = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
    argv = [path, *query, f"--id={gpu}", f"--loop-ms={EVERY}"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
