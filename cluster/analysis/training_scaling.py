"""The efficiency of training over ranks, between the bounds that its own exchange sets.

A run measures how many samples per second the exchange of the gradients alone would allow. With
computing as fast as that of one rank, a step takes at least the longer of computing and exchange,
and at most both, one after the other.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.efficiency import measured_series, scaling
from cluster.analysis.step_limits import TRAINING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.analysis.compare import Launch
    from cluster.analysis.efficiency import Efficiency, Scaling

RATE, EXCHANGE = "samples_rate", "exchange_rate"
ASKED = ("store", "disk", "memory")  # the first of these is where a run's data were asked for


def training_scaling(launches: Sequence[Launch]) -> Scaling | None:
    """Compute how training scaled.

    Returns:
        The efficiencies with data from where they were asked for, with bounds if one rank alone was
        measured; none if training did not run on different numbers of ranks.

    """
    trained = [one for one in launches if one.record.benchmark == TRAINING]
    known = {one.name: one for one in measured_series(trained)}
    for data in ASKED:
        if found := known.get(f"{RATE}, data {data}"):
            plain = scaling(found)
            if plain.base > 1:  # its rate has an exchange, too
                return plain
            rows = tuple(_bounded(row, plain.base_rate, _exchange(trained, row.ranks))
                         for row in plain.rows)  # fmt: skip
            return msgspec.structs.replace(plain, rows=rows)
    return None


def _exchange(trained: Sequence[Launch], ranks: int) -> float | None:
    """Return the rate that the exchange among so many ranks alone allows."""
    rates = [
        summary.median
        for one in trained
        if one.record.spec.hosts * one.record.spec.ranks_per_host == ranks
        for summary in one.summaries
        if summary.metric == EXCHANGE
    ]
    return median(rates) if rates else None


def _bounded(row: Efficiency, alone: float, exchange: float | None) -> Efficiency:
    if exchange is None:
        return row if row.ranks > 1 else msgspec.structs.replace(row, least=1.0, most=1.0)
    computing = alone * row.ranks
    return msgspec.structs.replace(
        row, least=1 / (1 + computing / exchange), most=min(1.0, exchange / computing)
    )
