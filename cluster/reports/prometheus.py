"""Samples in the text format of Prometheus, for the textfile collector of node_exporter.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from cluster.core.model.value import Value

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Gauge(Value, frozen=True, kw_only=True):
    """A value of a metric at one set of labels."""

    name: str  # of the metric, with its base unit at the end: `cluster_watch_last_seconds`
    help: str
    labels: dict[str, str]
    value: float  # in the unit


def text(gauges: Iterable[Gauge]) -> str:
    """Write gauges as the text of a file, those of a metric together."""
    ordered = sorted(gauges, key=lambda gauge: gauge.name)
    return "".join(
        line
        for name, own in groupby(ordered, key=lambda gauge: gauge.name)
        for line in _lines(name, list(own))
    )


def _lines(name: str, gauges: list[Gauge]) -> Iterator[str]:
    yield f"# HELP {name} {gauges[0].help}\n"
    yield f"# TYPE {name} gauge\n"
    for gauge in gauges:
        labels = ",".join(
            f'{key}="{value.translate(ESCAPES)}"' for key, value in gauge.labels.items()
        )
        yield f"{name}{{{labels}}} {gauge.value!r}\n"
