"""Converts tests of pairs to measurements of a run, and back."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median, median_high, median_low

import msgspec

from cluster.core.model.network.fleet import PairTest
from cluster.core.model.results.measurements import Definition, Measurement
from cluster.core.model.value import Scalar

FAILED, SKIPPED = "failed", "skipped"  # parameters that say why there is no value
LOST = "lost"  # the number of the host that was lost, -1 for none, beside a reason
LOST_WORDS = re.compile(r"host:(\d+) is lost: (.*)", re.DOTALL)  # of a run without that parameter
OPTIONAL = ("nic", "port", "path", "source_busy", "target_busy")
COUNTERS = ("source_counters", "target_counters")
PLACES = ("round", "source", "target", *OPTIONAL, FAILED, SKIPPED, LOST, *COUNTERS)


def measurements_of(
    tests: Iterable[PairTest], definition: Definition, hosts: Sequence[str] | Mapping[int, str]
) -> list[Measurement]:
    """Convert tests to measurements; one that failed has no values, and a reason."""
    id_ = definition.id
    return [_measurement(test, definition, id_, hosts[test.source]) for test in tests]


def _measurement(test: PairTest, definition: Definition, id_: str, host: str) -> Measurement:
    params: dict[str, Scalar] = {
        "round": test.round,
        "source": test.source,
        "target": test.target,
        "alone": int(test.alone),
    }
    params |= {name: getattr(test, name) for name in OPTIONAL if getattr(test, name)}
    params |= {name: _text(counts) for name in COUNTERS if (counts := getattr(test, name))}
    if not test.value:
        params[SKIPPED if test.value is None else FAILED] = test.reason
        params[LOST] = test.lost
    return Measurement(
        metric=definition.metric,
        definition=id_,
        unit=definition.unit,
        params=params,
        rank=test.source,
        host=host,
        values=(test.value,) if test.value else (),
    )


def pair_tests(measurements: Iterable[Measurement]) -> tuple[PairTest, ...]:
    return tuple(
        _test(measurement)
        for measurement in measurements
        if {"round", "source", "target"} <= measurement.params.keys()
    )


def _test(measurement: Measurement) -> PairTest:
    places = measurement.params
    fallback = 0.0 if FAILED in places else None
    reason = str(places.get(FAILED, places.get(SKIPPED, "")))
    lost_host = int(places.get(LOST, -1))
    if LOST not in places and (words := LOST_WORDS.fullmatch(reason)):
        lost_host, reason = int(words[1]), words[2]
    return PairTest(
        round=int(places["round"]),
        source=int(places["source"]),
        target=int(places["target"]),
        value=measurement.values[0] if measurement.values else fallback,
        reason=reason,
        lost=lost_host,
        alone=bool(places.get("alone", 0)),
        nic=int(places.get("nic", 0)),
        port=int(places.get("port", 0)),
        path=str(places.get("path", "")),
        source_busy=float(places.get("source_busy", 0.0)),
        target_busy=float(places.get("target_busy", 0.0)),
        source_counters=_counts(str(places.get("source_counters", ""))),
        target_counters=_counts(str(places.get("target_counters", ""))),
    )


def _text(counters: Mapping[str, float]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in counters.items())


def _counts(text: str) -> dict[str, float]:
    pairs = (word.rpartition("=") for word in text.split())
    return {name: float(value) for name, _, value in pairs}


def without_places(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Remove the pair from each measurement: all pairs form two series, alone and at once."""
    for measurement in measurements:
        params = {name: value for name, value in measurement.params.items() if name not in PLACES}
        yield msgspec.structs.replace(measurement, params=params)


def proven_rates(tests: Iterable[PairTest]) -> dict[int, tuple[float, float]]:
    """Return what each host, by its number, sent and received at best."""
    rates: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for test in tests:
        for way, host in enumerate((test.source, test.target)):
            rates[host][way] = max(rates[host][way], test.value or 0.0)
    return {host: (tx, rx) for host, (tx, rx) in rates.items()}


FEWEST = 3  # hosts: of two, a slow pair does not say which


def host_shares(tests: Iterable[PairTest], *, better: str) -> dict[int, float]:
    """Return the share of the fleet's median that each host reaches in a run, by its number.

    What changes for all hosts, such as an upgraded kernel, does not change these shares. A host's
    worse direction counts, by the median of its tests, so that a bad partner does not: of an even
    number, the better of the two in the middle. Nothing of fewer than three hosts.
    """
    results = [test for test in tests if test.value]
    together = [test for test in results if not test.alone] or results
    outgoing: dict[int, list[float]] = defaultdict(list)
    incoming: dict[int, list[float]] = defaultdict(list)
    for test in together:
        outgoing[test.source].append(test.value or 0.0)
        incoming[test.target].append(test.value or 0.0)
    worse, middle_of = (min, median_high) if better == "higher" else (max, median_low)
    by_host = {
        host: worse(middle_of(values[host]) for values in (outgoing, incoming) if host in values)
        for host in sorted({*outgoing, *incoming})
    }
    if len(by_host) < FEWEST:
        return {}
    middle = median(by_host.values())
    return {host: value / middle for host, value in by_host.items()}
