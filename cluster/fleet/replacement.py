"""Which hosts of a fleet are to be replaced, and whether the machines in their places are good."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from cluster.core.model.value import Value
from cluster.core.units import format_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from cluster.core.model.fleet import FleetFinding, FleetVerdict, PairTest

KINDS = ("BAD", "HUNG")  # of a host by itself: a new machine helps
PARTNERS = 3  # good hosts that a new machine is tested with
HOST = re.compile(r"\b(?:host|nic):(\d+)")
PAIR = re.compile(r"pair:(\d+)-(\d+)")


class NewHost(Value, frozen=True, kw_only=True):
    """What tests of a new machine with good hosts showed."""

    good: bool
    evidence: str


def hosts_at_fault(verdict: FleetVerdict) -> dict[int, FleetFinding]:
    """Return the hosts that are blamed by themselves, as BAD or HUNG, or for one of their NICs."""
    found: dict[int, FleetFinding] = {}
    for one in verdict.blamed:
        if one.kind in KINDS and (match := HOST.match(one.part)):
            found.setdefault(int(match[1]), one)
    return found


def pairs_to_test(
    verdict: FleetVerdict, new: Collection[int], hosts: int
) -> tuple[tuple[int, int], ...]:
    """Pair new hosts with good ones: first those of the same group, and those that nobody doubts.

    Returns:
        A new and a good host each; none if no host is good.

    """
    good = set(range(hosts)) - _suspects(verdict) - set(new)
    doubted = set(_doubted(verdict, hosts))
    groups = verdict.groups or (0,) * hosts

    def order(one: int, other: int) -> tuple[bool, bool, int]:
        return other in doubted, groups[other] != groups[one], (other - one) % hosts

    return tuple(
        (one, other)
        for one in sorted(new)
        for other in sorted(good, key=lambda other: order(one, other))[:PARTNERS]
    )


def _suspects(verdict: FleetVerdict) -> set[int]:
    """Return the hosts that are blamed, suspected or untested."""
    words = [*(one.part for one in verdict.findings), *verdict.undecided]
    return {int(number) for text in words for number in HOST.findall(text)}


def _doubted(verdict: FleetVerdict, hosts: int) -> Iterator[int]:
    """Return the hosts that part of a group or pair is blamed for."""
    for one in verdict.blamed:
        if match := PAIR.match(one.part):
            yield from (int(number) for number in match.groups())
        kind, _, number = one.part.partition(":")
        if kind == "group" and verdict.groups:
            yield from (host for host in range(hosts) if str(verdict.groups[host]) == number)


def judge_new_hosts(
    verdict: FleetVerdict, tests: Sequence[PairTest], new: Collection[int]
) -> dict[int, NewHost]:
    """Tell whether new hosts reach what most hosts reached.

    A host's capacity is the best value that it shows, as everywhere in a check.
    """
    return {host: _judge(verdict, tests, host) for host in new}


def _judge(verdict: FleetVerdict, tests: Sequence[PairTest], host: int) -> NewHost:
    own = [test for test in tests if host in (test.source, test.target)]
    values: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for test in own:
        values["tx" if test.source == host else "rx", test.nic].append(test.value or 0.0)
    shares = {end: max(_share(verdict, value) for value in all_) for end, all_ in values.items()}
    ways = {way for way, _ in shares}
    partners = sorted({test.source + test.target - host for test in own})
    where = f"in {len(own)} tests with {', '.join(map(str, partners))}"
    if not any(test.value for test in own) or ways != {"tx", "rx"}:
        why = next((test.reason for test in own if test.reason), "")
        return NewHost(good=False, evidence=f"nothing arrives {where}{why and ': ' + why}")
    good = min(shares.values()) >= 1 - verdict.tolerance
    worst = {way: min(s for (w, _), s in shares.items() if w == way) for way in ("tx", "rx")}
    return NewHost(good=good, evidence=f"{_words(verdict, worst)}, {where}")


def _share(verdict: FleetVerdict, value: float) -> float:
    """Return a value as a share of what most hosts reach; 1 or more is as good."""
    usual = verdict.reference or 0.0
    if not value or not usual:
        return 0.0
    return usual / value if verdict.metric == "latency" else value / usual


def _words(verdict: FleetVerdict, shares: Mapping[str, float]) -> str:
    unit = "s" if verdict.metric == "latency" else "B/s"
    usual = format_value(verdict.reference or 0.0, unit)
    return f"sends {shares['tx']:.0%} and receives {shares['rx']:.0%} of the usual {usual}"
