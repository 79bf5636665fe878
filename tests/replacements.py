"""A replacement of a host without hosts: what would be measured is said."""

import os
import signal
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

from cluster.benchmarks.pairs import BANDWIDTH
from cluster.core.model.network.fleet import (
    FleetFinding,
    FleetVerdict,
    HostReplacement,
    PairTest,
    Part,
    Reason,
)
from cluster.fleet.pair_measurements import measurements_of
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.replacement import TestPairs, replace_hosts
from cluster.runs.run import Run

USUAL = 1e9  # B/s


def verdict_on(*bad: int) -> FleetVerdict:
    """Blame hosts."""
    blamed = tuple(
        FleetFinding(
            part=f"host:{host}",
            place=Part(kind="host", host=host),
            kind="BAD",
            direction="rx",
            reason=Reason(code="slow", share=0.4),
        )
        for host in bad
    )
    faults = Reason(code="faults")
    return FleetVerdict(
        verdict="FAULTY", rounds=10, blamed=blamed, reference=USUAL, tolerance=0.02, reason=faults
    )


def good(pairs: Sequence[tuple[int, int]], value: float = USUAL) -> Run:
    """Return what is read of a run of pairs in which every test had the same value."""
    ends = [*pairs, *((b, a) for a, b in pairs)]
    tests = [PairTest(round=0, source=a, target=b, value=value, alone=True) for a, b in ends]
    values = tuple(measurements_of(tests, BANDWIDTH, defaultdict(lambda: "host")))
    return cast("Run", SimpleNamespace(measurements=values, folder=Path("runs/c5/pairs")))


def slow(pairs: Sequence[tuple[int, int]]) -> Run:
    """Return what is read of a run in which every test had half of what most hosts reach."""
    return good(pairs, USUAL / 2)


def interrupted(_: Sequence[tuple[int, int]]) -> Run:
    """End as by Ctrl-C."""
    raise KeyboardInterrupt


def killed(_: Sequence[tuple[int, int]]) -> Run:
    """End at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def replace_host(
    target: str | Cluster, test: TestPairs = good, bad: int | None = None
) -> tuple[HostReplacement, ...]:
    """Replace a host of a cluster, by default the last; nobody connects to the new one."""
    cluster = attach(target) if isinstance(target, str) else target
    host = len(cluster.machines) - 1 if bad is None else bad
    verdict = verdict_on(host)
    with patch("cluster.orchestration.hosts.machines.connect"):
        return replace_hosts(cluster, verdict, {host: verdict.blamed[0]}, test, lambda *_: None)
