"""The verdict on a fleet: the parts that are blamed, and why."""

import math
from collections.abc import Collection, Iterable, Sequence

from cluster.core.model.network.fleet import (
    FindingKind,
    Fleet,
    FleetFinding,
    FleetVerdict,
    FleetWord,
    PairTest,
    Reason,
    Suspect,
)
from cluster.fleet import pair_table
from cluster.fleet.findings.fabric import (
    alone_between,
    bad_links,
    crowded_hosts,
    shared_fabric,
    silent_flows,
)
from cluster.fleet.findings.groups import (
    LowGroup,
    bad_groups,
    crowded_groups,
    doubtful_groups,
    is_across,
    is_of_group,
    low_groups,
    slow_groups,
    undecided_groups,
)
from cluster.fleet.findings.hosts import (
    bad_hosts,
    short_hosts,
    undecided_hosts,
    unproven_hosts,
    untested_hosts,
)
from cluster.fleet.findings.instability import (
    doubtful_hosts,
    halved_hosts,
    unrepeated_hosts,
    unstable_hosts,
)
from cluster.fleet.findings.pairs import bad_pairs, stubborn_pairs
from cluster.fleet.simulation import FleetSimulator
from cluster.fleet.solver import rounds_needed

USUAL = 0.8  # of the limit: what healthy hosts reach
BELIEVED = 1.25  # of a limit: more says that it is none
ORDER = ("HUNG", "BAD", "GROUP", "LINK", "UNSTABLE", "SHARED", "UNTESTED")
FAULTS: tuple[FindingKind, ...] = ("HUNG", "BAD", "GROUP", "LINK", "UNSTABLE")


def diagnose(
    fleet: Fleet, tests: Sequence[PairTest], routes: FleetSimulator | None = None
) -> FleetVerdict:
    tests = pair_table.believable(tests)
    first_alone = min((test.round for test in tests if test.alone), default=math.inf)
    rounds = len({test.round for test in tests if not test.alone and test.round < first_alone})
    table = pair_table.pair_table(fleet, tests)
    gaps = tuple(untested_hosts(fleet, tests))
    if not table.tests or not (table.rates > 0).any():
        return no_values(fleet, tests, rounds, gaps)
    solution = pair_table.solve_table(table, routes if fleet.metric == "bandwidth" else None)
    low = tuple(low_groups(solution))
    findings = in_order([*_findings(solution, low), *gaps])
    faults, observations = by_fault(findings)
    suspects = _suspects(solution, findings, low)
    reference = pair_table.unit_value(solution, solution.reference)
    between = alone_between(solution)
    word = _word(fleet, findings, suspects, reference, between)
    reason = _reason(word, findings, suspects, solution)
    if word == "LOW" and between < USUAL:
        reason = Reason(code="slow_alone", share=between)
    if word == "UNDECIDED":
        suspects += tuple(undecided_groups(solution))
    return FleetVerdict(
        verdict=word,
        rounds=rounds,
        blamed=faults,
        observations=observations,
        metric=fleet.metric,
        tests=int((table.rates > 0).sum()),
        failed=sum(1 for test in tests if not test.value),
        limited=int((table.is_limited & (table.rates > 0)).sum()),
        unproven=unproven_hosts(solution),
        reference=reference if math.isfinite(solution.reference) else None,
        best=float(table.rates.max()),
        limit=fleet.limit,
        tolerance=float(solution.blame.tolerance),
        groups=fleet.groups if fleet.has_groups else (),
        reason=reason,
        suspects=suspects,
    )


def _suspects(
    solution: pair_table.Diagnosed, findings: Sequence[FleetFinding], low: Sequence[LowGroup]
) -> tuple[Suspect, ...]:
    """Return each host in doubt once, and none of a slow group."""
    slow = {host for f in findings if f.kind == "GROUP" for host in f.reason.hosts}
    doubts = (undecided_hosts, unrepeated_hosts, halved_hosts)
    suspects = (suspect for doubt in doubts for suspect in doubt(solution))
    by_place = {s.place: s for s in (*suspects, *doubtful_groups(solution, low))}
    in_doubt = (s for s in by_place.values() if s.place.host not in slow)
    pairs = stubborn_pairs(solution, doubtful_hosts(solution), findings)
    return (*in_doubt, *silent_flows(solution, findings), *pairs)


def _findings(solution: pair_table.Diagnosed, low: Sequence[LowGroup]) -> list[FleetFinding]:
    """Return what the tests that were tried show; of a slow group, not each host once more."""
    slow = tuple(slow_groups(solution))
    groups = (*slow, *bad_groups(solution), *crowded_groups(solution, low))
    unstable = [
        host for host in unstable_hosts(solution) if not is_of_group(solution.fleet, host, groups)
    ]
    pairs = bad_pairs(solution, doubtful_hosts(solution))
    return [
        *groups,
        *bad_hosts(solution, slow),
        *bad_links(solution),
        *unstable,
        *(pair for pair in pairs if not is_across(solution.fleet, pair, groups)),
        *shared_fabric(solution),
        *crowded_hosts(solution),
        *short_hosts(solution),
    ]


def in_order(findings: Iterable[FleetFinding]) -> list[FleetFinding]:
    """Sort findings, the worst first, and leave only the worst of each part."""
    ranking = sorted(findings, key=lambda b: ORDER.index(b.kind))
    return list({b.place: b for b in reversed(ranking)}.values())[::-1]


def by_fault(
    findings: Iterable[FleetFinding], faults: Collection[FindingKind] = FAULTS
) -> tuple[tuple[FleetFinding, ...], tuple[FleetFinding, ...]]:
    """Return the findings that are faults of their parts, and the others."""
    all_findings = tuple(findings)
    return (
        tuple(finding for finding in all_findings if finding.kind in faults),
        tuple(finding for finding in all_findings if finding.kind not in faults),
    )


def no_values(
    fleet: Fleet, tests: Sequence[PairTest], rounds: int, gaps: tuple[FleetFinding, ...]
) -> FleetVerdict:
    faults, observations = by_fault(gaps)
    if 2 * len(faults) > len(fleet.names):  # what they share may be the cause, also what tests them
        faults, observations = (), tuple(gaps)
    message = pair_table.most_common_reason(tests)
    return FleetVerdict(
        verdict="UNDECIDED",
        rounds=rounds,
        blamed=faults,
        observations=observations,
        metric=fleet.metric,
        failed=len(tests),
        limit=fleet.limit,
        reason=Reason(code="no_values" if tests else "no_tests", message=message),
    )


def _word(
    fleet: Fleet,
    findings: Sequence[FleetFinding],
    suspects: Sequence[Suspect],
    reference: float,
    between: float,
) -> FleetWord:
    if any(b.kind in FAULTS for b in findings):
        return "FAULTY"
    if suspects or any(b.kind == "UNTESTED" for b in findings):
        return "UNDECIDED"
    limit = fleet.limit if fleet.metric == "bandwidth" else None
    return "LOW" if between < USUAL or (limit and reference < USUAL * limit) else "HEALTHY"


def _reason(
    word: FleetWord,
    findings: Sequence[FleetFinding],
    suspects: Sequence[Suspect],
    solution: pair_table.Diagnosed,
) -> Reason:
    """Return why the verdict is this, and what is missing for another one."""
    doubts = solution.blame.doubts
    if word == "FAULTY":
        return Reason(code="faults")
    silent = next((s.reason for s in suspects if s.reason.code == "silent_flows"), None)
    if silent or (word == "UNDECIDED" and not doubts):
        gaps = sum(1 for finding in findings if finding.kind == "UNTESTED")
        return silent or Reason(code="untested" if gaps else "unexplained", low=gaps)
    if word == "UNDECIDED":
        if all(culprit.twins for culprit in doubts):
            return Reason(code="two_ends")
        rounds = rounds_needed(solution.blame, solution.tests)
        return Reason(code="few_rounds", low=len(doubts), of=rounds)
    if word == "LOW":
        return Reason(code="below_limit")
    unproven = unproven_hosts(solution)
    return Reason(code="alike", low=len(unproven), of=len(solution.fleet.names), hosts=unproven)
