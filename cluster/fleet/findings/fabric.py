"""Findings about links, spine switches and the fabric as a whole."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from cluster.core.model.network.fleet import FleetFinding, Part, Reason, Suspect
from cluster.fleet.pair_table import CROWDED, Diagnosed, Flags, Values, direction_of, unit_value
from cluster.fleet.solver import GOOD, LINK, MANY, Culprit, solve

SILENT_NAMED = 20  # pairs of silent flows that are listed
AGAIN = 2  # times at which a flow is silent that never carries anything


def bad_links(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Return the links and spine switches that are blamed, if the routes are known."""
    if solution.routes is None:
        return
    fabric_links = solution.routes.fabric_links
    first = 2 * (solution.parts.endpoints + solution.parts.groups)
    links = fabric_links.count - 2 * solution.parts.endpoints
    culprits: defaultdict[Part, dict[str, Culprit]] = defaultdict(dict)
    for culprit in solution.blame.culprits:
        index = culprit.part - first
        if index >= links:
            culprits[Part(kind="spine", number=index - links)]["both"] = culprit
        elif index >= 0:
            place, up = fabric_links.ends(index + 2 * solution.parts.endpoints)
            culprits[place]["tx" if up else "rx"] = culprit
    for place, ways in culprits.items():
        worst = min(ways.values(), key=lambda c: c.capacity)
        share = worst.capacity / float(solution.blame.references[LINK])
        yield FleetFinding(
            place=place,
            kind="LINK",
            direction=direction_of(ways),
            capacity=unit_value(solution, worst.capacity),
            tests=sum(c.tests for c in ways.values()),
            reason=Reason(code="slow_link", share=share),
        )


def shared_fabric(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Compare pairs between groups alone and all at once: the fabric causes the difference."""
    table = solution.table
    innocent = solution.blame.explained_by < 0
    wide = table.between if solution.fleet.has_groups else np.ones_like(table.between)
    ratios = _at_once_ratios(solution, wide & innocent)
    if not ratios.size:
        return
    everywhere = float(np.median(ratios))
    values = table.rates[wide & innocent & ~table.alone]
    if everywhere < CROWDED and values.size:
        share = float(np.median(values)) / solution.reference
        yield FleetFinding(
            place=Part(kind="fabric"),
            kind="SHARED",
            capacity=unit_value(solution, float(np.median(values))),
            tests=len(ratios),
            reason=Reason(code="shared", low=len(ratios), best=everywhere, share=share),
        )


def _at_once_ratios(solution: Diagnosed, mask: Flags) -> Values:
    """Return the rate at once over the rate alone, for each direction tested in both ways."""
    table = solution.table
    alone: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    crowd: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for index in np.flatnonzero(mask & (table.rates > 0) & ~table.is_limited):
        key = (int(table.source[index]), int(table.target[index]))
        (alone if table.alone[index] else crowd)[key].append(float(table.rates[index]))
    pairs = [key for key in alone if key in crowd]
    ratios = [float(np.median(crowd[key]) / np.median(alone[key])) for key in pairs]
    return np.array(ratios)


def crowded_hosts(solution: Diagnosed) -> Iterator[FleetFinding]:
    """Name the hosts that are slow only while others send, where it is not known which share links.

    By the tests at once they would be blamed; alone they are good.
    """
    tests = solution.tests
    if solution.fleet.has_groups or solution.routes is not None or tests.is_shared.all():
        return
    crowd = solve(tests._replace(paths=np.where(tests.is_shared[:, None], tests.paths, -1)))
    suspects = {c.part for c in solution.suspects}
    slow = [c for c in crowd.culprits if solution.is_host(c.part) and c.part not in suspects]
    if not slow:
        return
    hosts = dict.fromkeys(solution.host(part) for part in sorted(c.part for c in slow))
    best = max(c.capacity for c in slow)
    yield FleetFinding(
        place=Part(kind="routes"),
        kind="SHARED",
        capacity=unit_value(solution, best),
        tests=sum(c.tests for c in slow),
        reason=Reason(code="slow_at_once", share=best / solution.reference, hosts=tuple(hosts)),
    )


def silent_flows(solution: Diagnosed, findings: Iterable[FleetFinding]) -> Iterator[Suspect]:
    """Return the fabric, if nothing ever arrives by some flows, and no part is blamed for it.

    A flow is what fixed routes depend on: a sender, a receiver, their NICs and a port. Those that
    were silent once are pairs that could be so by chance.
    """
    table = solution.table
    links = {frozenset((f.place.host, f.place.peer)) for f in findings if f.place.kind == "pair"}
    flows = [(test.source, test.target, test.nic, test.port) for test in table.tests]
    open_ = (table.rates <= 0) & (solution.blame.explained_by < 0)
    silent = {flows[index] for index in np.flatnonzero(open_)}
    silent -= {flows[index] for index in np.flatnonzero(table.rates > 0)}
    silent = {flow for flow in silent if frozenset(flow[:2]) not in links}
    rounds = Counter(
        flow for flow, _ in {(flows[i], table.tests[i].round) for i in np.flatnonzero(open_)}
    )
    once = {flow for flow in silent if rounds[flow] < AGAIN}
    if silent == once:
        for source, target, *_ in sorted(once)[:SILENT_NAMED]:
            place = Part(kind="pair", host=source, peer=target)
            yield Suspect(place=place, direction="tx", reason=Reason(code="chance", low=1))
    else:
        silent -= once
        pairs = tuple(dict.fromkeys((source, target) for source, target, *_ in sorted(silent)))
        reason = Reason(
            code="silent_flows", low=len(silent), of=len(set(flows)), pairs=pairs[:SILENT_NAMED]
        )
        yield Suspect(place=Part(kind="fabric"), reason=reason)


def alone_between(solution: Diagnosed) -> float:
    """Return what the best pairs of different groups reach alone, of what a host does.

    However few uplinks there are, a pair alone has as much of them as it can use: 1 where others
    may have taken some, as most pairs reach less than the best ones.
    """
    table, fleet = solution.table, solution.fleet
    rate = np.sort(table.rates[table.between & table.alone & (solution.blame.explained_by < 0)])
    is_known = fleet.has_groups and fleet.metric == "bandwidth" and rate.size >= MANY
    if not is_known or np.median(rate) < GOOD * rate[-2]:
        return 1.0
    return float(rate[-2] / solution.reference)
