"""Results of the analysis as tables of text, for any report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.models.predict import Prediction
from cluster.analysis.statistics.launches import spread
from cluster.core.model.network.fleet import FleetFinding, FleetVerdict
from cluster.core.model.network.placement import NetworkLayer, Placement
from cluster.core.text.units import HOUR, format_point, format_seconds, format_size, format_value
from cluster.reports.table import (
    Column,
    Columns,
    Table,
    ends_text,
    make_table,
    share_text,
    value_text,
)
from cluster.reports.words.comparison import headline, note_words, reason_words

if TYPE_CHECKING:
    from cluster.analysis.models.efficiency import Efficiency, Scaling
    from cluster.analysis.models.predict import MeasuredCollective
    from cluster.analysis.statistics.compare import Comparison, ComparisonCell
    from cluster.analysis.statistics.factors import Factor
    from cluster.core.model.results.measurements import DrawnSeries, Fit, Piece, Summary


DRAWS = (
    "between: standard deviation of draws, without what the jobs within a draw add; chance: that "
    "draws differ as much by chance; gain: of the best draw, without its luck with jobs. It pays "
    "off for a job that does nothing else on these machines."
)
DRAWN_IN_TURN = (
    "Draws follow one another: what changes with time, such as the load of neighbours, counts as "
    "the draw."
)
STRIP = 21  # characters; the middle one means equally fast
LINE = (
    "alpha is the time of an empty message, beta the rate that large messages approach, n_1/2 the "
    "size at which half of beta is reached. A line is valid for its sizes only; for a rate, it is "
    "fitted to the time per message."
)
PREDICTED = "Predicted: the fastest known algorithm, without arithmetic, on unshared links."
FAR = (
    "None: the operation uses messages more than four times beyond the measured sizes, where the "
    "fit is not valid."
)
SAME_FLAGS = (
    "Runs are compared where both have the same metric, size and other parameters. Measure both "
    "with the same flags."
)
WIDEST = 1.0  # the largest span of the strip to each side, in powers of two
T = TypeVar("T")
SHOWN = 8  # hosts of a group that are named


def comparison_tables(comparison: Comparison) -> tuple[Table, Table]:
    title = "What differs" if comparison.factors else "What differs: nothing that was recorded"
    columns: Columns[Factor] = (
        Column("factor", lambda factor: factor.name, words=True),
        Column(comparison.base, lambda factor: factor.base, words=True),
        Column(comparison.other, lambda factor: factor.other, words=True),
    )
    cells = _cells(comparison) if comparison.is_possible else _nothing_in_common(comparison)
    return make_table(title, comparison.factors, columns), cells


def _nothing_in_common(comparison: Comparison) -> Table:
    """Show what each of two groups measured, if they have no data point in common."""
    cells = comparison.cells
    columns: Columns[str] = (
        Column("measured", str, words=True),
        Column(
            comparison.base,
            lambda m: _points(c for c in cells if c.metric == m and c.base is not None),
            words=True,
        ),
        Column(
            comparison.other,
            lambda m: _points(c for c in cells if c.metric == m and c.other is not None),
            words=True,
        ),
    )
    notes = (SAME_FLAGS, *map(note_words, comparison.notes))
    return make_table(
        headline(comparison), dict.fromkeys(cell.metric for cell in cells), columns, notes
    )


def _points(cells: Iterable[ComparisonCell], alone: str = "yes") -> str:
    """Name the points of a metric, the first and the last of many; one alone has no parameter."""
    points = [format_point(cell.params) or alone for cell in cells]
    if len(points) < 3:  # noqa: PLR2004 - more have a beginning and an end
        return "; ".join(points) if points else "-"
    return f"{points[0]} .. {points[-1]} ({len(points)} data points)"


def _cells(comparison: Comparison) -> Table:
    base, other = comparison.base, comparison.other
    # The span of the strip to each side, in powers of two, is as much as most cells need.
    intervals = (cell.interval for cell in comparison.cells)
    ends = [abs(math.log2(end)) for interval in intervals for end in interval or () if end > 0]
    span = min(WIDEST, max([0.05, *ends]))
    has_limit = any(share is not None for cell in comparison.cells for share in cell.shares)
    columns: Columns[ComparisonCell] = (
        Column("metric", lambda c: c.metric, words=True),
        Column("parameters", lambda c: format_point(c.params), words=True),
        Column("verdict", lambda c: c.verdict, words=True),
        Column("ratio", lambda c: "-" if c.ratio is None else _ratio(c.ratio)),
        Column("95% CI of ratio", lambda c: " .. ".join(map(_ratio, c.interval or ())) or "none"),
        Column(
            f"slower {2**span:.2f} x faster",
            lambda c: interval_strip(c.speedup, c.speedup_interval, span),
            words=True,
            spare=2,
        ),
        Column(base, lambda c: value_text(c.base, c.unit, "-"), spare=3),
        Column(other, lambda c: value_text(c.other, c.unit, "-"), spare=3),
        Column(f"{base}, of limit", lambda c: share_text(c.shares[0]), show=has_limit, spare=1),
        Column(f"{other}, of limit", lambda c: share_text(c.shares[1]), show=has_limit, spare=1),
    )
    notes = (*_inconclusive(comparison), *_explanation(comparison))
    notes = (*notes, *map(note_words, comparison.notes))
    return make_table(headline(comparison), comparison.cells, columns, notes)


def _inconclusive(comparison: Comparison) -> Iterator[str]:
    """Return each reason for no verdict once, with the data points that it is about."""
    for reason in dict.fromkeys(cell.reason for cell in comparison.cells if cell.reason):
        cells = [cell for cell in comparison.cells if cell.reason == reason]
        metrics = dict.fromkeys(cell.metric for cell in cells)
        points = ((m, _points([c for c in cells if c.metric == m], alone="")) for m in metrics)
        subjects = ", ".join(" ".join(filter(None, point)) for point in points)
        yield f"Inconclusive: {subjects}: {reason_words(reason)}."


def _explanation(comparison: Comparison) -> tuple[str, ...]:
    limit = f"{comparison.threshold:.1%}"
    single = all(cell.launches == (1, 1) for cell in comparison.cells if cell.is_common)
    estimator = (
        f"The ratio is the median of {comparison.other} divided by that of {comparison.base}"
        if single
        else f"The ratio is the median of all ratios of a launch of {comparison.other} to a launch "
        f"of {comparison.base} (Hodges and Lehmann); beside it are the medians over launches, and "
        "their own ratio may differ a little"
    )
    verdicts = (
        "Faster or slower: the 95% confidence interval of the ratio excludes 1, the ratio is "
        f"beyond {limit}, and chance among so many data points does not explain it. Equivalent: "
        f"the whole interval is within {limit}. In the drawing, faster is to the right."
    )
    return f"{estimator}.", verdicts


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:#.4g}"  # noqa: PLR2004 - four digits


def interval_strip(ratio: float | None, interval: tuple[float, float] | None, span: float) -> str:
    """Draw an interval around its ratio on a line with 1 in its middle: `.....|.--*--...`."""
    line = ["."] * STRIP
    line[STRIP // 2] = "|"
    if ratio is None or interval is None:
        return "".join(line)
    parts = (math.log2(v) / span if v > 0 else -1.0 for v in (interval[0], ratio, interval[1]))
    low, middle, high = (round((min(1, max(-1, p)) + 1) / 2 * (STRIP - 1)) for p in parts)
    line[low : high + 1] = "-" * (high + 1 - low)
    line[middle] = "*"
    return "".join(line)


def fits_table(fits: Sequence[Fit]) -> Table:
    pieces = [(fit, piece) for fit in fits for piece in fit.pieces]
    columns: Columns[tuple[Fit, Piece]] = (
        Column("metric", lambda f: _of_fit(f[0]), words=True),
        Column("condition", lambda f: f[0].of, words=True, show=any(fit.of for fit in fits)),
        Column("launches", lambda f: str(f[0].launches), spare=1),
        Column(
            "sizes", lambda f: f"{format_size(f[1].first)} .. {format_size(f[1].last)}", words=True
        ),
        Column("points", lambda f: str(f[1].points), spare=1),
        Column("alpha", lambda f: format_value(f[1].alpha, "s")),
        Column("95% CI", lambda f: ends_text(f[1].alpha_ci, "s"), spare=2),
        Column("beta", lambda f: format_value(f[1].beta, "B/s")),
        Column("95% CI of beta", lambda f: ends_text(f[1].beta_ci, "B/s"), spare=2),
        Column("n_1/2", lambda f: value_text(f[1].half, "B"), spare=3),
        Column("worst error", lambda f: f"{f[1].worst:.1%}", spare=4),
        Column("remark", lambda f: f[1].misfit, words=True, show=any(p.misfit for _, p in pieces)),
    )
    return make_table("t = alpha + size / beta", pieces, columns, (LINE,))


def _of_fit(fit: Fit) -> str:
    return ", ".join(filter(None, [fit.metric, format_point(fit.params)]))


def predictions_table(
    predictions: Sequence[Prediction],
    measurements: Sequence[MeasuredCollective] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Show measured collective operations beside the times predicted from single messages."""
    operations: list[Prediction | MeasuredCollective] = [*predictions, *measurements]
    columns: Columns[Prediction | MeasuredCollective] = (
        Column("collective", lambda o: o.collective, words=True),
        Column("ranks", lambda o: str(o.ranks)),
        Column("size", lambda o: format_size(o.size)),
        Column("algorithm", lambda o: _if_predicted(o, lambda p: p.algorithm, "none"), words=True),
        Column("predicted", lambda o: _if_predicted(o, lambda p: format_value(p.predicted, "s"))),
        Column(
            "measured",
            lambda o: format_value(o.measured if isinstance(o, Prediction) else o.seconds, "s"),
        ),
        Column("measured / p.", lambda o: _if_predicted(o, lambda p: f"{p.ratio:.2f}")),
    )
    title = "Collective operations, predicted from the messages they consist of"
    every_note = (PREDICTED, *([FAR] if measurements else []), *notes)
    return make_table(title, operations, columns, every_note)


def _if_predicted(
    operation: Prediction | MeasuredCollective, cell: Callable[[Prediction], str], other: str = "-"
) -> str:
    return cell(operation) if isinstance(operation, Prediction) else other


def scaling_table(scaling: Scaling) -> Table:
    has_bounds = any(row.most is not None for row in scaling.rows)
    is_printed = any(row.printed is not None for row in scaling.rows)
    base = f"{scaling.base} rank(s) at {format_value(scaling.base_rate, scaling.unit)}"
    columns: Columns[Efficiency] = (
        Column("ranks", lambda row: str(row.ranks)),
        Column("rate", lambda row: format_value(row.rate, scaling.unit)),
        Column("speedup", lambda row: f"{row.speedup:.2f} x", spare=2),
        Column("efficiency", lambda row: f"{row.efficiency:.1%}"),
        Column(
            "95% CI",
            lambda row: " .. ".join(map(share_text, row.interval or ())) or "none",
            spare=3,
        ),
        Column("view", lambda row: bar(row.efficiency), words=True, spare=1),
        Column("no overlap", lambda row: share_text(row.least, "-"), show=has_bounds),
        Column("all overlap", lambda row: share_text(row.most, "-"), show=has_bounds),
        Column("printed", _format_claim, words=True, show=is_printed),
    )
    return make_table(
        f"{scaling.name}: efficiency over {base}", scaling.rows, columns, _doubtful(scaling)
    )


def _format_claim(row: Efficiency) -> str:
    claim = "" if row.printed is None else f"{row.printed:.0%}"
    return claim if row.follows else f"{claim} does not follow"


def _doubtful(scaling: Scaling) -> Iterator[str]:
    for row in scaling.rows:
        if not row.follows:
            yield (
                f"The printed {row.printed:.0%} of {row.ranks} ranks does not follow from its row: "
                f"{row.efficiency:.1%}."
            )
        if row.least is not None and row.efficiency < row.least:
            yield (
                f"{row.ranks} ranks are slower than without any overlap of computation and "
                f"exchange ({row.least:.1%}): the exchange is slower than this link, or ranks wait "
                "for something else."
            )
        if row.most is not None and row.efficiency > row.most * BELIEVABLE:
            yield (
                f"{row.ranks} ranks are faster than possible ({row.most:.1%}): the result is "
                "wrong, or the batch, the exchange or the link is not as given."
            )


def bar(part: float) -> str:
    """Draw a share, from 0 to 1, as a bar of ten characters such as `########..`."""
    full = min(10, max(0, round(part * 10)))
    return "#" * full + "." * (10 - full)


def launches_table(medians: Sequence[Summary], launches: int, notes: Sequence[str] = ()) -> Table:
    """Show the medians over several launches, of `pool_launches`: a row per data point."""
    has_limit = any(summary.share is not None for summary in medians)
    sure = any(summary.ci is not None for summary in medians)
    columns: Columns[Summary] = (
        Column("metric", lambda s: s.metric, words=True),
        Column("parameters", lambda s: format_point(s.params), words=True),
        Column("median", lambda s: format_value(s.median, s.unit)),
        Column("95% CI over launches", lambda s: ends_text(s.ci, s.unit, "-"), show=sure),
        Column("lowest .. highest", _range, spare=1 if sure else 0),
        Column("spread", lambda s: "-" if (part := spread(s)) is None else f"{part:.0%}", spare=2),
        Column("of limit", lambda s: share_text(s.share, "-"), show=has_limit),
    )
    return make_table(f"Median over {launches} launches", medians, columns, notes)


def _range(summary: Summary) -> str:
    shape = summary.shape
    return ends_text(None if shape is None else (shape.minimum, shape.maximum), summary.unit, "-")


def lottery_table(series: Sequence[DrawnSeries], draws: int) -> Table:
    columns: Columns[DrawnSeries] = (
        Column("metric", lambda row: row.metric, words=True),
        Column("parameters", lambda row: format_point(row.params), words=True),
        Column("mean", lambda row: format_value(row.mean, row.unit)),
        Column("between draws", lambda row: _of_mean(row.between, row)),
        Column("within", lambda row: _of_mean(row.within, row)),
        Column("chance", lambda row: f"{row.chance:.2g}", spare=2),
        Column(f"best of {draws}", lambda d: format_value(d.best[-1].measured, d.unit)),
        Column("gain", lambda d: f"{d.best[-1].gain:.1%}" if d.differs else "none seen"),
        Column("pays off after", _pays_off_after, spare=1),
    )
    return make_table(f"{draws} draws of machines", series, columns, (DRAWS, DRAWN_IN_TURN))


def _of_mean(deviation: float, row: DrawnSeries) -> str:
    return f"{deviation / abs(row.mean):.1%}" if row.mean else "-"


def _pays_off_after(row: DrawnSeries) -> str:
    hours = row.best[-1].hours
    return format_seconds(hours * HOUR) if row.differs and hours else "-"


def lottery_answer(
    series: Sequence[DrawnSeries], jobs: Sequence[int], dollars: float | None
) -> str:
    cost = "" if dollars is None else f" The draws cost ${dollars:.2f}."
    return f"{_luck(series, jobs)}{cost} Nothing is left running: the next launch is another draw."


def _luck(series: Sequence[DrawnSeries], jobs: Sequence[int]) -> str:
    from cluster.analysis.statistics.lottery import SIGNIFICANT, least_chance  # noqa: PLC0415 - it imports NumPy

    draws = len(jobs)
    if not series:
        return f"No series has a value in all of the {draws} draws."
    if least_chance(jobs) > SIGNIFICANT / len(series):
        return (
            f"{draws} draws of {jobs[0]} jobs are too few to tell luck from chance in "
            f"{len(series)} series: draw more, such as --lottery 5 --launches 3, or measure fewer "
            "--sizes."
        )
    differing = [row for row in series if row.differs]
    if not differing:
        return (
            f"The machines of {draws} draws do not differ more than the jobs on them: to launch "
            "again gains nothing that shows."
        )
    most = max(differing, key=lambda row: row.best[-1].gain)
    best = most.best[-1]
    label = " ".join(filter(None, (most.metric, format_point(most.params))))
    hours = format_seconds((best.hours or 0.0) * HOUR)
    after = f", which pays off after {hours} of such work" if best.hours else ""
    return (
        f"Draws differ in {len(differing)} of {len(series)} series, most in {label}: the best of "
        f"{best.draws} is expected {best.gain:.1%} better than one{after}."
    )


def findings_table(verdict: FleetVerdict) -> Table:
    """Show what tests say of parts of a fleet, what is blamed first, with the reason for each."""
    unit = "B/s" if verdict.metric == "bandwidth" else "s"
    has_repeats = any(finding.confirmed for finding in verdict.findings)
    new = {finding.part: finding.new for finding in verdict.replaced}

    def replaced_by(finding: FleetFinding) -> str:
        place = finding.place
        return (new.get(f"host:{place.host}") if place.kind in ("host", "nic") else "") or "-"

    columns: Columns[FleetFinding] = (
        Column("verdict", lambda f: f.kind, words=True),
        Column("part", lambda f: f"{f.part} ({f.name})" if f.name else f.part, words=True),
        Column("direction", lambda f: f.direction, words=True),
        Column("best", lambda f: value_text(f.capacity, unit, "-")),
        Column("tests", lambda f: str(f.tests)),
        Column("evidence", lambda f: f.evidence, words=True),
        Column("confirmed", lambda f: f.confirmed or "-", words=True, show=has_repeats),
        Column("replaced by", replaced_by, words=True, show=bool(new)),
    )
    return _table(verdict.findings, columns, is_simulated=verdict.simulated)


def _table(items: Iterable[T], columns: Columns[T], *, is_simulated: bool) -> Table:
    notes = ("simulated: nothing was measured.",) if is_simulated else ()
    return make_table("simulated" if is_simulated else "", items, columns, notes)


def replacement_lines(verdict: FleetVerdict) -> Iterator[str]:
    for change in verdict.replaced:
        name = f"{change.part} ({change.name})"
        if change.new:
            yield f"Replaced {name}: {change.old} by {change.new}; {change.evidence}."
        elif change.node:
            yield f"Cordoned {change.node}, of {name}. To undo it: {change.command}"
        elif change.command:
            yield f"Not replaced: {name}: {change.evidence}. {change.command}"
        else:
            yield f"Not replaced: {name}: {change.evidence}. {change.old} stays."


def group_table(placement: Placement) -> Table:
    members: dict[int, list[int]] = {}
    for host, group in enumerate(placement.groups):
        members.setdefault(group, []).append(host)
    columns: Columns[tuple[int, list[int]]] = (
        Column("group", lambda row: str(row[0]), words=True),
        Column("hosts", lambda row: str(len(row[1]))),
        Column("which", lambda row: _host_names(placement, row[1]), words=True),
    )
    return _table(members.items(), columns, is_simulated=placement.simulated)


def layer_table(placement: Placement) -> Table:
    columns: Columns[NetworkLayer] = (
        Column("provider's layer", lambda layer: layer.name, words=True),
        Column("groups", lambda layer: str(len(layer.sizes))),
        Column("hosts in each", _fleet_sizes, words=True),
        Column("agrees", lambda layer: share_text(layer.agreement, "-")),
    )
    return _table(placement.topology.layers, columns, is_simulated=placement.simulated)


def _fleet_sizes(layer: NetworkLayer) -> str:
    more = ", ..." if len(layer.sizes) > SHOWN else ""
    return ", ".join(map(str, layer.sizes[:SHOWN])) + more


def _host_names(placement: Placement, hosts: list[int]) -> str:
    names = ", ".join(f"host:{host} ({placement.names[host]})" for host in hosts[:SHOWN])
    return f"{names}, and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else names
