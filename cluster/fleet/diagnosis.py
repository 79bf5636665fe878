"""The verdict on a fleet in words: the parts that are blamed, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.fleet import FleetVerdict
from cluster.core.units import format_value
from cluster.fleet.findings import (
    bad_groups,
    bad_hosts,
    bad_links,
    bad_pairs,
    crowded_groups,
    crowded_hosts,
    is_of_group,
    shared_fabric,
    short_hosts,
    undecided_groups,
    undecided_hosts,
    unstable_hosts,
    untested_hosts,
)
from cluster.fleet.pair_table import (
    believable,
    diagnosed,
    most_common_reason,
    pair_table,
    unit_value,
)
from cluster.fleet.solver import HOST, rounds_needed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cluster.core.model.fleet import FindingKind, Fleet, FleetFinding, FleetWord, PairTest
    from cluster.fleet.pair_table import Diagnosed
    from cluster.fleet.simulation import FleetSimulator

USUAL = 0.8  # of the limit: what healthy hosts reach
ORDER = ("HUNG", "BAD", "GROUP", "LINK", "UNSTABLE", "SHARED", "UNTESTED")
FAULTS: tuple[FindingKind, ...] = ("HUNG", "BAD", "GROUP", "LINK", "UNSTABLE")
MOST_NAMED = 5  # parts in the answer


def diagnose(
    fleet: Fleet, tests: Sequence[PairTest], routes: FleetSimulator | None = None
) -> FleetVerdict:
    """Diagnose a fleet."""
    tests = believable(tests)
    rounds = len({test.round for test in tests if not test.alone})
    table = pair_table(fleet, tests)
    untested = tuple(untested_hosts(fleet, tests))
    if not table.tests or not (table.rates > 0).any():
        return no_values(fleet, tests, rounds, untested)
    found = diagnosed(table, routes if fleet.metric == "bandwidth" else None)
    findings = in_order([*_findings(fleet, found), *untested])
    blamed, observations = by_fault(findings)
    undecided = tuple(undecided_hosts(fleet, found))
    reference = unit_value(fleet, found, float(found.blame.references[HOST]))
    word = _word(fleet, findings, undecided, reference)
    if word == "UNDECIDED":
        undecided += tuple(undecided_groups(fleet, found))
    return FleetVerdict(
        verdict=word,
        rounds=rounds,
        blamed=blamed,
        observations=observations,
        undecided=undecided,
        answer=_answer(fleet, word, findings, found, rounds, reference),
        metric=fleet.metric,
        tests=int((table.rates > 0).sum()),
        failed=sum(1 for test in tests if not test.value),
        reference=reference,
        limit=fleet.limit,
        tolerance=float(found.blame.tolerance),
        groups=fleet.groups if fleet.grouped else (),
    )


def _findings(fleet: Fleet, found: Diagnosed) -> list[FleetFinding]:
    """Return what the tests that were tried show; of a slow group, not each host once more."""
    crowded = tuple(crowded_groups(fleet, found))
    unstable = [one for one in unstable_hosts(fleet, found) if not is_of_group(fleet, one, crowded)]
    return [
        *bad_hosts(fleet, found),
        *bad_groups(fleet, found),
        *bad_links(fleet, found),
        *unstable,
        *bad_pairs(found, {one.part for one in unstable}),
        *shared_fabric(fleet, found),
        *crowded,
        *crowded_hosts(fleet, found),
        *short_hosts(fleet, found),
    ]


def in_order(findings: Iterable[FleetFinding]) -> list[FleetFinding]:
    """Sort findings, the worst first, and leave only the worst of each part."""
    ranked = sorted(findings, key=lambda b: ORDER.index(b.kind))
    return list({b.part: b for b in reversed(ranked)}.values())[::-1]


def by_fault(
    findings: Iterable[FleetFinding], faults: Collection[FindingKind] = FAULTS
) -> tuple[tuple[FleetFinding, ...], tuple[FleetFinding, ...]]:
    """Return the findings that are faults of their parts, and the others."""
    known = tuple(findings)
    return (
        tuple(one for one in known if one.kind in faults),
        tuple(one for one in known if one.kind not in faults),
    )


def no_values(
    fleet: Fleet, tests: Sequence[PairTest], rounds: int, untested: tuple[FleetFinding, ...]
) -> FleetVerdict:
    """Say that no pair gave a value."""
    reason = most_common_reason(tests)
    blamed, observations = by_fault(untested)
    answer = (
        f"UNDECIDED: none of {len(tests)} tests gave a value{reason and ': ' + reason}. No host "
        "can be singled out; check what they share: a firewall, a route, an interface."
        if tests
        else "UNDECIDED: there are no tests of pairs."
    )
    return FleetVerdict(
        verdict="UNDECIDED",
        rounds=rounds,
        blamed=blamed,
        observations=observations,
        answer=answer,
        metric=fleet.metric,
        failed=len(tests),
        limit=fleet.limit,
    )


def _word(
    fleet: Fleet, findings: Sequence[FleetFinding], undecided: Sequence[str], reference: float
) -> FleetWord:
    if any(b.kind in FAULTS for b in findings):
        return "FAULTY"
    if undecided or any(b.kind == "UNTESTED" for b in findings):
        return "UNDECIDED"
    if fleet.limit is not None and fleet.metric == "bandwidth" and reference < USUAL * fleet.limit:
        return "LOW"
    return "HEALTHY"


def _answer(
    fleet: Fleet,
    word: FleetWord,
    findings: Sequence[FleetFinding],
    found: Diagnosed,
    rounds: int,
    reference: float,
) -> str:
    """Return the answer in one line."""
    unit = "B/s" if fleet.metric == "bandwidth" else "s"
    usual = f"most hosts reach {format_value(reference, unit)}"
    if fleet.limit is not None and fleet.metric == "bandwidth":
        usual += f", {reference / fleet.limit:.0%} of their limit"
    hosts = len(fleet.names)
    if word == "FAULTY":
        return f"FAULTY: {faults_named(findings)}; {usual}, in {rounds} rounds of {hosts} hosts."
    if word == "UNDECIDED" and found.blame.undecided:
        return f"UNDECIDED: {_too_little(found, rounds, hosts)} {usual[0].upper()}{usual[1:]}."
    if word == "UNDECIDED":
        left = [b.part for b in findings if b.kind == "UNTESTED"]
        return f"UNDECIDED: {len(left)} of {hosts} hosts could not be judged; the others are good."
    if word == "LOW":
        return f"LOW: no host differs from the others, but {usual}."
    shared = next((f" SHARED: {b.evidence}." for b in findings if b.kind == "SHARED"), "")
    return f"HEALTHY: {hosts} hosts in {rounds} rounds, nobody is blamed; {usual}.{shared}"


def faults_named(findings: Sequence[FleetFinding], *, by_name: bool = False) -> str:
    """Name the faults among findings, such as `BAD host:7 rx, LINK link:3-5 both`.

    Args:
        by_name: give the names of hosts, too: in logs of other tools, their numbers are ours.

    """
    faults = [one for one in findings if one.kind in FAULTS]
    words = [
        (one.kind, one.part, f"({one.name})" if by_name and one.name else "", one.direction)
        for one in faults[:MOST_NAMED]
    ]
    named = ", ".join(" ".join(filter(None, of_one)) for of_one in words)
    return f"{named} and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else named


def _too_little(found: Diagnosed, rounds: int, hosts: int) -> str:
    """Say what is missing for a verdict."""
    undecided = found.blame.undecided
    if all(culprit.twins for culprit in undecided):
        return f"{hosts} hosts are too few to say which of two ends is slow; test one more."
    needed = rounds_needed(found.blame, found.seen)
    do = f"Type --rounds {needed}, or say which hosts share a switch: --groups FILE."
    return (
        f"not enough rounds. {len(undecided)} direction(s) of hosts or groups were low in all of "
        f"{rounds} rounds, and so would good ones be by chance. {do if needed else ''}"
    ).strip()
