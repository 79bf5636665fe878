"""The verdict on tests of other tools: whether they ran at the same time is not known."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from cluster.core.model.network.fleet import (
    FindingKind,
    Fleet,
    FleetFinding,
    FleetVerdict,
    FleetWord,
    PairTest,
    Part,
    Reason,
    ReasonCode,
    Suspect,
)
from cluster.fleet.diagnosis import USUAL, by_fault, in_order, no_values
from cluster.fleet.findings.groups import bad_groups
from cluster.fleet.findings.hosts import bad_hosts, undecided_hosts, untested_hosts
from cluster.fleet.pair_table import (
    Diagnosed,
    Flags,
    Values,
    believable,
    pair_table,
    solve_table,
    unit_value,
)
from cluster.fleet.proximity import GAP, near_groups
from cluster.fleet.solver import REFERENCE, blame_together

FAULTS: tuple[FindingKind, ...] = ("BAD", "HUNG", "GROUP")
RARE = 0.01  # of all tests: stalls that healthy hosts have, too
COMPARED = 3  # hosts, of which one can differ from the others


class _Comparison(NamedTuple):
    """What the tests show that tell hosts apart, and what others show."""

    solution: Diagnosed
    further: tuple[FleetFinding, ...] = ()
    suspects: tuple[Suspect, ...] = ()


def diagnose_foreign(fleet: Fleet, tests: Sequence[PairTest]) -> FleetVerdict:
    """Diagnose a fleet by the logs of other tools, as if all tests shared links, or together."""
    tests = believable(tests)
    failures = sum(1 for test in tests if not test.value)
    gaps = tuple(untested_hosts(fleet, tests))
    tested_hosts = {host for test in tests if test.value for host in (test.source, test.target)}
    if len(tested_hosts) < COMPARED:
        verdict = no_values(fleet, tests, 1, gaps)
        reason = Reason(code="one_pair") if failures < len(tests) else verdict.reason
        count = len(tests) - failures
        return msgspec.structs.replace(verdict, reason=reason, tests=count, failed=failures)
    result = _compare(fleet, tests)
    solution, fleet = result.solution, result.solution.fleet
    findings = _findings(result, gaps)
    faults, observations = by_fault(findings, FAULTS)
    suspects = (*undecided_hosts(solution), *result.suspects, *_far_hosts(solution))
    reference = unit_value(solution, solution.reference)
    count = len(tests) - failures
    word, reason = _word(findings, suspects, count)
    is_low = fleet.metric == "bandwidth" and reference < USUAL * (fleet.limit or 0.0)
    if word == "HEALTHY" and is_low:
        word, reason = "LOW", Reason(code="below_limit")
    return FleetVerdict(
        verdict=word,
        rounds=len({test.round for test in tests}),
        blamed=faults,
        observations=observations,
        metric=fleet.metric,
        tests=count,
        failed=failures,
        reference=reference if math.isfinite(reference) else None,
        limit=fleet.limit,
        tolerance=float(solution.blame.tolerance),
        groups=fleet.groups if fleet.has_groups else (),
        reason=reason,
        suspects=suspects,
    )


def _findings(result: _Comparison, gaps: Sequence[FleetFinding]) -> list[FleetFinding]:
    """Return all findings; of latencies, none about a host, which may only be far away."""
    solution = result.solution
    hosts = bad_hosts(solution) if solution.fleet.metric == "bandwidth" else ()
    groups, pairs = bad_groups(solution), _outliers(solution)
    return in_order([*hosts, *groups, *result.further, *pairs, *gaps])


def _compare(fleet: Fleet, tests: Sequence[PairTest]) -> _Comparison:
    """Solve; if pairs between groups of hosts are slower, compare hosts within groups only.

    The groups are those that are known, or that the tests themselves show. Latencies between groups
    are compared with one another, too: distance is no fault.
    """
    solution = _solve(fleet, tests)
    groups = fleet.groups if fleet.has_groups else _groups(solution)
    if not groups:
        return _Comparison(solution)
    grouped_fleet = msgspec.structs.replace(fleet, groups=groups)
    whole = _solve(grouped_fleet, tests)
    if fleet.metric == "latency" or not _is_slow_between(whole):
        return _Comparison(whole)
    inside = [test for test in tests if groups[test.source] == groups[test.target]]
    hosts = tuple(bad_hosts(solution))
    return _Comparison(
        _solve(grouped_fleet, inside),
        (*hosts, _between_groups(whole)),
        tuple(_single_hosts(grouped_fleet, {finding.place for finding in hosts})),
    )


def _is_slow_between(solution: Diagnosed) -> bool:
    """Tell whether even good pairs between groups are slower than those inside, beyond noise."""
    rates, crossing = solution.table.rates, solution.table.between
    if not crossing.any() or crossing.all():
        return False
    return bool(GAP * np.percentile(rates[crossing], REFERENCE) < np.median(rates[~crossing]))


def _solve(fleet: Fleet, tests: Sequence[PairTest]) -> Diagnosed:
    solution = solve_table(pair_table(fleet, tests))
    return solution._replace(blame=blame_together(solution.blame, solution.tests, len(fleet.names)))


def _groups(solution: Diagnosed) -> tuple[int, ...]:
    """Find two or more groups of several hosts that are better with one another than with others.

    One host that differs from all others is a suspect, and no group. Tests that a suspect explains
    do not count; of latencies they do at first, as distance explains them, too.
    """
    hits = solution.blame.explained_by >= 0
    left_out = [np.zeros_like(hits), hits] if solution.fleet.metric == "latency" else [hits]
    for mask in left_out:
        groups = near_groups(_times(len(solution.fleet.names), solution, mask)).groups
        if sum(size > 1 for size in Counter(groups).values()) > 1:
            return groups
    return ()


def _times(hosts: int, solution: Diagnosed, left_out: Flags) -> Values:
    """Return how long a byte takes between each two hosts, at best; NaN where it is not known."""
    table = solution.table
    times = np.full((hosts, hosts), np.nan)
    usable = (table.rates > 0) & ~left_out
    columns = (table.source, table.target, table.rates)
    for source, target, rate in zip(*(column[usable] for column in columns), strict=True):
        least = np.fmin(times[source, target], 1 / rate)
        times[source, target] = times[target, source] = least
    return times


def _between_groups(solution: Diagnosed) -> FleetFinding:
    """Return that the groups share what is between them; the hosts are those of the smallest."""
    table, groups = solution.table, np.array(solution.fleet.groups)
    rates, crossing = table.rates, table.between
    inside, outside = float(np.median(rates[~crossing])), float(np.median(rates[crossing]))
    sizes = Counter(solution.fleet.groups)
    smallest = min(set(solution.fleet.groups), key=lambda group: sizes[group])
    return FleetFinding(
        place=Part(kind="fabric"),
        kind="SHARED",
        capacity=unit_value(solution, outside),
        tests=int(table.between.sum()),
        reason=Reason(
            code="slow_between_groups",
            usual=unit_value(solution, inside),
            hosts=tuple(np.flatnonzero(groups == smallest).tolist()),
        ),
    )


def _single_hosts(fleet: Fleet, culprits: Collection[Part]) -> Iterator[Suspect]:
    sizes = Counter(fleet.groups)
    for host, group in enumerate(fleet.groups):
        place = Part(kind="host", host=host)
        if sizes[group] == 1 and place not in culprits:
            yield Suspect(place=place, reason=Reason(code="in_no_group"))


def _far_hosts(solution: Diagnosed) -> Iterator[Suspect]:
    """Return the hosts with long latencies to all others: they may only be far away."""
    for host in bad_hosts(solution) if solution.fleet.metric == "latency" else ():
        far = msgspec.structs.replace(host.reason, code="far")
        yield Suspect(
            place=host.place, direction=host.direction, capacity=host.capacity, reason=far
        )


def _outliers(solution: Diagnosed) -> Iterator[FleetFinding]:
    """List the low tests that no part explains; of latencies, none: distance is no fault."""
    table = solution.table
    if solution.fleet.metric == "latency":
        return
    suspects = [culprit.part for culprit in solution.blame.doubts]
    doubtful = np.isin(solution.parts.paths, suspects).any(axis=1)
    odd = np.flatnonzero(solution.blame.outliers & ~doubtful)
    if not odd.size:
        return
    yield FleetFinding(
        place=Part(kind="pairs"),
        kind="UNSTABLE",
        capacity=unit_value(solution, float(table.rates[odd].max())),
        tests=len(odd),
        reason=Reason(
            code="low_pairs",
            low=len(odd),
            of=len(table.tests),
            pairs=tuple((int(table.source[index]), int(table.target[index])) for index in odd),
        ),
    )


def _word(
    findings: Sequence[FleetFinding], suspects: Sequence[Suspect], count: int
) -> tuple[FleetWord, Reason]:
    if any(finding.kind in FAULTS for finding in findings):
        return "FAULTY", Reason(code="faults")
    if suspects:
        return "UNDECIDED", Reason(code="few_partners", low=len(suspects))
    unstable = [finding.tests for finding in findings if finding.kind == "UNSTABLE"]
    gaps = sum(1 for finding in findings if finding.kind == "UNTESTED")
    if sum(unstable) > RARE * count or gaps:
        code: ReasonCode = "unexplained" if unstable else "untested"
        return "UNDECIDED", Reason(code=code, low=sum(unstable) or gaps)
    return "HEALTHY", Reason(code="alike")
