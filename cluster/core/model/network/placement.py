"""Which hosts of a cluster are near one another."""

from cluster.core.model.value import Value


class NetworkLayer(Value, frozen=True, kw_only=True):
    """Which hosts of a cluster a provider puts together, in one layer of its network."""

    name: str  # such as `leaf switch`, `network node 3` or `sub-block`
    # the number of each host's group; none where the provider does not say
    groups: tuple[int | None, ...]
    switch: bool = True  # they share a switch; if not, they share a physical machine, and its NICs
    # the share of pairs that this layer and latency both put together, or both apart (Rand index),
    # where latency shows several layers with the one that agrees most; none if it shows no groups
    agreement: float | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many hosts each group has, the largest first."""
        groups = [group for group in self.groups if group is not None]
        return tuple(sorted((groups.count(group) for group in set(groups)), reverse=True))


class ProviderTopology(Value, frozen=True, kw_only=True):
    """Where a provider says that the hosts of a cluster are."""

    layers: tuple[NetworkLayer, ...] = ()  # of its network, the nearest to the hosts first
    reason: str = ""  # why there are none; empty if there are

    @property
    def switch_groups(self) -> tuple[int, ...]:
        """The groups whose pairs share as little of the network as possible.

        They are below the nearest switches by which at least half of the hosts are with another
        one; a host of which nothing is known is alone. Empty if there are no such switches.
        """
        for layer in self.layers:
            count = sum(size for size in layer.sizes if size > 1)
            if layer.switch and 2 * count >= len(layer.groups):
                offset = len(layer.sizes)
                groups = enumerate(layer.groups)
                return tuple(offset + host if group is None else group for host, group in groups)
        return ()


class Placement(Value, frozen=True, kw_only=True):
    """The groups of hosts that latency shows."""

    run: str = ""  # the folder of the run with the latencies
    names: tuple[str, ...]  # of the hosts
    # the number of each host's group; empty if the latencies show no structure
    groups: tuple[int, ...] = ()
    # groups of groups, from the smallest to the largest; each as `groups`
    layers: tuple[tuple[int, ...], ...] = ()
    answer: str  # in one line
    reason: str = ""  # why no structure is claimed; empty if one is
    # the median latency of pairs within a group, in seconds; none without structure
    near: float | None = None
    far: float | None = None  # the median latency of the other pairs, in seconds
    # the slowest near pair to the fastest far pair, as a ratio of latencies
    gap: float | None = None
    contradictions: int = 0  # pairs within a group that are not near
    # that as many near pairs, drawn at random, would fall into groups as well
    chance: float | None = None
    pairs: int = 0  # that have a latency
    untested: int = 0  # pairs without one
    topology: ProviderTopology = ProviderTopology()  # where the provider says that the hosts are
    # the name of its layer that agrees most with the groups; empty if none was compared
    layer: str = ""
    # the share of pairs that both put together, or both apart (Rand index)
    agreement: float | None = None
    # pairs that the groups and that layer treat differently; in words, at most ten
    disagreements: tuple[str, ...] = ()
    order: tuple[int, ...] = ()  # the hosts in an order in which neighbours are near
    simulated: bool = False  # nothing was measured: the provider is a simulator
