"""Checks of a corpus: units, sources, duplicates, and values that no hardware can reach."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from cluster.analysis.limits import hardware, published
from cluster.analysis.limits.devices import bound
from cluster.analysis.limits.link import BELIEVABLE
from cluster.analysis.limits.published import (
    PublishedResult,
    PublishedRun,
    Threshold,
    ThresholdEvidence,
)
from cluster.core.errors import SpecError
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.value import Scalar, Value
from cluster.core.text.units import parse_rate

BETWEEN_HOSTS = 0.8e-6  # seconds; a switch and two network cards alone take more than half of that
ABOVE = 1.25  # by what factor the lowest evidence may be above its threshold
ROUNDED = 1e-9
DATE = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")

ProblemCode = Literal[
    "same_id", "same_values", "not_in_log", "no_evidence", "evidence_apart", "no_definition",
    "other_unit", "unknown_hardware", "ranks_below_hosts", "too_many_ranks", "no_address",
    "no_commit", "no_log", "no_author", "reason_or_grade", "no_line", "no_versions", "no_date",
    "no_values", "above_limit", "too_short", "no_points",
]  # fmt: skip


class EntryProblem(Value, frozen=True):
    """What is wrong with an entry of the corpus, or with a threshold."""

    id: str  # of a published run, one of its results, or a threshold
    code: ProblemCode
    figures: tuple[Scalar, ...] = ()  # or names, in the order of its words


def problems(runs: Sequence[PublishedRun]) -> tuple[EntryProblem, ...]:
    entry_problems = [problem for run in runs for problem in _problems(run)]
    ids = Counter(run.id for run in runs)
    entry_problems += [
        EntryProblem(id_, "same_id", (count,)) for id_, count in ids.items() if count > 1
    ]
    first_ids: dict[object, str] = {}
    for run in runs:
        first_id = first_ids.setdefault((run.source.address(), run.definition, run.points), run.id)
        if first_id != run.id:
            entry_problems.append(EntryProblem(run.id, "same_values", (first_id,)))
    return tuple(entry_problems)


def unread(run: PublishedRun, measurements: Iterable[Measurement]) -> tuple[EntryProblem, ...]:
    """Compare an entry with the values that our parsers read from its log."""
    log_values = Counter(
        (m.params.get("size", 0), _round(value))
        for m in measurements
        if m.definition == run.definition
        for value in m.values
    )
    return tuple(
        EntryProblem(result.id, "not_in_log", (value,))
        for result in published.points([run])
        for value in result.values
        if not log_values[result.size, _round(value)]
    )


def threshold_problems(thresholds: dict[str, Threshold]) -> tuple[EntryProblem, ...]:
    entry_problems = []
    for name, threshold in thresholds.items():
        shares = [evidence_share(proof) for proof in threshold.evidence]
        if not shares:
            entry_problems.append(EntryProblem(name, "no_evidence"))
        if shares and not threshold.share <= min(shares) <= ABOVE * threshold.share:
            detail = (threshold.share, min(shares))
            entry_problems.append(EntryProblem(name, "evidence_apart", detail))
    return tuple(entry_problems)


def evidence_share(evidence: ThresholdEvidence) -> float:
    """Return the share that a published result reaches, of its named rate or limit (SpecError)."""
    result = published.find(evidence.result)
    rate = parse_rate(evidence.of) if evidence.of else limit(result)
    if rate is None:
        raise SpecError(f"{evidence.result} has no limit, so it is evidence of no share.")
    return _rate(result) / rate


def limit(result: PublishedResult) -> float | None:
    """Return the rate in B/s that the hardware of a published result allows; None without bound."""
    definition = published.definitions()[result.run.definition]
    highest = bound(definition, result.params, hardware.find(result.run.hardware))
    return None if highest is None else highest.rate


def _problems(run: PublishedRun) -> Iterator[EntryProblem]:
    yield from _origin_problems(run)
    yield from _missing_fields(run)
    definition = published.definitions().get(run.definition)
    if definition is None:
        yield EntryProblem(run.id, "no_definition", (run.definition,))
        return
    if published.UNITS.get(run.unit, (0, ""))[1] != definition.unit:
        known_units = ", ".join(
            u for u, (_, base) in published.UNITS.items() if base == definition.unit
        )
        yield EntryProblem(run.id, "other_unit", (run.unit, known_units))
        return
    try:
        board = hardware.find(run.hardware)
    except SpecError as error:
        yield EntryProblem(run.id, "unknown_hardware", (error.what,))
        return
    if not 1 <= run.hosts <= run.ranks:
        yield EntryProblem(run.id, "ranks_below_hosts", (run.ranks, run.hosts))
        return
    if definition.medium == "collective" and board.gpus and run.ranks > run.hosts * board.gpus:
        yield EntryProblem(run.id, "too_many_ranks", (run.ranks, run.hosts, board.gpus))
    yield from _value_problems(run)


def _origin_problems(run: PublishedRun) -> Iterator[EntryProblem]:
    if not run.source.url.startswith("https://"):
        yield EntryProblem(run.id, "no_address")
    if run.source.path and not run.source.commit:
        yield EntryProblem(run.id, "no_commit")
    if run.grade == "A" and not run.log:
        yield EntryProblem(run.id, "no_log")
    if run.grade == "B" and (not run.source.author or run.versions in ("", published.UNKNOWN)):
        yield EntryProblem(run.id, "no_author")
    if (run.grade == "X") != bool(run.reason):
        yield EntryProblem(run.id, "reason_or_grade")


def _missing_fields(run: PublishedRun) -> Iterator[EntryProblem]:
    if run.source.path and not (run.source.line or all(point.line for point in run.points)):
        yield EntryProblem(run.id, "no_line")
    if not run.versions:
        yield EntryProblem(run.id, "no_versions", (published.UNKNOWN,))
    if run.date != published.UNKNOWN and not DATE.fullmatch(run.date):
        yield EntryProblem(run.id, "no_date", (published.UNKNOWN,))


def _value_problems(run: PublishedRun) -> Iterator[EntryProblem]:
    for result in published.points([run]):
        if not result.values or not all(math.isfinite(v) and v > 0 for v in result.values):
            yield EntryProblem(run.id, "no_values", (result.id,))
            return
        if run.grade == "X":
            continue
        rate = limit(result)
        if rate is not None and _rate(result) > BELIEVABLE * rate:
            yield EntryProblem(run.id, "above_limit", (result.id, _rate(result) / rate))
        is_latency = published.definitions()[run.definition].metric == "latency"
        if is_latency and run.hosts > 1 and min(result.values) < BETWEEN_HOSTS:
            yield EntryProblem(run.id, "too_short", (result.id,))
    if not run.points:
        yield EntryProblem(run.id, "no_points")


def _rate(result: PublishedResult) -> float:
    """Return the median in bytes per second."""
    value = median(result.values)
    in_seconds = published.UNITS[result.run.unit][1] == "s"
    return result.size / value if in_seconds else value


def _round(value: float) -> float:
    return float(f"{value:.9g}")
