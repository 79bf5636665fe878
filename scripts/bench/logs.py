"""Logs of other tools: 100 MB of them, and 10,000 profiles."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from long_logs import LONG
from stopwatch import BIN, MILLION, ROOT, say, seconds

from cluster.core import plugins
from cluster.logs.parsers import Parser

if TYPE_CHECKING:
    from pathlib import Path

FAST = 20  # MB/s
LEAST_MIB = 8  # of memory that may be needed whatever the log has
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
    """Measure 100 MB of each long log: speed, and memory over that of the values."""
    missing = sorted(set(plugins.names(Parser)) - LONG.keys())
    say("formats without a long log", ", ".join(missing) or "none", "none", good=not missing)
    for what, write in LONG.items():
        chance = random.Random(what)  # noqa: S311 - no secret
        part = "".join(write(chance) for _ in range(20))
        large = _read(part, 100, place, min(repetitions, 3))
        small = _read(part, 10, place, 1)
        say(
            f"100 MB of {what}", f"{large.rate:.0f} MB/s", "20", good=large.rate >= FAST, least=True
        )
        grown, kept = large.peak - small.peak, (large.kept - small.kept) / MIB
        results = large.results - small.results
        most = LEAST_MIB + 3 * kept + results / 1024
        value = f"{grown:.1f} MiB more than for 10 MB: {kept:.1f} MiB of values, {results} results"
        say(f"100 MB of {what}", value, f"{most:.1f} MiB: 8, 3 x, 1 KiB", good=grown <= most)
    large = _read(iperf_document(), 100, place, min(repetitions, 3))
    say("100 MB of iperf3 JSON", f"{large.rate:.0f} MB/s", "50", good=large.rate >= 50, least=True)  # noqa: PLR2004


class Reading(NamedTuple):
    """How a log was read: MB/s of processor time, MiB at most, bytes of values, and results."""

    rate: float
    peak: float
    kept: int
    results: int


def _read(part: str, megabytes: int, place: Path, repetitions: int) -> Reading:
    """Read a log of this text over and over, in processes of their own; give the fastest."""
    file = place / "log"
    with file.open("w") as out:
        for _ in range(megabytes * MILLION // len(part) + 1):
            out.write(part)
    line = (
        "import sys, time; from cluster.logs.reader import read\n"
        "file = open(sys.argv[1], 'rb'); t = time.process_time()\n"
        "found = read(iter(lambda: file.read(1 << 20), b''))\n"
        "spent = time.process_time() - t\n"  # ru_maxrss would hold what we needed, too
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
        "kept = sum(8 * len(m.values) for r in found.results for m in r.measurements)\n"
        "print(spent, int(peak) / 1024, kept, len(found.results))"
    )
    argv = [sys.executable, "-c", line, str(file)]
    found = []
    for _ in range(repetitions):
        printed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        spent, peak, kept, results = printed.split()
        rate = file.stat().st_size / float(spent) / MILLION
        found.append(Reading(rate, float(peak), int(kept), int(results)))
    return max(found)


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
