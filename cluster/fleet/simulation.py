"""What hosts of a simulated fabric would measure: max-min fair flows, latencies, noise, faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.core.model.fleet import PairTest
from cluster.fleet.fabric_links import FabricLinks
from cluster.fleet.flows import max_min_rates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from cluster.core.model.fabric import Fabric, Fault
    from cluster.core.model.fleet import PairMetric

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]

NOISE = 0.01  # of a rate: the spread of the loss of a healthy pair, one-sided
JITTER = 0.05  # of a latency
STALLS = 1e-5  # of all tests: the share in which half of the time is lost
HOST_ALPHA = 1.2e-6  # seconds that a small message takes in the two hosts
HOP_ALPHA = 0.3e-6  # seconds that it takes in each switch
RAMP = 9  # rounds over which a drift builds up
CUT = "nothing arrived within the limit"
HOLE = "small messages arrive, large ones do not: an MTU hole"
TWICE = "refused: another host has the same address"


class Outcomes(NamedTuple):
    """The results of tests that ran at the same time.

    Args:
        values: bytes per second, or seconds; 0 if nothing arrived.
        reasons: why nothing arrived; empty if something did.

    """

    values: Values
    reasons: list[str]


class FleetSimulator:
    """Hosts of a fabric, with faults; the same seed gives the same values."""

    def __init__(
        self, fabric: Fabric, hosts: int, faults: tuple[Fault, ...] = (), seed: int = 1
    ) -> None:
        self.fabric_links = FabricLinks(fabric, hosts)
        self.hosts = hosts
        self.faults = faults
        self.seed = seed
        self._misrouted = tuple(f.number for f in faults if f.kind == "misroute")

    def measure(
        self, pairs: Numbers, step: int, *, metric: PairMetric, alone: bool, port: int = 0
    ) -> list[PairTest]:
        """Test pairs of hosts in both directions, on all NICs.

        Args:
            pairs: of hosts, of the shape (pairs, 2).

        """
        nics = self.fabric_links.fabric.nics
        source = np.repeat(np.concatenate([pairs[:, 0], pairs[:, 1]]), nics)
        target = np.repeat(np.concatenate([pairs[:, 1], pairs[:, 0]]), nics)
        nic = np.tile(np.arange(nics), 2 * len(pairs))
        ends = source * nics + nic, target * nics + nic
        found = (
            self.rates(*ends, step, alone=alone, port=port)
            if metric == "bandwidth"
            else self.latencies(*ends, step)
        )
        columns = (source, target, nic, found.values)
        rows = zip(*(column.tolist() for column in columns), found.reasons, strict=True)
        return [
            PairTest(
                round=step,
                source=a,
                target=b,
                value=value,
                reason=why,
                alone=alone,
                nic=k,
                port=port,
            )
            for a, b, k, value, why in rows
        ]

    def paths(
        self, source: Numbers, target: Numbers, ports: int | Numbers = 0, *, healthy: bool = True
    ) -> Numbers:
        """Return the links on the paths of tests.

        Returns:
            As `FabricLinks.paths` gives them.

        """
        hashed = self.seed * 64 + np.broadcast_to(np.asarray(ports), source.shape)
        return self.fabric_links.paths(source, target, hashed, () if healthy else self._misrouted)

    def rates(
        self, source: Numbers, target: Numbers, step: int, *, alone: bool = False, port: int = 0
    ) -> Outcomes:
        """Measure bandwidth between endpoints.

        Returns:
            Bytes per second of each test.

        """
        capacities = self._capacities(step)
        paths = self.paths(source, target, port, healthy=False)
        if alone:
            bounds = np.append(capacities, np.inf)
            rates = bounds[np.where(paths < 0, len(capacities), paths)].min(axis=1)
        else:
            rates = max_min_rates(paths, capacities)
        chance = self._chance(step, 1 + alone + 2 * port)
        rates = rates * np.exp(-NOISE * np.abs(chance.standard_normal(len(rates))))
        rates[chance.random(len(rates)) < STALLS] /= 2
        reasons = [""] * len(rates)
        for at, why in self._failures(source, target, step):
            reasons[at], rates[at] = why, 0.0
        for at in np.flatnonzero(rates <= 0).tolist():
            reasons[at] = reasons[at] or CUT
        return Outcomes(rates, reasons)

    def latencies(self, source: Numbers, target: Numbers, step: int) -> Outcomes:
        """Measure half a round trip of 8 bytes between endpoints."""
        paths = self.paths(source, target)
        switches = (paths >= 0).sum(axis=1) - 1
        seconds = HOST_ALPHA + HOP_ALPHA * switches
        for fault in self.faults:
            if fault.kind == "cpu":
                hit = (self._host(source) == fault.number) | (self._host(target) == fault.number)
                seconds = np.where(hit, seconds / max(fault.share, 0.01), seconds)
        chance = self._chance(step, 0)
        seconds = seconds * np.exp(JITTER * np.abs(chance.standard_normal(len(seconds))))
        reasons = [""] * len(seconds)
        cut = np.append(self._capacities(step), np.inf)
        lost = (cut[np.where(paths < 0, len(cut) - 1, paths)] <= 0).any(axis=1)
        for at in np.flatnonzero(lost).tolist():
            reasons[at], seconds[at] = CUT, 0.0
        return Outcomes(seconds, reasons)

    def _host(self, endpoints: Numbers) -> Numbers:
        hosts: Numbers = endpoints // self.fabric_links.fabric.nics
        return hosts

    def _chance(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _capacities(self, step: int) -> Values:
        """Return the rate of each link in a round."""
        rates = self.fabric_links.capacities()
        for fault in self.faults:
            rates[self._touched(fault)] *= self._share(fault, step)
        return rates

    def _share(self, fault: Fault, step: int) -> float:
        if fault.kind == "flap":  # about half of the rounds are good
            return 1.0 if self._chance(fault.number, step, 77).random() < 0.5 else fault.share  # noqa: PLR2004
        if fault.kind == "drift":
            return 1 - (1 - fault.share) * min(1.0, step / RAMP)
        return fault.share

    def _touched(self, fault: Fault) -> Numbers:
        """Return the links that a fault makes slower."""
        fabric_links, edge = self.fabric_links, self.fabric_links.edge
        everything = np.arange(edge.upper)
        if fault.kind == "link":
            low, high = np.array([fault.number]), np.array([fault.part])
            return np.concatenate([edge.up(low, high), edge.down(low, high)])
        if fault.kind == "leaf":
            low = np.full(edge.upper, fault.number)
            return np.concatenate([edge.up(low, everything), edge.down(low, everything)])
        if fault.kind == "spine":
            return self._of_spine(fault.number)
        if fault.kind in ("misroute", "duplicate", "mtu"):
            return np.array([], dtype=np.int64)
        nics = fabric_links.fabric.nics
        own = [fault.part] if fault.kind == "nic" else range(nics)
        ends = fault.number * nics + np.array(own)
        ways = {"tx": [ends], "rx": [fabric_links.endpoints + ends]}
        return np.concatenate(ways.get(fault.direction, [*ways["tx"], *ways["rx"]]))

    def _of_spine(self, number: int) -> Numbers:
        """Return all links of a switch at the top."""
        fabric_links = self.fabric_links
        if fabric_links.tree:  # core switch: one link to the same place of each pod
            half = fabric_links.core.upper
            place, top = divmod(number, half)
            low = np.arange(2 * half) * half + place
            high = np.full(2 * half, top)
            return np.concatenate(
                [fabric_links.core.up(low, high), fabric_links.core.down(low, high)]
            )
        nics = fabric_links.fabric.nics
        rail, top = divmod(number, fabric_links.edge.upper)
        low = np.arange(fabric_links.fabric.leaves) * nics + rail
        high = np.full(len(low), top)
        return np.concatenate([fabric_links.edge.up(low, high), fabric_links.edge.down(low, high)])

    def _failures(self, source: Numbers, target: Numbers, step: int) -> Iterator[tuple[int, str]]:
        """Return the tests that fail, and why."""
        senders, receivers = self._host(source), self._host(target)
        for fault in self.faults:
            if fault.kind == "mtu":
                hit = (senders == fault.number) | (receivers == fault.number)
                yield from ((int(at), HOLE) for at in np.flatnonzero(hit))
            elif fault.kind == "duplicate":
                hit = (receivers == fault.number) | (receivers == fault.number + 1)
                lots = self._chance(fault.number, step, 78).random(len(hit))
                lost = np.flatnonzero(hit & (lots < 0.5))  # noqa: PLR2004 - either of the two answers
                yield from ((int(at), TWICE) for at in lost)
