"""How often `cluster watch` is wrong: false alarms of stationary series, and steps that are found.

Each seed gives 1,000 stationary series of 60 runs (250 each of four kinds) and 200 series with each
step. No threshold of `analysis/statistics/change_points.py` was chosen with these seeds; whoever
changes one chooses with others (191,001, 191,002 and 191,011 to 191,020 were the last), and then
reports these.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import binomtest  # type: ignore[import-untyped]

from cluster.analysis.statistics.change_points import ALARMS, LEAST, look
from tests.analysis.random_series import KINDS, LENGTH, Floats, normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SEEDS = (390_001, 390_002, 390_003, 390_004, 390_005)
COUNT, STEPS = 250, 200
FIRST = LEAST + min(ALARMS)  # runs at the first look


class Step(NamedTuple):
    """A step of the newest values, in units of the mean."""

    name: str
    noise: float
    size: float
    after: int  # runs, of which these are the newest


CASES = (
    Step("3 deviations, after 3 runs", 0.02, 0.06, 3),
    Step("3 deviations, after 6 runs", 0.02, 0.06, 6),
    Step("5% at 1% of noise, after 2 runs", 0.01, -0.05, 2),
)


class _FalseAlarm(NamedTuple):
    """What a stationary series gave, wrongly."""

    watch: float  # the share of all looks at which the state is `watch`
    change: bool  # at one look, at the end
    newest: bool  # the state at that look is `alarm`
    ever: bool  # the state is `alarm` at one of the looks after each run


def watching(repetitions: int) -> None:
    """Measure false alarms and steps with as many of the seeds."""
    seeds = SEEDS[:repetitions]
    _line(f"false alarms, {COUNT} series of {LENGTH} runs per kind and seed; seeds {seeds}")
    _line(
        f"{'series':16}{'number':>8}  {'one look, any change':26}{'one look, alarm':26}"
        f"{'all looks, alarm':26}watch, of all looks"
    )
    total: list[_FalseAlarm] = []
    for number, kind in enumerate(KINDS):
        alarms = [_false_alarm(values) for values in stationary(number, seeds)]
        _alarm_row(kind.__name__, alarms)
        total += alarms
    _alarm_row("all", total)
    for number, step in enumerate(CASES):  # in the first column at one look, after all these runs
        rows = []
        for values in step_series(number, step, seeds):
            history = values.tolist()
            states = [
                look(history[:end]).state for end in range(LENGTH - step.after + 1, LENGTH + 1)
            ]
            is_alarmed = any(word != "steady" for word in states)
            rows.append((states[-1] == "alarm", "alarm" in states, is_alarmed))
        cells = [share(column) for column in zip(*rows, strict=True)]
        _line(f"{step.name:34}{cells[0]:26}{cells[1]:26}{cells[2]}")
    far: list[int] = []
    for values in middle_step_series(seeds):
        places = [abs(point.at - LENGTH // 2) for point in look(values.tolist()).changes]
        far.append(min(places, default=LENGTH))
    distances = ", ".join(
        f"within {distance}: {share([d <= distance for d in far])}" for distance in (1, 3)
    )
    _line(f"3 deviations at run {LENGTH // 2} of {LENGTH}, one look, located {distances}")


def stationary(number: int, seeds: Iterable[int]) -> Iterator[Floats]:
    """Yield the series of one of the kinds, by its number."""
    for seed in seeds:
        chance = np.random.default_rng([seed, number])
        for _ in range(COUNT):
            yield KINDS[number](chance)


def step_series(number: int, step: Step, seeds: Iterable[int]) -> Iterator[Floats]:
    """Yield the series with one of the steps, by its number."""
    for seed in seeds:
        chance = np.random.default_rng([seed, 10 + number])
        for _ in range(STEPS):
            values = 1 + step.noise * chance.standard_normal(LENGTH)
            values[-step.after :] += step.size
            yield values


def middle_step_series(seeds: Iterable[int]) -> Iterator[Floats]:
    """Yield series with a step of three deviations in their middle."""
    for seed in seeds:
        chance = np.random.default_rng([seed, 20])
        for _ in range(STEPS):
            values = normal(chance)
            values[LENGTH // 2 :] += 0.06
            yield values


def _false_alarm(values: Floats) -> _FalseAlarm:
    history = values.tolist()
    states = [look(history[:end]).state for end in range(FIRST, LENGTH + 1)]
    watch = states.count("watch") / len(states)
    return _FalseAlarm(watch, bool(look(history).changes), states[-1] == "alarm", "alarm" in states)


def _alarm_row(name: str, alarms: Sequence[_FalseAlarm]) -> None:
    watch, *rest = zip(*alarms, strict=True)
    cells = "".join(f"{share(column):26}" for column in rest)
    _line(f"{name:16}{len(alarms):8}  {cells}{sum(watch) / len(watch):.1%}")


def share(alarms: Sequence[bool]) -> str:
    """Write a share with its 95% confidence interval (Clopper and Pearson)."""
    result = binomtest(sum(alarms), len(alarms))
    low, high = result.proportion_ci(0.95, "exact")
    return f"{sum(alarms)} {result.statistic:.1%} ({low:.1%} to {high:.1%})"


def _line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
