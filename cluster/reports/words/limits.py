"""Limits, what they assume, what is usual, and problems of published results, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from statistics import median as middle
from typing import TYPE_CHECKING

from cluster.analysis.limits import published
from cluster.analysis.limits.link import Doubt, doubts
from cluster.analysis.limits.network import JUMBO
from cluster.analysis.limits.published import ENOUGH, Published, PublishedResult, find
from cluster.analysis.limits.usual import Usual
from cluster.core.model.results.limits import Assumption, Limit, LimitKind
from cluster.core.model.results.measurements import Summary
from cluster.core.text.units import format_point, format_rate, format_size, format_value

if TYPE_CHECKING:
    from cluster.analysis.limits.published.checks import EntryProblem, ProblemCode

ROUNDING = 1e-9
MOST_DIGITS = 4  # of a percentage

ENTRY_PROBLEMS: dict[ProblemCode, str] = {
    "same_id": "{} entries have this id",
    "same_values": "the same values of the same source as {}",
    "not_in_log": "{:.6g} is not in its log",
    "no_evidence": "it has no evidence",
    "evidence_apart": "{} does not fit, the lowest of its evidence is {:.3f}",
    "no_definition": "no definition {!r} is in definitions.toml",
    "other_unit": "its unit is {!r}, and its definition's is one of: {}",
    "unknown_hardware": "{}",
    "ranks_below_hosts": "{} ranks on {} hosts",
    "too_many_ranks": "{} ranks, and {} hosts have {} GPUs each",
    "no_address": "its source is no address that a reader can open",
    "no_commit": "its source has a path, and no commit",
    "no_log": "grade A needs the lines of the log",
    "no_author": "grade B needs an author and versions",
    "reason_or_grade": "a reason is for grade X, and grade X needs one",
    "no_line": "it does not say in which line of its path its values are",
    "no_versions": "it has no versions; where its source has none, they are {!r}",
    "no_date": "its date is no YYYY-MM-DD, and not {!r}",
    "no_values": "{} has no values, or some that are not above 0",
    "above_limit": "{} is {:.2f} of its limit: grade X, with the reason",
    "too_short": "{} is too short between hosts: grade X, with the reason",
    "no_points": "it has no points",
}


def limit_words(limit: Limit | None) -> str:
    """Return what sets a limit: direction, part of the hardware, source; empty without one."""
    if limit is None:
        return ""
    part, times = _part(limit), _times(limit)
    devices = f"{limit.count} x {limit.source}" if limit.count > 1 else limit.source
    match limit.kind:
        case "given":
            return "as given"
        case "gpu_memory":
            return f"{times}read and write together: {part} ({devices})"
        case "gpu_memory_copy":
            return f"{times}read and written: {part} ({devices})"
        case "host_bus":
            return f"{limit.flow}: {devices}"
        case "gpu_pair":
            return f"{limit.flow}: {part}"
        case "memory_copy":
            return f"{limit.flow}: {part} by one rank, measured in this run"
        case "nvls":
            return f"{_flow(limit)}{times}{part} (NVLS) ({limit.source})"
        case _:
            mtu = f", MTU {limit.mtu}" if limit.mtu else ""
            streams = f"{limit.count} connection(s): " if limit.connections else ""
            return f"{_flow(limit)}{times}{part}{mtu} ({streams}{limit.source})"


def short_limit(limit: Limit | None) -> str:
    """Return what sets a limit without direction, MTU and source: `TCP over 1gbit`."""
    if limit is None or limit.kind == "given":
        return "its limit"
    match limit.kind:
        case "memory_copy":
            return "a memory copy here"
        case "gpu_memory" | "gpu_memory_copy":
            return _part(limit)
        case "host_bus" if limit.part:
            return f"{limit.count} x {limit.part}" if limit.count > 1 else limit.part
        case "gpu_pair" if limit.part:
            return f"between two GPUs, {limit.part}"
        case _:
            return f"{_times(limit)}{_part(limit)}"


def _flow(limit: Limit) -> str:
    if limit.boards:
        groups, size = limit.boards
        return f"{limit.flow}, {groups} x {size} bridged boards: "
    return f"{limit.flow}, {limit.hosts} hosts: " if limit.hosts else f"{limit.flow}: "


def _times(limit: Limit) -> str:
    return "" if abs(limit.times - 1) < ROUNDING else f"{limit.times:.3g} x "


def _part(limit: Limit) -> str:
    several = f"{limit.count} x " if limit.count > 1 or limit.host else ""
    match limit.kind:
        case "tcp" | "efa" if limit.line:
            name = "TCP" if limit.kind == "tcp" else limit.kind
            per_flow = f", {format_rate(limit.per_connection)} a connection"
            return (
                f"{name} over {format_rate(limit.line)}{per_flow if limit.per_connection else ''}"
            )
        case "tcp" | "udp" if limit.mtu:
            return f"{_network(limit)}, {limit.kind.upper()}" if limit.host else limit.kind.upper()
        case "tcp" | "rdma" | "efa":
            return _network(limit)
        case "interfaces":
            return f"{limit.count} of the {limit.of} interfaces of a host"
        case "pcie":
            return f"{several}PCIe of a GPU"
        case "gpu_pair":
            return f"between two GPUs, {limit.source}"
        case _:
            return PARTS.get(limit.kind, limit.source)


PARTS: dict[LimitKind, str] = {
    "pcie_ring": "PCIe of a GPU, a ring",
    "nvlink": "NVLink of a GPU, all links",
    "nvlink_pair": "NVLink of a GPU, those to one other",
    "nvlink_ring": "NVLink of a GPU, a ring",
    "nvls": "NVLink of a GPU, the switch sums",
    "nvlink_bridge": "NVLink bridges of a GPU",
    "infinity_fabric": "Infinity Fabric of a GPU, all links",
    "infinity_fabric_ring": "Infinity Fabric of a GPU, a ring",
    "gpu_memory": "memory of the GPU",
    "gpu_memory_copy": "half of the GPU's memory",
    "memory_copy": "a copy in memory",
}


def _network(limit: Limit) -> str:
    if limit.half_of_hosts:
        return "half of the hosts, each the network of a host"
    several = f"{limit.senders} sending host(s), each " if limit.senders else ""
    return f"{several}the network of a host"


def assumption_words(assumption: Assumption) -> str:
    """Return what a limit takes for granted: the end of `only if ...`."""
    return ASSUMED[assumption.kind].format(a=assumption, rate=format_rate(assumption.rate))


ASSUMED = {
    "mtu": f"its MTU is {{a.mtu}} (else say mtu={JUMBO})",
    "messages_by_tcp": "messages go by TCP (else say rdma=yes)",
    "several_hosts": "the ranks that ran are on {a.hosts} hosts (others waited or ran beside them, "
    "and one host may hold all of these)",
    "receiver_wrote_log": "the receiver wrote the log: in an interval, a sender's kernel may take "
    "more than it sends",
    "connection_held": "a connection is held to {rate} ({a.source})",
    "half_of_hosts_send": "half of the {a.hosts} hosts send (the number of pairs is not known)",
    "pairs_send_from_hosts": "its {a.pairs} pairs send from {a.senders} of the {a.hosts} hosts to "
    "the others",
    "no_sharp": "no switch of the network sums (SHARP)",
    "nearest_interfaces": "a rank sends through {a.nics} network interface(s), those next to its "
    "GPU",
    "no_bridge": "no bridge of NVLink joins the boards (nvidia-smi topo -m says NV4 to NV18 if one "
    "does)",
    "not_cached": "the copy does not stay in the GPU's last cache",
    "memory_not_overclocked": "nobody raised the clock of the GPU's memory",
}


def percentages(share: float, usual: float) -> tuple[str, str]:
    """Return a share and what is usual with as many digits as tell which of them is higher."""
    pairs = [(f"{share:.{digits}%}", f"{usual:.{digits}%}") for digits in range(MOST_DIGITS)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def usual_words(usual: Usual) -> str:
    classes = [_threshold_words(name) for name in usual.thresholds]
    source = "; with trees: ".join(classes) or usual.source
    if not usual.used:
        return source
    used = f"{usual.used} of {usual.interfaces} interfaces, one for each pair of ranks"
    return f"{used}: {source}"


@cache
def _threshold_words(name: str) -> str:
    return "; ".join(
        _result_words(find(proof.result)) + (f", of {proof.of}: {proof.why}" if proof.of else "")
        for proof in published.thresholds()[name].evidence
    )


def published_words(reference: Published, median: float, unit: str) -> str:
    """Compare a series with what others published of the same thing, or with what is nearest."""
    results = [find(id_) for id_ in reference.results]
    if reference.runs < ENOUGH or reference.low is None or reference.high is None:
        lead = "published" if reference.runs else "nearest published"
        return f"{lead}: {'; '.join(map(_result_words, results))}"
    grades = ", ".join(sorted({result.run.grade for result in results}))
    ends = f"{format_value(reference.low, unit)} to {format_value(reference.high, unit)}"
    side = "below all" if median < reference.low else "in it"
    side = "above all" if median > reference.high else side
    value = format_value(median, unit)
    return f"usual: {ends} in {reference.runs} published runs ({grades}); yours, {value}, is {side}"


def _result_words(result: PublishedResult) -> str:
    unit = published.UNITS[result.run.unit][1]
    size = f" at {format_size(result.size)}" if result.size else ""
    hosts = f"{result.run.hosts} x " if result.run.hosts > 1 else ""
    value = format_value(middle(result.values), unit)
    origin = f"corpus: {result.run.id}, grade {result.run.grade}"
    return f"{value}{size} on {hosts}{result.run.hardware} ({origin})"


def doubt_notes(summaries: Iterable[Summary]) -> Iterator[str]:
    """Return a note for each value that is better than possible."""
    for summary in summaries:
        for doubt in doubts(summary):
            label = f"{summary.metric} ({format_point(summary.params)})"
            yield f"{label} {_doubt_words(doubt, summary)}"


def _doubt_words(doubt: Doubt, summary: Summary) -> str:
    share = summary.share or 0.0
    match doubt:
        case "above_assumption":
            assumption = summary.limit and summary.limit.assumption
            words = assumption_words(assumption) if assumption else ""
            return (
                f"is {share:.1%} of what is possible if {words}, which neither the log nor "
                "--hardware states."
            )
        case "above_limit":
            return (
                f"is {share:.1%} of its limit, which is faster than possible: do not believe it. "
                "The link's rate or MTU is not as stated, a shaper lets a burst of this size pass, "
                "or the bytes took another path."
            )
        case "no_time":
            return (
                "has values that took no time, or less: do not believe it. The clock cannot "
                "measure such a short time, or the record is damaged."
            )


def entry_problem_words(problem: EntryProblem) -> str:
    return f"{problem.id}: {ENTRY_PROBLEMS[problem.code].format(*problem.figures)}"
