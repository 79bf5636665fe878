"""`cluster fit`: what a sweep comes down to, and what collectives should take by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cluster import runs
from cluster.cli import flags
from cluster.cli.compare import show_sheets
from cluster.cli.show import print_json
from cluster.errors import SpecError
from cluster.model import Value
from cluster.sheets import fitted, foretold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.analysis.fit import Fit
    from cluster.analysis.predict import Prediction
    from cluster.runs import Run


class Answer(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    fits: tuple[Fit, ...]
    predictions: tuple[Prediction, ...]


def fit(
    run: flags.Run = "latest",
    metric: Annotated[
        str | None, typer.Option("--metric", help="Only this one.  [default: all]")
    ] = None,
    collectives: Annotated[
        str | None,
        typer.Option("--collectives", metavar="RUN", help="Predict this run's operations."),
    ] = None,
    report: flags.SheetFormat = "terminal",
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    """Fit t = alpha + size / beta to each sweep of a run.

    Example: cluster fit p2p --metric latency
    """
    from cluster.analysis.fit import fits  # noqa: PLC0415 - it imports NumPy
    from cluster.analysis.predict import predictions  # noqa: PLC0415

    where = runs.root(root)
    chosen = runs.read(runs.find(where, run))
    found = [f for f in fits(chosen.summary()) if metric in (None, f.metric)]
    if not found:
        raise SpecError(
            f"{chosen.folder} has no sweep to fit.",
            means="A fit needs four sizes or more of one metric.",
            remedy="Measure some: cluster bench p2p --metrics latency --sizes 8:4MiB",
        )
    other = runs.read(runs.find(where, collectives)) if collectives else None
    foretold_ = predictions(_messages(found), other.summary(), _ranks(other)) if other else ()
    if json:
        print_json(Answer(fits=tuple(found), predictions=tuple(foretold_)))
        return
    show_sheets([fitted(found), *([foretold(foretold_)] if other else [])], report)


def _messages(found: Sequence[Fit]) -> Fit:
    """Choose the fit of single messages: windows of many hide what one costs."""
    return next((f for f in found if f.metric == "latency"), found[0])


def _ranks(run: Run) -> int:
    return run.record.spec.hosts * run.record.spec.ranks_per_host
