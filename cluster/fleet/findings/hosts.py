"""Findings about hosts and their NICs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from cluster.core.model.network.fleet import (
    Fleet,
    FleetFinding,
    PairTest,
    Part,
    Reason,
    Suspect,
    Way,
)
from cluster.fleet.pair_table import (
    CROWDED,
    Diagnosed,
    Flags,
    direction_of,
    most_common_reason,
    unit_value,
)
from cluster.fleet.solver import MANY, Culprit

DRIFTS = 0.8  # correlation with the number of the round, from which a host drifts
PARTNERS = 3  # of a host in a confirming run
STARVED_USUAL = 0.1  # of the tests alone of most hosts: beyond that, all of them are short of time


def untested_hosts(fleet: Fleet, tests: Sequence[PairTest]) -> Iterator[FleetFinding]:
    """Return the hosts that were lost, and those for which no test was tried."""
    counts = Counter(host for t in tests if t.value is not None for host in (t.source, t.target))
    reasons = {test.lost: test.reason for test in tests if test.lost >= 0}
    skips = [test for test in tests if test.value is None]
    for host, name in enumerate(fleet.names):
        host_tests = [t for t in skips if host in (t.source, t.target)]
        place = Part(kind="host", host=host)
        if host in reasons:
            since = Reason(code="lost", message=reasons[host], of=counts[host])
            yield FleetFinding(place=place, name=name, kind="HUNG", direction="both", reason=since)
        elif host not in counts:
            reason = Reason(code="untried", message=most_common_reason(host_tests))
            yield FleetFinding(place=place, name=name, kind="UNTESTED", reason=reason)


def short_hosts(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the hosts whose low tests say nothing, as a processor limited them.

    Those are the hosts of which nothing is known, and those that are short of time in most tests
    alone, as the others are not: by their few good ones, they would be proven.
    """
    table = solution.table
    left_out = np.max(solution.parts.paths, axis=1) < 0
    victims = _starved_hosts(solution, left_out)
    short = np.unique(table.hosts[:, left_out])
    for host in short.tolist():
        ends = table.hosts == host
        ways = {
            way: mask
            for way, mask in zip(("tx", "rx"), ends, strict=True)
            if mask.any() and (left_out[mask].any() if host in victims else left_out[mask].all())
        }
        if not ways:
            continue
        own_busy = sum(
            int((table.busy[end] & left_out & mask).sum()) for end, mask in enumerate(ends)
        )
        tests = sum(int(mask.sum()) for mask in ways.values())
        yield FleetFinding(
            place=Part(kind="host", host=host),
            name=solution.fleet.names[host],
            kind="UNTESTED",
            direction=direction_of(ways),
            reason=Reason(code="busy", low=own_busy, of=tests),
            partners=fresh_partners(solution, host),
        )


def _starved_hosts(solution: Diagnosed, left_out: Flags) -> set[int]:
    """Return hosts whose own processor limited most of their tests alone, and not of the others."""
    table, count = solution.table, len(solution.fleet.names)
    counts = np.bincount(table.hosts[table.busy & left_out & table.alone], minlength=count)
    tests = np.bincount(table.hosts[:, table.alone].ravel(), minlength=count)
    shares = counts / np.maximum(tests, 1)
    usual = float(np.median(shares[tests > 0])) if table.alone.any() else 0.0
    return set(np.flatnonzero((shares > 1 / 2) & (usual < STARVED_USUAL)).tolist())


def suspected_hosts(solution: Diagnosed) -> list[int]:
    """Return the hosts that are blamed or undecided."""
    return sorted({solution.host(c.part) for c in solution.suspects if solution.is_host(c.part)})


def blamed_hosts(solution: Diagnosed) -> list[int]:
    """Return the hosts that are blamed, in the order of what they explain."""
    parts = (c.part for c in solution.blame.culprits if solution.is_host(c.part))
    return list(dict.fromkeys(map(solution.host, parts)))


def bad_hosts(solution: Diagnosed, groups: Iterable[FleetFinding] = ()) -> Iterator[FleetFinding]:
    """Return the hosts, or NICs of hosts, that are blamed, but those of groups that are."""
    ends = solution.parts.endpoints
    culprits: defaultdict[int, list[Culprit]] = defaultdict(list)
    for culprit in solution.blame.culprits:
        if solution.is_host(culprit.part):
            culprits[culprit.part % ends].append(culprit)
    of_host = Counter(end // solution.fleet.nics for end in culprits)
    members = {host for group in groups for host in group.reason.hosts}
    for end, end_culprits in culprits.items():
        host, nic = divmod(end, solution.fleet.nics)
        if host in members:
            continue
        if of_host[host] == solution.fleet.nics and nic > 0:
            continue  # all its NICs are blamed: name the host once
        place = Part(kind="nic", host=host, nic=nic)
        if of_host[host] == solution.fleet.nics:
            place = Part(kind="host", host=host)
        yield _bad_host(solution, place, end_culprits)


def _bad_host(solution: Diagnosed, place: Part, culprits: Sequence[Culprit]) -> FleetFinding:
    ways = {solution.way(culprit.part) for culprit in culprits}
    parts = [culprit.part for culprit in culprits]
    indices = np.flatnonzero(np.isin(solution.blame.explained_by, parts))
    tests = [solution.table.tests[i] for i in indices]
    failures = [test for test in tests if not test.value]
    worst = min(culprits, key=lambda culprit: culprit.capacity)
    is_hung = len(failures) == len(tests)
    reason = Reason(
        code="silent" if is_hung else "slow",
        share=0.0 if is_hung else worst.capacity / solution.reference,
        low=len(tests),
        of=int(np.isin(solution.parts.paths, parts).any(axis=1).sum()),
        failed=len(failures),
        message=most_common_reason(failures),
    )
    if not is_hung:
        reason = _with_variation(solution, culprits, reason)
    return FleetFinding(
        place=place,
        name=solution.fleet.names[place.host],
        kind="HUNG" if is_hung else "UNSTABLE" if reason.best else "BAD",
        direction=direction_of(ways, directed=solution.fleet.directed),
        capacity=None if is_hung else unit_value(solution, worst.capacity),
        tests=len(tests),
        reason=reason,
        partners=fresh_partners(solution, place.host),
    )


def _with_variation(solution: Diagnosed, culprits: Sequence[Culprit], reason: Reason) -> Reason:
    """Add how tests that only this host explains vary over time, if they do."""
    is_own = np.isin(solution.blame.explained_by, [c.part for c in culprits])
    indices = np.flatnonzero(is_own & solution.is_unshared)
    rates = solution.tests.values[indices]
    if len(indices) < MANY or rates.min() <= 0 or np.quantile(rates, 0.2) > CROWDED * rates.max():
        return reason
    rounds = np.array([solution.table.tests[i].round for i in indices], dtype=np.float64)
    trend = float(np.corrcoef(rounds, rates)[0, 1]) if rounds.std() > 0 else 0.0
    return replace(
        reason,
        best=float(rates.max() / solution.reference),
        worst=float(np.quantile(rates, 0.2) / rates.max()),
        drifts=trend < -DRIFTS,
    )


def fresh_partners(solution: Diagnosed, host: int, count: int = PARTNERS) -> tuple[int, ...]:
    """Choose good partners to test a host with: hosts of its group and new partners first."""
    bad = {solution.host(c.part) for c in solution.suspects}
    source, target = solution.table.hosts
    peers = set(target[source == host].tolist()) | set(source[target == host].tolist())
    candidates = set(np.unique(np.concatenate([source, target])).tolist())
    fit = [h for h in candidates if h != host and h not in bad]
    fit.sort(key=lambda h: (solution.fleet.groups[h] != solution.fleet.groups[host], h in peers, h))
    return tuple(fit[:count])


def unproven_hosts(solution: Diagnosed) -> tuple[int, ...]:
    """Return hosts that reached the usual rate in no test, of one direction at least."""
    table = solution.table
    good = (table.rates >= solution.line()) & (solution.tests.paths >= 0).any(axis=1)
    proven = [set(hosts[good].tolist()) for hosts in table.hosts]
    proven_hosts = proven[0] & proven[1] if solution.fleet.directed else proven[0] | proven[1]
    return tuple(host for host in range(len(solution.fleet.names)) if host not in proven_hosts)


def undecided_hosts(solution: Diagnosed) -> Iterator[Suspect]:
    """Return suspects whose low tests could also be chance, or caused by another part."""
    for culprit in solution.blame.doubts:
        if solution.is_host(culprit.part):
            place, direction = _end(solution, culprit.part)
            yield Suspect(
                place=place,
                direction=direction,
                reason=Reason(code="same_tests" if culprit.twins else "chance", low=culprit.tests),
                twins=tuple(_end(solution, twin) for twin in culprit.twins),
            )


def _end(solution: Diagnosed, part: int) -> tuple[Part, Way]:
    way = direction_of({solution.way(part)}, directed=solution.fleet.directed)
    return Part(kind="host", host=solution.host(part)), way
