"""What hosts of a simulated fabric would measure: max-min fair flows, latencies, noise, faults.

Flows that share links have max-min fair rates, by progressive filling: a flow is as fast as its
tightest link allows, and no flow can get more without taking from one that is no faster (D.
Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2). TCP, and RoCE with congestion
control, do not reach these rates packet by packet; they are designed to approach them.

An endpoint is a NIC; its number is `host * nics + nic`. Links are numbered: first the link of each
endpoint into the fabric (tx), then out of it (rx), then those between switches, up and down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cluster.core.model.network.fabric import Fabric, Fault, Noise
from cluster.core.model.network.fleet import HOLE, SAME_ADDRESS, SILENT, PairMetric, PairTest, Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]

USUAL = Noise()
TAILS = 2  # degrees of freedom of Student's t: no variance, as of hosts that others use
JITTER = 0.05  # of a latency
STALLS = 1e-5  # of all tests: the share in which half of the time is lost
HOST_ALPHA = 1.2e-6  # seconds that a small message takes in the two hosts
HOP_ALPHA = 0.3e-6  # seconds that it takes in each switch
RAMP = 9  # rounds over which a drift builds up
NO_LINK = -1  # pads the paths that are shorter than the longest
ROUNDING = 1e-9  # of a share: links that differ by less are full at the same time


class Outcomes(NamedTuple):
    """The results of tests that ran at the same time."""

    values: Values  # bytes per second, or seconds; 0 if nothing arrived
    reasons: list[str]  # why nothing arrived; empty if something did


class FleetSimulator:
    """Hosts of a fabric, with faults; the same seed gives the same values."""

    def __init__(
        self,
        fabric: Fabric,
        hosts: int,
        faults: tuple[Fault, ...] = (),
        seed: int = 1,
        noise: Noise = USUAL,
        *,
        known_routes: bool = False,
    ) -> None:
        self.fabric_links = FabricLinks(fabric, hosts)
        self.hosts = hosts
        self.faults = faults
        self.seed = seed
        self.noise = noise
        self.routes = self if known_routes else None
        self._misroutes = {f.number: 1 for f in faults if f.kind == "misroute"}
        upper = self.fabric_links.edge.upper
        self._misroutes |= {
            f.number: max(1, round(f.share * upper)) for f in faults if f.kind == "uplinks"
        }

    def measure(
        self, pairs: Numbers, step: int, *, metric: PairMetric, alone: bool, port: int = 0
    ) -> list[PairTest]:
        """Test pairs of hosts, of the shape (pairs, 2), in both directions, on all NICs."""
        nics = self.fabric_links.fabric.nics
        source = np.repeat(np.concatenate([pairs[:, 0], pairs[:, 1]]), nics)
        target = np.repeat(np.concatenate([pairs[:, 1], pairs[:, 0]]), nics)
        nic = np.tile(np.arange(nics), 2 * len(pairs))
        ends = source * nics + nic, target * nics + nic
        outcome = (
            self.rates(*ends, step, alone=alone, port=port)
            if metric == "bandwidth"
            else self.latencies(*ends, step)
        )
        columns = (source, target, nic, outcome.values)
        rows = zip(*(column.tolist() for column in columns), outcome.reasons, strict=True)
        return [
            PairTest(
                round=step,
                source=a,
                target=b,
                value=value,
                reason=reason,
                alone=alone,
                nic=k,
                port=port,
            )
            for a, b, k, value, reason in rows
        ]

    def paths(
        self, source: Numbers, target: Numbers, ports: int | Numbers = 0, *, healthy: bool = True
    ) -> Numbers:
        """Return the links on the paths of tests, as `FabricLinks.paths` does."""
        keys = self.seed * 64 + np.broadcast_to(np.asarray(ports), source.shape)
        return self.fabric_links.paths(source, target, keys, {} if healthy else self._misroutes)

    def rates(
        self, source: Numbers, target: Numbers, step: int, *, alone: bool = False, port: int = 0
    ) -> Outcomes:
        """Measure bandwidth between endpoints, in bytes per second."""
        capacities = self._capacities(step)
        paths = self.paths(source, target, port, healthy=False)
        if alone and not self.noise.background:
            bounds = np.append(capacities, np.inf)
            rates = bounds[np.where(paths < 0, len(capacities), paths)].min(axis=1)
        elif alone:
            joint = (np.vstack([path, self._background(step, port, index)])
                      for index, path in enumerate(paths, 1))  # fmt: skip
            joint_rates = (max_min_rates(all_paths, capacities)[0] for all_paths in joint)
            rates = np.fromiter(joint_rates, dtype=np.float64, count=len(paths))
        else:
            all_paths = np.vstack([paths, self._background(step, port)])
            rates = max_min_rates(all_paths, capacities)[: len(paths)]
        chance = self._chance(step, 1 + alone + 2 * port)
        rates = rates * self._variation(chance, len(rates))
        rates[chance.random(len(rates)) < STALLS] /= 2
        reasons = [""] * len(rates)
        for index, reason in self._failures(source, target, step):
            reasons[index], rates[index] = reason, 0.0
        for index in np.flatnonzero(rates <= 0).tolist():
            reasons[index] = reasons[index] or SILENT
        return Outcomes(rates, reasons)

    def _variation(self, chance: np.random.Generator, count: int) -> Values:
        """Return what noise leaves of each rate; more than it only if the noise is two-sided."""
        kind, spread = self.noise.kind, self.noise.spread
        if kind == "tails":
            factors: Values = np.exp(-spread * np.abs(chance.standard_t(TAILS, count)))
            return factors
        normal = chance.standard_normal(count)
        return np.exp(spread * (normal if kind == "both" else -np.abs(normal)))

    def _background(self, step: int, port: int, test: int = 0) -> Numbers:
        """Return the links of flows of others, which use the switches but none of our hosts."""
        count = round(self.noise.background * self.fabric_links.endpoints)
        chance = self._chance(step, port, 79, test)
        source, target = chance.integers(0, self.fabric_links.endpoints, (2, count))
        paths = self.paths(source, target, chance.integers(0, 1 << 16, count), healthy=False)
        paths[:, [0, -1]] = NO_LINK
        return paths[(paths >= 0).any(axis=1)]

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
        is_cut = (cut[np.where(paths < 0, len(cut) - 1, paths)] <= 0).any(axis=1)
        for index in np.flatnonzero(is_cut).tolist():
            reasons[index], seconds[index] = SILENT, 0.0
        return Outcomes(seconds, reasons)

    def _host(self, endpoints: Numbers) -> Numbers:
        hosts: Numbers = endpoints // self.fabric_links.fabric.nics
        return hosts

    def _chance(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _capacities(self, step: int) -> Values:
        rates = self.fabric_links.capacities()
        for fault in self.faults:
            rates[self._faulty_links(fault)] *= self._share(fault, step)
        return rates

    def _share(self, fault: Fault, step: int) -> float:
        if fault.kind == "flap":  # about half of the rounds are good
            return 1.0 if self._chance(fault.number, step, 77).random() < 0.5 else fault.share  # noqa: PLR2004
        if fault.kind == "drift":
            return 1 - (1 - fault.share) * min(1.0, step / RAMP)
        return fault.share

    def _faulty_links(self, fault: Fault) -> Numbers:
        fabric_links, edge = self.fabric_links, self.fabric_links.edge
        uplinks = np.arange(edge.upper)
        if fault.kind == "link":
            low, high = np.array([fault.number]), np.array([fault.part])
            return np.concatenate([edge.up(low, high), edge.down(low, high)])
        if fault.kind == "leaf":
            low = np.full(edge.upper, fault.number)
            return np.concatenate([edge.up(low, uplinks), edge.down(low, uplinks)])
        if fault.kind == "spine":
            return self._of_spine(fault.number)
        if fault.kind in ("misroute", "uplinks", "duplicate", "mtu"):
            return np.array([], dtype=np.int64)
        nics = fabric_links.fabric.nics
        numbers = [fault.part] if fault.kind == "nic" else range(nics)
        ends = fault.number * nics + np.array(numbers)
        ways = {"tx": [ends], "rx": [fabric_links.endpoints + ends]}
        return np.concatenate(ways.get(fault.direction, [*ways["tx"], *ways["rx"]]))

    def _of_spine(self, number: int) -> Numbers:
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
        senders, receivers = self._host(source), self._host(target)
        for fault in self.faults:
            if fault.kind == "mtu":
                hit = (senders == fault.number) | (receivers == fault.number)
                yield from ((int(index), HOLE) for index in np.flatnonzero(hit))
            elif fault.kind == "duplicate":
                hit = (receivers == fault.number) | (receivers == fault.number + 1)
                lots = self._chance(fault.number, step, 78).random(len(hit))
                hits = np.flatnonzero(hit & (lots < 0.5))  # noqa: PLR2004 - either of the two answers
                yield from ((int(index), SAME_ADDRESS) for index in hits)


def max_min_rates(paths: Numbers, capacities: Values) -> Values:
    """Return the bytes per second of each flow; infinite for one without links.

    Each step finds the links that limit all flows through them. These flows have their rates now,
    which are subtracted from the other links on their paths: (flows, hops), padded with `NO_LINK`.
    """
    links = len(capacities)
    hops = np.where(paths < 0, links, paths)  # an additional link, which is never full
    free_rates = np.append(capacities.astype(np.float64), np.inf)
    rates = np.full(len(paths), np.inf)
    open_ = np.flatnonzero((paths >= 0).any(axis=1))
    while open_.size:
        way = hops[open_]
        flat = way.ravel()
        counts = np.bincount(flat, minlength=links + 1)
        shares = np.full(links + 1, np.inf)
        used = counts[:links] > 0
        shares[:links][used] = np.maximum(free_rates[:links][used], 0.0) / counts[:links][used]
        tightest = shares[way].min(axis=1)
        lowest = np.full(links + 1, np.inf)
        np.minimum.at(lowest, flat, np.repeat(tightest, way.shape[1]))
        full = shares <= lowest * (1 + ROUNDING)
        full[links] = False
        result = full[way].any(axis=1)
        rates[open_[result]] = tightest[result]
        used_rates = np.repeat(tightest[result], way.shape[1])
        free_rates -= np.bincount(way[result].ravel(), weights=used_rates, minlength=links + 1)
        free_rates[links] = np.inf
        open_ = open_[~result]
    return rates


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
        host, nic = np.divmod(endpoints, self.fabric.nics)
        leaves: Numbers = host // self.fabric.hosts * self.fabric.nics + nic
        return leaves

    def paths(
        self, source: Numbers, target: Numbers, ports: Numbers, misroutes: Mapping[int, int]
    ) -> Numbers:
        """Return the links of each flow: (flows, 4), (flows, 6) in a fat tree, padded by `NO_LINK`.

        The hash of connections between the same two depends on their ports. `misroutes` says how
        many of its uplinks a leaf switch uses, where that is not all of them.
        """
        low, high = self.leaf(source), self.leaf(target)
        uplink = self._choice(source, target, ports, self.edge.upper, level=0)
        for leaf, uplinks in misroutes.items():
            few = (low == leaf) | ((high == leaf) & (uplinks > 1))
            uplink = np.where(few, uplink % uplinks, uplink)
        climbs = low != high
        ways = [source, self.edge.up(low, uplink), self.edge.down(high, uplink)]
        crosses = [climbs, climbs]
        if self.tree:
            half = self.edge.upper
            pods = low // half, high // half
            top = self._choice(source, target, ports, half, level=1)
            ways[2:2] = [
                self.core.up(pods[0] * half + uplink, top),
                self.core.down(pods[1] * half + uplink, top),
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
        hashes = _hash(_hash(_hash(source) ^ target) ^ (ports * 4 + level)) % ways
        if self.fabric.routes == "ecmp":
            return hashes
        return self._least_loaded(self.leaf(source), self.leaf(target), hashes, ways)

    @staticmethod
    def _least_loaded(low: Numbers, high: Numbers, hashes: Numbers, ways: int) -> Numbers:
        """Let each flow in turn take the uplink with the fewest flows; a hash breaks ties."""
        switches = int(max(low.max(initial=0), high.max(initial=0))) + 1
        up, down = np.zeros((switches, ways)), np.zeros((switches, ways))
        turn = np.arange(ways)
        choice = np.empty(len(low), dtype=np.int64)
        for flow, (a, b, first) in enumerate(zip(low, high, hashes, strict=True)):
            load = np.maximum(up[a], down[b]) + (turn - first) % ways / ways / 2
            way = int(load.argmin())
            up[a, way] += 1
            down[b, way] += 1
            choice[flow] = way
        return choice

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

    def ends(self, link: int) -> tuple[Part, bool]:
        """Return a link between switches, and whether it leads up.

        A link between the upper levels of a fat tree is a `corelink`.
        """
        is_edge = link < self.edge.end
        links = self.edge if is_edge else self.core
        down, place = divmod(link - links.first, links.lower * links.upper)
        low, high = divmod(place, links.upper)
        part = Part(kind="link" if is_edge else "corelink", number=low, upper=high)
        return part, not down


def _hash(numbers: Numbers) -> Numbers:
    """Mix the bits of numbers, like the hash of a switch (splitmix64 of S. Vigna)."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)
