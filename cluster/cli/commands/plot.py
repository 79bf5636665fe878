"""Draw runs: a line per condition, intervals, limits; or fit a line to sweeps.

With --fit, a table is printed instead of a picture: t = alpha + size / beta, for each condition.

Example: cluster plot p2p --metric bandwidth -o bandwidth.png
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cluster.analysis.models.efficiency import measured_series
from cluster.analysis.models.efficiency import scaling as scale
from cluster.analysis.models.predict import (
    MeasuredCollective,
    Prediction,
    differing_conditions,
    measured_collectives,
    predictions,
    without_prediction,
)
from cluster.analysis.statistics.compare import Launch, compare, group_by
from cluster.cli import flags
from cluster.cli.commands.report import read_all, set_font_cache, write
from cluster.cli.flags import option
from cluster.cli.show import show_tables
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Fit
from cluster.core.model.value import Value
from cluster.core.text.units import parse_rate
from cluster.reports.plots import Format, Picture
from cluster.reports.tables import fits_table, predictions_table
from cluster.reports.words.limits import doubt_notes
from cluster.reports.words.notes import note_words
from cluster.runs import store
from cluster.runs.comparison import launch_of
from cluster.runs.run import Run

Kind = Literal["sweep", "comparison", "scaling", "distribution"]


class PlotOptions(Value, frozen=True, kw_only=True):
    """What to draw: flags."""

    out: Annotated[Path, option("-o --output FILE", ".svg, .png or .pdf")] = Path("plot.svg")
    kind: Annotated[Kind, option("--kind", "What to draw.")] = "sweep"
    metric: Annotated[str | None, option("--metric", "Metric to plot.  [default: the first]")] = (
        None
    )
    by: Annotated[str, option("--by FACTOR", "Factor of a comparison.")] = "condition"
    bound: Annotated[
        float | None,
        option(
            "--bound RATE", "Rate of a network that is not in the runs: 8gbit.", parser=parse_rate
        ),
    ] = None

    @property
    def form(self) -> Format:
        from cluster.reports.pictures import file_format  # noqa: PLC0415 - it imports NumPy

        return file_format(str(self.out))


def command(
    runs: flags.RunList = None,
    fit: Annotated[bool, option("--fit", "Print fits of the sweeps.")] = False,
    collectives: Annotated[
        str | None, option("--collectives RUN", "With --fit: predict this run's operations.")
    ] = None,
    report: flags.Format = "terminal",
    root: flags.Runs = None,
    json: flags.Json = False,
    *,
    options: Annotated[PlotOptions, flags.group(PlotOptions)],
) -> None:
    names, folder = runs or [flags.LATEST], store.root(root)
    if fit or collectives:
        show_fits(names, options.metric, collectives, folder, "json" if json else report)
        return
    _ = options.form  # one that cannot be is refused before anything is read
    set_font_cache()
    write(options.out, DRAW[options.kind](read_all(folder, names), options).image)


def _sweep(runs: Sequence[Run], options: PlotOptions) -> Picture:
    from cluster.reports import page, pictures  # noqa: PLC0415 - they import matplotlib

    reports = [run.as_reported(Path.cwd()) for run in runs]
    if options.bound is not None:
        reports = [page.compare_with_network(run, options.bound) for run in reports]
    for curve in pictures.sweep_curves(reports, options.metric):
        best = max(curve.summaries, key=lambda summary: summary.share or 0.0)
        for doubt in doubt_notes([best]):
            sys.stderr.write(f"Note: {curve.name}: {doubt}\n")
    return pictures.sweep_picture(reports, options.metric, options.form, given_bound=options.bound)


def _comparison(runs: Sequence[Run], options: PlotOptions) -> Picture:
    from cluster.reports import plots  # noqa: PLC0415

    launches = [
        Launch(
            record=run.record,
            summaries=tuple(s for s in run.summary() if options.metric in (None, s.metric)),
        )
        for run in runs
    ]
    base, other, *_ = group_by(launches, options.by)
    return plots.comparison(compare(base, other), options.form)


def _scaling(runs: Sequence[Run], options: PlotOptions) -> Picture:
    from cluster.reports import plots  # noqa: PLC0415

    series = measured_series(Launch(record=run.record, summaries=run.summary()) for run in runs)
    works = [work for work in series if work.name.startswith(options.metric or "")]
    if not works:
        raise SpecError(
            "Nothing was measured on different numbers of ranks.",
            remedy="Name runs with different --hosts or --ranks-per-host.",
        )
    return plots.scaling([scale(work) for work in works], options.form)


def _distribution(runs: Sequence[Run], options: PlotOptions) -> Picture:
    from cluster.reports import page, pictures  # noqa: PLC0415 - they import matplotlib

    names = page.labels([run.as_reported(Path.cwd()) for run in runs])
    values = [
        (name, run.measurements, run.summary()) for name, run in zip(names, runs, strict=True)
    ]
    return pictures.distribution_picture(values, options.metric, options.form)


DRAW: dict[Kind, Callable[[Sequence[Run], PlotOptions], Picture]] = {
    "sweep": _sweep,
    "comparison": _comparison,
    "scaling": _scaling,
    "distribution": _distribution,
}


MESSAGES = "latency"  # a metric of single messages: a window of several hides the time of one


class FitAnswer(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    fits: tuple[Fit, ...]
    predictions: tuple[Prediction, ...] = ()
    unpredicted: tuple[MeasuredCollective, ...] = ()
    notes: tuple[str, ...] = ()


def show_fits(
    names: Sequence[str], metric: str | None, collectives: str | None, root: Path, report: str
) -> None:
    """Fit launches under equal conditions together, and show each fit."""
    from cluster.analysis.models.fit import fit_launches  # noqa: PLC0415 - it imports NumPy

    folders = dict.fromkeys(folder for name in names for folder in store.all_of(root, name))
    launches = [launch_of(store.read(folder)) for folder in folders]
    fits = fit_launches(launches)
    selection = tuple(fit for fit in fits if metric in (None, fit.metric))
    if not selection:
        raise SpecError(
            f"{', '.join(names)}: there is no sweep to fit.",
            means="A fit needs four sizes or more of one metric.",
            remedy="Measure some: cluster bench p2p --metrics latency --sizes 8:4MiB",
        )
    answer, tables = FitAnswer(fits=selection), [fits_table(selection)]
    if collectives:
        single = [fit for fit in fits if fit.metric == MESSAGES]
        kinds = dict.fromkeys(fit.of for fit in single)
        if len(kinds) > 1:
            raise SpecError(
                f"These runs are {len(kinds)} kinds of messages: {', '.join(kinds)}.",
                means="A prediction needs messages of one kind.",
                remedy="Name the runs of one: cluster plot RUN --fit --collectives RUN",
            )
        if not single:
            raise SpecError(
                f"There is no sweep of {MESSAGES}, from which operations are predicted.",
                means="Other metrics have several messages in flight, which hides the time of one.",
                remedy="Measure it: cluster bench p2p --metrics latency --sizes 1:4MiB",
            )
        base, other = launches[0], launch_of(store.read(store.find(root, collectives)))
        spec = other.record.spec
        operations = measured_collectives(other.summaries, spec.hosts * spec.ranks_per_host)
        if not operations:
            raise SpecError(
                f"{other.record.id} holds no collective operation.",
                remedy="Measure some: cluster bench collectives --operations allreduce,bcast",
            )
        answer = FitAnswer(
            fits=selection,
            predictions=predictions(single[0], operations),
            unpredicted=without_prediction(single[0], operations),
            notes=(
                *(f"Of the operations: {note_words(note)}" for note in other.record.notes),
                *(
                    f"The messages are not those of the operations: {factor.name} is "
                    f"{factor.base}, and {factor.other} for the operations."
                    for factor in differing_conditions(base.record, other.record)
                ),
            ),
        )
        tables.append(predictions_table(answer.predictions, answer.unpredicted, answer.notes))
    show_tables(tables, report, answer)
