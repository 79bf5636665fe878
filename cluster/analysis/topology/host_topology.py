"""What logs and hosts report about the same GPUs, combined for each host."""

from collections.abc import Sequence

from cluster.analysis.topology.topology import GpuTopology, gpu_topology
from cluster.analysis.topology.transports import Transports, transports
from cluster.core.model.logs import Parsed, PeerAccess, Topology
from cluster.core.model.value import Value


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
    access = next((detail for detail in details if isinstance(detail, PeerAccess)), None)
    matrices: list[tuple[str, Topology | None]] = [
        *hosts,
        *(("", detail) for detail in details if isinstance(detail, Topology)),
    ]
    joined_hosts = []
    for host, matrix in matrices or [("", None)]:
        detail = gpu_topology(matrix, measured, access, models)
        chosen = transports(results, detail)
        joined_hosts.append(
            HostTopology(host=host, topology=matrix, joined=detail, transports=chosen)
        )
    return (
        joined_hosts
        if any(detail.joined.pairs or detail.transports.experiments for detail in joined_hosts)
        else []
    )


def group_alike(hosts: Sequence[HostTopology]) -> list[list[HostTopology]]:
    """Group named hosts that have the same devices, connected in the same way."""
    groups: list[list[HostTopology]] = []
    for host in hosts:
        twins = (group for group in groups if host.host and group[0].topology == host.topology)
        like = next(twins, None)
        if like is None:
            groups.append([host])
        else:
            like.append(host)
    return groups
