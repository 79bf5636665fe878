"""Logs of other tools: long ones of each, and 10,000 profiles."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from long_logs import LONG
from stopwatch import BIN, MILLION, ROOT, say, seconds

from cluster.core import plugins
from cluster.logs.parsers import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FAST = 20  # MB/s
SMALL, LARGE = 2, 10  # MB of a log
SLACK_MIB = 3  # of memory: pieces of a log of which more is in use by chance
MIB = 2**20


def iperf_document() -> str:
    """Write a document as iperf3 would, of a test of one minute with four streams."""
    total = {"start": 0, "end": 1, "seconds": 1.000051, "bytes": 475_065_632, "omitted": False}
    stream = {**total, "socket": 5, "bits_per_second": 9.5e8, "snd_cwnd": 573_408, "rtt": 301}
    document = {
        "start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 4}},
        "intervals": [{"streams": [stream] * 4, "sum": total}] * 60,
        "end": {"sum_sent": total, "sum_received": total},
    }
    return json.dumps(document, indent="\t") + "\n"


def parsing(place: Path, repetitions: int) -> None:
    """Measure each long log: speed, its ratio to that of nccl-tests, and memory of the values.

    From 2 MB on, speed and memory per value do not change: 10 MB tell as much as 100 MB. Only
    tables of nccl-tests and iperf3's JSON are also read at 100 MB.
    """
    sys.stdout.write(f"Python {' '.join(sys.version.split())}\n")
    missing = sorted(set(plugins.names(Parser)) - LONG.keys())
    say("formats without a long log", ", ".join(missing) or "none", "none", good=not missing)
    base = place / "nccl_tests"
    _write(base, _part("nccl_tests"), LARGE)  # as long: what starts counts alike
    for what in LONG:
        part = _part(what)
        _write(place / "small", part, SMALL)
        _write(place / "large", part, LARGE)
        small, large = _read(place / "small", 1), _read(place / "large", min(repetitions, 3))
        ratio = large.rate / _read(base, min(repetitions, 3)).rate
        value = f"{large.rate:.1f} MB/s, {ratio:.2f} x of nccl-tests"
        say(what, value, f"{FAST} MB/s", good=large.rate >= FAST, least=True)
        _say_memory(what, small, large)
    for what, part, least in (
        ("nccl-tests", _part("nccl_tests"), FAST),
        ("iperf3 JSON", iperf_document(), 50),
    ):
        _write(place / "whole", part, 100)
        rate = _read(place / "whole", 1).rate
        say(f"100 MB of {what}", f"{rate:.1f} MB/s", f"{least}", good=rate >= least, least=True)


def _say_memory(what: str, small: Reading, large: Reading) -> None:
    """Compare what more of a log needs with 3 x its values and 1 KiB per result."""
    grown, kept = large.peak - small.peak, (large.kept - small.kept) / MIB
    results = large.results - small.results
    most = SLACK_MIB + 3 * kept + results / 1024
    held = large.after - small.after
    value = (
        f"{grown:.1f} MiB at most and {held:.1f} MiB at the end for {kept:.2f} MiB of values "
        f"({held / max(kept, 0.01):.1f} x) in {results} results"
    )
    bound = f"{most:.1f} MiB: {SLACK_MIB}, 3 x, 1 KiB"
    say(f"{what}, {LARGE - SMALL} MB more", value, bound, good=grown <= most)


class Reading(NamedTuple):
    """How a log was read.

    Args:
        rate: MB/s of processor time.
        peak: MiB at most.
        after: MiB at the end.
        kept: bytes of values.
        results: how many.

    """

    rate: float
    peak: float
    after: float
    kept: int
    results: int


def _part(what: str) -> str:
    chance = random.Random(what)  # noqa: S311 - no secret
    return "".join(LONG[what](chance) for _ in range(20))


def _write(file: Path, part: str, megabytes: int) -> None:
    """Write a log of this text over and over."""
    with file.open("w") as out:
        for _ in range(megabytes * MILLION // len(part) + 1):
            out.write(part)


def _read(file: Path, repetitions: int) -> Reading:
    """Read a log in processes of their own; give the fastest."""
    line = (
        "import contextlib, sys, time; from cluster.logs.reader import read\n"
        "file = open(sys.argv[1], 'rb')\n"
        "with contextlib.suppress(Exception): read([file.read(1 << 18)])\n"  # imports the parsers
        "file.seek(0); t = time.process_time()\n"
        "found = read(iter(lambda: file.read(1 << 20), b''))\n"
        "spent = time.process_time() - t\n"  # ru_maxrss would hold what we needed, too
        "said = open('/proc/self/status').read()\n"
        "peak, after = (said.split(k)[1].split()[0] for k in ('VmHWM:', 'VmRSS:'))\n"
        "parts = ('routines', 'distributions')  # rows of a profile: calls, bytes, time\n"
        "rows = sum(len(getattr(r.detail, part, ())) for r in found.results for part in parts)\n"
        "kept = 24 * rows\n"
        "kept += sum(8 * len(m.values) for r in found.results for m in r.measurements)\n"
        "print(spent, int(peak) / 1024, int(after) / 1024, kept, len(found.results))"
    )
    argv = [sys.executable, "-c", line, str(file)]
    # Large buffers go back to the system at once: what glibc keeps of them hides the values. That
    # takes time, so speed is measured without it.
    tidy = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    _, peak, after, kept, results = _printed(argv, tidy)
    spent = min(_printed(argv, {})[0] for _ in range(repetitions))
    rate = file.stat().st_size / spent / MILLION
    return Reading(rate, peak, after, int(kept), int(results))


def _printed(argv: Sequence[str], variables: dict[str, str]) -> list[float]:
    """Run a command, and give the numbers that it prints."""
    env = {**os.environ, **variables}
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=env)
    return [float(word) for word in done.stdout.split()]


def profiles(place: Path) -> None:
    """Measure 10,000 files of mpitrace."""
    text = (ROOT / "tests" / "logs" / "mpitrace.older.txt").read_bytes()
    folder = place / "profiles"
    folder.mkdir()
    for rank in range(10_000):
        own = text.replace(b"rank 3 of 8", b"rank %d of 10000" % rank)
        (folder / f"mpi_profile.1.{rank}").write_bytes(own)
    spent = seconds([str(BIN / "cluster"), "profile", str(folder)])
    say("cluster profile, 10,000 files", f"{spent:.1f} s", "20 s", good=spent <= 20)  # noqa: PLR2004
