"""Logs of other tools: how fast each format is read, with how much memory, and 10,000 profiles."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from stopwatch import BIN, MILLION, ROOT, say, seconds

from cluster.core import plugins
from cluster.logs.parsers import Parser

if TYPE_CHECKING:
    from pathlib import Path

LOGS = ROOT / "tests" / "logs"
FAST, NCCL_FAST = 3, 40  # MB/s of processor time
SMALL, LARGE = 1, 4  # MB of a log
MEMORY, SLACK = 16, 4  # MiB per MB more of rows whose figures are kept, and MiB of other things
READ = """
import contextlib, resource, sys, time
from cluster.logs.reader import read
file = open(sys.argv[1], "rb")
with contextlib.suppress(Exception):
    read([file.read(1 << 16)])  # imports the parsers
file.seek(0)
begun = time.process_time()
read(iter(lambda: file.read(1 << 20), b""))
spent = time.process_time() - begun
print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


class Reading(NamedTuple):
    """MB/s of processor time, and MiB at most."""

    rate: float
    peak: float


def parsing(place: Path, repetitions: int) -> None:
    """Read the samples of each format over and over: tests of a few rows, one after another."""
    for name in plugins.names(Parser):
        text = "".join(path.read_text() for path in sorted(LOGS.glob(f"{name}.*.txt")))
        small, large = (_read(place / name, text, mb, repetitions) for mb in (SMALL, LARGE))
        fast = NCCL_FAST if name == "nccl_log" else FAST
        growth = large.peak - small.peak
        limit = SLACK + (0 if name == "nccl_log" else MEMORY * (LARGE - SMALL))
        say(name, f"{large.rate:.1f} MB/s", f"{fast} MB/s", good=large.rate >= fast, least=True)
        label = f"{name}, {LARGE - SMALL} MB more"
        say(label, f"{growth:.1f} MiB", f"{limit} MiB", good=growth <= limit)


def _read(file: Path, text: str, megabytes: int, repetitions: int) -> Reading:
    """Read a log of this text over and over in processes of their own; give the fastest."""
    file.write_text(text * (megabytes * MILLION // len(text.encode()) + 1))
    argv = [sys.executable, "-c", READ, str(file)]
    rows = [
        [float(word) for word in subprocess.check_output(argv).split()] for _ in range(repetitions)
    ]
    duration, peak = (min(column) for column in zip(*rows, strict=True))
    return Reading(file.stat().st_size / duration / MILLION, peak)


def profiles(place: Path) -> None:
    """Measure 10,000 files of mpitrace."""
    text = (LOGS / "mpitrace.older.txt").read_bytes()
    folder = place / "profiles"
    folder.mkdir()
    for rank in range(10_000):
        content = text.replace(b"rank 3 of 8", b"rank %d of 10000" % rank)
        (folder / f"mpi_profile.1.{rank}").write_bytes(content)
    duration = seconds([str(BIN / "cluster"), "more", "profile", str(folder)])
    say("cluster more profile, 10,000 files", f"{duration:.1f} s", "20 s", good=duration <= 20)  # noqa: PLR2004
