"""Hosts are proven before the first job starts on them: `launch(prove=60)`, `--prove 60s,1gbit`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from cluster.core import journal
from cluster.core.errors import ProvisionError, SpecError, on_failure
from cluster.core.model.gate import FEWEST, Gate
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.units import parse_rate, parse_seconds
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.hosts.new_machines import can_replace
from cluster.runs import store
from cluster.runs.run import PAIRS, Run


class Proof(Value, frozen=True, kw_only=True):
    """The gate that the hosts of a launch pass before a job starts on them."""

    within: float  # seconds; with hosts replaced, there are two gates
    limit: float = 0.0  # bytes per second that a link should carry; 0: what the provider says

    def check(self, spec: ClusterSpec, plan: Plan) -> None:
        """Refuse what no gate can prove, before anything is made (SpecError)."""
        is_alone = spec.hosts < FEWEST
        if is_alone or spec.provider == "local":
            reason = "one host is no pair" if is_alone else "no network is between them"
            raise SpecError(
                f"The hosts of {spec.name} cannot be proven: {reason}.",
                means="Nothing was made.",
                remedy="Leave --prove out.",
            )
        if not plan.link and not self.limit:
            raise SpecError(
                f"The hosts of {spec.name} cannot be proven: what their links carry is not known "
                "before a test.",
                means="Nothing was made.",
                remedy=f"Say it behind the time, such as {self.within:g}s,100gbit",
            )


def read_proof(typed: str | float | None) -> Proof | None:
    """Read seconds, `60s`, or `60s,100gbit` with what a link should carry (SpecError)."""
    if typed is None:
        return None
    span, comma, rate = typed.partition(",") if isinstance(typed, str) else (typed, "", "")
    return Proof(within=parse_seconds(span), limit=parse_rate(rate) if comma else 0.0)


def prove_launch(
    cluster: Cluster, proof: Proof, on_state: StateCallback = ignore, *, keep: bool = False
) -> Gate:
    """Prove the hosts of a launch, and replace bad ones once where the provider can.

    ProvisionError: they are not proven; a new cluster is taken down, unless `keep`.
    """
    from cluster.orchestration.launch.gate import prove  # noqa: PLC0415 - slow: numpy
    from cluster.reports.words.gate import with_words  # noqa: PLC0415 - as above

    is_new = bool(cluster.launch_phases) and not keep
    with on_failure(cluster.down if is_new else cluster.close):
        params = {"limit": proof.limit}
        gate = prove(cluster, proof.within, params=params)
        replaced = _replaced(cluster, gate, on_state)
        if replaced:
            gate = prove(cluster, proof.within, params=params)
        if gate.verdict != "PROVEN":
            if is_new:  # nothing can be typed about a cluster that is gone
                gate = with_words(replace(gate, step=None), cluster.name)
            raise ProvisionError(
                f"{cluster.name} was launched, and its hosts are not proven. {gate.answer}",
                means="It was taken down." if is_new else "It stays up.",
                remedy="Launch it on other hosts, or with --keep to look at these."
                if is_new
                else f"Look at them: cluster check {cluster.name}",
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
