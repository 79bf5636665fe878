"""The route of a run's bytes: links between hosts, memory, or links between GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.core import decoders
from cluster.core.model.hosts import Layout, Link, Machine

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cluster.analysis.limits.link import Route
    from cluster.core.model.hardware import Figure
    from cluster.core.model.measurements import Measurement
    from cluster.core.model.records import Record

VISIBLE = "CUDA_VISIBLE_DEVICES"  # selects GPUs, and renumbers them


class PairParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of a benchmark that selects two ranks."""

    # the rank that sends and the one that receives, if only two ranks exchange messages
    pair: tuple[int, int] | None = None


def route(record: Record, measurements: Iterable[Measurement], raw: Path) -> Route:
    """Return the links between a run's hosts, or the memory and GPUs of its one host."""
    from cluster.analysis.limits.link import Route, copy_rates  # noqa: PLC0415 - only for summaries

    pair = _pair_params(record).pair
    machines = record.machines
    layout = Layout(
        addresses=tuple(machine.address for machine in machines),
        ranks_per_host=record.spec.ranks_per_host,
    )
    hosts = {place for rank, place in enumerate(layout.places) if pair is None or rank in pair}
    if len(hosts) == 1:
        return Route(copies=copy_rates(measurements), gpus=_between_gpus(record, raw))
    links = {m.address: m.link or _known_link(record, m) for m in machines if m.address in hosts}
    return Route(
        links=tuple(links.values()),
        sender=pair[0] if pair else None,
        ranks=layout.size if pair is None else len(pair),
    )


def _between_gpus(record: Record, raw: Path) -> Figure | None:
    """Find the link between the first two GPUs of a host, which its first two ranks use.

    Returns None if CUDA_VISIBLE_DEVICES is set, as that renumbers the GPUs.
    """
    hosts = [facts for facts in record.environment if len(facts.gpus) > 1]
    if not hosts or VISIBLE in {**hosts[0].variables, **record.variables}:
        return None
    from cluster.analysis.limits import hardware  # noqa: PLC0415 - only for summaries of GPUs
    from cluster.runs.raw_files import topologies  # noqa: PLC0415

    facts = hosts[0]
    topology = topologies(raw).get(facts.host)
    path = topology.path("GPU0", "GPU1") if topology else ""
    slower = min(facts.gpu_slots[:2], key=_slot_rate, default="")
    return hardware.between(facts.gpus[0], path, slower)


def _slot_rate(slot: str) -> float:
    from cluster.core.pcie import slot_bandwidth  # noqa: PLC0415 - only for summaries of GPUs

    bandwidth = slot_bandwidth(slot)
    return bandwidth.rate if bandwidth else 0.0


def _known_link(record: Record, machine: Machine) -> Link | None:
    """Return the speed that a host's kernel reports for its interface to the other hosts."""
    from cluster.analysis.limits.speeds import link  # noqa: PLC0415 - only for summaries

    for facts in record.environment:
        for interface in facts.interfaces:
            if interface.address == machine.address:
                return link(interface)
    return None


def _pair_params(record: Record) -> PairParams:
    try:
        return decoders.decode(record.params, PairParams)
    except msgspec.ValidationError:  # a benchmark whose parameter of this name is something else
        return PairParams()
