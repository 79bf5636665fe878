"""Which hosts of a cluster are near one another."""

from __future__ import annotations

from cluster.core.model.value import Value


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
        provider: the groups that the provider names; empty if it names none.
        agreement: the share of pairs that both put together, or both apart (Rand index).
        disagreements: in words, at most ten.
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
    provider: tuple[int, ...] = ()
    agreement: float | None = None
    disagreements: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    simulated: bool = False
