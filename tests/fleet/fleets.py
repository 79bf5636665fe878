"""Simulated fleets, for tests."""

import numpy as np
from msgspec.structs import replace

from cluster.core.model.network.fabric import Routing, parse_fabric, parse_faults, parse_noise
from cluster.core.model.network.fleet import Fleet, FleetVerdict, PairMetric, PairTest
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.fleet.simulation import FleetSimulator
from cluster.reports.words.fleet import part_name

RATE = 12.5e9


class Simulated:
    """A fleet of a simulated fabric that is checked."""

    def __init__(  # noqa: PLR0913 - each is one thing to try
        self,
        fabric: str = "leafspine:8x8",
        fault: str = "",
        *,
        hosts: int = 0,
        seed: int = 1,
        oversubscription: float = 1.0,
        routes: Routing = "ecmp",
        grouped: bool = True,
        metric: PairMetric = "bandwidth",
        limit: float = RATE,
        noise: str = "loss:0.01",
        background: float = 0.0,
    ) -> None:
        net = parse_fabric(fabric, oversubscription=oversubscription, routes=routes, rate=RATE)
        count = hosts or net.size
        self.simulator = FleetSimulator(
            net, count, parse_faults(fault, net, count), seed, parse_noise(noise, background)
        )
        self.fleet = Fleet(
            names=tuple(f"{host}.mpi.sim" for host in range(count)),
            groups=tuple(host // net.hosts if grouped else 0 for host in range(count)),
            nics=net.nics,
            limit=limit,
            metric=metric,
        )

    def measure(self, step: SurveyStep) -> list[PairTest]:
        return self.simulator.measure(
            step.pairs, step.number, metric=self.fleet.metric, alone=step.alone, port=step.port
        )

    def check(
        self, *, rounds: int = 10, known_routes: bool = False, alone: int = 8
    ) -> FleetVerdict:
        routes = self.simulator if known_routes else None
        plan = SurveyPlan(rounds=rounds, alone=alone)
        return diagnose(self.fleet, survey(self.fleet, plan, self.measure, routes), routes)


class Uncertain(Simulated):
    """A fleet of whose tests that one host receives, a share is low at random."""

    def __init__(self, hosts: int, leaves: int, share: float, seed: int) -> None:
        super().__init__(f"leafspine:{leaves}x{hosts // leaves}", seed=seed, grouped=leaves > 1)
        self.host, self._share = seed % hosts, share

    def measure(self, step: SurveyStep) -> list[PairTest]:
        chance = np.random.default_rng([self.simulator.seed, step.number, step.port, 99])
        return [
            replace(test, value=(test.value or 0.0) * chance.uniform(0.4, 0.9))
            if test.target == self.host and chance.random() < self._share
            else test
            for test in super().measure(step)
        ]


def blame(verdict: FleetVerdict) -> list[tuple[str, ...]]:
    """Return what is blamed: its kind, its part and its direction."""
    return [(b.kind, part_name(b.place), b.direction) for b in verdict.blamed]


def both_ways(
    pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
