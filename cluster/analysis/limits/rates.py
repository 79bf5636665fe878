"""Rates that are computed from times, so that nothing is measured or stored twice."""

from collections.abc import Iterable, Iterator

import msgspec

from cluster.core.model.measurements import Definition, Factor, Measurement


def factor(word: Factor, n: int) -> float:
    """Return the factor of a collective, such as `2(n-1)/n`, for n participants; 1 without one.

    It is the share of the data that must pass each link of a ring: NVIDIA nccl-tests,
    doc/PERFORMANCE.md, where n is the number of ranks. With n hosts, it is the share that must pass
    the link of each host, if the ranks of a host share the data that passes it.
    """
    once = (n - 1) / n
    return {"(n-1)/n": once, "2(n-1)/n": 2 * once}.get(word, 1.0)


def with_rates(
    measurements: Iterable[Measurement], definitions: Iterable[Definition]
) -> Iterator[Measurement]:
    """Add the rates that are defined by the times of other metrics."""
    rates = [definition for definition in definitions if definition.rate_of]
    for measurement in measurements:
        yield measurement
        yield from (
            _as_rate(rate, measurement) for rate in rates if rate.rate_of == measurement.definition
        )


def _as_rate(rate: Definition, measurement: Measurement) -> Measurement:
    """Scale the times so that bytes divided by time is the derived rate."""
    values = measurement.values
    ranks = measurement.params.get("ranks")
    if rate.rate == "bus" and isinstance(ranks, int):
        share = factor(rate.factor, ranks)
        values = tuple(value / share for value in values)
    return msgspec.structs.replace(
        measurement, metric=rate.metric, definition=rate.id, values=values
    )
