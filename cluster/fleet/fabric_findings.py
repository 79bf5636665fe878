"""Findings about groups, links and the fabric as a whole."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from cluster.core.model.fleet import FleetFinding
from cluster.fleet.blame import GROUP, HOST, LINK, MANY, solve
from cluster.fleet.pair_table import CROWDED, direction_of, shown, unit_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from cluster.core.model.fleet import Fleet
    from cluster.fleet.blame import Culprit
    from cluster.fleet.pair_table import Diagnosed

NAMED = 5  # hosts of a finding
WORSE = 0.55  # of what other groups reach at the same time: a group below this is a finding


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
