"""Which hosts of a cluster are near one another: from latencies of all pairs, kept in the run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cluster.analysis.fleet.near_groups import (
    layers_of,
    near_groups,
    near_order,
    rand_index,
)
from cluster.analysis.fleet.pair_measurements import pair_tests
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.placement import Placement
from cluster.core.units import format_value
from cluster.providers import Provider
from cluster.runs import findings, store
from cluster.runs.import_logs import NAME
from cluster.runs.run import PAIRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from cluster.analysis.fleet.near_groups import NearGroups
    from cluster.core.model.fleet import PairTest
    from cluster.runs.run import Run

    Groups = tuple[int, ...]

METRIC = "latency"
LEAST_CHANCE = 1e-4  # that is told
NAMED = 10  # disagreements that are listed


def judge_placement(run: Run) -> Placement:
    """Find which hosts are near one another, and write it into the run's folder.

    Args:
        run: of the benchmark `pairs`, of latencies; it may have been interrupted.

    Returns:
        The groups, or why none are claimed.

    Raises:
        SpecError: the run has no latencies of pairs.

    """
    record = run.record
    tests = tuple(pair_tests(run.measurements)) if record.benchmark == PAIRS else ()
    if not tests or run.measurements[0].metric != METRIC:
        raise SpecError(
            f"{run.folder} has no latencies of pairs of hosts.",
            remedy="Measure them: cluster placement NAME",
        )
    names = tuple(machine.name for machine in record.machines)
    latency = _matrix(len(names), tests)
    found = near_groups(latency)
    imported = record.spec.provider == NAME  # from logs: nobody knows more about these hosts
    provider = () if imported else plugins.load(Provider, record.spec.provider).groups(record.spec)
    placement = _placement(names, latency, found, provider)
    placement = msgspec.structs.replace(placement, run=str(run.folder), simulated=record.simulated)
    findings.write_placement(run.folder, placement)
    return placement


def placed_groups(where: Path, name: str, hosts: int) -> Groups:
    """Give the groups that the newest placement of a cluster shows.

    Args:
        where: the folder of all runs.
        name: of the cluster.
        hosts: of the cluster.

    Returns:
        The group of each host.

    Raises:
        SpecError: none was measured, or it shows no structure.

    """
    for folder in reversed(store.folders(where)):
        known = findings.placement(folder)
        if known is None or len(known.names) != hosts or store.record(folder).spec.name != name:
            continue
        if not known.groups:
            raise SpecError(
                f"The placement of {name} shows no groups: {known.reason}.",
                remedy="Leave --groups out, or give a file with the hosts of a group on each line.",
            )
        return known.groups
    raise SpecError(
        f"No placement of {name} was measured.",
        remedy=f"Measure it: cluster placement {name}",
    )


def _matrix(hosts: int, tests: Iterable[PairTest]) -> NDArray[np.float64]:
    """Give the shortest latency of each pair, in either direction; NaN where there is none."""
    found = np.full((hosts, hosts), np.nan)
    for test in tests:
        if test.value:
            least = np.fmin(found[test.source, test.target], test.value)
            found[test.source, test.target] = found[test.target, test.source] = least
    return found


def _placement(
    names: tuple[str, ...], latency: NDArray[np.float64], found: NearGroups, provider: Groups
) -> Placement:
    rows, columns = np.triu_indices(len(names), 1)
    values = latency[rows, columns]
    numbers = np.array(found.groups)
    near = numbers[rows] == numbers[columns] if found.groups else np.zeros(len(rows), np.bool_)
    both = bool(found.groups and provider)
    return Placement(
        names=names,
        groups=found.groups,
        layers=layers_of(latency, found.groups) if found.groups else (),
        answer=_answer(found, values, near, provider),
        reason=found.reason,
        near=float(np.nanmedian(values[near])) if found.groups else None,
        far=float(np.nanmedian(values[~near])) if found.groups else None,
        gap=found.gap,
        contradictions=found.contradictions,
        chance=found.chance,
        pairs=int((~np.isnan(values)).sum()),
        untested=int(np.isnan(values).sum()),
        provider=provider,
        agreement=rand_index(found.groups, provider) if both else None,
        disagreements=tuple(_disagreements(names, found.groups, provider)) if both else (),
        order=near_order(latency, found.groups),
    )


def _answer(
    found: NearGroups, values: NDArray[np.float64], near: NDArray[np.bool_], provider: Groups
) -> str:
    """Say in one line what was found, and whether the provider agrees."""
    if not found.groups:
        return f"No structure seen: {found.reason}."
    sizes = sorted(Counter(found.groups).values(), reverse=True)
    words = ", ".join(map(str, sizes[:NAMED])) + (", ..." if len(sizes) > NAMED else "")
    inside, outside = (format_value(float(np.nanmedian(values[at])), "s") for at in (near, ~near))
    answer = (
        f"{len(sizes)} groups, of {words} hosts: {inside} within, {outside} between "
        f"(gap {found.gap:.3f} x; the chance that it is noise is {_chance(found.chance or 0.0)})."
    )
    if provider:
        same = rand_index(found.groups, provider)
        answer += f" The provider's groups agree on {same:.1%} of the pairs."
    return answer


def _chance(value: float) -> str:
    return f"{value:.1g}" if value >= LEAST_CHANCE else f"below {LEAST_CHANCE:g}"


def _disagreements(names: tuple[str, ...], groups: Groups, provider: Groups) -> Iterator[str]:
    """Name pairs that latency and the provider treat differently."""
    pairs = (
        (a, b)
        for a in range(len(names))
        for b in range(a + 1, len(names))
        if (groups[a] == groups[b]) != (provider[a] == provider[b])
    )
    for (a, b), _ in zip(pairs, range(NAMED), strict=False):
        seen, said = ("near", "apart") if groups[a] == groups[b] else ("far", "together")
        yield f"{names[a]} and {names[b]} are {seen}, and the provider says {said}"
