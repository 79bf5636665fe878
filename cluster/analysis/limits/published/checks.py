"""Checks of a corpus: units, sources, duplicates, and values that no hardware can reach."""

from __future__ import annotations

import math
import re
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from cluster.analysis.limits import hardware, published
from cluster.analysis.limits.devices import bound
from cluster.analysis.limits.link import BELIEVABLE
from cluster.core.errors import SpecError
from cluster.core.units import parse_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cluster.analysis.limits.published import (
        PublishedResult,
        PublishedRun,
        Threshold,
        ThresholdEvidence,
    )
    from cluster.core.model.measurements import Measurement

BETWEEN_HOSTS = 0.8e-6  # seconds; a switch and two network cards alone take more than half of that
ABOVE = 1.25  # by what factor the lowest evidence may be above its threshold
ROUNDED = 1e-9
DATE = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")


def problems(runs: Sequence[PublishedRun]) -> tuple[str, ...]:
    """Check published runs; return a line for each problem."""
    texts = [f"{run.id}: {problem}" for run in runs for problem in _problems(run)]
    ids = Counter(run.id for run in runs)
    texts += [f"{id_}: {count} entries have this id" for id_, count in ids.items() if count > 1]
    first_ids: dict[object, str] = {}
    for run in runs:
        same = first_ids.setdefault((run.source.address(), run.definition, run.points), run.id)
        if same != run.id:
            texts.append(f"{run.id}: the same values of the same source as {same}")
    return tuple(texts)


def unread(run: PublishedRun, measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Compare an entry with the values that our parsers read from its log."""
    printed = Counter(
        (m.params.get("size", 0), _rounded(value))
        for m in measurements
        if m.definition == run.definition
        for value in m.values
    )
    return tuple(
        f"{result.id}: {value:.6g} is not in its log"
        for result in published.points([run])
        for value in result.values
        if not printed[result.size, _rounded(value)]
    )


def threshold_problems(thresholds: dict[str, Threshold]) -> tuple[str, ...]:
    """Check thresholds against the published results that they name."""
    texts = []
    for name, threshold in thresholds.items():
        shares = [evidence_share(each) for each in threshold.evidence]
        if not shares:
            texts.append(f"{name}: it has no evidence")
        if shares and not threshold.share <= min(shares) <= ABOVE * threshold.share:
            lowest = f"the lowest of its evidence is {min(shares):.3f}"
            texts.append(f"{name}: {threshold.share} does not fit, {lowest}")
    return tuple(texts)


def evidence_share(evidence: ThresholdEvidence) -> float:
    """Return the share that a published result reaches, of its named rate or limit (SpecError)."""
    result = find(evidence.result)
    rate = parse_rate(evidence.of) if evidence.of else limit(result)
    if rate is None:
        raise SpecError(f"{evidence.result} has no limit, so it is evidence of no share.")
    return _rate(result) / rate


def find(id_: str) -> PublishedResult:
    """Find a published result by its id, such as `p5-allreduce-aws@16GiB` (SpecError)."""
    for result in published.results():
        if result.id == id_:
            return result
    raise SpecError(
        f"There is no published result {id_!r}.", remedy="List them: cluster corpus list"
    )


def limit(result: PublishedResult) -> float | None:
    """Return the rate in B/s that the hardware of a published result allows; None without bound."""
    definition = published.definitions()[result.run.definition]
    highest = bound(definition, result.params, hardware.find(result.run.hardware))
    return None if highest is None else highest.rate


def _problems(run: PublishedRun) -> Iterator[str]:
    yield from _origin_problems(run)
    yield from _missing_fields(run)
    definition = published.definitions().get(run.definition)
    if definition is None:
        yield f"no definition {run.definition!r} is in definitions.toml"
        return
    if published.UNITS.get(run.unit, (0, ""))[1] != definition.unit:
        known_units = ", ".join(
            u for u, (_, base) in published.UNITS.items() if base == definition.unit
        )
        yield f"its unit is {run.unit!r}, and its definition's is one of: {known_units}"
        return
    try:
        known = hardware.find(run.hardware)
    except SpecError as error:
        yield error.what
        return
    if not 1 <= run.hosts <= run.ranks:
        yield f"{run.ranks} ranks on {run.hosts} hosts"
        return
    if definition.medium == "collective" and known.gpus and run.ranks > run.hosts * known.gpus:
        yield f"{run.ranks} ranks, and {run.hosts} hosts have {known.gpus} GPUs each"
    yield from _value_problems(run)


def _origin_problems(run: PublishedRun) -> Iterator[str]:
    """Say what is missing about the origin of a run."""
    if not run.source.url.startswith("https://"):
        yield "its source is no address that a reader can open"
    if run.source.path and not run.source.commit:
        yield "its source has a path, and no commit"
    if run.grade == "A" and not run.log:
        yield "grade A needs the lines of the log"
    if run.grade == "B" and (not run.source.author or run.versions in ("", published.UNKNOWN)):
        yield "grade B needs an author and versions"
    if (run.grade == "X") != bool(run.reason):
        yield "a reason is for grade X, and grade X needs one"


def _missing_fields(run: PublishedRun) -> Iterator[str]:
    if run.source.path and not (run.source.line or all(point.line for point in run.points)):
        yield "it does not say in which line of its path its values are"
    if not run.versions:
        yield f"it has no versions; where its source has none, they are {published.UNKNOWN!r}"
    if run.date != published.UNKNOWN and not DATE.fullmatch(run.date):
        yield f"its date is no YYYY-MM-DD, and not {published.UNKNOWN!r}"


def _value_problems(run: PublishedRun) -> Iterator[str]:
    for result in published.points([run]):
        if not result.values or not all(math.isfinite(v) and v > 0 for v in result.values):
            yield f"{result.id} has no values, or some that are not above 0"
            return
        if run.grade == "X":
            continue
        rate = limit(result)
        if rate is not None and _rate(result) > BELIEVABLE * rate:
            share = _rate(result) / rate
            yield f"{result.id} is {share:.2f} of its limit: grade X, with the reason"
        is_latency = published.definitions()[run.definition].metric == "latency"
        if is_latency and run.hosts > 1 and min(result.values) < BETWEEN_HOSTS:
            yield f"{result.id} is too short between hosts: grade X, with the reason"
    if not run.points:
        yield "it has no points"


def _rate(result: PublishedResult) -> float:
    """Return the median in bytes per second."""
    value = median(result.values)
    in_seconds = published.UNITS[result.run.unit][1] == "s"
    return result.size / value if in_seconds else value


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
