"""The timed loops against a plain program in C, and what the MPI profiler adds to them."""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

from stopwatch import ROOT, say

from cluster.core.text.units import format_size, format_value
from cluster.orchestration.bench.mpi_profile import OWN
from cluster.orchestration.launch.launch import launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.orchestration.cluster import Cluster


ENOUGH = {"latency": 1.05, "bandwidth": 0.97}  # of the plain program's


def profiling(repetitions: int) -> None:
    """Say what our MPI profiler adds to the smallest messages, which suffer most."""
    both_ways_of_hosts(profiler_overhead, repetitions)


def profiler_overhead(place: str, hosts: Cluster, repetitions: int) -> None:
    """Say the median of the ratios of launches that follow one another."""
    pairs: list[tuple[float, float]] = []
    for _ in range(repetitions):
        runs = (
            hosts.bench("p2p", metrics=["latency"], sizes="8", kernel="c", profile=profile)
            for profile in (OWN, None)
        )
        latency, plain = ([statistics.median(m.values) for m in run.measurements] for run in runs)
        pairs += zip(latency, plain, strict=True)
    ratio_ = statistics.median(latency / plain for latency, plain in pairs)
    middle = [format_value(statistics.median(side), "s") for side in zip(*pairs, strict=True)]
    text = f"{middle[0]}, {ratio_:.2f} x of {middle[1]}"
    say(f"latency 8 B profiled, {place}", text, "1.5 x", good=ratio_ <= 1.5)  # noqa: PLR2004


def turning(repetitions: int) -> None:
    """Compare them in the same processes, where they take turns."""
    os.environ["CLUSTER_PLUGINS"] = str(ROOT / "scripts" / "plain")
    both_ways_of_hosts(beside_plain, 3 * repetitions)


def both_ways_of_hosts(compare: Callable[[str, Cluster, int], None], repetitions: int) -> None:
    """Compare over shared memory and, as root, over two lab hosts."""
    with launch("bench-c", hosts=2) as host:
        compare("shared memory", host, repetitions)
    if os.geteuid() == 0:
        with launch("bench-c", provider="lab", hosts=2) as lab:
            compare("two lab hosts", lab, repetitions)


def beside_plain(place: str, hosts: Cluster, repetitions: int) -> None:
    """Say how each loop of ours compares with the plain one, in turns in the same processes."""
    turns = {
        (str(m.metric), int(m.params["size"]), str(m.params["by"])): m
        for m in hosts.bench("plain", turns=repetitions).measurements
    }
    for metric, size in [(metric, size) for metric, size, way in turns if way == "p2p"]:
        loop, plain = turns[metric, size, "p2p"], turns[metric, size, "plain"]
        slower = statistics.median(a / b for a, b in zip(loop.values, plain.values, strict=True))
        middle = statistics.median(loop.values)
        low, limit = metric == "latency", ENOUGH[metric]
        ratio_ = slower if low else 1 / slower
        text = format_value(middle, "s") if low else format_value(loop.bytes / middle, "B/s")
        good = ratio_ <= limit if low else ratio_ >= limit
        label = f"{metric} {format_size(size)}, {place}, by turns"
        say(label, f"{text}, {ratio_:.3f} x of plain C", f"{limit} x", good=good, least=not low)
