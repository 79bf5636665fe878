"""What limits training, in words."""

from cluster.analysis.models.step_limits import ENOUGH_ROUNDS, Stage, TrainingVerdict
from cluster.core.text.units import format_value

NAMES: dict[Stage, str] = {"fetch": "input: fetch", "preparation": "input: preparation"}
BOUNDS: dict[Stage, str] = {
    "compute": "the rate with data resident",
    "fetch": "what the link can bring",
    "preparation": "what the workers can prepare",
    "exchange": "what the exchange alone allows",
}


def training_answer(verdict: TrainingVerdict) -> str:
    """Return the rate, and what limits it; without a full stop."""
    return f"{format_value(verdict.rate, 'samples/s')}. {limit_of_training(verdict)}"


def limit_of_training(verdict: TrainingVerdict) -> str:
    """Return the stage that limits training, its share, and whether these rounds can tell."""
    if verdict.contradiction:
        return (
            "What limits it cannot be said: the rounds contradict one another, as steps with more "
            f"to do took less time, by {verdict.contradiction:.0%} of a step. Repeat it when the "
            f"hosts are quiet, with --rounds {max(ENOUGH_ROUNDS, 2 * verdict.rounds)}"
        )
    unsure = f"; {verdict.rounds} round(s) are too few to be sure: --rounds {ENOUGH_ROUNDS}"
    return f"{_stage_words(verdict)}{'' if verdict.sure else unsure}"


def _stage_words(verdict: TrainingVerdict) -> str:
    stalls, stage = verdict.stalls, verdict.stage
    match stage:
        case "slow_rank":
            times = f"{verdict.times_slower:.2g} times as long as the others"
            rank = f"rank {verdict.slowest} computes {times}"
            return f"slow rank: {rank}, {stalls.slow_rank:.0%} of a step"
        case "compute":
            return f"compute: no stall, {_bound_share(verdict, stage)}"
        case "fetch":
            share = stalls.fetch
        case "preparation":
            share = stalls.preparation
        case "exchange":
            share = stalls.exchange
    parts = [_bound_share(verdict, stage)] if stage == verdict.limit else []
    return ", ".join((NAMES.get(stage, stage), *parts, f"{share:.0%} of a step is this stall"))


def _bound_share(verdict: TrainingVerdict, stage: Stage) -> str:
    return f"{verdict.rate / verdict.bounds[stage]:.0%} of {BOUNDS[stage]}"
