"""The order in which ranks are handed out to the hosts of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.measure.starters import Starter
from cluster.remote.hosts import distinct, place_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from cluster.core.model.records import Condition
    from cluster.measure.benchmark import Benchmark
    from cluster.orchestration.hosts.setup import ReadyHosts
    from cluster.orchestration.hosts.state import ClusterState

HostOrder = Literal["given", "near"]
NAMED = 16  # hosts in a note


def host_order(
    wanted: HostOrder,
    benchmark: Benchmark[Any],
    where: Path,
    state: ClusterState,
) -> tuple[int, ...]:
    """Return the order of the hosts for a benchmark.

    Args:
        wanted: `near`: along the newest placement of these machines.

    Returns:
        The numbers of the hosts, from 0, the first of which comes first; empty for the order of the
        cluster.

    Raises:
        SpecError: there is no such order, no placement was measured, or the benchmark has no ranks.

    """
    if wanted not in get_args(HostOrder):
        raise SpecError(f"There is no order {wanted!r}.", remedy="There are: given, near")
    if wanted == "given":
        return ()
    if not plugins.load(Starter, benchmark.starter).needs_every_host:  # it has no ranks
        raise SpecError(
            f"--order near has no effect on {benchmark.name}: it tests hosts by their numbers.",
            remedy="Leave --order out, or choose another benchmark.",
        )
    from cluster.orchestration.proximity import newest_placement  # noqa: PLC0415 - NumPy

    return newest_placement(where, state).order


def with_order(condition: Condition, order: tuple[int, ...]) -> Condition:
    """Add an order of hosts to a condition, with a note for readers.

    Args:
        order: of `host_order`.

    """
    if not order:
        return condition
    words = ", ".join(map(str, order[:NAMED])) + (", ..." if len(order) > NAMED else "")
    note = f"--order near: ranks are handed out to the hosts {words}."
    if list(order) == sorted(order):
        note = "--order near changes nothing: the placement shows no structure, or this very order."
    return msgspec.structs.replace(condition, order=order, notes=(*condition.notes, note))


def in_order(hosts: ReadyHosts, order: tuple[int, ...]) -> ReadyHosts:
    """Put hosts into an order.

    Args:
        order: of `host_order`.

    """
    if not order:
        return hosts
    places = map(place_of, distinct(hosts.machines))
    facts = dict(zip(places, hosts.facts, strict=True))
    machines = tuple(hosts.machines[number] for number in order)
    return msgspec.structs.replace(
        hosts,
        machines=machines,
        facts=tuple(facts[place_of(machine)] for machine in distinct(machines)),
    )
