"""Simulated fleets on a dragonfly, whose groups have several routers that share links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cluster.fleet.simulation import NO_LINK, FabricLinks
from tests.fleet.fleets import RATE, Simulated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.core.model.network.fabric import Fabric
    from cluster.fleet.simulation import Numbers, Values

THIN = 3.0  # hosts of a router, or of a group, over what its links to each other one carry


class DragonflyLinks(FabricLinks):
    """One link between each two routers of a group, and one between each two groups (J. Kim,
    W. Dally, S. Scott, D. Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", 2008).

    Attributes:
        detours: whether a flow passes a third group, chosen by its hash, or takes the shortest way.
    """  # fmt: skip

    def __init__(self, fabric: Fabric, hosts: int, routers: int, *, detours: bool) -> None:
        super().__init__(fabric, hosts)
        self.routers, self.detours, self.first = routers, detours, 2 * self.endpoints
        self.of_router = fabric.hosts // routers
        self.long = self.first + fabric.leaves * routers**2  # number of the first between groups
        self.count = self.long + fabric.leaves**2

    def capacities(self) -> Values:
        """Return the rates: no link is slower than a host."""
        fabric, rates = self.fabric, np.full(self.count, self.fabric.rate)
        rates[self.first : self.long] *= max(1, self.of_router / THIN)
        rates[self.long :] *= max(1, fabric.hosts / THIN / (fabric.leaves - 1))
        return rates

    def paths(
        self, source: Numbers, target: Numbers, ports: Numbers, misrouted: Mapping[int, int]
    ) -> Numbers:
        assert not misrouted
        router, end = source // self.of_router, target // self.of_router
        ways = [source]
        if self.detours:
            third = self._choice(source, target, ports, self.fabric.leaves, level=0)
            inside = router // self.routers == end // self.routers
            *hops, router = self._to_group(router, np.where(inside, router // self.routers, third))
            ways += hops
        *hops, router = self._to_group(router, end // self.routers)
        ways += [*hops, self._inside(router, end), self.endpoints + target]
        return np.stack(ways, axis=1)

    def _inside(self, start: Numbers, end: Numbers) -> Numbers:
        link = self.first + start * self.routers + end % self.routers
        return np.where(start == end, NO_LINK, link)

    def _to_group(self, start: Numbers, group: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return the link to the router that leads to a group, that to the group, and its end."""
        base = start // self.routers
        exit_ = base * self.routers + group % self.routers
        between = np.where(base == group, NO_LINK, self.long + base * self.fabric.leaves + group)
        end = np.where(base == group, start, group * self.routers + base % self.routers)
        return np.where(base == group, NO_LINK, self._inside(start, exit_)), between, end


class Dragonfly(Simulated):
    """A fleet on a dragonfly that carries a third of what its hosts send."""

    def __init__(  # noqa: PLR0913 - each is one thing to try
        self,
        groups: int,
        routers: int,
        hosts: int,
        fault: str = "",
        *,
        detours: bool = False,
        seed: int = 1,
        grouped: bool = True,
        noise: str = "loss:0.01",
        background: float = 0.0,
    ) -> None:
        super().__init__(
            f"leafspine:{groups}x{routers * hosts}",
            fault,
            seed=seed,
            grouped=grouped,
            limit=RATE,
            noise=noise,
            background=background,
        )
        old = self.simulator.fabric_links
        self.simulator.fabric_links = DragonflyLinks(
            old.fabric, self.simulator.hosts, routers, detours=detours
        )
