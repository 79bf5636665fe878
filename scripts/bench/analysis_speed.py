"""Summaries, comparisons and reports over many values."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from stopwatch import BIN, MILLION, say, seconds

from cluster.benchmarks.p2p.definitions import BANDWIDTH, LATENCY
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.runs.store import append, create, write

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.core.model.results.measurements import Definition


def summarising(root: Path, repetitions: int) -> None:
    """Measure the summary of a million values, in time and memory."""
    folder = _million(root)
    line = (
        "import sys, time, resource\n"
        "from pathlib import Path; from cluster.runs.store import read\n"
        "t = time.perf_counter(); s = read(Path(sys.argv[1])).summary()\n"
        "print(sum(x.n for x in s), time.perf_counter() - t,"
        " resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    times, peak = [], 0.0
    for _ in range(repetitions):
        argv = [sys.executable, "-c", line, str(folder)]
        n, duration, kib = subprocess.check_output(argv, text=True).split()
        if int(n) != MILLION:
            sys.exit(f"{n} values were summarised, not {MILLION}")
        times.append(float(duration))
        peak = max(peak, float(kib) / 1024)
    middle = statistics.median(times)
    say("1e6 raw values", f"{middle:.2f} s", "1 s", good=middle <= 1)
    say("1e6 raw values", f"{peak:.0f} MiB", "286 MiB (300 MB)", good=peak * 2**20 <= 3e8)  # noqa: PLR2004


def judging(root: Path, repetitions: int) -> None:
    """Measure a comparison of two runs of a million values each."""
    argv = [str(BIN / "cluster"), "compare", *(str(_million(root)) for _ in range(2))]
    middle = statistics.median(seconds(argv) for _ in range(repetitions))
    say("compare two runs of 1e6 values", f"{middle:.2f} s", "2 s", good=middle <= 2)  # noqa: PLR2004


def reporting(root: Path, repetitions: int) -> None:
    """Measure a report of 50 runs: two metrics at 20 sizes, 100 values each."""
    hundred = tuple(1e-6 * (1 + (i * 7919 % 101) * 1e-4) for i in range(100))
    for number in range(50):
        folder = create(root, "fifty", "p2p", 1e9 + number)
        _record(folder, "fifty", condition=f"links={number % 2}")
        for metric in (LATENCY, BANDWIDTH):
            append(folder, [_series(metric, 8 << k, hundred) for k in range(20)])
    argv = [str(BIN / "cluster"), "report", "fifty", "-o", str(root / "report.html")]
    middle = statistics.median(seconds(argv) for _ in range(repetitions))
    say("report of 50 runs", f"{middle:.2f} s", "5 s", good=middle <= 5)  # noqa: PLR2004


def _million(root: Path) -> Path:
    """Write a run of a million values."""
    folder = create(root, "million", "p2p", time.time())
    _record(folder, "million")
    for part in range(10):
        values = tuple((i * 7919 % 100_003) * 1e-9 + 1e-6 for i in range(MILLION // 10))
        append(folder, [_series(LATENCY, 8 << part, values)])
    return folder


def _record(folder: Path, name: str, condition: str = "") -> None:
    definitions = {metric.id: metric for metric in (LATENCY, BANDWIDTH)}
    spec = ClusterSpec(name=name)
    record = Record(
        id=folder.name, benchmark="p2p", status="done", at=0.0, spec=spec,
        definitions=definitions, condition=condition,
    )  # fmt: skip
    write(folder, record)


def _series(metric: Definition, size: int, values: tuple[float, ...]) -> Measurement:
    return Measurement(
        metric=metric.metric, definition=metric.id, unit="s", rank=0, host="h",
        params={"size": size}, values=values, bytes=size,
    )  # fmt: skip
