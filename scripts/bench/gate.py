"""How often a gate is wrong on simulated fleets: healthy ones between noise and neighbours."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cluster.core.model.fabric import parse_fabric, parse_noise
from cluster.core.model.fleet import Fleet, PairTest
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.gate import decide
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.fleet.simulation import FleetSimulator
from cluster.orchestration.check.fleet_check import confirmations

if TYPE_CHECKING:
    from cluster.core.model.gate import Gate, GateWord

RATE = 12.5e9
SECONDS, BATCH = 60.0, 0.7  # of a gate, and of both directions of a test
NOISES = ("loss:0.01", "loss:0.03", "both:0.03", "tails:0.03")
SHARES = (1.0, 0.9, 0.6, 0.5)


def gating(seeds: int) -> None:
    """Print how often a gate calls healthy fleets BAD, and fleets that are all slow PROVEN."""
    total: Counter[GateWord] = Counter()
    _show("| noise | groups | uplinks | flows of neighbours a host | proven | undecided | bad |")
    _show("| --- | --- | --- | --- | --- | --- | --- |")
    for noise, grouped, thinning, background in product(
        NOISES, (True, False), (1.0, 3.0), (0.0, 0.2, 0.5)
    ):
        verdicts = Counter(
            _gate(seed, noise, thinning, background, grouped=grouped).verdict
            for seed in range(1, seeds + 1)
        )
        total += verdicts
        words = ("known" if grouped else "unknown", f"1:{thinning:g}", f"{background:g}")
        _show(f"| {noise} | {' | '.join(words)} | {_counts(verdicts)} |")
    _show(f"| all | | | | {_counts(total)} |")
    _show("| share of the limit | proven | undecided | bad |\n| --- | --- | --- | --- |")
    for share in SHARES:
        verdicts = Counter(
            _gate(seed, noise, 1.0, 0.0, grouped=True, share=share).verdict
            for noise in NOISES
            for seed in range(1, seeds + 1)
        )
        _show(f"| {share:g} | {_counts(verdicts)} |")


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _counts(verdicts: Counter[GateWord]) -> str:
    return f"{verdicts['PROVEN']} | {verdicts['UNDECIDED']} | {verdicts['BAD']}"


def _gate(
    seed: int, noise: str, thinning: float, background: float, *, grouped: bool, share: float = 1.0
) -> Gate:
    fabric = parse_fabric("leafspine:8x8", oversubscription=thinning, routes="ecmp", rate=RATE)
    simulator = FleetSimulator(fabric, fabric.size, (), seed, parse_noise(noise, background))
    groups = tuple(host // fabric.hosts if grouped else 0 for host in range(fabric.size))
    names = tuple(str(host) for host in range(fabric.size))
    fleet = Fleet(names=names, groups=groups, limit=RATE / share)
    spent = 0.0

    def measure(step: SurveyStep) -> list[PairTest]:
        nonlocal spent
        spent += BATCH * (len(step.pairs) if step.alone else 1)
        return simulator.measure(
            step.pairs, step.number, metric="bandwidth", alone=step.alone, port=step.port
        )

    plan = SurveyPlan(confirm=True, seconds=SECONDS)
    tests = survey(fleet, plan, measure, remaining=lambda: SECONDS - spent)
    verdict = diagnose(fleet, tests)
    confirmed = confirmations(verdict, tests)
    blamed = (
        replace(f, holds=f.place in confirmed and confirmed[f.place].holds) for f in verdict.blamed
    )
    return decide(replace(verdict, blamed=tuple(blamed)), fabric.size)
