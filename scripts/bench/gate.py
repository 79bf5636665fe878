"""How often a gate is wrong on simulated fleets: healthy ones between noise and neighbours."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from fleet import header, row
from msgspec.structs import replace

from cluster.analysis.limits.hardware import listed_hosts
from cluster.core.model.network.fabric import parse_fabric, parse_noise
from cluster.core.model.network.fleet import Fleet, PairTest
from cluster.core.text.units import parse_rate
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.evidence import confirmations
from cluster.fleet.gate import decide
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.fleet.simulation import FleetSimulator

if TYPE_CHECKING:
    from cluster.core.model.network.gate import Gate, GateWord

RATE = 12.5e9
SECONDS, BATCH = 60.0, 0.7  # of a gate, and of both directions of a test
NOISES = ("loss:0.01", "loss:0.03", "both:0.03", "tails:0.03")
WORDS: tuple[GateWord, ...] = ("PROVEN", "UNDECIDED", "BAD")
SHARES = (1.0, 0.9, 0.6, 0.5)
FIXED = 100e9  # bytes per second of a host: the threshold of many gates


def gating(seeds: int) -> None:
    """Print how often a gate calls healthy fleets BAD, and fleets that are all slow PROVEN."""
    total: Counter[GateWord] = Counter()
    header("noise", "groups", "uplinks", "flows of neighbours a host", *WORDS)
    for noise, by_leaf, thinning, background in product(
        NOISES, (True, False), (1.0, 3.0), (0.0, 0.2, 0.5)
    ):
        verdicts = Counter(
            _gate(seed, noise, thinning, background, by_leaf=by_leaf).verdict
            for seed in range(1, seeds + 1)
        )
        total += verdicts
        groups = "known" if by_leaf else "unknown"
        row(noise, groups, f"1:{thinning:g}", f"{background:g}", *(verdicts[w] for w in WORDS))
    row("all", "", "", "", *(total[word] for word in WORDS))
    kinds = [host for _, host in listed_hosts().values()]
    header("share of the limit", *WORDS, "PROVEN by a fixed 100 GB/s")
    for share in SHARES:
        cases = product(kinds, NOISES * max(1, seeds // 9))
        verdicts = Counter(
            _gate(seed, noise, 1.0, 0, by_leaf=True, share=share, rate=parse_rate(kind.nic)).verdict
            for seed, (kind, noise) in enumerate(cases, 1)
        )
        passes = sum(parse_rate(kind.nic) * kind.nics * share >= FIXED for kind in kinds)
        row(f"{share:g}", *(verdicts[word] for word in WORDS), f"{passes} of {len(kinds)} types")


def _gate(
    seed: int,
    noise: str,
    thinning: float,
    background: float,
    *,
    by_leaf: bool,
    share: float = 1.0,
    rate: float = RATE,
) -> Gate:
    fabric = parse_fabric("leafspine:8x8", oversubscription=thinning, routes="ecmp", rate=rate)
    simulator = FleetSimulator(fabric, fabric.size, (), seed, parse_noise(noise, background))
    groups = tuple(host // fabric.hosts if by_leaf else 0 for host in range(fabric.size))
    names = tuple(str(host) for host in range(fabric.size))
    fleet = Fleet(names=names, groups=groups, limit=rate / share)
    total = 0.0

    def measure(step: SurveyStep) -> list[PairTest]:
        nonlocal total
        total += BATCH * (len(step.pairs) if step.alone else 1)
        return simulator.measure(
            step.pairs, step.number, metric="bandwidth", alone=step.alone, port=step.port
        )

    plan = SurveyPlan(confirm=True, seconds=SECONDS)
    tests = survey(fleet, plan, measure, remaining=lambda: SECONDS - total)
    verdict = diagnose(fleet, tests)
    checks = confirmations(verdict, tests)
    parts = (replace(f, holds=f.place in checks and checks[f.place].holds) for f in verdict.blamed)
    return decide(replace(verdict, blamed=tuple(parts)), fabric.size)
