"""Faults planted in a lab of 16 hosts on four leaf switches: how often `check` names them."""

from __future__ import annotations

import random
import statistics
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from stopwatch import say

from cluster.fleet.diagnosis import FAULTS
from cluster.orchestration.check.fleet_check import judge_fleet, known_groups
from cluster.orchestration.launch.launch import launch
from cluster.providers.lab.control import alter, alter_pair, alter_uplink

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.core.model.fleet import FleetVerdict
    from cluster.orchestration.cluster import Cluster
    from cluster.providers.lab.control import Direction

HOSTS, LEAVES = 16, 4
RATE, UPLINK = 40, 160  # Mbit/s: low, so that two cores carry all hosts at once
KINDS = ("slow tx", "slow rx", "slow both", "slow uplink", "cut host", "cut pair")
SLOW = (0.3, 0.8)  # of the rate that a slow host is left with
THIN = (0.15, 0.4)  # of the rate that a slow uplink is left with
NAMED = 0.96  # of the faults that are planted
LONGEST = 40.0  # seconds of a check


class Planted(NamedTuple):
    """A fault: the part that has it, in which directions, and how to make and heal it."""

    part: str
    directions: tuple[str, ...]
    make: Callable[[], object]
    heal: Callable[[], object]


def checking_a_lab(plantings: int) -> None:
    """Plant this many faults, one at a time, and check as many healthy fleets."""
    named, wrong, times = 0, 0, list[float]()
    options = {"leaves": str(LEAVES), "rate": f"{RATE}mbit", "uplink": f"{UPLINK}mbit"}
    with launch("bench16", provider="lab", hosts=HOSTS, options=options) as lab:
        for number in range(plantings):
            chance = random.Random(number)  # noqa: S311 - no secret
            fault = _fault(lab, KINDS[number % len(KINDS)], chance)
            fault.make()
            verdict, _ = _checked(lab)
            fault.heal()
            blamed = [(b.part, b.direction) for b in verdict.blamed if b.kind in FAULTS]
            right = [f"{part} {way}" for part, way in blamed if _is(fault, part, way)]
            named += len(right) == len(blamed) == 1
            words = ", ".join(f"{part} {way}".strip() for part, way in blamed) or "nobody"
            sys.stdout.write(f"      {fault.part} {'|'.join(fault.directions)}: {words}\n")
            healthy, took = _checked(lab)
            wrong += sum(b.kind in FAULTS for b in healthy.blamed)
            times.append(took)
    least = NAMED * plantings
    what = f"faults of {plantings} on {HOSTS} lab hosts named, and nobody else"
    say(what, str(named), f"{least:.1f}", good=named >= least, least=True)
    say(f"blamed in {plantings} healthy checks of them", str(wrong), "0", good=not wrong)
    median = statistics.median(times)
    say("check of them, median", f"{median:.1f} s", f"{LONGEST:g} s", good=median <= LONGEST)


def _fault(lab: Cluster, kind: str, chance: random.Random) -> Planted:
    machines, host = lab.machines, chance.randrange(1, HOSTS)  # the first one runs the check
    machine = machines[host]
    if kind == "slow uplink":
        leaf, rate = (chance.randrange(LEAVES), f"{UPLINK * chance.uniform(*THIN):.2f}mbit")
        return Planted(
            f"group:{leaf}",
            ("both",),
            lambda: alter_uplink(lab.name, leaf, "slow", rate),
            lambda: alter_uplink(lab.name, leaf, "heal"),
        )
    if kind == "cut pair":
        other = chance.choice([n for n in range(1, HOSTS) if n != host])
        low, high = sorted((host, other))
        return Planted(
            f"pair:{low}-{high}",
            ("both",),
            lambda: alter_pair(machines[low], machines[high], "cut"),
            lambda: alter_pair(machines[low], machines[high], "heal"),
        )
    if kind == "cut host":
        return Planted(
            f"host:{host}", ("both",), lambda: alter(machine, "cut"), lambda: alter(machine, "heal")
        )
    rate = f"{RATE * chance.uniform(*SLOW):.2f}mbit"
    ways: dict[str, Direction] = {"slow tx": "tx", "slow rx": "rx", "slow both": "both"}
    return Planted(
        f"host:{host}",
        (ways[kind],),
        lambda: alter(machine, "slow", rate, ways[kind]),
        lambda: alter(machine, "heal"),
    )


def _is(fault: Planted, part: str, direction: str) -> bool:
    return part == fault.part and direction in fault.directions


def _checked(lab: Cluster) -> tuple[FleetVerdict, float]:
    began = time.monotonic()
    verdict = judge_fleet(lab.bench("pairs", groups=known_groups(lab.spec, lab.machines)))
    return verdict, time.monotonic() - began
