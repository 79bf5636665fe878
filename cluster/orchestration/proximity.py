"""Which hosts of a cluster are near one another: by latencies, their provider, or a file."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from cluster.core import plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Machine, full_names
from cluster.core.model.network.placement import Placement, ProviderTopology
from cluster.core.model.spec import ClusterSpec
from cluster.fleet.pair_measurements import pair_tests
from cluster.fleet.proximity import (
    closest_layer,
    layers_of,
    near_groups,
    near_order,
    unplaced_hosts,
    with_agreement,
)
from cluster.orchestration.hosts.state import ClusterState
from cluster.providers import KnowsTopology, Provider
from cluster.reports.words.outcomes import outcome_words
from cluster.reports.words.placement import (
    comparison_words,
    disagreement_words,
    nearness_words,
    no_groups,
)
from cluster.runs import store
from cluster.runs.import_.logs import NAME
from cluster.runs.run import PAIRS, Run

METRIC = "latency"


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
    latency = np.full((len(names), len(names)), np.nan)  # the shortest, in either direction
    for test in tests:
        if test.value:
            least = np.fmin(latency[test.source, test.target], test.value)
            latency[test.source, test.target] = latency[test.target, test.source] = least
    nearness = near_groups(latency)
    before = store.placement(run.folder)
    if record.spec.provider == NAME:
        topology = ProviderTopology(reason=outcome_words("hosts_of_a_log"))
    elif before and before.topology.layers:  # machines end
        topology = before.topology
    else:
        topology = ask_topology(record.spec, record.machines)

    rows, columns = np.triu_indices(len(names), 1)
    groups, values = nearness.groups, latency[rows, columns]
    numbers = np.array(groups)
    is_near = numbers[rows] == numbers[columns] if groups else np.zeros(len(rows), np.bool_)
    halves = (values[is_near], values[~is_near]) if groups else ()
    medians = [float(np.nanmedian(half)) for half in halves]
    hierarchy = layers_of(latency, groups) if groups else ()
    layers = tuple(with_agreement(layer, hierarchy) for layer in topology.layers)
    closest, share = closest_layer(groups, layers)
    placement = Placement(
        names=names,
        groups=groups,
        layers=hierarchy,
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
        disagreements=disagreement_words(names, groups, closest),
        order=near_order(latency, groups),
        run=str(run.folder),
        simulated=record.simulated,
    )
    store.write_placement(run.folder, placement)
    return placement


def placed_groups(root: Path, state: ClusterState) -> tuple[int, ...]:
    """Return the groups that the newest placement of a cluster shows (SpecError)."""
    placement = newest_placement(root, state)
    if not placement.groups:
        raise SpecError(
            f"The placement of {state.name} shows no groups: {placement.reason}.",
            remedy="Leave --groups out, or give a file with the hosts of a group on each line.",
        )
    return placement.groups


def newest_placement(root: Path, state: ClusterState) -> Placement:
    """Return the newest placement since machines were launched or switched on (SpecError)."""
    identity = _identity(state.spec, state.machines)
    for folder in reversed(store.folders(root)):
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
    """Return what is the same if hosts are where they were, including a simulated fabric."""
    return spec.name, spec.provider, spec.options, tuple(machine.id for machine in machines)


def ask_topology(spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
    """Ask the provider where hosts are; a refusal is a reason, and no error."""
    try:
        provider = plugins.load(Provider, spec.provider)
        if isinstance(provider, KnowsTopology):
            return provider.topology(spec, machines)
    except ClusterError as error:
        return ProviderTopology(reason=f"{error.what} {error.means}".strip().rstrip("."))
    return ProviderTopology(reason=outcome_words("no_switches", spec.provider))


def topology_groups(spec: ClusterSpec, machines: tuple[Machine, ...]) -> tuple[int, ...]:
    """Return the groups of hosts that share a switch, as the provider says (SpecError)."""
    topology = ask_topology(spec, machines)
    groups = topology.switch_groups
    if not groups:
        reason = topology.reason or "each of these hosts has a switch of its own"
        raise SpecError(
            f"Which hosts share a switch is not known: {reason}.",
            remedy=f"Find it by latency: cluster check {spec.name} --near; "
            f"cluster check {spec.name} --groups placement",
        )
    return groups


def read_groups(
    text: str, machines: Sequence[Machine], *, remedy: str = "See its hosts: cluster ls NAME"
) -> tuple[int, ...]:
    """Parse which hosts share a switch: one line per group, with its hosts (SpecError).

    Hosts are names, ids, addresses or numbers, with spaces or commas; `#` begins a comment. A host
    that is not named gets a group of its own; `remedy` is for an unknown one.
    """
    machines_by_name = {
        word: number
        for number, machine in enumerate(machines)
        for word in (machine.name, machine.id, machine.address, str(number), f"host:{number}")
    }
    groups = [line.partition("#")[0].replace(",", " ").split() for line in text.splitlines()]
    full = full_names([*machines_by_name, *(word for words in groups for word in words)])
    numbers = {full[name]: number for name, number in machines_by_name.items()}
    group_of: dict[int, int] = {}
    for group, words in enumerate(groups):
        for word in words:
            number = numbers.get(full[word])
            if number is None:
                raise SpecError(
                    f"The groups name a host {word!r} that is not of this cluster.", remedy=remedy
                )
            if number in group_of:
                raise SpecError(
                    f"The groups name the host {word!r} twice.",
                    remedy="Name each host on one line only.",
                )
            group_of[number] = group
    if not group_of:
        raise SpecError(
            "The groups name no host.", remedy="Write the hosts of a group on each line."
        )
    first = len(groups)
    return tuple(group_of.get(number, first + number) for number in range(len(machines)))
