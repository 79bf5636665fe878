"""Rates that follow from times: nothing is measured or stored twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster.core.model.measurements import Definition, Factor, Measurement


def factor(word: Factor, n: int) -> float:
    """Give the factor of a collective for a number of participants.

    It is the share of the data that has to pass each link of a ring: NVIDIA nccl-tests,
    doc/PERFORMANCE.md, where n are ranks. For hosts, of which each has one link and its ranks share
    what passes it, the same holds with n as their number.

    Args:
        word: of the definition.
        n: how many take part.

    Returns:
        The factor; 1 for an operation that has none.

    """
    once = (n - 1) / n
    return {"(n-1)/n": once, "2(n-1)/n": 2 * once}.get(word, 1.0)


def with_rates(
    measurements: Iterable[Measurement], definitions: Iterable[Definition]
) -> Iterator[Measurement]:
    """Add the rates that are defined by times.

    Args:
        measurements: as they were taken.
        definitions: of the run.

    Yields:
        Each measurement, and what each of its rates makes of it.

    """
    rates = [definition for definition in definitions if definition.rate_of]
    for measurement in measurements:
        yield measurement
        yield from (
            _as(rate, measurement) for rate in rates if rate.rate_of == measurement.definition
        )


def _as(rate: Definition, measurement: Measurement) -> Measurement:
    """Give the times in which as many bytes would move at that rate."""
    values = measurement.values
    ranks = measurement.params.get("ranks")
    if rate.rate == "bus" and isinstance(ranks, int):
        share = factor(rate.factor, ranks)
        values = tuple(value / share for value in values)
    return msgspec.structs.replace(
        measurement, metric=rate.metric, definition=rate.id, values=values
    )
