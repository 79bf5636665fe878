"""What a gate says, in one line that a prolog may write into a log."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cluster.core.model.network.gate import Gate, GateCode
from cluster.core.text.units import format_seconds, format_value
from cluster.reports.words.fleet import faults_named, part_name

NAMED = 4  # hosts
UNDECIDED: dict[GateCode, str] = {
    "few_rounds": "some hosts were low in all tests so far, and so would good ones be by chance",
    "too_few": "two hosts or more are needed, and a third to say which of two is slow",
    "no_values": "no test gave a value: a firewall, a route or an interface that all share",
    "no_network": "hosts are on one machine, and no network is between them",
    "silent_flows": "nothing ever arrives by some flows, and no host explains them: a dead switch, "
    "or a link, a route or a filter between switches",
    "no_time": "the time was too short for a test",
}

EVENTS = {  # what gates around the jobs of a scheduler write into its log
    "held": "the job is held; to let it try again: scontrol release {}",
    "not_held": "the job is not held: {}",
    "not_drained": "{} not drained: {}",
    "no_pair": "UNDECIDED: {} node(s) that no other job uses are no pair",
    "failed": "UNDECIDED: {}",
    "answer": "{}",
    "remains": "its nodes were not left in the time; type: cluster down gate-{}",
    "too_many": "--at-most: none is drained; {} of {} nodes are, and {} would be",
    "drained": "drained: {}",
    "undrained": "Undrained: {}",
    "late_nodes": "its nodes were not ready in time",
    "late_pods": "{} of {} pods were there within {}",
    "no_answer": "no verdict came from {}",
}


def event_words(event: str, *values: object) -> str:
    return EVENTS[event].format(*values)


def busy_words(jobs: Mapping[str, str]) -> str:
    """Say what runs on hosts, by their names: what runs on several is said once."""
    hosts: dict[str, list[str]] = {}
    for host, job in jobs.items():
        hosts.setdefault(job, []).append(host)
    lines = [f"{_first(names)}: {job}" for job, names in hosts.items()]
    return _first(lines, "; ")


def _first(words: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(words) - NAMED} more" if words[NAMED:] else ""
    return f"{between.join(words[:NAMED])}{more}"


def with_words(gate: Gate, name: str) -> Gate:
    """Add the answer in one line: the verdict, its evidence, and what to type."""
    do = f" Type: {gate.step.line}" if gate.step else ""
    line = f"{gate.verdict}: {name}: {_why(gate)}.{do} ({format_seconds(gate.took)})"
    return replace(gate, answer=line)


def _why(gate: Gate) -> str:
    rate = f"most hosts reach {format_value(gate.reference, 'B/s')}" if gate.reference else ""
    if gate.reference and gate.limit and gate.code != "no_limit":
        rate += f", {gate.reference / gate.limit:.0%} of their limit"
    match gate.code:
        case "proven":
            jobs = f"; a job runs on {len(gate.skipped)} more" if gate.skipped else ""
            return f"{gate.proven} hosts sent and received at their usual rate; {rate}{jobs}"
        case "faults":
            return f"{_faults(gate)}; {rate}" if rate else _faults(gate)
        case "below_limit":
            return f"no host differs, but {rate}, and {gate.share:.0%} are usual"
        case "slow_alone":
            return f"no host differs, and {rate}, but pairs of different groups reach less alone"
        case "no_limit" if gate.limit:
            limit = format_value(gate.limit, "B/s")
            return f"{rate}, more than {limit}, which cannot be what their links allow"
        case "no_limit":
            return f"{rate}, and what their links allow is not known: all of them may be slow"
        case "processor":
            return f"{rate}, as a processor limits one TCP connection: the link was not tested"
        case _:
            return _why_undecided(gate)


def _faults(gate: Gate) -> str:
    first = gate.bad[0]
    more = f", and {len(gate.bad) - 1} more" if gate.bad[1:] else ""
    again = f"; again: {first.confirmed}" if first.confirmed else ""
    host = f" ({first.name})" if first.name else ""
    return f"{faults_named([first])}{host}: {first.evidence}{again}{more}"


def _why_undecided(gate: Gate) -> str:
    if gate.code in UNDECIDED:
        return UNDECIDED[gate.code]
    if gate.code == "unconfirmed" and not gate.suspected:
        again = "were not tested again in time" if gate.needs else "tests again did not clear them"
        parts = _first([part_name(part) for part in gate.doubtful]) or "hosts or pairs"
        return f"{parts} were low, and {again}"
    if gate.code == "unconfirmed":
        again = "it was not confirmed in time" if gate.needs else "the tests did not confirm it"
        return f"{faults_named(gate.suspected)} may be at fault; {again}"
    if gate.code == "in_use":
        return f"nothing was measured beside a job: {gate.reason.rstrip('.')}"
    if gate.code == "not_ready":
        reasons = (gate.reason, *(finding.evidence for finding in gate.suspected[:NAMED]))
        return "; ".join(dict.fromkeys(reason.rstrip(".") for reason in reasons))
    hosts = _first([f"host:{host}" for host in gate.unproven])
    return (
        f"{hosts} did not reach the usual rate, or that of their links, in a test, and may still "
        "be good"
    )
