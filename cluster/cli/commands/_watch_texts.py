"""The series of a watched cluster, and their changes in words and as samples for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.units import format_point
from cluster.reports.prometheus import Gauge, text
from cluster.runs import store
from cluster.runs.watch import store as watches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cluster.runs.watch.series import WatchedChange, WatchedSeries

MOST_FACTORS = 5  # named with a change
# What is in the names of factors that most often explain a change.
FIRST = ("kernel", "driver", "nccl", "firmware", "version", "mpi")
STATES = {"steady": 0, "watch": 1, "alarm": 2}
UNITS = {"s": "_seconds", "B/s": "_bytes_per_second"}


def series_of(where: Path, name: str) -> tuple[WatchedSeries, ...]:
    """Read the series of a cluster.

    Raises:
        SpecError: it has no runs, and is not watched.

    """
    from cluster.runs.watch.series import series  # noqa: PLC0415 - slow to import: numpy

    known = watches.events(where, name)
    if name in watches.names(where) and not watches.run_ids(where, name):
        return ()
    folders = watches.in_order(store.all_of(where, name), known)
    return tuple(series((store.read(folder) for folder in folders), name))


def change_text(each: WatchedSeries, change: WatchedChange) -> str:
    """Describe a change in one line.

    Returns:
        The metric and its point, the change with its interval, and the run with which it began.

    """
    low, high = change.point.ci
    what = " ".join(filter(None, (each.metric, format_point(each.params))))
    return (
        f"{what}: {change.point.change:+.1%} (95% CI {low:+.1%} .. {high:+.1%}) from "
        f"{change.run} on"
    )


def factor_texts(change: WatchedChange) -> list[str]:
    """Describe the factors that changed with a series: those of the system first.

    Returns:
        A text for each of the first few, and one for the number of the others.

    """
    ordered = sorted(
        change.factors, key=lambda f: not any(word in f.name.lower() for word in FIRST)
    )
    texts = [f"{f.name}: {f.base} -> {f.other}" for f in ordered[:MOST_FACTORS]]
    more = len(ordered) - len(texts)
    return [*texts, *([f"{more} more"] if more else [])]


def prometheus_text(found: Sequence[WatchedSeries]) -> str:
    """Write the newest values for node_exporter."""
    return text(gauge for each in found for gauge in _gauges(each))


def _gauges(each: WatchedSeries) -> Iterator[Gauge]:
    unit = UNITS.get(each.unit, "_ratio" if "host" in each.params else "")
    labels = {
        "cluster": each.cluster,
        "metric": each.metric,
        "definition": each.definition,
        **{name: str(value) for name, value in each.params.items() if name != "cluster"},
    }
    for name, about, value in (
        (f"last{unit}", "Newest median of a series of runs.", each.last),
        (f"baseline{unit}", "Median of the runs since the last change.", each.baseline),
        ("state", "0 is steady, 1 is watch, 2 is alarm.", STATES[each.state]),
        ("runs", "Number of runs of the series.", each.runs),
        ("sample_timestamp_seconds", "When the newest run was started.", each.at),
    ):
        yield Gauge(name=f"cluster_watch_{name}", help=about, labels=labels, value=value)
