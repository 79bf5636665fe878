"""The links of a simulated fabric, and the path of each flow through them.

An endpoint is a NIC; its number is `host * nics + nic`. Links are numbered: first the link of each
endpoint into the fabric (tx), then out of it (rx), then those between switches, up and down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.fleet.flows import NO_LINK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cluster.core.model.fabric import Fabric

    Numbers = NDArray[np.int64]


class Uplinks(NamedTuple):
    """The links of a kind between switches."""

    first: int
    lower: int
    upper: int

    @property
    def end(self) -> int:
        """The number after the last link: there are as many down as up."""
        return self.first + 2 * self.lower * self.upper

    def up(self, low: Numbers, high: Numbers) -> Numbers:
        """Return links from lower switches to upper ones."""
        return self.first + low * self.upper + high

    def down(self, low: Numbers, high: Numbers) -> Numbers:
        """Return links from upper switches to lower ones."""
        return self.up(low, high) + self.lower * self.upper


class FabricLinks:
    """All links of a fabric.

    Attributes:
        endpoints: NICs of all hosts.
        edge: links between leaf switches and those above them.
        core: of a fat tree, links between its two upper levels.
        count: how many there are in all.

    """

    def __init__(self, fabric: Fabric, hosts: int) -> None:
        self.fabric = fabric
        self.endpoints = hosts * fabric.nics
        half = fabric.ports // 2
        self.tree = fabric.kind == "fattree"
        leaves = fabric.leaves * fabric.nics
        self.edge = Uplinks(2 * self.endpoints, leaves, half if self.tree else fabric.spines)
        self.core = Uplinks(self.edge.end, leaves if self.tree else 0, half)
        self.count = self.core.end

    def capacities(self) -> NDArray[np.float64]:
        """Return the rate of each link without faults, in bytes per second."""
        rates = np.full(self.count, self.fabric.rate)
        if self.tree:  # as many links as without oversubscription, each of them slower
            rates[self.edge.first :] /= self.fabric.oversubscription
        return rates

    def leaf(self, endpoints: Numbers) -> Numbers:
        """Return the leaf switch of each endpoint."""
        host, nic = np.divmod(endpoints, self.fabric.nics)
        leaves: Numbers = host // self.fabric.hosts * self.fabric.nics + nic
        return leaves

    def paths(
        self, source: Numbers, target: Numbers, ports: Numbers, misrouted: Sequence[int] = ()
    ) -> Numbers:
        """Return the links that each flow takes.

        Args:
            ports: of each connection; the hash of connections between the same two depends on it.

        Returns:
            Of the shape (flows, 4), or (flows, 6) in a fat tree, padded with `NO_LINK`.

        """
        low, high = self.leaf(source), self.leaf(target)
        chosen = self._choice(source, target, ports, self.edge.upper, level=0)
        chosen = np.where(np.isin(low, misrouted), 0, chosen)
        over = low != high
        ways = [source, self.edge.up(low, chosen), self.edge.down(high, chosen)]
        crosses = [over, over]
        if self.tree:
            half = self.edge.upper
            pods = low // half, high // half
            top = self._choice(source, target, ports, half, level=1)
            ways[2:2] = [
                self.core.up(pods[0] * half + chosen, top),
                self.core.down(pods[1] * half + chosen, top),
            ]
            crosses[1:1] = [pods[0] != pods[1]] * 2
        middle = [np.where(c, way, NO_LINK) for c, way in zip(crosses, ways[1:], strict=True)]
        return np.stack([source, *middle, self.endpoints + target], axis=1)

    def _choice(
        self, source: Numbers, target: Numbers, ports: Numbers, ways: int, level: int
    ) -> Numbers:
        """Choose one of several uplinks for each flow."""
        if self.fabric.routes == "dmodk":
            by_target: Numbers = (target // max(1, ways) ** level) % ways
            return by_target
        hashed = _hash(_hash(_hash(source) ^ target) ^ (ports * 4 + level)) % ways
        if self.fabric.routes == "ecmp":
            return hashed
        return self._least_loaded(self.leaf(source), self.leaf(target), hashed, ways)

    @staticmethod
    def _least_loaded(low: Numbers, high: Numbers, hashed: Numbers, ways: int) -> Numbers:
        """Let each flow in turn take the uplink with the fewest flows; a hash breaks ties."""
        switches = int(max(low.max(initial=0), high.max(initial=0))) + 1
        up, down = np.zeros((switches, ways)), np.zeros((switches, ways))
        turn = np.arange(ways)
        chosen = np.empty(len(low), dtype=np.int64)
        for flow, (a, b, first) in enumerate(zip(low, high, hashed, strict=True)):
            load = np.maximum(up[a], down[b]) + (turn - first) % ways / ways / 2
            way = int(load.argmin())
            up[a, way] += 1
            down[b, way] += 1
            chosen[flow] = way
        return chosen

    def spine(self, paths: Numbers) -> Numbers:
        """Return the spine or core switch at the top of each path; -1 if there is none."""
        if self.tree:
            up = paths[:, 2]
            low, high = np.divmod(up - self.core.first, self.core.upper)
            return np.where(up < 0, NO_LINK, low % self.core.upper * self.core.upper + high)
        up = paths[:, 1]
        low, high = np.divmod(up - self.edge.first, self.edge.upper)
        rail = low % self.fabric.nics
        return np.where(up < 0, NO_LINK, rail * self.edge.upper + high)

    @property
    def tops(self) -> int:
        """How many spine or core switches there are."""
        return self.core.upper**2 if self.tree else self.edge.upper * self.fabric.nics

    def ends(self, link: int) -> tuple[str, bool]:
        """Return a link between switches as `link:3-5`, and whether it leads up.

        A link between the upper levels of a fat tree is a `corelink`.
        """
        kind, word = (self.edge, "link") if link < self.edge.end else (self.core, "corelink")
        down, place = divmod(link - kind.first, kind.lower * kind.upper)
        low, high = divmod(place, kind.upper)
        return f"{word}:{low}-{high}", not down

    def name(self, link: int) -> str:
        """Name a link between switches, such as `leaf 3 to spine 5`."""
        kind, words = (self.edge, "leaf") if link < self.edge.end else (self.core, "aggregation")
        down, place = divmod(link - kind.first, kind.lower * kind.upper)
        low, high = divmod(place, kind.upper)
        above = "core" if words == "aggregation" else "aggregation" if self.tree else "spine"
        ends = [f"{words} {low}", f"{above} {high}"]
        return " to ".join(reversed(ends) if down else ends)


def _hash(numbers: Numbers) -> Numbers:
    """Mix the bits of numbers, like the hash of a switch (splitmix64 of S. Vigna)."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)
