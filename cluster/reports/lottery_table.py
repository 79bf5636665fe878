"""Machines drawn several times: how much draws differ, as a table and in one line."""

from collections.abc import Sequence

from cluster.analysis.statistics.lottery import SIGNIFICANT, least_chance
from cluster.core.model.lottery import DrawnSeries
from cluster.core.money import HOUR
from cluster.core.units import format_point, format_seconds, format_value
from cluster.reports.table import Column, Columns, Table, make_table

TERMS = (
    "between: standard deviation of draws, without what the jobs within a draw add; chance: that "
    "draws differ as much by chance; gain: of the best draw, without its luck with jobs. It pays "
    "off for a job that does nothing else on these machines."
)
TIME = (
    "Draws follow one another: what changes with time, such as the load of neighbours, counts as "
    "the draw."
)


def lottery_table(series: Sequence[DrawnSeries], draws: int) -> Table:
    columns: Columns[DrawnSeries] = (
        Column("metric", lambda drawn: drawn.metric, words=True),
        Column("parameters", lambda drawn: format_point(drawn.params), words=True),
        Column("mean", lambda drawn: format_value(drawn.mean, drawn.unit)),
        Column("between draws", lambda drawn: _of_mean(drawn.between, drawn)),
        Column("within", lambda drawn: _of_mean(drawn.within, drawn)),
        Column("chance", lambda drawn: f"{drawn.chance:.2g}", spare=2),
        Column(f"best of {draws}", lambda d: format_value(d.best[-1].measured, d.unit)),
        Column("gain", lambda d: f"{d.best[-1].gain:.1%}" if d.differs else "none seen"),
        Column("pays off after", _pays_off_after, spare=1),
    )
    return make_table(f"{draws} draws of machines", series, columns, (TERMS, TIME))


def _of_mean(deviation: float, drawn: DrawnSeries) -> str:
    return f"{deviation / abs(drawn.mean):.1%}" if drawn.mean else "-"


def _pays_off_after(drawn: DrawnSeries) -> str:
    hours = drawn.best[-1].hours
    return format_seconds(hours * HOUR) if drawn.differs and hours else "-"


def lottery_answer(
    series: Sequence[DrawnSeries], jobs: Sequence[int], dollars: float | None
) -> str:
    cost = "" if dollars is None else f" The draws cost ${dollars:.2f}."
    return f"{_luck(series, jobs)}{cost} Nothing is left running: the next launch is another draw."


def _luck(series: Sequence[DrawnSeries], jobs: Sequence[int]) -> str:
    draws = len(jobs)
    if not series:
        return f"No series has a value in all of the {draws} draws."
    if least_chance(jobs) > SIGNIFICANT / len(series):
        return (
            f"{draws} draws of {jobs[0]} jobs are too few to tell luck from chance in "
            f"{len(series)} series: draw more, such as --lottery 5 --launches 3, or measure fewer "
            "--sizes."
        )
    differing = [drawn for drawn in series if drawn.differs]
    if not differing:
        return (
            f"The machines of {draws} draws do not differ more than the jobs on them: to launch "
            "again gains nothing that shows."
        )
    most = max(differing, key=lambda drawn: drawn.best[-1].gain)
    best = most.best[-1]
    label = " ".join(filter(None, (most.metric, format_point(most.params))))
    hours = format_seconds((best.hours or 0.0) * HOUR)
    after = f", which pays off after {hours} of such work" if best.hours else ""
    return (
        f"Draws differ in {len(differing)} of {len(series)} series, most in {label}: the best of "
        f"{best.draws} is expected {best.gain:.1%} better than one{after}."
    )
