"""`training` with something planted, which the variable PLANT says as JSON; see `Plant`.

What is planted is a share of what this very run computes, and the computing of a step ends at a
known time after its begin, as in MLPerf Storage: a busy machine leaves less of it to sleep.
"""

from __future__ import annotations

import os
import subprocess
import time
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import msgspec

from cluster.benchmarks.training import Training, rounds
from cluster.core.model.value import Value
from cluster.measure.main import main
from cluster.measure.training.trainer import Trainer

if TYPE_CHECKING:
    from cluster.analysis.models.step_limits import StepParts
    from cluster.benchmarks.training.definitions import TrainingParams
    from cluster.measure.rank import Rank
    from cluster.measure.training.digits import Digits


class Plant(Value, frozen=True, kw_only=True):
    """What is planted."""

    computes: float = 0.0  # seconds that each step computes, if the model takes no longer
    slower: float = 1.0  # times as long as that on rank 1
    preparation: float = 0.0  # share of a step that the preparation stalls
    # share of what the computing needs that the store's link brings; 0 to leave it alone
    link: float = 0.0
    bytes: float = 0.0  # of a step's samples on that link
    shape: str = ""  # the command that limits the link, with {rate} in bytes per second


PLANT = msgspec.json.decode(os.environ.get("PLANT", "{}"), type=Plant)


class PlantedTrainer(Trainer):
    """A trainer that computes for a known time, and knows what a step with data resident takes."""

    prepares = 0.0  # seconds that the preparation of a batch takes
    computes = 0.0  # seconds that the computing of a step of this rank takes

    def __init__(self, *args: Any) -> None:  # noqa: ANN401
        """Let the backward pass, which ends with the first convolution, end at its time."""
        super().__init__(*args)
        self._torch.set_num_threads(1)  # two of a busy machine wait for each other
        self._steps: list[float] = []
        self._begin = 0.0
        self._model.module[0].weight.register_hook(
            lambda _: sleep_until(self._begin + self.computes)
        )

    def step(self, batch: Digits | tuple[Any, Any]) -> tuple[StepParts, float]:
        """Train on a batch; plant by the steps of this round that had their data resident."""
        if not isinstance(batch, tuple) and self._steps:
            plant(median(self._steps))
            self._steps.clear()
        self._begin = time.perf_counter()
        result = super().step(batch)
        if isinstance(batch, tuple):
            self._steps.append(time.perf_counter() - self._begin)
        return result


def sleep_until(end: float) -> None:
    """Sleep until a time, if it has not come yet."""
    time.sleep(max(0.0, end - time.perf_counter()))


def plant(step: float) -> None:
    """Slow the preparation, or the link of the store, by what a step takes."""
    if PLANT.preparation:
        PlantedTrainer.prepares = step / (1 - PLANT.preparation)
    if PLANT.link:
        rate = round(PLANT.link * PLANT.bytes / step)
        subprocess.run(PLANT.shape.format(rate=rate).split(), check=True)


class Planted(Training):
    """Training with what is planted."""

    def prepare(self, samples: Digits) -> Digits:
        """Prepare a batch, for its time."""
        end = time.perf_counter() + PlantedTrainer.prepares
        ready = super().prepare(samples)
        sleep_until(end)
        return ready

    def measure(self, rank: Rank, params: TrainingParams) -> None:
        """Train with a trainer that computes for its time."""
        PlantedTrainer.computes = PLANT.computes * (PLANT.slower if rank.number == 1 else 1.0)
        with patch.object(rounds, "Trainer", PlantedTrainer):
            super().measure(rank, params)


if __name__ == "__main__":
    main(Planted())
