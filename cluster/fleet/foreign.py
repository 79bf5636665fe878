"""The verdict on tests of other tools: whether they ran at the same time is not known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from cluster.core.model.fleet import FleetFinding, FleetVerdict
from cluster.core.units import format_value
from cluster.fleet.diagnosis import USUAL, by_fault, faults_named, in_order, no_values
from cluster.fleet.findings import bad_groups, bad_hosts, undecided_hosts, untested_hosts
from cluster.fleet.pair_table import (
    BURST,
    believable,
    diagnosed,
    pair_table,
    shown,
    unit_value,
)
from cluster.fleet.proximity import GAP, near_groups
from cluster.fleet.solver import HOST, REFERENCE, blame_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cluster.core.model.fleet import FindingKind, Fleet, FleetWord, PairTest
    from cluster.fleet.pair_table import Diagnosed

    Rates = NDArray[np.float64]
    Flags = NDArray[np.bool_]

FABRIC = "fabric"
FAULTS: tuple[FindingKind, ...] = ("BAD", "HUNG", "GROUP")
NAMED = 4  # pairs, or hosts of a group, that are named
RARE = 0.01  # of all tests: stalls that healthy hosts have, too
COMPARED = 3  # hosts, of which one can differ from the others


class _Seen(NamedTuple):
    """What the tests show: the hosts, the tests that tell hosts apart, and what others show."""

    fleet: Fleet
    found: Diagnosed
    others: tuple[FleetFinding, ...] = ()
    undecided: tuple[str, ...] = ()


def diagnose_foreign(fleet: Fleet, tests: Sequence[PairTest]) -> FleetVerdict:
    """Diagnose a fleet by the logs of other tools.

    Returns:
        The verdict. Hosts are blamed as `cluster check` does, with the threshold of tests that all
        shared links, or together.

    """
    tests = believable(tests)
    missing = tuple(_missing(fleet, tests))
    untested = tuple(untested_hosts(fleet, tests))
    known = {host for test in tests if test.value for host in (test.source, test.target)}
    if len(known) < COMPARED:
        return _too_few(fleet, tests, untested, missing)
    seen = _seen(fleet, tests)
    found, fleet = seen.found, seen.fleet
    findings = _findings(seen, untested)
    blamed, observations = by_fault(findings, FAULTS)
    far = _far_hosts(fleet, found)
    undecided = (*undecided_hosts(fleet, found), *seen.undecided, *far)
    reference = unit_value(fleet, found, float(found.blame.references[HOST]))
    count = sum(1 for test in tests if test.value)
    word = _word(findings, undecided, count)
    if word == "HEALTHY" and fleet.metric == "bandwidth":
        word = "LOW" if reference < USUAL * (fleet.limit or 0.0) else word
    return FleetVerdict(
        verdict=word,
        rounds=len({test.round for test in tests}),
        blamed=blamed,
        observations=observations,
        undecided=undecided,
        answer=_answer(word, findings, undecided, _usual(fleet, reference, count)),
        metric=fleet.metric,
        tests=count,
        failed=len(missing),
        reference=reference,
        limit=fleet.limit,
        tolerance=float(found.blame.tolerance),
        groups=fleet.groups if fleet.grouped else (),
        missing=missing,
    )


def _findings(seen: _Seen, untested: Sequence[FleetFinding]) -> list[FleetFinding]:
    """Return all findings; of latencies, none about a host, which may only be far away."""
    fleet, found = seen.fleet, seen.found
    hosts = bad_hosts(fleet, found) if fleet.metric == "bandwidth" else ()
    groups, pairs = bad_groups(fleet, found), _unexplained(fleet, found)
    ranked = in_order([*hosts, *groups, *seen.others, *pairs, *untested])
    return [msgspec.structs.replace(one, confirm=_confirm(one)) for one in ranked]


def _usual(fleet: Fleet, reference: float, count: int) -> str:
    """Say what most hosts reach, and by how many tests that is known."""
    rates = fleet.metric == "bandwidth"
    usual = f"most hosts reach {format_value(reference, 'B/s' if rates else 's')}"
    if fleet.limit is not None and rates:
        usual += (
            f" ({reference / fleet.limit:.0%} of the limit)"
            if reference <= BURST * fleet.limit
            else f" (more than {format_value(fleet.limit, 'B/s')}, which cannot be their limit)"
        )
    return f"{usual}, in {count} tests of {len(fleet.names)} hosts"


def _missing(fleet: Fleet, tests: Sequence[PairTest]) -> Iterator[str]:
    """Name the pairs without a value, each with its reason."""
    for test in tests:
        if not test.value:
            yield f"{fleet.names[test.source]} and {fleet.names[test.target]}: {test.reason}"


def _too_few(
    fleet: Fleet,
    tests: Sequence[PairTest],
    untested: tuple[FleetFinding, ...],
    missing: tuple[str, ...],
) -> FleetVerdict:
    """Say that there is no value, or only that of one pair."""
    verdict = no_values(fleet, tests, 1, untested)
    count = len(tests) - len(missing)
    answer = (
        "UNDECIDED: one pair has a value, and there is nothing to compare it with; test another "
        "host with both."
        if count
        else verdict.answer
    )
    return msgspec.structs.replace(
        verdict, answer=answer, missing=missing, tests=count, failed=len(missing)
    )


def _seen(fleet: Fleet, tests: Sequence[PairTest]) -> _Seen:
    """Solve; if pairs between groups of hosts are slower, compare hosts within groups only.

    The groups are those that are known, or that the tests themselves show. Latencies between groups
    are compared with one another, too: distance is no fault.
    """
    found = _solved(fleet, tests)
    groups = fleet.groups if fleet.grouped else _groups(fleet, found)
    if not groups:
        return _Seen(fleet, found)
    known = msgspec.structs.replace(fleet, groups=groups)
    whole = _solved(known, tests)
    if fleet.metric == "latency" or not _is_slow_between(whole):
        return _Seen(known, whole)
    inside = [test for test in tests if groups[test.source] == groups[test.target]]
    blamed = tuple(bad_hosts(fleet, found))
    return _Seen(
        known,
        _solved(known, inside),
        (*blamed, _between_groups(known, whole)),
        tuple(_single_hosts(known, [one.part for one in blamed])),
    )


def _is_slow_between(found: Diagnosed) -> bool:
    """Tell whether even good pairs between groups are slower than those inside, beyond noise."""
    rates, apart = found.table.rates, found.table.between
    if not apart.any() or apart.all():
        return False
    return bool(GAP * np.percentile(rates[apart], REFERENCE) < np.median(rates[~apart]))


def _solved(fleet: Fleet, tests: Sequence[PairTest]) -> Diagnosed:
    found = diagnosed(pair_table(fleet, tests))
    return found._replace(blame=blame_together(found.blame, found.seen, len(fleet.names)))


def _groups(fleet: Fleet, found: Diagnosed) -> tuple[int, ...]:
    """Find two or more groups of several hosts that are better with one another than with others.

    One host that differs from all others is a suspect, and no group. Tests that a suspect explains
    do not count; of latencies they do at first, as distance explains them, too.
    """
    explained = found.blame.explained_by >= 0
    left_out = [np.zeros_like(explained), explained] if fleet.metric == "latency" else [explained]
    for one in left_out:
        groups = near_groups(_times(len(fleet.names), found, one)).groups
        if sum(size > 1 for size in Counter(groups).values()) > 1:
            return groups
    return ()


def _times(hosts: int, found: Diagnosed, left_out: Flags) -> Rates:
    """Return how long a byte takes between each two hosts, at best; NaN where it is not known."""
    table = found.table
    times = np.full((hosts, hosts), np.nan)
    usable = (table.rates > 0) & ~left_out
    columns = (table.source, table.target, table.rates)
    for source, target, rate in zip(*(column[usable] for column in columns), strict=True):
        least = np.fmin(times[source, target], 1 / rate)
        times[source, target] = times[target, source] = least
    return times


def _between_groups(fleet: Fleet, found: Diagnosed) -> FleetFinding:
    """Say that the groups share what is between them."""
    table, groups = found.table, np.array(fleet.groups)
    rates, apart = table.rates, table.between
    inside, outside = float(np.median(rates[~apart])), float(np.median(rates[apart]))
    sizes = ", ".join(map(str, sorted(Counter(fleet.groups).values(), reverse=True)))
    smallest = min(set(fleet.groups), key=lambda group: (groups == group).sum())
    names = [fleet.names[host] for host in np.flatnonzero(groups == smallest)]
    one = ", ".join(names[:NAMED])
    one += f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return FleetFinding(
        part=FABRIC,
        kind="SHARED",
        capacity=unit_value(fleet, found, outside),
        tests=int(table.between.sum()),
        evidence=f"the hosts fall into groups of {sizes} (one is {one}): "
        f"pairs inside reach {shown(fleet, found, inside)}, pairs between them "
        f"{shown(fleet, found, outside)} (medians). The links between switches are shared, or "
        "routes collide: no host is at fault",
    )


def _single_hosts(fleet: Fleet, blamed: Sequence[str]) -> Iterator[str]:
    sizes = Counter(fleet.groups)
    for host, group in enumerate(fleet.groups):
        if sizes[group] == 1 and f"host:{host}" not in blamed:
            yield f"host:{host} ({fleet.names[host]}): it is low with all others, and in no group"


def _far_hosts(fleet: Fleet, found: Diagnosed) -> Iterator[str]:
    """Name the hosts with long latencies to all others: they may only be far away."""
    for one in bad_hosts(fleet, found) if fleet.metric == "latency" else ():
        yield f"{one.part} ({one.name}): {one.evidence}: slow, or far away"


def _unexplained(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """List the low tests that no part explains; of latencies, none: distance is no fault."""
    table = found.table
    if fleet.metric == "latency":
        return
    suspects = [culprit.part for culprit in found.blame.undecided]
    doubtful = np.isin(found.parts.paths, suspects).any(axis=1)
    odd = np.flatnonzero(found.blame.unexplained & ~doubtful)
    if not odd.size:
        return
    names = [f"{fleet.names[table.source[at]]} and {fleet.names[table.target[at]]}" for at in odd]
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    yield FleetFinding(
        part="pairs",
        kind="UNSTABLE",
        capacity=unit_value(fleet, found, float(table.rates[odd].max())),
        tests=len(odd),
        evidence=f"{len(odd)} of {len(table.tests)} tests are low, and their hosts are good with "
        f"others: {'; '.join(names[:NAMED])}{more}. A link, routes that collide, or other work at "
        "the same time",
    )


def _confirm(one: FleetFinding) -> str:
    """Say what would confirm a finding: there is no cluster on which a command could."""
    if not one.confirm:
        return ""
    return f"test {one.name} again with three other hosts, one pair at a time"


def _word(findings: Sequence[FleetFinding], undecided: Sequence[str], count: int) -> FleetWord:
    if any(one.kind in FAULTS for one in findings):
        return "FAULTY"
    low = sum(one.tests for one in findings if one.kind == "UNSTABLE")
    if undecided or low > RARE * count or any(one.kind == "UNTESTED" for one in findings):
        return "UNDECIDED"
    return "HEALTHY"


def _answer(
    word: FleetWord, findings: Sequence[FleetFinding], undecided: Sequence[str], usual: str
) -> str:
    """Return the answer in one line."""
    if word == "FAULTY":
        faults = [one for one in findings if one.kind in FAULTS]
        return f"FAULTY: {faults_named(faults, by_name=True)}; {usual}."
    if undecided:
        return (
            f"UNDECIDED: {len(undecided)} host(s) are low in all their tests, and so could good "
            f"ones be: test them with more partners, one pair at a time; {usual}."
        )
    if word == "UNDECIDED" and any(one.kind == "UNSTABLE" for one in findings):
        return f"UNDECIDED: some pairs are low, and no host explains them; {usual}."
    if word == "UNDECIDED":
        left = sum(1 for one in findings if one.kind == "UNTESTED")
        return f"UNDECIDED: {left} host(s) have no value; {usual}."
    if word == "LOW":
        return f"LOW: no host differs from the others, but {usual}."
    shared = (
        " The fabric is shared: see below." if any(b.kind == "SHARED" for b in findings) else ""
    )
    return f"HEALTHY: no host differs from the others; {usual}.{shared}"
