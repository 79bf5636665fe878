"""Replace bad hosts: create machines, test only those, terminate the bad ones.

The journal names the machines to keep before any is created or ended, so the next process after a
crash ends all others: `finish`.
"""

import os
import platform
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from cluster.core import plugins
from cluster.core.errors import SpecError, on_failure
from cluster.core.model.network.fleet import FleetFinding, FleetVerdict, HostReplacement
from cluster.core.model.resources import Plan
from cluster.core.model.value import StateCallback
from cluster.core.state import journal
from cluster.core.text.units import price_line
from cluster.fleet.evidence import confirmations
from cluster.fleet.pair_measurements import pair_tests
from cluster.fleet.replacement import hosts_at_fault, judge_new_hosts, pairs_to_test
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.hosts.machines import create_in_places, end_all_but_kept
from cluster.orchestration.hosts.state import ClusterState
from cluster.providers import Cordons, ExistingHosts, HintsReplacement, Provider
from cluster.reports.words.fleet import fault_label, new_host_words, replacement_plan_words
from cluster.reports.words.outcomes import outcome_words
from cluster.runs.run import Run

TestPairs: TypeAlias = "Callable[[Sequence[tuple[int, int]]], Run]"
SLURM = "SLURM_JOB_ID"  # set in an allocation


def bad_hosts(run: Run, verdict: FleetVerdict, test: TestPairs) -> dict[int, FleetFinding]:
    """Return the hosts whose fault is confirmed; one that was lost is tested once more."""
    suspects = hosts_at_fault(verdict)
    confirmed_places = confirmations(verdict, pair_tests(run.measurements))
    findings = {
        h: b
        for h, b in suspects.items()
        if b.place in confirmed_places and confirmed_places[b.place].holds
    }
    silent = {
        h for h, b in suspects.items() if b.kind == "HUNG" and b.place not in confirmed_places
    }
    pairs = pairs_to_test(verdict, silent, len(run.record.machines))
    if pairs:
        tests = pair_tests(test(pairs).measurements)
        answers = {h for pair in tests if pair.value for h in (pair.source, pair.target)}
        findings |= {host: suspects[host] for host in silent - answers}
    return dict(sorted(findings.items()))


def irreplaceable(cluster: Cluster, bad: Mapping[int, FleetFinding]) -> tuple[HostReplacement, ...]:
    """Return what to type instead for bad hosts that cannot be replaced; nothing is run."""
    provider = _provider(cluster)
    machines = tuple(cluster.machines[host] for host in bad)
    command = outcome_words("other_hosts", cluster.name)
    if isinstance(provider, HintsReplacement):
        command = provider.replacement_hint(cluster.spec, machines)
    in_slurm = SLURM in os.environ and isinstance(provider, ExistingHosts)
    return tuple(
        HostReplacement(
            part=f"host:{host}",
            name=cluster.machines[host].name,
            old=cluster.machines[host].id,
            reason="irreplaceable",
            evidence=outcome_words("irreplaceable", provider.name),
            command=_drain(_node(cluster, host), finding) if in_slurm else command,
        )
        for host, finding in bad.items()
    )


def cordoning_provider(cluster: Cluster) -> Cordons:
    """Return the provider of a cluster (SpecError: it has no nodes that can be cordoned)."""
    provider = _provider(cluster)
    if not isinstance(provider, Cordons):
        raise SpecError(
            f"The provider {provider.name!r} has no nodes that can be cordoned.",
            remedy=f"Leave --cordon out: cluster check {cluster.name} --confirm",
        )
    return provider


def cordon_nodes(
    cluster: Cluster, bad: Mapping[int, FleetFinding], run: str, share: float
) -> tuple[HostReplacement, ...]:
    """Cordon the nodes of bad hosts, at most this share of all nodes (SpecError, ClusterError)."""
    provider = cordoning_provider(cluster)
    machines = tuple(cluster.machines[host] for host in bad)
    labels = [fault_label(finding) for finding in bad.values()]
    reason = "; ".join(f"{m.name}: {label}" for m, label in zip(machines, labels, strict=True))
    nodes = provider.cordon(machines, run, reason, share)
    return tuple(
        HostReplacement(
            part=f"host:{host}",
            name=machine.name,
            old=machine.id,
            reason="cordoned",
            evidence=label,
            node=node,
            command=f"cluster more uncordon {run}",
        )
        for host, machine, label, node in zip(bad, machines, labels, nodes, strict=True)
    )


def _node(cluster: Cluster, host: int) -> str:
    """Return the name of a host in Slurm, which is its host name up to the first dot."""
    machine = cluster.machines[host]
    if len(cluster.facts) == len(cluster.machines):
        return cluster.facts[host].host.partition(".")[0]
    return machine.access.host if machine.access else platform.node().partition(".")[0]


def _drain(node: str, finding: FleetFinding) -> str:
    reason = shlex.quote(f"cluster: {finding.kind} {finding.direction}, {finding.evidence}")
    return f"scontrol update nodename={shlex.quote(node)} state=drain reason={reason}"


def replacement_plan(cluster: Cluster, bad: Mapping[int, FleetFinding]) -> Plan:
    """Say what a replacement would do, and what it costs (SpecError)."""
    state, now = cluster.state, time.time()
    if state.has_expired(now):
        raise SpecError(
            f"The time to live of {cluster.name} is over, so nothing is replaced.",
            remedy=f"Take it down: cluster down {cluster.name}",
        )
    seconds_left = state.expires - now if state.expires else None
    findings = [(cluster.machines[host], finding) for host, finding in bad.items()]
    return Plan(
        lines=(
            *replacement_plan_words(findings, cluster.spec.instance, seconds_left),
            *([price_line(state.price, len(bad), seconds_left)] if seconds_left else []),
        ),
        costs=state.costs,
        price=state.price,
        ttl=seconds_left,
    )


def replace_hosts(
    cluster: Cluster,
    verdict: FleetVerdict,
    bad: Mapping[int, FleetFinding],
    test: TestPairs,
    on_state: StateCallback,
) -> tuple[HostReplacement, ...]:
    """Create a machine for each bad host, test only the new ones, and terminate the bad ones.

    A bad host whose new machine is bad, too, stays. Where creation or tests fail, the cluster stays
    as it was (ProvisionError, ClusterError); without a good host to test with, a SpecError.
    """
    pairs = pairs_to_test(verdict, bad, len(cluster.machines))
    if not pairs:
        raise SpecError(
            "No host is good, so that new ones could be tested with it: nothing was created.",
            remedy=f"Take it down, and launch it again: cluster down {cluster.name}",
        )
    before = cluster.machines
    with cluster.disk.journal.in_use():
        with on_failure(lambda: end_all_but_kept(cluster.disk, cluster.remote)):
            create_in_places(cluster.disk, cluster.remote, before, tuple(bad), on_state)
            run = test(pairs)
            new_hosts = judge_new_hosts(verdict, pair_tests(run.measurements), bad)
            new = cluster.machines
            good = {host for host, new_host in new_hosts.items() if new_host.good}
            to_keep = (new[n] if n in good or n not in bad else old for n, old in enumerate(before))
            cluster.disk.record(journal.Replacing(kept=tuple(to_keep)))
        end_all_but_kept(cluster.disk, cluster.remote)
    return tuple(
        HostReplacement(
            part=f"host:{host}",
            name=before[host].name,
            old=before[host].id,
            new=new[host].id if host in good else "",
            reason="replaced" if host in good else "new_is_bad",
            evidence=new_host_words(new_hosts[host], new[host].id, verdict),
            tests=new_hosts[host],
            run=str(run.folder),
        )
        for host in bad
    )


def is_half_replaced(state: ClusterState) -> bool:
    """Return whether machines may exist that a replacement did not end.

    Only these must go; of a cluster that has expired, all must.
    """
    return bool(state.machines_to_keep) and state.launched and not state.has_expired(time.time())


def finish_replacement(cluster: Cluster) -> None:
    """End all machines but those to keep (SpecError: another process is replacing hosts)."""
    if cluster.state.machines_to_keep:
        with cluster.disk.journal.in_use():
            end_all_but_kept(cluster.disk, cluster.remote)


def _provider(cluster: Cluster) -> Provider:
    return plugins.load(Provider, cluster.spec.provider)
