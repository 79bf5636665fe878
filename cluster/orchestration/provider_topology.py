"""What the provider says about where the hosts of a cluster are in its network."""

from cluster.core import plugins
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.placement import ProviderTopology
from cluster.core.model.spec import ClusterSpec
from cluster.fleet.proximity import switch_groups
from cluster.providers import KnowsTopology, Provider


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
