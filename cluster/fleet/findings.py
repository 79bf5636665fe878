"""Findings about hosts, pairs of hosts, groups, links and the fabric as a whole."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from cluster.core.model.fleet import FleetFinding
from cluster.fleet.pair_table import (
    CROWDED,
    direction_of,
    most_common_reason,
    shown,
    unit_value,
)
from cluster.fleet.solver import CHANCE, GROUP, HOST, LINK, MANY, solve, unstable_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from cluster.core.model.fleet import Fleet, PairTest
    from cluster.fleet.pair_table import Diagnosed
    from cluster.fleet.solver import Culprit

LOST = re.compile(r"host:(\d+) is lost: (.*)")
DRIFTS = 0.8  # correlation with the number of the round, from which a host drifts
PARTNERS = 3  # of a host in a confirming run
NAMED = 5  # hosts of a finding
WORSE = 0.55  # of what other groups reach at the same time: a group below this is a finding


def untested_hosts(fleet: Fleet, tests: Sequence[PairTest]) -> Iterator[FleetFinding]:
    """Return the hosts that were lost, and those for which no test was tried."""
    tried = {host for t in tests if t.value is not None for host in (t.source, t.target)}
    lost = {int(m[1]): m[2] for t in tests if t.reason and (m := LOST.match(t.reason))}
    untried = [t for t in tests if t.value is None]
    for host, name in enumerate(fleet.names):
        if host in lost:
            ever = " any more" if host in tried else ""
            yield FleetFinding(
                part=f"host:{host}",
                name=name,
                kind="HUNG",
                direction="both",
                evidence=f"it does not answer{ever}: {lost[host]}",
            )
        elif host not in tried:
            own = (t for t in untried if host in (t.source, t.target))
            why = most_common_reason(own) or "no round had a partner for it"
            yield FleetFinding(part=f"host:{host}", name=name, kind="UNTESTED", evidence=why)


def short_hosts(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Return the hosts of which nothing is known, as a processor limited all their low tests."""
    table, nics = found.table, fleet.nics
    left_out = np.max(found.parts.paths, axis=1) < 0
    for host, name in enumerate(fleet.names):
        ends = (table.source // nics == host, table.target // nics == host)
        ways = {
            way: own
            for way, own in zip(("tx", "rx"), ends, strict=True)
            if own.any() and left_out[own].all()
        }
        if not ways:
            continue
        mine = sum(int((table.busy[end] & left_out & own).sum()) for end, own in enumerate(ends))
        tests = sum(int(own.sum()) for own in ways.values())
        short = (
            f"it was short of processor time during {mine} of them"
            if mine
            else "its partners were short of processor time"
        )
        yield FleetFinding(
            part=f"host:{host}",
            name=name,
            kind="UNTESTED",
            direction=direction_of(ways),
            evidence=f"low in all of its {tests} tests, but {short}, so they say nothing about its "
            "link: not judged. End other work there, and check again",
            confirm=confirming_command(fleet, found, host),
        )


def bad_hosts(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Return the hosts, or NICs of hosts, that are blamed; both directions together."""
    ends = found.parts.endpoints
    culprits: defaultdict[int, list[Culprit]] = defaultdict(list)
    for culprit in found.blame.blamed:
        if culprit.part < 2 * ends:  # hosts come before groups and links
            culprits[culprit.part % ends].append(culprit)
    of_host = Counter(end // fleet.nics for end in culprits)
    for end, own in culprits.items():
        host, nic = divmod(end, fleet.nics)
        if of_host[host] == fleet.nics and nic > 0:
            continue  # all its NICs are blamed: name the host once
        whole = of_host[host] == fleet.nics
        yield _host(fleet, found, f"host:{host}" if whole else f"nic:{host}.{nic}", own, host)


def _host(
    fleet: Fleet, found: Diagnosed, part: str, own: Sequence[Culprit], host: int
) -> FleetFinding:
    ends, blame = found.parts.endpoints, found.blame
    ways = {"rx" if culprit.part >= ends else "tx" for culprit in own}
    at = np.flatnonzero(np.isin(blame.explained_by, [culprit.part for culprit in own]))
    tests = [found.table.tests[i] for i in at]
    failed = [test for test in tests if not test.value]
    worst = min(own, key=lambda culprit: culprit.capacity)
    usual = float(blame.references[HOST])
    hung = len(failed) == len(tests)
    comes = _comes_and_goes(found, own)
    if hung:
        evidence = f"none of {len(tests)} tests gave a value: {most_common_reason(failed)}"
    else:
        way = direction_of(ways, directed=fleet.directed)
        verb = {"tx": "sends", "rx": "receives"}.get(way, "carries")
        evidence = (
            f"{verb} at most {shown(fleet, found, worst.capacity)}, "
            f"{worst.capacity / usual:.0%} of what most hosts reach, in {len(tests)} of "
            f"{_tests_of(found, own)} tests"
        )
        evidence += f"; {len(failed)} gave nothing: {most_common_reason(failed)}" if failed else ""
        evidence += f"; {comes}" if comes else ""
    return FleetFinding(
        part=part,
        name=fleet.names[host],
        kind="HUNG" if hung else "UNSTABLE" if comes else "BAD",
        direction=direction_of(ways, directed=fleet.directed),
        capacity=None if hung else unit_value(fleet, found, worst.capacity),
        tests=len(tests),
        evidence=evidence,
        confirm=confirming_command(fleet, found, host),
    )


def _comes_and_goes(found: Diagnosed, own: Sequence[Culprit]) -> str:
    """Say how tests that only this host explains vary over time; empty if they do not."""
    told = ~found.seen.shared | (found.routes is not None)
    at = np.flatnonzero(np.isin(found.blame.explained_by, [c.part for c in own]) & told)
    rates = found.seen.values[at]
    if len(at) < MANY or rates.min() <= 0 or np.quantile(rates, 0.2) > CROWDED * rates.max():
        return ""
    rounds = np.array([found.table.tests[i].round for i in at], dtype=np.float64)
    trend = float(np.corrcoef(rounds, rates)[0, 1]) if rounds.std() > 0 else 0.0
    ends = f"{rates.max() / found.blame.references[HOST]:.0%} at best"
    if trend < -DRIFTS:
        return f"it drifts: {ends}, less from round to round"
    return (
        f"it comes and goes: {ends}, {np.quantile(rates, 0.2) / rates.max():.0%} of that at times"
    )


def _tests_of(found: Diagnosed, own: Sequence[Culprit]) -> int:
    wanted = [culprit.part for culprit in own]
    return int(np.isin(found.parts.paths, wanted).any(axis=1).sum())


def confirming_command(fleet: Fleet, found: Diagnosed, host: int) -> str:
    """Return the command that tests a host alone with new partners."""
    pairs = ",".join(f"{host}-{other}" for other in fresh_partners(fleet, found, host))
    return f"cluster check NAME --pairs {pairs}" if pairs else ""


def fresh_partners(fleet: Fleet, found: Diagnosed, host: int) -> list[int]:
    """Choose good partners to test a host with: hosts of its group and new partners first."""
    ends, nics = found.parts.endpoints, fleet.nics
    bad = {c.part % ends // nics for c in (*found.blame.blamed, *found.blame.undecided)}
    source, target = found.table.source // nics, found.table.target // nics
    met = set(target[source == host].tolist()) | set(source[target == host].tolist())
    tested = set(np.unique(np.concatenate([source, target])).tolist())
    fit = [h for h in tested if h != host and h not in bad]
    fit.sort(key=lambda h: (fleet.groups[h] != fleet.groups[host], h in met, h))
    return fit[:PARTNERS]


def bad_pairs(found: Diagnosed, unstable: set[str]) -> Iterator[FleetFinding]:
    """Return pairs of good, stable hosts that are low or silent even when tested alone."""
    table, blame = found.table, found.blame
    low: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    good: Counter[tuple[int, int]] = Counter()
    for at in range(len(table.tests)):
        test = table.tests[at]
        pair = (min(test.source, test.target), max(test.source, test.target))
        if blame.unexplained[at]:
            low[pair].append(at)
        elif test.alone:
            good[test.source, test.target] += 1
    for (a, b), places in low.items():
        if {f"host:{a}", f"host:{b}"} & unstable:
            continue
        alone = [i for i in places if table.alone[i] or not table.tests[i].value]
        each = Counter((table.tests[i].source, table.tests[i].target) for i in alone)
        ways = {way for way, count in each.items() if not good[way] or count > 1}
        alone = [i for i in alone if (table.tests[i].source, table.tests[i].target) in ways]
        failed = [table.tests[i] for i in alone if not table.tests[i].value]
        silent = len(failed) == len(alone)
        share = _share_elsewhere(found, places, silent=silent)
        if not ways or share ** len(alone) * _pairs(found, silent=silent) > CHANCE:
            continue
        values = [table.tests[i].value or 0.0 for i in alone]
        fine = sum(good[way] for way in ways)
        yield FleetFinding(
            part=f"pair:{a}-{b}",
            kind="LINK",
            direction="both" if len(ways) > 1 else "tx" if (a, b) in ways else "rx",
            capacity=max(values) or None,
            tests=len(alone),
            evidence=_between(len(alone), fine, most_common_reason(failed) if failed else None),
        )


def _between(low: int, good: int, reason: str | None) -> str:
    """Say what is known of a pair of good hosts.

    Args:
        reason: why nothing arrived; none if something did.

    """
    both = "both hosts are good with others; between them"
    if good:
        said = "nothing arrives" + (f" ({reason})" if reason else "")
        return (
            f"{both} {said if reason is not None else 'they are low'} in {low} of {low + good} "
            "tests alone, and good in the rest: one of several paths, such as an uplink or a spine "
            "switch, or a route that changes"
        )
    said = f"nothing arrives: {reason}" if reason is not None else "alone, too, it is low"
    return f"{both} {said}: a link, a route or a filter on the way, in {low} tests"


def _share_elsewhere(found: Diagnosed, places: Sequence[int], *, silent: bool) -> float:
    """Return the share of other tests that are silent, or low although they ran alone."""
    odd = found.blame.unexplained & (found.table.rates <= 0 if silent else found.table.alone)
    told = np.ones_like(odd) if silent else found.table.alone.copy()
    told[list(places)] = False
    return (int((odd & told).sum()) + 0.5) / (int(told.sum()) + 1)


def _pairs(found: Diagnosed, *, silent: bool) -> int:
    """Count the pairs of which each could be silent, or low alone, by chance."""
    told = (test for test in found.table.tests if silent or test.alone)
    return len({(min(t.source, t.target), max(t.source, t.target)) for t in told})


def unstable_hosts(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Return hosts that are good only some of the time."""
    ends = found.parts.endpoints
    said: defaultdict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for part, low, count in _varying_parts(fleet, found):
        if not _is_low_by_itself(found, part):
            continue
        way = "rx" if part >= ends else "tx"
        said[part % ends // fleet.nics].append((way, low, count))
    for host, ways in said.items():
        low, count = sum(w[1] for w in ways), sum(w[2] for w in ways)
        own = [
            t for t, odd in zip(found.table.tests, found.blame.unexplained, strict=True)
            if odd and host in (t.source, t.target)
        ]  # fmt: skip
        why = most_common_reason(own)
        yield FleetFinding(
            part=f"host:{host}",
            name=fleet.names[host],
            kind="UNSTABLE",
            direction=direction_of((w[0] for w in ways), directed=fleet.directed),
            tests=low,
            evidence=f"low with {low} of {count} partners, good with the others: it comes and goes"
            + (f" ({why})" if why else ""),
            confirm=confirming_command(fleet, found, host),
        )


def crowded_pairs(fleet: Fleet, found: Diagnosed) -> Iterator[tuple[int, int]]:
    """Return low pairs of hosts that are good at times, never low in a test that shared nothing.

    Fixed routes may have put the same traffic beside them: alone, they may be good.
    """
    once = {(t.source, t.target) for t in found.table.tests if t.alone}
    for part, _, _ in _varying_parts(fleet, found):
        if _is_low_by_itself(found, part):
            continue
        own = found.blame.unexplained & (found.parts.paths == part).any(axis=1)
        pairs = [(t.source, t.target) for t, odd in zip(found.table.tests, own, strict=True) if odd]
        yield from [pair for pair in dict.fromkeys(pairs) if pair not in once][:PARTNERS]


def _varying_parts(fleet: Fleet, found: Diagnosed) -> Iterator[tuple[int, int, int]]:
    ends = found.parts.endpoints
    hosts = np.arange(2 * ends) % ends // fleet.nics
    return unstable_parts(found.blame, found.seen, hosts)


def _is_low_by_itself(found: Diagnosed, part: int) -> bool:
    """Tell whether a part has a low test that others cannot have slowed down."""
    told = ~found.seen.shared | (found.routes is not None)
    low = found.parts.paths[told & found.blame.unexplained]
    return bool((low == part).any())


def undecided_hosts(fleet: Fleet, found: Diagnosed) -> Iterator[str]:
    """Name suspects whose low tests could also be chance, or caused by another part."""
    ends = found.parts.endpoints
    suspects = [c for c in found.blame.undecided if c.part < 2 * ends]
    for culprit in suspects:
        suspect = _end(fleet, culprit.part, ends)
        if culprit.twins:
            others = ", ".join(_end(fleet, twin, ends) for twin in culprit.twins)
            yield f"{suspect} or {others}: the same tests speak against each of them"
        else:
            tests = "test" if culprit.tests == 1 else "tests"
            yield f"{suspect}: its {culprit.tests} low {tests} could be chance"


def undecided_groups(fleet: Fleet, found: Diagnosed) -> Iterator[str]:
    """Name suspected groups, with their hosts; in a healthy fleet, links that all share do that."""
    first, count = 2 * found.parts.endpoints, found.parts.groups
    names, group_of = np.unique(np.asarray(fleet.groups), return_inverse=True)
    for culprit in found.blame.undecided:
        if not first <= culprit.part < first + 2 * count:
            continue
        group = (culprit.part - first) % count // fleet.nics
        way = "rx" if culprit.part >= first + count else "tx"
        hosts = ", ".join(f"host:{host}" for host in np.flatnonzero(group_of == group))
        words = f"group:{names[group]} {way}" if fleet.directed else f"group:{names[group]}"
        tests = "test" if culprit.tests == 1 else "tests"
        yield f"{words} ({hosts}): its {culprit.tests} low {tests} to other groups could be chance"


def _end(fleet: Fleet, part: int, ends: int) -> str:
    """Name a host and its direction; one of a log by its own name, too."""
    host = part % ends // fleet.nics
    name = f" ({fleet.names[host]})" if fleet.foreign else ""
    way = f" {'rx' if part >= ends else 'tx'}" if fleet.directed else ""
    return f"host:{host}{name}{way}"


def bad_groups(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Return the groups whose traffic to other groups is slow, whichever host sends."""
    first, count = 2 * found.parts.endpoints, found.parts.groups
    own: defaultdict[int, list[Culprit]] = defaultdict(list)
    for culprit in found.blame.blamed:
        if first <= culprit.part < first + 2 * count:
            own[(culprit.part - first) % count].append(culprit)
    names = np.unique(np.asarray(fleet.groups))
    for group, culprits in own.items():
        ways = {"tx" if c.part < first + count else "rx" for c in culprits}
        worst = min(culprits, key=lambda c: c.capacity)
        hosts, nic = divmod(group, fleet.nics)
        rail = f", NIC {nic} of each host" if fleet.nics > 1 else ""
        usual = float(found.blame.references[GROUP])
        yield FleetFinding(
            part=f"group:{names[hosts]}",
            kind="GROUP",
            direction=direction_of(ways, directed=fleet.directed),
            capacity=unit_value(fleet, found, worst.capacity),
            tests=sum(c.tests for c in culprits),
            evidence=f"its hosts are good among themselves, and reach other groups with at most "
            f"{shown(fleet, found, worst.capacity)}, {worst.capacity / usual:.0%} of what other "
            f"groups reach{rail}: a leaf switch, or its uplinks",
        )


def bad_links(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Return the links and spine switches that are blamed, if the routes are known."""
    if found.routes is None:
        return
    fabric_links = found.routes.fabric_links
    first = 2 * (found.parts.endpoints + found.parts.groups)
    links = fabric_links.count - 2 * found.parts.endpoints
    own: defaultdict[str, dict[str, Culprit]] = defaultdict(dict)
    for culprit in found.blame.blamed:
        place = culprit.part - first
        if place >= links:
            own[f"spine:{place - links}"]["both"] = culprit
        elif place >= 0:
            part, up = fabric_links.ends(place + 2 * found.parts.endpoints)
            own[part]["tx" if up else "rx"] = culprit
    for part, ways in own.items():
        worst = min(ways.values(), key=lambda c: c.capacity)
        share = worst.capacity / float(found.blame.references[LINK])
        yield FleetFinding(
            part=part,
            kind="LINK",
            direction=direction_of(ways),
            capacity=unit_value(fleet, found, worst.capacity),
            tests=sum(c.tests for c in ways.values()),
            evidence=f"{_place_words(part)} gives at most {share:.0%} of what the others do; the "
            "hosts at both ends are good by other ways",
        )


def _place_words(part: str) -> str:
    kind, _, numbers = part.partition(":")
    low, _, high = numbers.partition("-")
    return {
        "link": f"the link of leaf switch {low} to its switch {high} above",
        "corelink": f"the link of aggregation switch {low} to its core switch {high}",
    }.get(kind, f"whatever passes spine switch {low}")


def shared_fabric(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Compare pairs between groups alone and all at once: the fabric causes the difference."""
    table = found.table
    innocent = found.blame.explained_by < 0
    wide = table.between if fleet.grouped else np.ones_like(table.between)
    ratios = _at_once_ratios(found, wide & innocent)
    if not ratios.size:
        return
    everywhere = float(np.median(ratios))
    values = table.rates[wide & innocent & ~table.alone]
    if everywhere < CROWDED and values.size:
        share = float(np.median(values)) / float(found.blame.references[HOST])
        yield FleetFinding(
            part="fabric",
            kind="SHARED",
            capacity=unit_value(fleet, found, float(np.median(values))),
            tests=len(ratios),
            evidence=f"{len(ratios)} tests{' between groups' if fleet.grouped else ''} reach "
            f"{everywhere:.0%} of what they reach alone when all hosts send at once (median), all "
            f"such tests {share:.0%} of what a host can: oversubscribed, or routes that collide",
        )


def crowded_hosts(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Name the hosts that are slow only while others send, where it is not known which share links.

    By the tests at once they would be blamed; alone they are good.
    """
    seen = found.seen
    if fleet.grouped or found.routes is not None or seen.shared.all():
        return
    crowd = solve(seen._replace(paths=np.where(seen.shared[:, None], seen.paths, -1)))
    known = {c.part for c in (*found.blame.blamed, *found.blame.undecided)}
    slow = [c for c in crowd.blamed if c.part < 2 * found.parts.endpoints and c.part not in known]
    if not slow:
        return
    ends = found.parts.endpoints
    hosts = dict.fromkeys(c.part % ends // fleet.nics for c in sorted(slow, key=lambda c: c.part))
    names = ", ".join(f"host:{host}" for host in list(hosts)[:NAMED])
    more = f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else ""
    best = max(c.capacity for c in slow)
    yield FleetFinding(
        part="routes",
        kind="SHARED",
        capacity=unit_value(fleet, found, best),
        tests=sum(c.tests for c in slow),
        evidence=f"while all hosts send, tests of {names}{more} reach at most "
        f"{shown(fleet, found, best)}, {best / float(found.blame.references[HOST]):.0%} of what "
        "most hosts reach, with every partner; alone, they are good: routes that collide, or a "
        "leaf switch with fewer uplinks",
    )


def crowded_groups(fleet: Fleet, found: Diagnosed) -> Iterator[FleetFinding]:
    """Find groups whose traffic to others is slower than other groups', but only while all send."""
    table = found.table
    innocent = table.between & ~table.alone & (found.blame.explained_by < 0) & (table.rates > 0)
    innocent &= ~(table.limited & (found.parts.paths < 0).all(axis=1))
    blamed = {c.part for c in found.blame.blamed}
    names = np.unique(np.asarray(fleet.groups))
    if not innocent.any():
        return
    everywhere = float(np.mean(table.rates[innocent]))  # the sum of rates is what uplinks carry
    first, count = 2 * found.parts.endpoints, found.parts.groups
    for group in range(count):
        means: dict[str, float] = {}
        tests = 0
        for way, ends in (("tx", table.source), ("rx", table.target)):
            own = innocent & (table.groups[ends] == group)
            part = first + group + (count if way == "rx" else 0)
            if own.sum() >= MANY and part not in blamed:
                means[way] = float(np.mean(table.rates[own]))
                tests += int(own.sum())
        ways = {way for way, mean in means.items() if mean < WORSE * everywhere}
        if ways:
            worst = min(means.values())
            yield FleetFinding(
                part=f"group:{names[group // fleet.nics]}",
                kind="GROUP",
                direction=direction_of(ways),
                capacity=unit_value(fleet, found, worst),
                tests=tests,
                evidence=f"when all hosts send, its traffic with other groups reaches "
                f"{shown(fleet, found, worst)} (mean), that of all groups "
                f"{shown(fleet, found, everywhere)}; its hosts are good, and so is one pair alone: "
                "fewer uplinks, or all flows on one of them",
            )


def is_of_group(fleet: Fleet, host: FleetFinding, groups: Iterable[FleetFinding]) -> bool:
    """Tell whether a finding about a group explains one about a host of it.

    Returns:
        Whether the host is of one of them, and slow in no other direction.

    """
    part = f"group:{fleet.groups[int(host.part.removeprefix('host:'))]}"
    return any(one.part == part and one.direction in ("both", host.direction) for one in groups)


def _at_once_ratios(found: Diagnosed, wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the rate at once over the rate alone, for each direction tested in both ways."""
    table = found.table
    alone: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    crowd: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for at in np.flatnonzero(wanted & (table.rates > 0) & ~table.limited):
        key = (int(table.source[at]), int(table.target[at]))
        (alone if table.alone[at] else crowd)[key].append(float(table.rates[at]))
    both = [key for key in alone if key in crowd]
    ratios = [float(np.median(crowd[key]) / np.median(alone[key])) for key in both]
    return np.array(ratios)
