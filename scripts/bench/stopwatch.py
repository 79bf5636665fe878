"""Times of commands and calls that take turns, and the lines that are printed of them."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
MILLION = 1_000_000


def seconds(argv: Sequence[str]) -> float:
    """Time a command."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - start


def processor_seconds(argv: Sequence[str]) -> float:
    """Return the processor time of a program and all that it starts, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds(argv)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command_times(commands: Sequence[Sequence[str]], repetitions: int) -> list[float]:
    """Return the median time of each command; they take turns, so that noise hits all alike."""
    return taking_turns([partial(seconds, argv) for argv in commands], repetitions)


def taking_turns(ways: Sequence[Callable[[], float]], repetitions: int) -> list[float]:
    """Return the median of each way's times; they take turns, after one that fills the caches."""
    for way in ways:
        way()
    rounds = [[way() for way in ways] for _ in range(repetitions)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def say(label: str, value: str, bound: str, *, good: bool, least: bool = False) -> None:
    """Print one line."""
    limit = f"at {'least' if least else 'most'} {bound}"
    sys.stdout.write(f"{'ok  ' if good else 'SLOW'}  {label}: {value} ({limit})\n")
    sys.stdout.flush()


def ratio(label: str, cost: float, base: float, most_times: float) -> None:
    """Print one line of a ratio to something else."""
    value = f"{cost:.2f} s, {cost / base:.2f} x of {base:.2f} s"
    say(label, value, f"{most_times} x", good=cost <= most_times * base)
