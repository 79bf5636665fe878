"""Which hosts of a cluster are near one another."""

from __future__ import annotations

from cluster.core.model.value import Value


class NetworkLayer(Value, frozen=True, kw_only=True):
    """Which hosts of a cluster a provider puts together, in one layer of its network.

    Args:
        name: such as `leaf switch`, `network node 3` or `sub-block`.
        groups: the number of each host's group; none where the provider does not say.
        switch: they share a switch; if not, they share a physical machine, and its NICs.
        agreement: the share of pairs that this layer and latency both put together, or both apart
            (Rand index), where latency shows several layers with the one that agrees most; none if
            it shows no groups.
    """

    name: str
    groups: tuple[int | None, ...]
    switch: bool = True
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


class Placement(Value, frozen=True, kw_only=True):
    """The groups of hosts that latency shows.

    Args:
        run: the folder of the run with the latencies.
        names: of the hosts.
        groups: the number of each host's group; empty if the latencies show no structure.
        layers: groups of groups, from the smallest to the largest; each as `groups`.
        answer: in one line.
        reason: why no structure is claimed; empty if one is.
        near: the median latency of pairs within a group, in seconds; none without structure.
        far: the median latency of the other pairs, in seconds.
        gap: the slowest near pair to the fastest far pair, as a ratio of latencies.
        contradictions: pairs within a group that are not near.
        chance: that as many near pairs, drawn at random, would fall into groups as well.
        pairs: that have a latency.
        untested: pairs without one.
        topology: where the provider says that the hosts are.
        layer: the name of its layer that agrees most with the groups; empty if none was compared.
        agreement: the share of pairs that both put together, or both apart (Rand index).
        disagreements: pairs that the groups and that layer treat differently; in words, at most
            ten.
        order: the hosts in an order in which neighbours are near.
        simulated: nothing was measured: the provider is a simulator.
    """

    run: str = ""
    names: tuple[str, ...]
    groups: tuple[int, ...] = ()
    layers: tuple[tuple[int, ...], ...] = ()
    answer: str
    reason: str = ""
    near: float | None = None
    far: float | None = None
    gap: float | None = None
    contradictions: int = 0
    chance: float | None = None
    pairs: int = 0
    untested: int = 0
    topology: ProviderTopology = ProviderTopology()
    layer: str = ""
    agreement: float | None = None
    disagreements: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    simulated: bool = False
