"""Which hosts of a fleet are to be replaced, and whether the machines in their places are good."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from cluster.core.model.network.fleet import FleetFinding, FleetVerdict, NewHost, PairTest

KINDS = ("BAD", "HUNG")  # of a host by itself: a new machine helps
PARTNERS = 3  # good hosts that a new machine is tested with


def hosts_at_fault(verdict: FleetVerdict) -> dict[int, FleetFinding]:
    """Return the hosts that are blamed by themselves, as BAD or HUNG, or for one of their NICs."""
    findings: dict[int, FleetFinding] = {}
    for finding in verdict.blamed:
        if finding.kind in KINDS and finding.place.kind in ("host", "nic"):
            findings.setdefault(finding.place.host, finding)
    return findings


def pairs_to_test(
    verdict: FleetVerdict, new: Collection[int], hosts: int
) -> tuple[tuple[int, int], ...]:
    """Pair new hosts with good ones: of the same group, and undoubted ones, first."""
    good = set(range(hosts)) - _suspects(verdict) - set(new)
    doubts = set(_doubtful_hosts(verdict, hosts))
    groups = verdict.groups or (0,) * hosts

    def order(new_host: int, other: int) -> tuple[bool, bool, int]:
        return other in doubts, groups[other] != groups[new_host], (other - new_host) % hosts

    return tuple(
        (new_host, other)
        for new_host in sorted(new)
        for other in sorted(good, key=lambda other: order(new_host, other))[:PARTNERS]
    )


def _suspects(verdict: FleetVerdict) -> set[int]:
    places = [finding.place for finding in verdict.findings]
    for suspect in verdict.suspects:
        places += [suspect.place, *(place for place, _ in suspect.twins)]
    hosts = {host for suspect in verdict.suspects for host in suspect.reason.hosts}
    return hosts | {place.host for place in places if place.kind in ("host", "nic")}


def _doubtful_hosts(verdict: FleetVerdict, hosts: int) -> Iterator[int]:
    """Return the hosts that part of a group or pair is blamed for."""
    for finding in verdict.blamed:
        if finding.place.kind == "pair":
            yield from (finding.place.host, finding.place.peer)
        if finding.place.kind == "group" and verdict.groups:
            yield from (h for h in range(hosts) if verdict.groups[h] == finding.place.number)


def judge_new_hosts(
    verdict: FleetVerdict, tests: Sequence[PairTest], new: Collection[int]
) -> dict[int, NewHost]:
    """Tell whether new hosts reach what most hosts reached.

    A host's capacity is the best value that it shows, as everywhere in a check.
    """
    return {host: _judge(verdict, tests, host) for host in new}


def _judge(verdict: FleetVerdict, tests: Sequence[PairTest], host: int) -> NewHost:
    host_tests = [test for test in tests if host in (test.source, test.target)]
    values: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for test in host_tests:
        values["tx" if test.source == host else "rx", test.nic].append(test.value or 0.0)
    shares = {end: max(_share(verdict, value) for value in all_) for end, all_ in values.items()}
    ways = {way for way, _ in shares}
    partners = sorted({test.source + test.target - host for test in host_tests})
    if not any(test.value for test in host_tests) or ways != {"tx", "rx"}:
        message = next((test.why for test in host_tests if test.why), "")
        return NewHost(good=False, tests=len(host_tests), partners=tuple(partners), message=message)
    worst = {way: min(s for (w, _), s in shares.items() if w == way) for way in ("tx", "rx")}
    return NewHost(
        good=min(shares.values()) >= 1 - verdict.tolerance,
        tests=len(host_tests),
        partners=tuple(partners),
        sent=worst["tx"],
        received=worst["rx"],
    )


def _share(verdict: FleetVerdict, value: float) -> float:
    """Return a value as a share of what most hosts reach; 1 or more is as good."""
    usual = verdict.reference or 0.0
    if not value or not usual:
        return 0.0
    return usual / value if verdict.metric == "latency" else value / usual
