"""B4: the same tests in a lab and in the simulator of the same fabric, as shares of a pair alone.

One uplink per leaf switch, as fast as a host, so that the simulator has one spine switch and no
choice of paths. TCP does not share a link as evenly as max-min does, so flows that share an uplink
are compared by their mean.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from stopwatch import say

from cluster.core.model.network.fabric import Fabric
from cluster.fleet.pair_measurements import pair_tests
from cluster.fleet.simulation import FleetSimulator
from cluster.orchestration.launch.launch import launch
from cluster.orchestration.proximity import ask_topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cluster.core.model.network.fleet import PairTest

HOSTS, LEAVES, RATE = 16, 4, 40  # Mbit/s of each host, and of each uplink
MILLISECONDS = 3000  # longer than bursts of TCP, so that flows that share an uplink overlap
MOST = 0.05  # by which lab and simulator may differ


def lab_and_simulator() -> None:
    """Test all kinds of pairs in a lab, and simulate the same tests."""
    options = {"leaves": str(LEAVES), "rate": f"{RATE}mbit", "uplink": f"{RATE}mbit"}
    with launch("bench4", provider="lab", hosts=HOSTS, options=options) as lab:
        groups = ask_topology(lab.spec, lab.machines).switch_groups
        run = lab.bench("pairs", groups=groups, milliseconds=MILLISECONDS, rounds=10)
    tests = [test for test in pair_tests(run.measurements) if test.value and not test.port]
    per_leaf = HOSTS // LEAVES
    fabric = Fabric(leaves=LEAVES, hosts=per_leaf, oversubscription=per_leaf, rate=RATE * 1e6 / 8)
    rates = list(_simulate(tests, FleetSimulator(fabric, HOSTS)))
    lab_rates = np.array([test.value for test in tests])
    alone = np.array([test.alone for test in tests])
    is_across = np.array([groups[test.source] != groups[test.target] for test in tests])
    lab_shares = lab_rates / np.median(lab_rates[alone])
    shares = np.array(rates) / np.median(np.array(rates)[alone])
    kinds = {
        "alone": alone,
        "at once, inside a leaf": ~alone & ~is_across,
        "at once, between leaves (mean)": ~alone & is_across,
    }
    for kind, mask in kinds.items():
        lab_share, sim_share = float(lab_shares[mask].mean()), float(shares[mask].mean())
        difference = abs(lab_share / sim_share - 1)
        words = f"{kind}: {int(mask.sum())} tests, lab {lab_share:.3f}, simulator {sim_share:.3f}"
        say(words, f"{difference:.1%}", f"{MOST:.0%}", good=difference <= MOST)


def _simulate(tests: Sequence[PairTest], simulator: FleetSimulator) -> Iterable[float]:
    """Return the rate of each test; those of a round run in one direction, then in the other."""
    rounds: defaultdict[tuple[int, bool], list[PairTest]] = defaultdict(list)
    for test in tests:
        rounds[test.round, test.alone].append(test)
    rates: dict[int, float] = {}
    for (number, alone), group in rounds.items():
        half = len(group) if alone else len(group) // 2
        for part in filter(None, (group[:half], group[half:])):
            pairs = np.array([(test.source, test.target) for test in part], dtype=np.int64)
            ends = pairs[:, 0], pairs[:, 1]
            values = simulator.rates(*ends, number, alone=alone).values
            rates |= {id(test): float(value) for test, value in zip(part, values, strict=True)}
    return [rates[id(test)] for test in tests]
