"""The parts of a training step, as stacked bars."""

from collections.abc import Mapping, Sequence

from cluster.analysis.models.step_limits import PART_METRICS, TIMED_STEP
from cluster.core.model.measurements import Summary
from cluster.core.units import format_value
from cluster.reports.plots.picture import Format, Picture, finish, named, new_figure

COLOURS = ("#d0453b", "#e8924a", "#c9c04b", "#2e9e4f", "#3b82c4", "#8a6bb8")
PER_BAR = 0.45  # inches
WORDS = {"resident": "data resident", "memory": "data in memory", "disk": "data on disk"}


def step_parts(summaries: Sequence[Summary]) -> dict[str, dict[str, float]]:
    """Return the median seconds of each part of a training step, by where data were."""
    parts: dict[str, dict[str, float]] = {}
    for summary in summaries:
        if summary.metric in (*PART_METRICS.values(), TIMED_STEP) and "data" in summary.params:
            parts.setdefault(str(summary.params["data"]), {})[summary.metric] = summary.median
    order = sorted(parts, key=lambda data: (data not in WORDS, [*WORDS, data].index(data)))
    return {data: parts[data] for data in order if TIMED_STEP in parts[data]}


def steps(
    parts: Mapping[str, Mapping[str, float]], kind: Format = "svg", prefix: str = "p"
) -> Picture:
    figure, axes = new_figure(height=1.0 + PER_BAR * len(parts))
    rows = list(range(len(parts)))
    starts = [0.0] * len(parts)
    for metric, colour in zip(PART_METRICS.values(), COLOURS, strict=True):
        widths = [1e3 * own.get(metric, 0.0) for own in parts.values()]
        label = metric.replace("_", " ")
        axes.barh(rows, widths, left=starts, color=colour, label=label, height=0.6)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    whole = [1e3 * own[TIMED_STEP] for own in parts.values()]
    (line,) = axes.plot(whole, rows, "k|", ms=16, label="step")
    tips = {
        named(line, f"{prefix}-0"): tuple(
            ", ".join(f"{metric} {format_value(own[metric], 's')}" for metric in own)
            for own in parts.values()
        )
    }
    axes.set_yticks(rows, [WORDS.get(data, f"data in {data}") for data in parts])
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.set_xlabel("ms per step, medians")
    caption = (
        "Each second of a step is in one part. The parts and the step, the black line, are medians "
        "of their own, which add up only where steps are alike."
    )
    return finish(figure, "What a step is made of", kind, tips, caption)
