"""Chooses comparable values among results of pairs of hosts: one test, at one size of message."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from cluster.core.errors import SpecError
from cluster.core.model.logs import Parsed
from cluster.core.model.network.fleet import (
    LoggedPair,
    NoValue,
    PairAssumption,
    PairLogs,
    PairMetric,
    PairTest,
)
from cluster.core.model.results.measurements import Definition
from cluster.core.text.units import format_size

LATENCY_SIZE = 8  # bytes, of which latencies are compared, if the logs have them
RIVAL = 0.5  # of the pairs of the most frequent test: with more, another test could be meant
ABSURD = 10.0  # times the median: no healthy host of the same fleet is so fast
MOST = 0.5  # of the results: a size that more of them have is one that all were to have
WHOLE = 0.5  # of all pairs: with more, the logs were meant to have every pair
NO_LIMIT = PairAssumption("no_limit")
UNKNOWN = (PairAssumption("alone_or_at_once"), NO_LIMIT)
BOTH_WAYS = PairAssumption("both_ways")
_VERSION = re.compile(r"\s+(?:Version:?\s*)?v?\d+\.[\w.-]+$")


class PairResult(NamedTuple):
    """A result of a tool between two hosts."""

    log: str
    hosts: tuple[str, str]
    result: Parsed


def pair_logs(results: Sequence[PairResult], metric: PairMetric, series: str = "") -> PairLogs:
    """Choose the test that most pairs have, and the size of message that most of its results have.

    A result that failed has a reason in place of its value. SpecError: no result has the metric, or
    several tests could be meant.
    """
    tests: defaultdict[str, list[PairResult]] = defaultdict(list)
    for result in results:
        tests[_title(result.result)].append(result)
    if not any(result.result.measurements for result in results):
        return _all_failed(results, metric)
    titles = {
        title: group
        for title, group in tests.items()
        if any(_definition(result.result, metric) for result in group)
    }
    title = _choose_title(titles, series, metric, tests)
    values = [_values(result.result, metric) for result in titles[title]]
    size = _common_size(values, metric)
    pairs = tuple(
        _pair(result, figures, size, metric)
        for result, figures in zip(titles[title], values, strict=True)
    )
    at_size = f", {format_size(int(size))}" if size else ""
    return PairLogs(
        title=f"{title}{at_size}",
        metric=metric,
        pairs=pairs,
        assumptions=(BOTH_WAYS, *UNKNOWN),
        others={other: len(group) for other, group in tests.items() if other != title},
    )


def _all_failed(results: Sequence[PairResult], metric: PairMetric) -> PairLogs:
    pairs = tuple(_pair(result, {}, 0, metric) for result in results if result.result.failures)
    return PairLogs(metric=metric, pairs=pairs)


def _title(result: Parsed) -> str:
    """Name a test, so that tests with the same name can be compared."""
    name = _VERSION.sub("", result.title or result.format)
    return f"{name} ({result.ranks} ranks)" if result.ranks else name


def has_metric(result: Parsed, metric: PairMetric) -> bool:
    """Tell whether a result may be of a pair of hosts."""
    return _definition(result, metric) is not None


def _definition(result: Parsed, metric: PairMetric) -> Definition | None:
    """Find the definition of the values to compare: of rates, one that a link bounds."""
    definitions = [d for d in result.definitions if d.medium not in ("GPU to GPU", "host to GPU")]
    if metric == "latency":
        return next((d for d in definitions if d.metric == metric), None)
    rates = [d for d in definitions if d.unit == "B/s"]
    flows = [d for d in rates if d.flow]
    matches = [d for d in rates if d.metric == metric]
    return next(iter((*flows, *matches)), None)


def _choose_title(
    titles: Mapping[str, Sequence[PairResult]],
    series: str,
    metric: PairMetric,
    tests: Iterable[str],
) -> str:
    """Choose the test that most pairs have; refuse to choose if others have many as well."""
    if not titles:
        all_titles = sorted(tests)
        raise SpecError(
            f"No log has a {metric} of a pair of hosts.",
            means=f"They have: {', '.join(all_titles)}." if all_titles else "",
            remedy="Judge another metric: cluster check --metric "
            f"{'latency' if metric == 'bandwidth' else 'bandwidth'} --from ..., or name logs of "
            "tests between two hosts, such as osu_bw, iperf3 or nccl-tests.",
        )
    words = series.lower().split()
    fit = [title for title in titles if all(word in title.lower() for word in words)]
    counts = {title: len({result.hosts for result in titles[title]}) for title in fit}
    ranking = sorted(fit, key=lambda title: -counts[title])
    if not fit or (len(fit) > 1 and counts[ranking[1]] > RIVAL * counts[ranking[0]]):
        choices = ranking or sorted(titles)
        raise SpecError(
            f"The logs have {len(choices)} tests, and only one can be judged at a time: "
            f"{'; '.join(choices)}."
            if fit
            else f"No test of these logs has the words {series!r}: they have {'; '.join(choices)}.",
            remedy=f"Choose one by words of its name: --series {choices[0].split()[0]}",
        )
    return ranking[0]


def _values(result: Parsed, metric: PairMetric) -> dict[float, float]:
    """Return the value at each size of message; 0 is the size of tests that have none."""
    definition = _definition(result, metric)
    if definition is None:
        return {}
    medians: dict[float, float] = {}
    for measurement in result.measurements:
        if (
            measurement.definition == definition.id
            and measurement.params.get("place") != "in"
            and measurement.values
        ):
            medians.setdefault(float(measurement.params.get("size", 0)), median(measurement.values))
    return medians


def _common_size(values: Iterable[Mapping[float, float]], metric: PairMetric) -> float:
    """Choose of the sizes that most results have the largest, or the one near 8 B for latency.

    A log that ends early lacks the large ones, and is a pair without a value.
    """
    with_values = [figures for figures in values if figures]
    counts = Counter(size for figures in with_values for size in figures)
    usual = [size for size in counts if counts[size] > MOST * len(with_values)]
    if metric == "latency":
        return min(usual or [_commonest(counts)], key=_distance)
    return max(usual or [_commonest(counts)])


def _commonest(counts: Counter[float]) -> float:
    """Return the size that the most results have; the largest of several."""
    return max(counts, key=lambda size: (counts[size], size))


def _distance(size: float) -> float:
    return abs(math.log2(size / LATENCY_SIZE)) if size else math.inf


def _pair(
    result: PairResult, values: Mapping[float, float], size: float, metric: PairMetric
) -> LoggedPair:
    value = values.get(size) or None
    reason = None
    if value is None and result.result.failures:
        reason = NoValue(code="failed", text=result.result.failures[0])
    elif value is None:
        reason = NoValue(code="no_metric", metric=metric, size=int(size))
    return LoggedPair(hosts=result.hosts, value=value, reason=reason, log=result.log)


def fleet_tests(logs: PairLogs, names: Sequence[str]) -> Iterator[tuple[PairTest, NoValue | None]]:
    """Yield the tests of a fleet: those of the logs, and the pairs without a log.

    Yields:
        A test, and why it has no value; further logs of a pair are in rounds of their own. If most
        pairs have a log, the others are tests that were not tried. So are values far above all
        others.
    """
    number = {name: index for index, name in enumerate(names)}
    usual = median([pair.value for pair in logs.pairs if pair.value] or [0.0])
    turns: Counter[tuple[int, int]] = Counter()
    for pair in logs.pairs:
        ends = number[pair.hosts[0]], number[pair.hosts[1]]
        key = ends if logs.directed else (min(ends), max(ends))
        value, reason = _believable(pair, usual, logs.metric)
        source, target = ends
        test = PairTest(round=turns[key], source=source, target=target, value=value, path=pair.path)
        yield test, reason
        turns[key] += 1
    if not logs.sparse:
        missing = NoValue(code="no_log")
        gaps = _gaps(turns, len(names), directed=logs.directed)
        yield from ((PairTest(round=0, source=a, target=b), missing) for a, b in gaps)


def _believable(
    pair: LoggedPair, usual: float, metric: PairMetric
) -> tuple[float | None, NoValue | None]:
    """Return the value, unless no host of the fleet can be so fast."""
    if pair.value is not None and pair.value < 0:
        return None, NoValue(code="negative", metric=metric, value=pair.value)
    if pair.value is None or metric == "latency" or pair.value <= ABSURD * usual:
        return pair.value, pair.reason
    times = pair.value / usual if usual else 0.0
    return None, NoValue(code="absurd", metric=metric, value=pair.value, times=times)


def _gaps(
    turns: Mapping[tuple[int, int], int], hosts: int, *, directed: bool
) -> list[tuple[int, int]]:
    """Return the pairs without a log, if most have one."""
    pairs = [(a, b) for a in range(hosts) for b in range(hosts) if a < b or (directed and a != b)]
    return [pair for pair in pairs if pair not in turns] if len(turns) > WHOLE * len(pairs) else []
