"""What logs and hosts report about the same GPUs, combined for each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.topology.topology import GpuTopology, gpu_topology
from cluster.analysis.topology.transports import Transports, transports
from cluster.core.model.logs import PeerAccess, Topology
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.logs import Parsed


class HostTopology(Value, frozen=True, kw_only=True):
    """How the devices of one host are connected."""

    host: str  # its name; empty if a log does not name it
    topology: Topology | None  # the matrix of `nvidia-smi topo -m`; none if no log has one
    joined: GpuTopology  # its pairs of GPUs, groups and NICs
    transports: Transports  # the transports that NCCL chose


def host_topologies(
    results: Sequence[Parsed], hosts: Sequence[tuple[str, Topology]]
) -> list[HostTopology]:
    """Combine each matrix with everything that was measured and logged.

    One per matrix; one without a matrix if there is none. Empty if nothing shows how the GPUs are
    connected.
    """
    measured = [m for result in results for m in result.measurements]
    models = [model for result in results for model in result.devices]
    details = [result.detail for result in results]
    access = next((one for one in details if isinstance(one, PeerAccess)), None)
    matrices: list[tuple[str, Topology | None]] = [
        *hosts,
        *(("", one) for one in details if isinstance(one, Topology)),
    ]
    found = []
    for host, matrix in matrices or [("", None)]:
        one = gpu_topology(matrix, measured, access, models)
        chosen = transports(results, one)
        found.append(HostTopology(host=host, topology=matrix, joined=one, transports=chosen))
    return found if any(one.joined.pairs or one.transports.experiments for one in found) else []


def group_alike(hosts: Sequence[HostTopology]) -> list[list[HostTopology]]:
    """Group hosts that have the same devices, connected in the same way.

    A host without a name is a group of its own.
    """
    groups: list[list[HostTopology]] = []
    for host in hosts:
        same = (group for group in groups if host.host and group[0].topology == host.topology)
        found = next(same, None)
        if found is None:
            groups.append([host])
        else:
            found.append(host)
    return groups
