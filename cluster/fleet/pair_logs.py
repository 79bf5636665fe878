"""Chooses comparable values among results of pairs of hosts: one test, at one size of message."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from cluster.core.errors import SpecError
from cluster.core.model.fleet import PairTest
from cluster.core.model.pair_logs import LoggedPair, PairAssumption, PairLogs
from cluster.core.units import format_size, format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cluster.core.model.fleet import PairMetric
    from cluster.core.model.logs import Parsed
    from cluster.core.model.measurements import Definition

LATENCY_SIZE = 8  # bytes, of which latencies are compared, if the logs have them
RIVAL = 0.5  # of the pairs of the most frequent test: with more, another test could be meant
ABSURD = 10.0  # times the median: no healthy host of the same fleet is so fast
MOST_TIMES = 1000.0  # that are counted in a message
MOST = 0.5  # of the results: a size that more of them have is one that all were to have
WHOLE = 0.5  # of all pairs: with more, the logs were meant to have every pair
NO_LOG = "there is no log of this pair"
NO_LIMIT = PairAssumption("no_limit")
UNKNOWN = (PairAssumption("alone_or_at_once"), NO_LIMIT)
BOTH_WAYS = PairAssumption("both_ways")
_VERSION = re.compile(r"\s+(?:Version:?\s*)?v?\d+\.[\w.-]+$")


class PairResult(NamedTuple):
    """A result of a tool between two hosts."""

    log: str
    hosts: tuple[str, str]
    result: Parsed


def pair_logs(results: Sequence[PairResult], metric: PairMetric, wanted: str = "") -> PairLogs:
    """Choose the test that most pairs have, and the size of message that most of its results have.

    Returns:
        A value per result of that test; results that failed have a reason instead.

    Raises:
        SpecError: no result has the metric, or several tests could be meant.
    """
    tests: defaultdict[str, list[PairResult]] = defaultdict(list)
    for one in results:
        tests[_title(one.result)].append(one)
    if not any(one.result.measurements for one in results):
        return _all_failed(results, metric)
    known = {
        title: own
        for title, own in tests.items()
        if any(_definition(one.result, metric) for one in own)
    }
    title = _chosen(known, wanted, metric, tests)
    values = [_values(one.result, metric) for one in known[title]]
    size = _common_size(values, metric)
    pairs = tuple(
        _logged(one, own, size, metric) for one, own in zip(known[title], values, strict=True)
    )
    at = f", {format_size(int(size))}" if size else ""
    return PairLogs(
        title=f"{title}{at}",
        metric=metric,
        pairs=pairs,
        assumptions=(BOTH_WAYS, *UNKNOWN),
        left_out=tuple(
            f"{len(own)} result(s) of {other}" for other, own in tests.items() if other != title
        ),
    )


def _all_failed(results: Sequence[PairResult], metric: PairMetric) -> PairLogs:
    pairs = tuple(_logged(one, {}, 0, metric) for one in results if one.result.failures)
    return PairLogs(title="tests that failed", metric=metric, pairs=pairs)


def _title(result: Parsed) -> str:
    """Name a test, so that tests with the same name can be compared."""
    name = _VERSION.sub("", result.title or result.format)
    return f"{name} ({result.ranks} ranks)" if result.ranks else name


def has_metric(result: Parsed, metric: PairMetric) -> bool:
    """Tell whether a result may be of a pair of hosts."""
    return _definition(result, metric) is not None


def _definition(result: Parsed, metric: PairMetric) -> Definition | None:
    """Find the definition of the values to compare: of rates, one that a link bounds."""
    own = [d for d in result.definitions if d.medium not in ("GPU to GPU", "host to GPU")]
    if metric == "latency":
        return next((d for d in own if d.metric == metric), None)
    rates = [d for d in own if d.unit == "B/s"]
    bounded = [d for d in rates if d.flow]
    named = [d for d in rates if d.metric == metric]
    return next(iter((*bounded, *named)), None)


def _chosen(
    known: Mapping[str, Sequence[PairResult]],
    wanted: str,
    metric: PairMetric,
    tests: Iterable[str],
) -> str:
    """Choose the test that most pairs have; refuse to choose if others have many as well."""
    if not known:
        others = sorted(tests)
        raise SpecError(
            f"No log has a {metric} of a pair of hosts.",
            means=f"They have: {', '.join(others)}." if others else "",
            remedy="Judge another metric: cluster check --metric "
            f"{'latency' if metric == 'bandwidth' else 'bandwidth'} --from ..., or name logs of "
            "tests between two hosts, such as osu_bw, iperf3 or nccl-tests.",
        )
    fit = [title for title in known if _has_words(title, wanted)]
    counts = {title: len({one.hosts for one in known[title]}) for title in fit}
    ranked = sorted(fit, key=lambda title: -counts[title])
    if not fit or (len(fit) > 1 and counts[ranked[1]] > RIVAL * counts[ranked[0]]):
        shown = ranked or sorted(known)
        raise SpecError(
            f"The logs have {len(shown)} tests, and only one can be judged at a time: "
            f"{'; '.join(shown)}."
            if fit
            else f"No test of these logs has the words {wanted!r}: they have {'; '.join(shown)}.",
            remedy=f"Choose one by words of its name: --series {shown[0].split()[0]}",
        )
    return ranked[0]


def _has_words(title: str, wanted: str) -> bool:
    return all(word in title.lower() for word in wanted.lower().split())


def _values(result: Parsed, metric: PairMetric) -> dict[float, float]:
    """Return the value at each size of message; 0 is the size of tests that have none."""
    definition = _definition(result, metric)
    if definition is None:
        return {}
    found: dict[float, float] = {}
    for one in result.measurements:
        if one.definition == definition.id and one.params.get("place") != "in" and one.values:
            found.setdefault(float(one.params.get("size", 0)), median(one.values))
    return found


def _common_size(values: Iterable[Mapping[float, float]], metric: PairMetric) -> float:
    """Choose of the sizes that most results have the largest, or the one near 8 B for latency.

    A log that ends early lacks the large ones, and is a pair without a value.
    """
    told = [own for own in values if own]
    counts = Counter(size for own in told for size in own)
    usual = [size for size in counts if counts[size] > MOST * len(told)]
    if metric == "latency":
        return min(usual or [_commonest(counts)], key=_distance)
    return max(usual or [_commonest(counts)])


def _commonest(counts: Counter[float]) -> float:
    """Return the size that the most results have; the largest of several."""
    return max(counts, key=lambda size: (counts[size], size))


def _distance(size: float) -> float:
    return abs(math.log2(size / LATENCY_SIZE)) if size else math.inf


def _logged(
    one: PairResult, values: Mapping[float, float], size: float, metric: PairMetric
) -> LoggedPair:
    value = values.get(size)
    reason = ""
    if not value:
        failures = "; ".join(one.result.failures[:1])
        at = f" at {format_size(int(size))}" if size else ""
        reason = failures or f"the log has no {metric}{at}"
    return LoggedPair(hosts=one.hosts, value=value or None, reason=reason, log=one.log)


def fleet_tests(logs: PairLogs, names: Sequence[str]) -> list[PairTest]:
    """Return the tests of a fleet: those of the logs, and the pairs without a log.

    Returns:
        The tests; further logs of a pair are in rounds of their own. If most pairs have a log, the
        others are tests that were not tried. So are values far above all others.
    """
    number = {name: at for at, name in enumerate(names)}
    usual = median([one.value for one in logs.pairs if one.value] or [0.0])
    seen: Counter[tuple[int, int]] = Counter()
    tests = []
    for one in logs.pairs:
        ends = number[one.hosts[0]], number[one.hosts[1]]
        key = ends if logs.directed else (min(ends), max(ends))
        value, reason = _believable(one, usual, logs.metric)
        tests.append(
            PairTest(
                round=seen[key],
                source=ends[0],
                target=ends[1],
                value=value,
                reason=reason,
                path=one.path,
            )
        )
        seen[key] += 1
    if logs.sparse:
        return tests
    return [*tests, *_untried(seen, len(names), directed=logs.directed)]


def _believable(one: LoggedPair, usual: float, metric: PairMetric) -> tuple[float | None, str]:
    """Return the value, unless no host of the fleet can be so fast."""
    shown = format_value(one.value or 0.0, "B/s" if metric == "bandwidth" else "s")
    if one.value is not None and one.value < 0:
        return None, f"{shown} is no {metric}"
    if one.value is None or metric == "latency" or one.value <= ABSURD * usual:
        return one.value, one.reason
    times = one.value / usual if usual else MOST_TIMES
    many = f"{times:.0f}" if times < MOST_TIMES else f"more than {MOST_TIMES:.0f}"
    return None, f"{shown} is {many} times the median of all pairs: not believed"


def _untried(
    seen: Mapping[tuple[int, int], int], hosts: int, *, directed: bool
) -> Iterator[PairTest]:
    every = [(a, b) for a in range(hosts) for b in range(hosts) if a < b or (directed and a != b)]
    if len(seen) > WHOLE * len(every):
        yield from (
            PairTest(round=0, source=a, target=b, reason=NO_LOG)
            for a, b in every
            if (a, b) not in seen
        )
