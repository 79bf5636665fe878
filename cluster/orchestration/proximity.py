"""Which hosts of a cluster are near one another: from latencies of all pairs, kept in the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cluster.core import plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.placement import NetworkLayer, Placement, ProviderTopology
from cluster.core.model.spec import ClusterSpec
from cluster.fleet.pair_measurements import pair_tests
from cluster.fleet.proximity import (
    NearGroups,
    agreement,
    closest_layer,
    compared,
    disagreements,
    layers_of,
    near_groups,
    near_order,
    switch_groups,
    unplaced_hosts,
)
from cluster.providers import KnowsTopology, Provider
from cluster.reports.words.placement import comparison_words, nearness_words, no_groups
from cluster.runs import store
from cluster.runs.import_.logs import NAME
from cluster.runs.run import PAIRS, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cluster.core.model.fleet import PairTest
    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.orchestration.hosts.state import ClusterState

    Groups = tuple[int, ...]


METRIC = "latency"
NAMED = 10  # disagreements that are listed


def judge_placement(run: Run) -> Placement:
    """Find which hosts are near one another, and write it into the run's folder (SpecError)."""
    record = run.record
    tests = pair_tests(run.measurements) if record.benchmark == PAIRS else ()
    if not tests or run.measurements[0].metric != METRIC:
        raise SpecError(
            f"{run.folder} has no latencies of pairs of hosts.",
            remedy="Measure them: cluster check NAME --near",
        )
    names = tuple(machine.name for machine in record.machines)
    latency = _matrix(len(names), tests)
    placement = _placement(names, latency, near_groups(latency), _topology(run))
    placement = msgspec.structs.replace(placement, run=str(run.folder), simulated=record.simulated)
    store.write_placement(run.folder, placement)
    return placement


def placed_groups(where: Path, state: ClusterState) -> Groups:
    """Return the groups that the newest placement of a cluster shows (SpecError)."""
    placement = newest_placement(where, state)
    if not placement.groups:
        raise SpecError(
            f"The placement of {state.name} shows no groups: {placement.reason}.",
            remedy="Leave --groups out, or give a file with the hosts of a group on each line.",
        )
    return placement.groups


def newest_placement(where: Path, state: ClusterState) -> Placement:
    """Return the newest placement since machines were launched or switched on (SpecError)."""
    identity = _identity(state.spec, state.machines)
    for folder in reversed(store.folders(where)):
        if placement := store.placement(folder):
            record = store.record(folder)
            is_same = _identity(record.spec, record.machines) == identity
            if is_same and record.at >= max((state.at, *state.power)):
                return placement
    raise SpecError(
        f"No placement of {state.name} was measured.",
        means="Which of its hosts are near one another is not known.",
        remedy=f"Measure it: cluster check {state.name} --near",
    )


def _identity(spec: ClusterSpec, machines: tuple[Machine, ...]) -> object:
    """Return what must be the same for hosts to be where they were: also a simulated fabric."""
    return spec.name, spec.provider, spec.options, tuple(machine.id for machine in machines)


def _matrix(hosts: int, tests: Iterable[PairTest]) -> NDArray[np.float64]:
    """Return the shortest latency of each pair, in either direction; NaN where there is none."""
    latency = np.full((hosts, hosts), np.nan)
    for test in tests:
        if test.value:
            least = np.fmin(latency[test.source, test.target], test.value)
            latency[test.source, test.target] = latency[test.target, test.source] = least
    return latency


def _topology(run: Run) -> ProviderTopology:
    """Ask the provider where the hosts are, unless it has answered: machines end."""
    if run.record.spec.provider == NAME:
        return ProviderTopology(reason="the hosts are those of a log")
    placement = store.placement(run.folder)
    if placement and placement.topology.layers:
        return placement.topology
    return ask_topology(run.record.spec, run.record.machines)


def _placement(
    names: tuple[str, ...],
    latency: NDArray[np.float64],
    nearness: NearGroups,
    topology: ProviderTopology,
) -> Placement:
    rows, columns = np.triu_indices(len(names), 1)
    groups, values = nearness.groups, latency[rows, columns]
    numbers = np.array(groups)
    near = numbers[rows] == numbers[columns] if groups else np.zeros(len(rows), np.bool_)
    halves = (values[near], values[~near]) if groups else ()
    medians = [float(np.nanmedian(half)) for half in halves]
    nested = layers_of(latency, groups) if groups else ()
    layers = tuple(compared(layer, nested) for layer in topology.layers)
    closest = closest_layer(groups, layers)
    share = agreement(groups, closest) if closest else None
    return Placement(
        names=names,
        groups=groups,
        layers=nested,
        answer=f"{nearness_words(nearness, medians, len(unplaced_hosts(latency, groups)))} "
        f"{comparison_words(topology, closest, share)}",
        reason=no_groups(nearness),
        near=medians[0] if groups else None,
        far=medians[1] if groups else None,
        gap=nearness.gap,
        contradictions=nearness.contradictions,
        chance=nearness.chance,
        pairs=int((~np.isnan(values)).sum()),
        untested=int(np.isnan(values).sum()),
        topology=msgspec.structs.replace(topology, layers=layers),
        layer=closest.name if closest else "",
        agreement=share,
        disagreements=tuple(_disagreements(names, groups, closest)) if closest else (),
        order=near_order(latency, groups),
    )


def _disagreements(names: tuple[str, ...], groups: Groups, layer: NetworkLayer) -> Iterator[str]:
    """Name pairs that latency and the provider treat differently."""
    for a, b in islice(disagreements(groups, layer), NAMED):
        measured, answer = ("near", "apart") if groups[a] == groups[b] else ("far", "together")
        yield f"{names[a]} and {names[b]} are {measured}, and the provider says {answer}"


def ask_topology(spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
    """Ask the provider where hosts are; a refusal is a reason, and no error."""
    try:
        provider = plugins.load(Provider, spec.provider)
        if isinstance(provider, KnowsTopology):
            return provider.topology(spec, machines)
    except ClusterError as error:
        return ProviderTopology(reason=f"{error.what} {error.means}".strip().rstrip("."))
    return ProviderTopology(reason=f"the provider {spec.provider!r} knows no switches")


def topology_groups(spec: ClusterSpec, machines: tuple[Machine, ...]) -> tuple[int, ...]:
    """Return the groups of hosts that share a switch, as the provider says (SpecError)."""
    topology = ask_topology(spec, machines)
    groups = switch_groups(topology.layers)
    if not groups:
        reason = topology.reason or "each of these hosts has a switch of its own"
        raise SpecError(
            f"Which hosts share a switch is not known: {reason}.",
            remedy=f"Find it by latency: cluster check {spec.name} --near; "
            f"cluster check {spec.name} --groups placement",
        )
    return groups
