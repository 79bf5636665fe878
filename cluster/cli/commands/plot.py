"""Draw runs: a line per condition, intervals, limits; or fit a line to sweeps.

With --fit, a table is printed instead of a picture: t = alpha + size / beta, for each condition.

Example: cluster plot p2p --metric bandwidth -o bandwidth.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cluster.analysis.models.efficiency import measured_series
from cluster.analysis.models.efficiency import scaling as scale
from cluster.analysis.statistics.compare import Launch, compare, group_by
from cluster.cli import flags
from cluster.cli.commands._fit import show_fits
from cluster.cli.commands.report import read_all, set_font_cache, write
from cluster.cli.flags import option
from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.units import parse_rate
from cluster.reports.plots import Format
from cluster.reports.words.limits import doubt_notes
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.reports.plots import Picture
    from cluster.runs.run import Run

    Draw = Callable[[Sequence[Run], "PlotOptions"], Picture]

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
        """The form of the file."""
        from cluster.reports.pictures import file_format  # noqa: PLC0415 - it imports NumPy

        return file_format(str(self.out))


def command(
    named: flags.RunList = None,
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
    names, where = named or [flags.LATEST], store.root(root)
    if fit or collectives:
        show_fits(names, options.metric, collectives, where, "json" if json else report)
        return
    _ = options.form  # one that cannot be is refused before anything is read
    set_font_cache()
    write(options.out, DRAW[options.kind](read_all(where, names), options).image)


def _sweep(runs: Sequence[Run], options: PlotOptions) -> Picture:
    from cluster.reports import page, pictures  # noqa: PLC0415 - they import matplotlib

    reported = [run.as_reported(Path.cwd()) for run in runs]
    if options.bound is not None:
        reported = [page.compare_with_network(run, options.bound) for run in reported]
    for curve in pictures.sweep_curves(reported, options.metric):
        best = max(curve.summaries, key=lambda summary: summary.share or 0.0)
        for doubt in doubt_notes([best]):
            sys.stderr.write(f"Note: {curve.name}: {doubt}\n")
    return pictures.sweep_picture(reported, options.metric, options.form, given_bound=options.bound)


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
    chosen = [work for work in series if work.name.startswith(options.metric or "")]
    if not chosen:
        raise SpecError(
            "Nothing was measured on different numbers of ranks.",
            remedy="Name runs with different --hosts or --ranks-per-host.",
        )
    return plots.scaling([scale(work) for work in chosen], options.form)


def _distribution(runs: Sequence[Run], options: PlotOptions) -> Picture:
    from cluster.reports import page, pictures  # noqa: PLC0415 - they import matplotlib

    names = page.labels([run.as_reported(Path.cwd()) for run in runs])
    values = [
        (name, run.measurements, run.summary()) for name, run in zip(names, runs, strict=True)
    ]
    return pictures.distribution_picture(values, options.metric, options.form)


DRAW: dict[Kind, Draw] = {
    "sweep": _sweep,
    "comparison": _comparison,
    "scaling": _scaling,
    "distribution": _distribution,
}
