"""Whether a verdict on a fleet lets a job start: proven, bad, or undecided.

A fault counts only if it was seen again at another time: hosts with fresh partners, groups with
others, low pairs. What was not seen proves nothing: without a limit, hosts that are all slow would
look healthy.
"""

from cluster.core.model.network.fleet import FleetFinding, FleetVerdict, ReasonCode
from cluster.core.model.network.gate import Gate, GateCode, GateWord
from cluster.fleet.diagnosis import BELIEVED, USUAL
from cluster.fleet.evidence import blamed_hosts

FALSE_ALARMS = 0.002  # of healthy fleets, at most; docs/explanation/gate.md says how often it was
LIMITED = 0.5  # of the tests: from this on, processors limit what most hosts reach, and no link
CERTAIN: tuple[ReasonCode, ...] = ("lost", "slow_link")  # without a test at another time
OPEN: dict[ReasonCode, GateCode] = {
    "few_rounds": "few_rounds",
    "two_ends": "too_few",
    "unexplained": "unconfirmed",
    "silent_flows": "silent_flows",
    "no_values": "no_values",
    "no_tests": "no_values",
}


def decide(verdict: FleetVerdict, hosts: int, skip: tuple[int, ...] = ()) -> Gate:
    """Return the answer of a gate to a verdict; its words, times and next step are added later.

    A good test stays good, so what a check that was cut off has seen counts as well. `skip` are
    the hosts that were not to be tested.
    """
    bad = tuple(filter(is_certain, verdict.blamed))
    gaps = [
        finding
        for finding in verdict.observations
        if finding.kind == "UNTESTED" and finding.place.host not in skip
    ]
    parts = [f for f in verdict.blamed if f.place.kind in ("host", "nic", "group")]
    culprits = {host for finding in parts for host in blamed_hosts(verdict, finding)}
    candidates = culprits.union(verdict.unproven if verdict.tests else range(hosts))
    unproven = tuple(sorted(candidates.difference(skip)))
    word, code = _word(verdict, bad, unproven, is_untested=len(gaps) + len(skip) == hosts)
    return Gate(
        verdict=word,
        code=code,
        hosts=hosts,
        proven=hosts - len(unproven) - len(skip),
        unproven=unproven,
        skipped=skip,
        bad=bad,
        suspected=(*(finding for finding in verdict.blamed if finding not in bad), *gaps),
        doubtful=tuple(suspect.place for suspect in verdict.suspects),
        reference=verdict.reference,
        limit=verdict.limit,
        share=USUAL,
        false_alarms=FALSE_ALARMS,
        run=verdict.run,
        simulated=verdict.simulated,
    )


def is_certain(finding: FleetFinding) -> bool:
    """Tell whether a fault was seen at another time, too."""
    always = finding.holds and finding.kind != "UNSTABLE"
    return always or finding.reason.code in CERTAIN


def _word(
    verdict: FleetVerdict,
    bad: tuple[FleetFinding, ...],
    unproven: tuple[int, ...],
    *,
    is_untested: bool,
) -> tuple[GateWord, GateCode]:
    reference, limit = verdict.reference, verdict.limit
    is_low = bool(reference and limit and reference < USUAL * limit)
    has_limit = bool(limit and not (reference and reference > BELIEVED * limit))
    by_link = verdict.limited < LIMITED * verdict.tests
    # then flows of others may slow the rest
    has_fast = bool(limit and verdict.best >= USUAL * limit)
    answers: tuple[tuple[bool, GateWord, GateCode], ...] = (
        (bool(bad), "BAD", "faults"),
        (verdict.reason.code == "one_machine", "UNDECIDED", "no_network"),
        (not verdict.tests and is_untested, "UNDECIDED", "no_time"),
        (not verdict.tests or reference is None, "UNDECIDED", "no_values"),
        (bool(verdict.blamed), "UNDECIDED", "unconfirmed"),
        (not has_limit, "UNDECIDED", "no_limit"),
        (is_low and not by_link, "UNDECIDED", "processor"),
        (is_low and has_fast, "UNDECIDED", "few_rounds"),
        (is_low, "BAD", "below_limit"),
        (verdict.reason.code == "slow_alone", "BAD", "slow_alone"),
        (verdict.reason.code in OPEN, "UNDECIDED", OPEN.get(verdict.reason.code, "unproven")),
        (bool(verdict.suspects), "UNDECIDED", "unconfirmed"),
        (bool(unproven), "UNDECIDED", "unproven"),
        (True, "PROVEN", "proven"),
    )
    return next((word, code) for holds, word, code in answers if holds)
