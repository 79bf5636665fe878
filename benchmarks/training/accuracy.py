"""Training to an accuracy, with the same batches for any number of ranks."""

from collections.abc import Callable, Iterator
from statistics import fmean
from time import perf_counter
from typing import NamedTuple

import numpy as np

from cluster.benchmarks.training import definitions
from cluster.benchmarks.training.params import TrainingParams
from cluster.measure.rank import Rank
from cluster.measure.training.digits import Digits
from cluster.measure.training.trainer import Trainer

GLOBAL_BATCH = 64  # samples of a step of all ranks: the same training on any number of them


class _Ended(NamedTuple):
    seconds: float
    accuracy: float
    loss: float


def train_to_accuracy(
    rank: Rank,
    params: TrainingParams,
    trainer: Callable[[int], Trainer],
    real: Digits,
    tested: Digits,
) -> None:
    """Train several times, each time with other weights and another order, until a target."""
    point = {"target": 100 * params.target}
    times, accuracies, losses = (
        rank.begin(own, {**point}, unit=own.unit, is_beside=True) if rank.number == 0 else []
        for own in definitions.ACCURACY
    )
    failed = 0
    for number in range(params.seeds):
        rank.progress(number, params.seeds, f"to {params.target:.0%} accuracy")
        ended = _once(
            rank, params, trainer(params.seed + number), params.seed + number, real, tested
        )
        accuracies.append(100 * ended.accuracy)
        losses.append(ended.loss)
        if ended.accuracy >= params.target:
            times.append(ended.seconds)
        else:
            failed += 1
    rank.end()
    rank.note(
        f"{params.seeds - failed} of {params.seeds} seeds reached {params.target:.1%} accuracy "
        f"within {params.epochs} epochs, with {GLOBAL_BATCH} samples per step of all ranks."
    )


def _once(
    rank: Rank, params: TrainingParams, trainer: Trainer, seed: int, real: Digits, tested: Digits
) -> _Ended:
    spent, accuracy, loss = 0.0, 0.0, 0.0
    for epoch in range(params.epochs):
        begin = perf_counter()
        losses = [trainer.step(batch)[1] for batch in _batches(rank, real, seed, epoch)]
        spent += perf_counter() - begin
        loss = fmean(losses)
        accuracy = trainer.accuracy(tested)
        if accuracy >= params.target:
            break
    return _Ended(max(rank.comm.allgather(spent)), accuracy, fmean(rank.comm.allgather(loss)))


def _batches(rank: Rank, real: Digits, seed: int, epoch: int) -> Iterator[Digits]:
    """Return this rank's part of each global batch of an epoch."""
    order = np.random.default_rng([seed, epoch]).permutation(len(real))
    own = GLOBAL_BATCH // rank.size
    for start in range(0, len(real) - GLOBAL_BATCH + 1, GLOBAL_BATCH):
        first = start + rank.number * own
        chosen = order[first : first + own]
        yield Digits(images=real.images[chosen], labels=real.labels[chosen])
