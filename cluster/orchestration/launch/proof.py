"""Hosts are proven before the first job starts on them: `launch(..., prove=60)`, `--prove 60s`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from cluster.core import journal
from cluster.core.errors import ProvisionError, on_failure
from cluster.core.model.gate import Gate
from cluster.core.model.value import StateCallback, ignore
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.hosts.new_machines import can_replace
from cluster.runs import store
from cluster.runs.run import PAIRS, Run


def prove_launch(
    cluster: Cluster, within: float, on_state: StateCallback = ignore, *, keep: bool = False
) -> Gate:
    """Prove the hosts of a launch, and replace bad ones once where the provider can.

    `within` is the seconds of a gate; with hosts replaced, there are two. ProvisionError: they are
    not proven; a new cluster is taken down, unless `keep`.
    """
    from cluster.orchestration.launch.gate import prove  # noqa: PLC0415 - slow: numpy

    is_new = bool(cluster.launch_phases) and not keep
    with on_failure(cluster.down if is_new else cluster.close):
        gate = prove(cluster, within)
        replaced = _replaced(cluster, gate, on_state)
        if replaced:
            gate = prove(cluster, within)
        if gate.verdict != "PROVEN":
            again = "" if is_new else " It stays up."
            raise ProvisionError(
                f"{cluster.name} was launched, and its hosts are not proven. {gate.answer}",
                means=f"{'It was taken down.' if is_new else ''}{again}".strip(),
                remedy="Launch it on other hosts, or without --prove to look at these: "
                f"cluster check {cluster.name}",
            )
        cluster.disk.record(
            journal.Proven(at=time.time(), hosts=gate.proven, replaced=replaced, took=gate.took)
        )
    return gate


def _replaced(cluster: Cluster, gate: Gate, on_state: StateCallback) -> int:
    """Replace the hosts that a gate found to be bad; return how many were."""
    from cluster.orchestration.launch.replacement import (  # noqa: PLC0415 - slow: numpy
        bad_hosts,
        replace_hosts,
    )

    if gate.code != "faults" or not can_replace(cluster.disk):
        return 0
    run = store.read(Path(gate.run))
    if run.fleet is None:
        return 0

    def test(pairs: Sequence[tuple[int, int]]) -> Run:
        return cluster.bench(PAIRS, pairs=tuple(f"{source}-{target}" for source, target in pairs))

    bad = bad_hosts(run, run.fleet, test)
    if not bad:
        return 0
    result = replace_hosts(cluster, run.fleet, bad, test, on_state)
    return sum(bool(host.new) for host in result)
