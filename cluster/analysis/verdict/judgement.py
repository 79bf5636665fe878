"""Is a run as it should be? One word, one line that answers, and what to do next.

Our own runs and logs of other tools are judged in the same way: `verdict` judges each series, and
this module all series together.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Literal

import msgspec

from cluster.analysis.limits import hardware as known_hardware
from cluster.analysis.limits.devices import with_hardware_bound
from cluster.analysis.limits.link import MEMORY, goodput, with_given_bound
from cluster.analysis.limits.network import JUMBO
from cluster.analysis.models.step_limits import TRAINING, said
from cluster.analysis.verdict.verdict import (
    COPIED,
    IMPOSSIBLE_IF,
    TOO_SMALL,
    Verdict,
    is_too_small,
    verdicts,
)
from cluster.core.model.batch import BATCH
from cluster.core.model.hardware import Hardware
from cluster.core.model.hosts import Link
from cluster.core.model.value import Value
from cluster.core.units import format_point, format_size, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cluster.analysis.verdict.evidence import Finding
    from cluster.core.model.fleet import FleetVerdict, FleetWord
    from cluster.core.model.measurements import Definition, Medium, Summary
    from cluster.core.model.records import Record

Judged = Literal["failed", "impossible", "low", "normal", "plausible", "unknown"]
ORDER: tuple[Judged, ...] = ("failed", "impossible", "low", "normal", "plausible", "unknown")
"""From the worst to the least informative: the word of a run is the first that a series has."""
MEDIA: dict[str, Medium] = {"p2p": "network", "iperf": "TCP"}
"""What the bytes of our own benchmarks pass, if others have measured what is usual there."""
LARGE_SIZES = "64KiB:4MiB"  # of messages that are large enough to fill a memory or a network
FLEETS: dict[FleetWord, Judged] = {
    "FAULTY": "low",
    "LOW": "low",
    "HEALTHY": "normal",
    "UNDECIDED": "unknown",
}
STEP = "next: "  # before a command, in the hint of a series
DETAILS = {"place", "type", "redop", "root"}  # parameters of nccl-tests, which the table has
WITHIN = "device_copy"  # within a GPU: matrices have it beside what they are about
NO_FIGURES = (
    "look at what else it says: cluster topology LOG shows links, cluster profile LOG calls of MPI"
)
MOST_SHOWN = 2  # series in the line that answers


class Judgement(Value, frozen=True, kw_only=True):
    """The judgement of a run.

    Args:
        word: for the whole run.
        answer: what was measured, the figure and its share of the limit; without the word.
        next_step: the command to type next, at the end of the text; or what to do.
        verdicts: one for each series.
        not_judged: the points whose messages are too small to say anything, in words.

    """

    word: Judged
    answer: str
    next_step: str
    verdicts: tuple[Verdict, ...] = ()
    not_judged: str = ""

    def __repr__(self) -> str:
        """Return the line that answers."""
        return f"<Judgement {self.line}>"

    def __str__(self) -> str:
        """Return the line that answers."""
        return self.line

    @property
    def line(self) -> str:
        """The one line that answers: figures, the word in capitals, and what to do next."""
        next_ = f" Next: {self.next_step}" if self.next_step else ""
        return f"{self.answer}. {self.word.upper()}.{next_}"


def judge(
    summaries: Sequence[Summary],
    record: Record,
    findings: Sequence[Finding] = (),
    hardware: Hardware | None = None,
    *,
    fleet: FleetVerdict | None = None,
) -> Judgement:
    """Judge one of our runs, or an imported one.

    Args:
        hardware: of the hosts, if the user names it; by default that of the record.
        fleet: the verdict on the hosts, if the run is a check of a fleet: it is that of the run.

    Returns:
        The judgement; `unknown` if nothing bounds what was measured.

    """
    if fleet is not None:
        return _of_fleet(fleet)
    ours = {key: _with_medium(d, record) for key, d in record.definitions.items()}
    where = hardware or record.hardware or _own_hardware(record)
    if hardware is not None:
        summaries = [_on_hardware(s, ours[s.definition], record, hardware) for s in summaries]
    # Separate calls, as `verdicts` leaves out a series that repeats one with a medium.
    groups = [
        [s for s in summaries if bool(ours[s.definition].medium) is has] for has in (False, True)
    ]
    several = groups if _is_ours(record) else [list(summaries)]
    found = tuple(_unless_small(v) for group in several for v in verdicts(group, ours, where))
    about = [v for v in found if v.metric != WITHIN or v.word in ("impossible", "low")] or found
    words: set[str] = {verdict.word for verdict in about}
    words |= {"low"} if any(finding.is_slow for finding in findings) else set()
    words |= {"failed"} if record.status == "failed" else set()
    word: Judged = next((one for one in ORDER if one in words), "unknown")
    next_step = _next_step(word, record, findings, found, hardware)
    trained = said(record.notes) if record.benchmark == TRAINING else ""
    if trained and word == "unknown":  # it was held against limits, those that it measured itself
        word = "plausible"
    answers = [trained] if trained else _answers(found, word) or ["no values were measured"]
    return Judgement(
        word=word,
        answer="; ".join([*answers, *_ended_early(word, record)]),
        next_step=next_step,
        verdicts=tuple(_with_one_next_step(v, next_step) for v in found),
        not_judged=_not_judged(summaries, ours),
    )


def _of_fleet(fleet: FleetVerdict) -> Judgement:
    """Return the verdict of a check in the words of all other runs."""
    steps = (one.confirm for one in fleet.findings if one.confirm)
    return Judgement(
        word=FLEETS[fleet.verdict],
        answer=fleet.answer.rstrip("."),
        next_step=next(steps, ""),
    )


def judge_launches(
    launches: Sequence[Sequence[Summary]],
    record: Record,
    findings: Sequence[Finding] = (),
    hardware: Hardware | None = None,
) -> Judgement:
    """Judge the medians over the launches of one command."""
    from cluster.analysis.statistics.summarize import pool_launches  # noqa: PLC0415 - it imports NumPy

    if len(launches) == 1:
        return judge(launches[0], record, findings, hardware)
    record = msgspec.structs.replace(record, notes=())  # they are of the newest launch alone
    judged = judge(pool_launches(launches), record, findings, hardware)
    answer = f"{judged.answer} (median of {len(launches)} launches)"
    return msgspec.structs.replace(judged, answer=answer)


def _ended_early(word: Judged, record: Record) -> Iterator[str]:
    """Say that a run failed, and why, or that it was interrupted."""
    if word == "failed" and record.reason:
        reason = record.reason.rstrip(".")
        yield f"failed: {reason[0].lower()}{reason[1:]}" if reason[:3] == "It " else reason
    if record.status == "interrupted":
        yield "the run was interrupted, and this is what it had measured"


def _with_one_next_step(verdict: Verdict, chosen: str) -> Verdict:
    """Leave out a step of one series that is not the one chosen for the whole run."""
    if not verdict.hint.startswith(STEP) or verdict.hint == f"{STEP}{chosen}":
        return verdict
    return msgspec.structs.replace(verdict, hint="")


def _not_judged(summaries: Sequence[Summary], definitions: Mapping[str, Definition]) -> str:
    """Name the points of rates whose messages are too small."""
    small = [s for s in summaries if is_too_small(s, definitions[s.definition])]
    sizes: dict[str, list[int]] = {}
    for summary in small:
        sizes.setdefault(summary.metric, []).append(int(summary.params["size"]))
    return "; ".join(
        f"{metric} {' .. '.join(dict.fromkeys((format_size(min(own)), format_size(max(own)))))}"
        for metric, own in sizes.items()
    )


def _is_ours(record: Record) -> bool:
    """Tell whether we measured a run; otherwise it is an imported log."""
    return bool(record.machines)


def _hosts(record: Record) -> int:
    return len({machine.address for machine in record.machines})


def _with_medium(definition: Definition, record: Record) -> Definition:
    """Add the medium to a definition of our own, if it was a network in one direction.

    We know of no measurement of what is usual in both directions at once.
    """
    medium = MEDIA.get(definition.benchmark, "")
    if definition.medium or definition.flow != "one way" or definition.buffer or not medium:
        return definition
    if not _is_ours(record) or _hosts(record) == 1:
        return definition
    return msgspec.structs.replace(definition, medium=medium)


def _own_hardware(record: Record) -> Hardware | None:
    """Find the hardware of our own hosts, by their instance type or by name only."""
    if not _is_ours(record):
        return None
    instance = record.spec.instance or ""
    if instance in known_hardware.names():
        # Their bound is that of one interface, as their kernel names it.
        return msgspec.structs.replace(known_hardware.find(instance), nics=1)
    return Hardware(name=instance or record.spec.provider)


def _on_hardware(
    summary: Summary, definition: Definition, record: Record, hardware: Hardware
) -> Summary:
    """Take the bound from the hardware that the user named, instead of the hosts' facts."""
    if not _is_ours(record):
        bare = msgspec.structs.replace(summary, bound=None, share=None, limit="", assumes="")
        return with_hardware_bound(bare, definition, hardware)
    hosts = _hosts(record)
    if hardware.nic is None or hosts == 1 or not definition.flow or _is_sender(summary, record):
        return summary
    mtu = hardware.mtu or JUMBO  # the limit must hold whatever the MTU is
    link = Link(rate=hardware.nic.rate, mtu=mtu, source=hardware.nic.source)
    rate = link.rate if hardware.rdma else goodput(link)
    bounded = with_given_bound(
        summary, definition, rate, hosts, record.spec.hosts * record.spec.ranks_per_host
    )
    limit = f"{definition.flow}: the network of a host ({hardware.nic.source})"
    return msgspec.structs.replace(bounded, limit=limit if bounded.bound else "")


def _is_sender(summary: Summary, record: Record) -> bool:
    """Tell whether these are times of a rank that only sends, which no link bounds."""
    params = msgspec.json.decode(record.params)
    pair = params.get("pair") or (0, 1)
    return summary.params.get("rank") == pair[0]


def _unless_small(verdict: Verdict) -> Verdict:
    """Change the verdict to unknown if the messages are too small to saturate the link."""
    if verdict.word == "impossible" or not verdict.hint.startswith(TOO_SMALL):
        return verdict
    return msgspec.structs.replace(verdict, word="unknown")


def _answers(found: Sequence[Verdict], word: Judged) -> list[str]:
    """Return the figure that decides, and before it the shortest latency."""
    bus = {v.metric.replace("_busbw", "_algbw") for v in found if v.metric.endswith("_busbw")}
    found = [v for v in found if v.metric not in bus]
    latency = next((v for v in found if v.metric == "latency"), None)
    shown = [] if latency is None else [latency]
    shown += [v for v in found if v.word == word and v is not latency and v.bound]
    shown += [v for v in found if v not in shown and v.metric != MEMORY]
    shown.sort(key=lambda v: v.metric == WITHIN)
    return [_answer(verdict) for verdict in shown[:MOST_SHOWN]]


def _answer(verdict: Verdict) -> str:
    shown = {k: v for k, v in verdict.params.items() if k not in DETAILS}
    if verdict.metric in str(shown.get("test", "")).lower():
        del shown["test"]
    what = " ".join(filter(None, (verdict.metric, format_point(shown))))
    figure = f"{what}: {format_value(verdict.median, verdict.unit)}"
    if verdict.hint.startswith(TOO_SMALL):
        return f"{figure} ({verdict.hint})"
    if verdict.share is None:
        return figure
    figure += f", {verdict.share:.0%} of {_limit_words(verdict.limit)}"
    usual = "" if verdict.usual is None else f"usual: {verdict.usual:.0%} or more"
    note = verdict.hint if verdict.word == "unknown" else usual
    return f"{figure} ({note})" if note else figure


def _limit_words(limit: str) -> str:
    """Shorten `one way: TCP over 1 Gbit/s, MTU 1500 (...)` to `TCP over 1 Gbit/s`."""
    if COPIED in limit:
        return "a memory copy here"
    what = limit.partition(" (")[0].partition(": ")[2]
    what = re.sub(r", [^,]* both ways", "", what)  # the total, where one way is the limit
    return what.partition(", MTU")[0] or "its limit"


def _next_step(
    word: Judged,
    record: Record,
    findings: Sequence[Finding],
    found: Sequence[Verdict],
    hardware: Hardware | None,
) -> str:
    """Choose the most informative command, given what is known; never the one just run."""
    if word in ("impossible", "low") and findings:
        slow = (finding for finding in findings if finding.is_slow)
        return next(slow, findings[0]).confirm.rstrip(".")
    if not _is_ours(record):
        return _next_for_log(word, found)
    if word == "failed":
        return f"cluster logs {shlex.quote(record.spec.name)}"
    if record.benchmark == TRAINING and not _waits_for_a_network(record):
        return f"cluster report {shlex.quote(record.spec.name)}"  # it draws the parts of a step
    return (
        _next_on_one_host(word, record, found)
        if _hosts(record) == 1
        else _next_on_several_hosts(word, record, found, hardware)
    )


def _waits_for_a_network(record: Record) -> bool:
    return _hosts(record) > 1 and ". exchange" in said(record.notes)


def _next_for_log(word: Judged, found: Sequence[Verdict]) -> str:
    """Ask for what is missing, or for the measurement that shows why a value is low."""
    steps = [v.hint.removeprefix(STEP) for v in found if v.hint.startswith(STEP)]
    if word == "low":
        return next(iter(steps), "")
    if word != "unknown":
        return ""
    doubts = [v.hint.removeprefix(IMPOSSIBLE_IF) for v in found if v.hint.startswith(IMPOSSIBLE_IF)]
    if doubts:
        return f"find out whether {doubts[0]}; if not, say what it is: --hardware, --hosts"
    if all_too_small(found):
        small = next(v.hint for v in found if v.hint.startswith(TOO_SMALL))
        return small.partition("; ")[2]
    hints = (v.hint for v in found if v.hint.startswith(("say ", "keep ")) and not v.bound)
    if not found:
        return NO_FIGURES
    return next(hints, "compare it with another run of the test: cluster compare RUN_A RUN_B")


def _next_on_several_hosts(
    word: Judged, record: Record, found: Sequence[Verdict], hardware: Hardware | None
) -> str:
    """Measure what the network limits; if that was done, name the network or measure its rate."""
    if record.simulated:  # there is a model of pairs, and of nothing else
        return f"cluster check {shlex.quote(record.spec.name)}"
    if word == "unknown" and (lacks := _lacking_flags(record, found)):
        return f"{_command_again(record, 'p2p')} {lacks}"
    if word in ("unknown", "impossible") and (hardware is None or hardware.nic is None):
        name = shlex.quote(record.spec.name)
        return f"with the rate of your network: cluster judge {name} --hardware nic=RATE"
    return _command_again(record, "p2p" if record.benchmark == "iperf" else "iperf")


def _next_on_one_host(word: Judged, record: Record, found: Sequence[Verdict]) -> str:
    """Measure something that has a limit on one host; if that was done, measure a network."""
    if record.benchmark == "program":
        return "compare two settings of it: cluster bench program --ab env:NAME=A,B --command ..."
    if word != "unknown" or record.benchmark != "p2p":
        own = record.benchmark if record.benchmark in ("collectives", "iperf") else "p2p"
        return f"cluster bench {own} --provider ssh --option hosts=HOST1,HOST2"
    if all_too_small(found):
        return f"cluster bench p2p --sizes {LARGE_SIZES}"
    return (
        "measure a copy in memory, the limit on one host: "
        "cluster bench p2p --metrics memory_copy,bandwidth"
    )


def _lacking_flags(record: Record, found: Sequence[Verdict]) -> str:
    """Return the flags of a measurement that a network bounds, if none was taken."""
    if all_too_small(found):
        return f"--sizes {LARGE_SIZES}"
    measured = {verdict.metric for verdict in found}
    has_flow = any(d.flow and d.metric in measured for d in record.definitions.values())
    return "" if has_flow else "--metrics bandwidth"


def all_too_small(found: Sequence[Verdict]) -> bool:
    """Tell whether rates were measured, but no message was large enough to fill anything."""
    rates = [v for v in found if v.metric != MEMORY and (v.bound or v.unit == "B/s")]
    return bool(rates) and all(v.hint.startswith(TOO_SMALL) for v in rates)


def _command_again(record: Record, benchmark: str) -> str:
    """Return the command that runs a benchmark on the same hosts, or on as many in a batch job."""
    spec = record.spec
    if spec.provider == BATCH:
        starter = record.command[0].rpartition("/")[2] if record.command else "srun"
        return f"cluster script {starter} {benchmark} --hosts {spec.hosts}"
    options = [f"--option {shlex.quote(f'{key}={value}')}" for key, value in spec.options.items()]
    hosts = [] if spec.provider == "ssh" else [f"--hosts {spec.hosts}"]
    words = (f"--name {shlex.quote(spec.name)}", f"--provider {spec.provider}", *hosts, *options)
    return f"cluster bench {benchmark} {' '.join(words)}"
