"""What limits training, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.models.step_limits import ENOUGH_ROUNDS, Stage
from cluster.core.units import format_value

if TYPE_CHECKING:
    from cluster.analysis.models.step_limits import TrainingVerdict

NAMES: dict[Stage, str] = {"fetch": "input: fetch", "preparation": "input: preparation"}
BOUNDS: dict[Stage, str] = {
    "compute": "the rate with data resident",
    "fetch": "what the link can bring",
    "preparation": "what the workers can prepare",
    "exchange": "what the exchange alone allows",
}


def training_answer(found: TrainingVerdict) -> str:
    """Return the rate, and what limits it; without a full stop."""
    return f"{format_value(found.rate, 'samples/s')}. {limit_of_training(found)}"


def limit_of_training(found: TrainingVerdict) -> str:
    """Return the stage that limits training, its share, and whether so few rounds can tell."""
    unsure = f"; {found.rounds} round(s) are too few to be sure: --rounds {ENOUGH_ROUNDS}"
    return f"{_stage_words(found)}{'' if found.sure else unsure}"


def _stage_words(found: TrainingVerdict) -> str:
    lost, stage = found.stalls, found.stage
    match stage:
        case "slow rank":
            times = f"{found.times_slower:.2g} times as long as the others"
            return (
                f"slow rank: rank {found.slowest} computes {times}, {lost.slow_rank:.0%} of a step"
            )
        case "compute":
            return f"compute: no stall, {_reached(found, stage)}"
        case "fetch":
            share = lost.fetch
        case "preparation":
            share = lost.preparation
        case "exchange":
            share = lost.exchange
    reached = [_reached(found, stage)] if stage == found.limit else []
    return ", ".join((NAMES.get(stage, stage), *reached, f"{share:.0%} of a step is this stall"))


def _reached(found: TrainingVerdict, stage: Stage) -> str:
    return f"{found.rate / found.bounds[stage]:.0%} of {BOUNDS[stage]}"
