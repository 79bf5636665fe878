"""Fits of sweeps, t = alpha + size / beta, one for each kind: `cluster plot --fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.models.predict import MeasuredCollective, Prediction
from cluster.cli.show import show_tables
from cluster.core.errors import SpecError
from cluster.core.model.fits import Fit
from cluster.core.model.value import Value
from cluster.reports.tables import fits_table, predictions_table
from cluster.runs import store
from cluster.runs.nccl_logs import launch_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cluster.analysis.statistics.compare import Launch

MESSAGES = "latency"  # a metric of single messages: a window of several hides the time of one


class FitAnswer(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    fits: tuple[Fit, ...]
    predictions: tuple[Prediction, ...] = ()
    unpredicted: tuple[MeasuredCollective, ...] = ()
    notes: tuple[str, ...] = ()


def show_fits(
    names: Sequence[str],
    metric: str | None,
    collectives: str | None,
    where: Path,
    report: str,
) -> None:
    """Fit launches under equal conditions together, and show each fit."""
    from cluster.analysis.models.fit import fit_launches  # noqa: PLC0415 - it imports NumPy

    folders = dict.fromkeys(folder for name in names for folder in store.all_of(where, name))
    launches = [launch_of(store.read(folder)) for folder in folders]
    fits = fit_launches(launches)
    chosen = _of_metric(fits, metric, names)
    answer = FitAnswer(fits=chosen)
    if collectives:
        messages = _messages(fits)
        operations = launch_of(store.read(store.find(where, collectives)))
        answer = _with_predictions(answer, messages, launches[0], operations)
    tables = [fits_table(chosen)]
    if collectives:
        tables.append(predictions_table(answer.predictions, answer.unpredicted, answer.notes))
    show_tables(tables, report, answer)


def _of_metric(fits: Sequence[Fit], metric: str | None, names: Sequence[str]) -> tuple[Fit, ...]:
    """Return the fits of one metric, or all of them; there must be some."""
    chosen = tuple(fit for fit in fits if metric in (None, fit.metric))
    if not chosen:
        raise SpecError(
            f"{', '.join(names)}: there is no sweep to fit.",
            means="A fit needs four sizes or more of one metric.",
            remedy="Measure some: cluster bench p2p --metrics latency --sizes 8:4MiB",
        )
    return chosen


def _messages(fits: Sequence[Fit]) -> Fit:
    """Find the fit of single messages; refuse none, or several kinds."""
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
    return single[0]


def _with_predictions(answer: FitAnswer, messages: Fit, base: Launch, other: Launch) -> FitAnswer:
    """Add the predicted times of a run's operations."""
    from cluster.analysis.models.predict import (  # noqa: PLC0415 - NumPy
        differing_conditions,
        measured_collectives,
        predictions,
        without_prediction,
    )

    spec = other.record.spec
    operations = measured_collectives(other.summaries, spec.hosts * spec.ranks_per_host)
    if not operations:
        raise SpecError(
            f"{other.record.id} holds no collective operation.",
            remedy="Measure some: cluster bench collectives --operations allreduce,bcast",
        )
    return msgspec.structs.replace(
        answer,
        predictions=predictions(messages, operations),
        unpredicted=without_prediction(messages, operations),
        notes=(
            *(f"Of the operations: {note}" for note in other.record.notes),
            *(
                f"The messages are not those of the operations: {factor.name} is {factor.base}, "
                f"and {factor.other} for the operations."
                for factor in differing_conditions(base.record, other.record)
            ),
        ),
    )
