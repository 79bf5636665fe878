"""What a check says of hosts, links, groups and the fabric, in words."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from cluster.core.model.hosts import Machine
from cluster.core.model.network.fleet import (
    CounterChange,
    Drift,
    Fleet,
    FleetFinding,
    FleetVerdict,
    NewHost,
    PairTest,
    Part,
    Reason,
    Suspect,
    Way,
)
from cluster.core.model.results.records import Status
from cluster.core.text.units import format_seconds, format_value
from cluster.fleet.diagnosis import BELIEVED
from cluster.fleet.evidence import Confirmation
from cluster.fleet.pair_table import believable
from cluster.fleet.rounds import StepKind, SurveyStep
from cluster.reports.words import devices

NAMED = 5  # parts, or hosts
NAMED_PAIRS = 4  # pairs, or hosts of a group, by their own names
FAULTS = ("HUNG", "BAD", "GROUP", "LINK", "UNSTABLE")
STEPS: dict[StepKind, str] = {
    "named": "the pairs that were named",
    "sample": "a sample alone",
    "suspects": "suspects among themselves",
    "chance": "what could be chance, alone",
    "varying": "hosts that may be slow at times",
    "again": "low pairs, at another time",
    "ports": "pairs of good hosts, by other ports",
    "repeats": "hosts that seem unstable, and others, at other times",
    "unproven": "hosts that never reached the usual rate, alone",
}
LOSSES = "tcp.retransmitted"
NAMED_CHANGES = 3  # counters
CHANGES = {
    LOSSES: "packets are lost: {own} of segments were sent again ({usual})",
    "tcp.receive_buffer": "the receiver's TCP buffer (tcp_rmem) limits it in {own} of the time "
    "({usual})",
    "tcp.send_buffer": "the sender's TCP buffer (tcp_wmem) limits it in {own} of the time "
    "({usual})",
    "cpu.steal": "other guests of its machine take {own} of the processor time ({usual})",
    "cpu.throttled": "its control group is throttled in {own} of the time ({usual}): cpu.max",
    "rate": "its low tests differ by {own}, without losses or a busy end: the rate of its link, "
    "such as its speed, a shaper or the switch port",
}
VERBS = {"tx": "sends", "rx": "receives"}


def step_words(step: SurveyStep) -> str:
    """Return what a step of a survey is for; rounds are numbered from 1."""
    if step.purpose == "round":
        return f"round {step.number + 1}"
    return STEPS.get(step.purpose, step.purpose)


def with_words(verdict: FleetVerdict, fleet: Fleet, tests: Sequence[PairTest]) -> FleetVerdict:
    """Complete a verdict with its parts, evidence and answer in words; `answer_line` begins it."""
    result = replace(
        verdict,
        blamed=tuple(_complete(finding, verdict, fleet) for finding in verdict.blamed),
        observations=tuple(_complete(finding, verdict, fleet) for finding in verdict.observations),
        undecided=tuple(suspect_words(finding, verdict, fleet) for finding in verdict.suspects),
        missing=tuple(_missing(fleet, tests)) if fleet.foreign else (),
    )
    return replace(result, answer=_answer(result, fleet))


def _complete(finding: FleetFinding, verdict: FleetVerdict, fleet: Fleet) -> FleetFinding:
    again = finding.step.line if finding.step else ""
    if fleet.foreign and finding.partners:  # there is no cluster on which a command could test them
        again = f"test {finding.name} again with three other hosts, one pair at a time"
    because = [f"; likely cause: {drift_words(cause)}" for cause in finding.causes]
    because += [f"; {change_words(change)}" for change in finding.counters[:NAMED_CHANGES]]
    return replace(
        finding,
        part=part_name(finding.place, fleet.devices),
        evidence="".join((_evidence(finding, verdict, fleet), *because)),
        confirm=again,
    )


def confirmation_words(again: Confirmation) -> str:
    partners = ", ".join(map(str, again.partners))
    return f"low in {again.low} of {again.tests} tests alone, with {partners}"


def change_words(change: CounterChange) -> str:
    kind, _, name = change.counter.partition(".")
    share, usual = f"{change.own:.1%}", f"at most {change.usual:.1%} in good tests"
    if kind == "queue":
        return f"its low tests pass queue {name}, with {share} of its bytes ({usual})"
    if change.counter in CHANGES:
        return CHANGES[change.counter].format(own=share, usual=usual)
    counts = f"+{change.own:.0f} in a low test, at most {change.usual:.0f} in good ones"
    return f"{kind}: {name} {counts}"


def drift_words(drift: Drift) -> str:
    hosts: dict[str, list[str]] = {}
    for host, value in zip(drift.hosts, drift.values, strict=True):
        hosts.setdefault(value, []).append(f"host:{host}")
    odd = (f"{_list(names, NAMED, ' and ')}: {value}" for value, names in hosts.items())
    return "; ".join((f"{drift.count} of {drift.of}: {drift.setting} {drift.usual}", *odd))


def unread_words(unread: Drift, names: Sequence[str]) -> str:
    silent = [names[host] for host in unread.hosts]
    verb = "does" if len(silent) == 1 else "do"
    return f"{unread.count} of {unread.of} read; {_list(silent, NAMED, ' and ')} {verb} not answer"


def part_name(part: Part, kind: str = "") -> str:
    """Name a part, such as `host:7`, `nic:7.3`, `link:3-5`, `group:2` or `gpu:3`."""
    if part.device:
        return devices.device_name(part, kind)
    match part.kind:
        case "host":
            return f"host:{part.host}"
        case "nic":
            return f"nic:{part.host}.{part.nic}"
        case "pair":
            return f"pair:{part.host}-{part.peer}"
        case "link" | "corelink":
            return f"{part.kind}:{part.number}-{part.upper}"
        case "group" | "spine":
            return f"{part.kind}:{part.number}"
        case _:
            return part.kind


def _evidence(finding: FleetFinding, verdict: FleetVerdict, fleet: Fleet) -> str:
    reason = finding.reason
    if fleet.devices:
        return devices.evidence(reason, fleet)
    match reason.code:
        case "lost":
            return f"it does not answer{' any more' if reason.of else ''}: {reason.message}"
        case "untried":
            return reason.message or "no round had a partner for it"
        case "busy":
            short = f"low in all of its {reason.of} tests, beside partners short of processor time"
            if reason.low:
                short = f"short of processor time in {reason.low} of its {reason.of} tests"
            return (
                f"{short}: low tests say nothing about its link then, and it is not judged. End "
                "other work there, and check again"
            )
        case "slow" | "silent":
            capacity = value(finding.capacity or 0.0, fleet.metric)
            return host_words(reason, finding.direction, capacity)
        case "low_pair":
            return _pair_evidence(reason)
        case "varying":
            message = f" ({reason.message})" if reason.message else ""
            has_losses = any(change.counter == LOSSES for change in finding.counters)
            varies = "" if has_losses else f": it comes and goes{message}"
            return f"low with {reason.low} of {reason.of} partners, good with the others{varies}"
        case _:
            return _fabric_evidence(finding, verdict, fleet)


def _hosts(numbers: Sequence[int]) -> str:
    """Write numbers of hosts, those that follow one another as a range."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and ends[-1][-1] == number - 1:
            ends[-1][1:] = [number]
        else:
            ends.append([number])
    ranges = ["-".join(map(str, dict.fromkeys(pair))) for pair in ends]
    return f"hosts {_list(ranges, NAMED, ' and ')}"


def _fabric_evidence(finding: FleetFinding, verdict: FleetVerdict, fleet: Fleet) -> str:
    reason = finding.reason
    share, capacity = f"{reason.share:.0%}", value(finding.capacity or 0.0, fleet.metric)
    match reason.code:
        case "slow_group":
            rail = f", NIC {reason.nic} of each host" if reason.nic >= 0 else ""
            reach = (
                f"reach other groups with at most {capacity}, {share} of what other groups reach"
            )
            if not finding.capacity:
                reach = "nothing arrives between them and other groups"
            cause = "a leaf switch, or its uplinks"
            return f"its hosts are good among themselves, and {reach}{rail}: {cause}"
        case "slow_link":
            return (
                f"{_link(finding.place)} gives at most {share} of what the others do; the hosts at "
                "both ends are good by other ways"
            )
        case "shared":
            between = " between groups" if fleet.has_groups else ""
            return (
                f"{reason.low} tests{between} reach {reason.best:.0%} of what they reach alone "
                f"when all hosts send at once (median), all such tests {share} of what a host can: "
                "oversubscribed, or routes that collide"
            )
        case "slow_at_once":
            hosts = _list([f"host:{host}" for host in reason.hosts], NAMED, " and ")
            return (
                f"while all hosts send, tests of {hosts} reach at most {capacity}, {share} of what "
                "most hosts reach, with every partner; alone, they are good: routes that collide, "
                "or a leaf switch with fewer uplinks"
            )
        case "slow_group_at_once":
            return (
                f"when all hosts send, its traffic with other groups reaches {capacity} (mean), "
                f"that of all groups {value(reason.usual, fleet.metric)}; no host of it is at "
                "fault: fewer uplinks, or all flows on one of them"
            )
        case "good_among_themselves":
            return (
                f"{_hosts(reason.hosts)} are good among themselves, and reach all others with at "
                f"most {capacity}, {share} of what most hosts reach: they share a part that is "
                "slow, such as a leaf switch or its uplinks, and no host is at fault. Which hosts "
                "share a switch is not known here: --groups FILE says it"
            )
        case "slow_everywhere":
            return (
                f"all its {len(reason.hosts)} hosts, {_hosts(reason.hosts)}, reach {share} of what "
                "most hosts reach, also among themselves: another kind of host or NIC?"
            )
        case "slow_between_groups":
            sizes = ", ".join(map(str, sorted(Counter(verdict.groups).values(), reverse=True)))
            hosts = _list([fleet.names[host] for host in reason.hosts], NAMED_PAIRS, " and ")
            return (
                f"the hosts fall into groups of {sizes} (one is {hosts}): pairs inside reach "
                f"{value(reason.usual, fleet.metric)}, pairs between them {capacity} (medians). "
                "The links between switches are shared, or routes collide: no host is at fault"
            )
        case _:
            return _low_pairs(reason, fleet)


def host_words(reason: Reason, direction: Way, capacity: str) -> str:
    if reason.failed == reason.low:
        return f"none of {reason.low} tests gave a value: {reason.message}"
    failures = f"; {reason.failed} gave nothing: {reason.message}" if reason.failed else ""
    return (
        f"{VERBS.get(direction, 'carries')} at most {capacity}, {reason.share:.0%} of what most "
        f"hosts reach, in {reason.low} of {reason.of} tests{failures}{_variation(reason)}"
    )


def _variation(reason: Reason) -> str:
    if not reason.best:
        return ""
    if reason.drifts:
        return f"; it drifts: {reason.best:.0%} at best, less from round to round"
    return f"; it comes and goes: {reason.best:.0%} at best, {reason.worst:.0%} of that at times"


def _pair_evidence(reason: Reason) -> str:
    hosts_text = "both hosts are good with others; between them"
    if reason.of > reason.low:
        message = f" ({reason.message})" if reason.message else ""
        problem = f"nothing arrives{message}" if reason.failed else "they are low"
        return (
            f"{hosts_text} {problem} in {reason.low} of {reason.of} tests alone, and good in the "
            "rest: one of several paths, such as an uplink or a spine switch, or a route that "
            "changes"
        )
    problem = f"nothing arrives: {reason.message}" if reason.failed else "alone, too, it is low"
    return f"{hosts_text} {problem}: a link, a route or a filter on the way, in {reason.low} tests"


def _link(part: Part) -> str:
    match part.kind:
        case "link":
            return f"the link of leaf switch {part.number} to its switch {part.upper} above"
        case "corelink":
            return f"the link of aggregation switch {part.number} to its core switch {part.upper}"
        case _:
            return f"whatever passes spine switch {part.number}"


def _low_pairs(reason: Reason, fleet: Fleet) -> str:
    pairs = [f"{fleet.names[a]} and {fleet.names[b]}" for a, b in reason.pairs[:NAMED_PAIRS]]
    rest = len(reason.pairs) - len(pairs)
    more = f", and {rest} more" if rest else ""
    return (
        f"{reason.low} of {reason.of} tests are low, and their hosts are good with others: "
        f"{'; '.join(pairs)}{more}. A link, routes that collide, or other work at the same time"
    )


def _missing(fleet: Fleet, tests: Sequence[PairTest]) -> Iterator[str]:
    for test in believable(tests):
        source, target = fleet.names[test.source], fleet.names[test.target]
        if test.value:
            continue
        if fleet.devices:
            yield f"{source if source == target else f'{source}-{target}'}: {test.why}"
        else:
            yield f"{source} and {target}: {test.why}"


def suspect_words(suspect: Suspect, verdict: FleetVerdict, fleet: Fleet) -> str:
    because = [f"; {change_words(change)}" for change in suspect.counters[:NAMED_CHANGES]]
    return f"{_suspicion(suspect, verdict, fleet)}{''.join(because)}"


def _suspicion(suspect: Suspect, verdict: FleetVerdict, fleet: Fleet) -> str:
    if fleet.devices:
        return devices.suspect(suspect, fleet)
    reason, name = suspect.reason, _end(suspect.place, suspect.direction, fleet)
    tests = "test" if reason.low == 1 else "tests"
    match reason.code:
        case "same_tests":
            rest = ", ".join(_end(place, way, fleet) for place, way in suspect.twins)
            return f"{name} or {rest}: the same tests speak against each of them"
        case "chance" if suspect.place.kind == "group":
            hosts = ", ".join(f"host:{host}" for host in reason.hosts)
            return f"{name} ({hosts}): its {reason.low} low {tests} to other groups could be chance"
        case "chance":
            return f"{name}: its {reason.low} low {tests} could be chance"
        case "in_no_group":
            return f"{name}: it is low with all others, and in no group"
        case "silent_flows":
            pairs = _list([f"{a} to {b}" for a, b in reason.pairs], NAMED_PAIRS, " and ")
            return f"{name}: nothing ever arrives from hosts {pairs}"
        case _:
            label = f"{part_name(suspect.place)} ({fleet.names[suspect.place.host]})"
            words = host_words(
                reason, suspect.direction, value(suspect.capacity or 0.0, verdict.metric)
            )
            return f"{label}: {words}: slow, or far away"


def _end(part: Part, way: Way, fleet: Fleet) -> str:
    """Name a part and its direction; a host of a log by its own name, too."""
    name = f"({fleet.names[part.host]})" if fleet.foreign and part.host >= 0 else ""
    return " ".join(filter(None, (part_name(part), name, way)))


def _answer(verdict: FleetVerdict, fleet: Fleet) -> str:
    """Answer in one line, without the word of the verdict."""
    reason, hosts = verdict.reason, len(fleet.names)
    if fleet.devices:
        return devices.answer(verdict, fleet, faults_named(verdict.blamed))
    usual = _usual(verdict, fleet)
    match reason.code:
        case "no_tests":
            return "there are no tests of pairs."
        case "no_values":
            detail = f": {reason.message}" if reason.message else ""
            return (
                f"none of {verdict.failed} tests gave a value{detail}. No host can be singled out; "
                "check what they share: a firewall, a route, an interface."
            )
        case "one_machine":
            return (
                f"the {hosts} hosts are this machine, and no network is between them; {usual}. "
                "Check hosts of a cluster, or of a lab: cluster up NAME --provider lab"
            )
        case "one_pair":
            return (
                "one pair has a value, and there is nothing to compare it with; test another host "
                "with both."
            )
        case "faults":
            faults = faults_named(verdict.blamed, by_name=fleet.foreign)
            rounds = "" if fleet.foreign else f", in {verdict.rounds} rounds of {hosts} hosts"
            return f"{faults}; {usual}{rounds}."
        case "two_ends":
            return (
                f"{hosts} hosts are too few to say which of two ends is slow; test one more. "
                f"{_capital(usual)}."
            )
        case "few_rounds":
            do = f"Type --rounds {reason.of}, or say which hosts share a switch: --groups FILE. "
            tests = f"of {verdict.rounds} rounds" if verdict.rounds else "their tests"
            return (
                f"not enough rounds. {reason.low} direction(s) of hosts or groups were low in all "
                f"{tests}, and so would good ones be by chance. "
                f"{do if reason.of else ''}{_capital(usual)}."
            )
        case "few_partners":
            return (
                f"{reason.low} host(s) are low in all their tests, and so could good ones be: test "
                f"them with more partners, one pair at a time; {usual}."
            )
        case "silent_flows":
            return (
                f"nothing ever arrives by {reason.low} of {reason.of} flows (a sender, a receiver "
                "and a port), and no host explains them: a dead switch, or a link, a route or a "
                f"filter between switches; {usual}."
            )
        case "unexplained" if fleet.foreign:
            return f"some pairs are low, and no host explains them; {usual}."
        case "unexplained":
            names = [_end(s.place, s.direction, fleet) for s in verdict.suspects]
            doubt = "low at times, and not tested again beside others"
            if all(suspect.place.kind == "pair" for suspect in verdict.suspects):
                doubt = "low in all of their tests alone, and their hosts are good with others"
            return f"{_list(names, NAMED, ' and ')}: {doubt}; {usual}."
        case "untested" if fleet.foreign:
            return f"{reason.low} host(s) have no value; {usual}."
        case "untested":
            rest = "; the others are good" if reason.low < hosts else ""
            return f"{reason.low} of {hosts} hosts could not be judged{rest}."
        case "slow_alone":
            return (
                f"no host differs from the others, but no pair of different groups reaches more "
                f"than {reason.share:.0%} of that alone: what is between the groups; {usual}."
            )
        case "below_limit":
            return f"no host differs from the others, but {usual}."
        case _:
            return _healthy(verdict, fleet, usual)


def _healthy(verdict: FleetVerdict, fleet: Fleet, usual: str) -> str:
    bottleneck = next(
        (observation for observation in verdict.observations if observation.kind == "SHARED"), None
    )
    if fleet.foreign:
        remark = " The fabric is shared: see below." if bottleneck else ""
        return f"no host differs from the others; {usual}.{remark}"
    fabric = f" The fabric is as built, and SHARED: {bottleneck.evidence}." if bottleneck else ""
    reason, hosts = verdict.reason, f"{len(fleet.names)} hosts"
    if reason.low:
        hosts = f"{reason.of - reason.low} of {hosts} are proven"
        fabric = f" {_capital(_hosts(reason.hosts))} reached that in no test.{fabric}"
    return f"{hosts} in {verdict.rounds} rounds, nobody is blamed; {usual}.{fabric}"


def _usual(verdict: FleetVerdict, fleet: Fleet) -> str:
    """Say what most hosts reach, and how that compares with their limit."""
    reference = verdict.reference or 0.0
    usual = f"most hosts reach {value(reference, verdict.metric)}"
    basis = f", in {verdict.tests} tests of {len(fleet.names)} hosts" if fleet.foreign else ""
    if fleet.limit is None or verdict.metric != "bandwidth":
        return f"{usual}{basis}"
    share = reference / fleet.limit
    if not fleet.foreign:
        return f"{usual}, {share:.0%} of their limit"
    if reference <= BELIEVED * fleet.limit:
        return f"{usual} ({share:.0%} of the limit){basis}"
    limit = format_value(fleet.limit, "B/s")
    return f"{usual} (more than {limit}, which cannot be their limit){basis}"


def answer_line(verdict: FleetVerdict, status: Status, reason: str) -> str:
    """Answer with the word of the verdict; a check that was cut off leaves the rest untested."""
    if status == "done":
        return f"{verdict.verdict}: {verdict.answer}"
    cause = f" ({reason.rstrip('.')})" if reason else ""
    cut = f"the check is {status}{cause} and has {verdict.rounds} round(s): the rest is untested"
    if verdict.verdict == "FAULTY":
        return f"FAULTY: {verdict.answer.rstrip('.')}; {cut}."
    word = "" if verdict.verdict == "UNDECIDED" else f"{verdict.verdict}: "
    return f"UNDECIDED: {cut}. So far: {word}{verdict.answer}"


def replacement_plan_words(
    bad: Sequence[tuple[Machine, FleetFinding]], instance: str | None, seconds: float | None
) -> tuple[str, ...]:
    """Return what a replacement would do; the hosts end by themselves after these seconds."""
    ends = f"; they end with the others, in {format_seconds(seconds)}" if seconds else ""
    return (
        *(
            f"replace host:{finding.place.host} ({machine.name}, {machine.id}): "
            f"{fault_label(finding)}, {finding.evidence}"
            for machine, finding in bad
        ),
        f"make {len(bad)} x {instance or 'new host'}, like the others{ends}",
        "test these alone, then end the bad",
    )


def fault_label(finding: FleetFinding) -> str:
    return f"{finding.kind} {finding.direction}".strip()


def new_host_words(host: NewHost, machine: str, verdict: FleetVerdict) -> str:
    """Return what tests of a new machine showed."""
    subject = "it" if host.good else f"its new machine {machine} is bad, too, and was ended:"
    tests = f"in {host.tests} tests with {', '.join(map(str, host.partners))}"
    if host.sent is None or host.received is None:
        return f"{subject} nothing arrives {tests}{host.message and ': ' + host.message}"
    usual = format_value(verdict.reference or 0.0, "s" if verdict.metric == "latency" else "B/s")
    rates = f"sends {host.sent:.0%} and receives {host.received:.0%} of the usual {usual}"
    return f"{subject} {rates}, {tests}"


def faults_named(findings: Sequence[FleetFinding], *, by_name: bool = False) -> str:
    """Name faults: `BAD host:7 rx, LINK link:3-5 both`; `by_name` adds names of hosts."""
    words = [
        (
            finding.kind,
            # of a group that nobody named, the number says nothing
            _hosts(finding.reason.hosts)
            if finding.reason.code == "good_among_themselves"
            else finding.part,
            f"({finding.name})" if by_name and finding.name else "",
            finding.direction,
        )
        for finding in findings
        if finding.kind in FAULTS
    ]
    return _list([" ".join(filter(None, of_one)) for of_one in words], NAMED, " and ")


def value(number: float, metric: str) -> str:
    return format_value(number, "B/s" if metric == "bandwidth" else "s")


def _list(names: Sequence[str], count: int, before: str) -> str:
    more = f"{before}{len(names) - count} more" if len(names) > count else ""
    return f"{', '.join(names[:count])}{more}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
