"""The judgement of a run, of a series, and what may be wrong, in words."""

import shlex
from collections.abc import Iterable

import msgspec

from cluster.analysis.verdict.judgement import Judgement, RunWord, all_too_small
from cluster.analysis.verdict.reasons import (
    AboveAssumption,
    Advice,
    BusyHost,
    Check,
    Collapse,
    Low,
    NoLimit,
    NoLimitOfLatency,
    NoLimitOfProgram,
    RateAsRequested,
    Reason,
    TooSmall,
)
from cluster.analysis.verdict.verdict import Verdict, VerdictFigures
from cluster.core.model.network.fleet import FleetWord
from cluster.core.model.results.limits import Limit
from cluster.core.model.results.measurements import Summary, SummaryFigures
from cluster.core.model.value import Value
from cluster.core.text.units import format_point, format_size, format_value
from cluster.reports.words.findings import finding_words, load_words
from cluster.reports.words.limits import (
    assumption_words,
    limit_words,
    percentages,
    published_words,
    short_limit,
    usual_words,
)
from cluster.reports.words.step_limits import training_answer

DETAILS = {"place", "type", "redop", "root"}  # parameters of nccl-tests, which the table has
HEADLINES: dict[RunWord, str] = {
    "failed": "FAILED: the run or the log records a failure, so its numbers are not judged.",
    "impossible": "IMPOSSIBLE: a value is above what the hardware can do, so a definition, a unit "
    "or the hardware is wrong.",
    "low": "LOW: at least one value is below what healthy hardware reaches.",
    "normal": "NORMAL: all values are in the usual range, as far as one is known.",
    "plausible": "PLAUSIBLE: nothing is faster than possible; there is no reference data for it.",
    "unknown": "UNKNOWN: no limit and no reference is known for these values.",
}
CHECKS: dict[Check, str] = {
    "tcp": "iperf3 -c HOST -P 8, and several processes at once: a core carries about 25 Gbit/s, "
    "and iperf3 before 3.16 has one thread",
    "tcp_link": "ethtool INTERFACE on both hosts: rate, duplex, errors; nstat -az TcpRetransSegs "
    "before and after; tc -s qdisc, for a shaper",
    "tcp_stalled": "ping -M do -s 1472 HOST: does the path carry packets of the MTU? ss -ti dst "
    "HOST, for retransmissions",
    "latency": "UCX_LOG_LEVEL=info or --mca btl_base_verbose 30, to see what carries the messages",
    "messages": "ib_write_bw -d DEVICE HOST without MPI, and UCX_LOG_LEVEL=info or "
    "--mca btl_base_verbose 30 to see what carries the messages",
    "rdma": "ibstat (or ethtool of the interface): its rate and errors; ib_write_bw -q 4 "
    "--report_gbits, on the NUMA node of the adapter (numactl --cpunodebind)",
    "efa": "fi_info -p efa on each host, and FI_LOG_LEVEL=info to see which provider carries the "
    "messages",
    "nvls": "the same test with NCCL_DEBUG=INFO: does it say NVLS multicast support is available? "
    "If not, the switch does not sum (NCCL_NVLS_ENABLE, the fabric manager); if so, "
    "nvidia-smi nvlink --status: are all links up?",
    "collective": "the same test with NCCL_DEBUG=INFO, then cluster more topology LOG: which "
    "network, which interfaces, with GPUDirect or without",
    "gpu_to_gpu": "nvidia-smi topo -m and nvidia-smi nvlink --status: are all links up?",
    "host_to_gpu": "nvidia-smi -q | grep -A2 'Link Width' while it copies, and the same with "
    "numactl --cpunodebind and --membind of the GPU's node",
    "memory": "UCX_LOG_LEVEL=info or --mca btl_base_verbose 30: do two copies carry it, where one "
    "(CMA, XPMEM) could? kernel.yama.ptrace_scope, and in a container SYS_PTRACE, forbid one",
    "gpu_memory": "nvidia-smi -q -d CLOCK,PERFORMANCE,ECC while it runs",
}
UNLIMITED = TooSmall | NoLimitOfLatency | NoLimitOfProgram
# Latencies have no limit. This is what others measured: half a round trip of a small message.
LATENCIES = (
    "others measured 1.6 µs on InfiniBand, 10 to 16 µs on EFA, 20 to 43 µs with TCP in clouds "
    "(OSU, 8 B)"
)


class PublishedAnswer(Value, frozen=True, kw_only=True):
    """What others published of the same thing, with the words for it."""

    text: str
    results: tuple[str, ...]
    runs: int
    low: float | None
    high: float | None
    reached: int
    word: str


class SeriesAnswer(VerdictFigures, frozen=True, kw_only=True):
    """The verdict on one series, in words; programs test `word`, `reason` and `limited_by`."""

    limit: str  # what sets the bound: direction and source
    # what the bound assumes without the log or the user having stated it; empty if nothing
    assumes: str
    usual: float | None  # the share that healthy hardware reaches; none if that is not known
    usual_source: str  # who measured that share
    hint: str  # what must be known for a bound or a word, or what others measured
    published: PublishedAnswer | None  # published results of the same test; none if we know of none
    # the kind of the reason of the word, such as `too_small`; empty if the figures say it
    reason: str
    limited_by: Limit | None  # the limit, as values


class SummaryAnswer(SummaryFigures, frozen=True, kw_only=True):
    """The statistics of a series, with its limit in words."""

    # what sets the bound: which part of the hardware, in which direction, and the source
    limit: str
    # what the bound assumes without the log or the user having stated it; empty if nothing
    assumes: str
    limited_by: Limit | None  # the limit, as values


class Answer(Value, frozen=True, kw_only=True):
    """The judgement of a run, in words."""

    word: RunWord  # for the whole run
    answer: str  # what was measured, the figure and its share of the limit; without the word
    next_step: str  # the command to type next, at the end of the text; or what to do
    verdicts: tuple[SeriesAnswer, ...] = ()  # one for each series
    not_judged: str = ""  # the points whose messages are too small to say anything
    headline: str = ""  # what the word means here
    # the words of that command; none if it is not one of `cluster`
    next_command: tuple[str, ...] = ()
    unlimited: bool = False  # nothing was measured that a limit could apply to
    fleet: FleetWord | None = None  # the verdict on the hosts, if the run is a check of a fleet
    about: str = ""  # the run, where a page answers for several

    def __repr__(self) -> str:
        return f"<Judgement {self.line}>"

    def __str__(self) -> str:
        return self.line

    @property
    def verdict(self) -> str:
        """The word as people read it."""
        return "No limit applies" if self.unlimited else self.fleet or self.word.upper()

    @property
    def line(self) -> str:
        """The one line that answers: figures, the word in capitals, and what to do next."""
        next_ = f" Next: {self.next_step}" if self.next_step else ""
        word = "" if self.fleet else f" {self.verdict}."  # that of a check is in front
        return f"{self.answer}.{word}{next_}"


def answer(judgement: Judgement) -> Answer:
    return Answer(
        word=judgement.word,
        answer=_answer(judgement),
        next_step=next_words(judgement.next_step),
        verdicts=tuple(_series_answer(v, judgement.next_step) for v in judgement.verdicts),
        not_judged="; ".join(
            f"{small.metric} "
            + " .. ".join(dict.fromkeys((format_size(small.least), format_size(small.most))))
            for small in judgement.not_judged
        ),
        headline=_headline(judgement),
        next_command=judgement.next_step.command if judgement.next_step else (),
        unlimited=is_unlimited(judgement),
        fleet=judgement.fleet.verdict if judgement.fleet else None,
    )


def is_unlimited(judgement: Judgement) -> bool:
    """Tell whether no limit could apply: to latencies, small messages or a user's program."""
    reasons = [verdict.reason for verdict in judgement.verdicts]
    is_without = all(isinstance(reason, UNLIMITED) for reason in reasons)
    is_without = bool(reasons) and (is_without or all_too_small(judgement.verdicts))
    return judgement.word == "unknown" and judgement.fleet is None and is_without


def _answer(judgement: Judgement) -> str:
    if judgement.fleet is not None:
        return judgement.fleet.answer.rstrip(".")
    figures = [_figure(verdict) for verdict in judgement.figures]
    if judgement.training is not None:
        figures = [training_answer(judgement.training)]
    failure = judgement.failure.rstrip(".")
    if failure[:3] == "It ":
        failure = f"failed: {failure[0].lower()}{failure[1:]}"
    interruption = "the run was interrupted"
    if judgement.verdicts:
        interruption += ", and this is what it had measured"
    parts = (
        *(figures or ["no value was read"]),
        load_words(judgement.load) if judgement.load else "",
        failure,
        interruption if judgement.interrupted else "",
    )
    launches = f" (median of {judgement.launches} launches)" if judgement.launches > 1 else ""
    return f"{'; '.join(filter(None, parts))}{launches}"


def _figure(verdict: Verdict) -> str:
    params = {k: v for k, v in verdict.params.items() if k not in DETAILS}
    if verdict.metric in str(params.get("test", "")).lower():
        del params["test"]
    label = " ".join(filter(None, (verdict.metric, format_point(params))))
    figure = f"{label}: {format_value(verdict.median, verdict.unit)}"
    if isinstance(verdict.reason, TooSmall):
        return f"{figure} ({reason_words(verdict.reason)})"
    note = _collapse_words(verdict)
    if verdict.share is not None:
        usual_share = verdict.usual.share if verdict.usual else 0.0
        share, least = percentages(verdict.share, usual_share)
        figure += f", {share} of {short_limit(verdict.limit)}"
        usual = f"usual: {least} or more" if usual_share else ""
        note = reason_words(verdict.reason) if verdict.word == "unknown" else note or usual
    return f"{figure} ({note})" if note else figure


def _collapse_words(verdict: Verdict) -> str:
    """Return what a smaller message reaches, where a larger one is far slower."""
    fell = verdict.reason
    if not isinstance(fell, Collapse):
        return ""
    best = f"{fell.best:.0%}" if fell.best else format_value(fell.best_value, verdict.unit)
    return f"less than half of the {best} that {format_point({'size': fell.best_at})} reaches"


def _headline(judgement: Judgement) -> str:
    reasons = [verdict.reason for verdict in judgement.verdicts]
    if judgement.fleet is not None:
        return f"{judgement.fleet.verdict}, says the check of the hosts."
    if judgement.word == "unknown" and any(isinstance(r, AboveAssumption) for r in reasons):
        return "UNKNOWN: a value is above its limit, which is based on an assumption."
    if judgement.word == "unknown" and any(isinstance(r, BusyHost) for r in reasons):
        return "UNKNOWN: what else ran on the host may be why a value is off."
    if is_unlimited(judgement):
        if all(isinstance(reason, NoLimitOfProgram) for reason in reasons):
            return "NO LIMIT APPLIES: how long a program of yours has to take is not known."
        small = any(isinstance(reason, TooSmall) for reason in reasons)
        latencies = "" if all_too_small(judgement.verdicts) else "latencies have none"
        messages = "the messages are too small to fill a network or memory" if small else ""
        return f"NO LIMIT APPLIES: {'; '.join(filter(None, (latencies, messages)))}."
    if not judgement.verdicts and judgement.word != "failed":
        return "NOTHING TO JUDGE: no value was read from it."
    return HEADLINES[judgement.word]


def _series_answer(verdict: Verdict, advice: Advice | None) -> SeriesAnswer:
    hint, reason = reason_words(verdict.reason), advice.reason if advice else None
    if isinstance(verdict.reason, Low | Collapse):
        check = reason.check if isinstance(reason, Low | Collapse) else ""
        hint = hint if check == verdict.reason.check else ""  # else another step says more
    hint = "; ".join(filter(None, (_collapse_words(verdict), hint)))
    reference = verdict.published
    return SeriesAnswer(
        **{name: getattr(verdict, name) for name in VerdictFigures.__struct_fields__},
        limit=limit_words(verdict.limit),
        assumes=_assumes(verdict.limit),
        usual=verdict.usual.share if verdict.usual else None,
        usual_source=usual_words(verdict.usual) if verdict.usual else "",
        hint=hint,
        published=None
        if reference is None
        else PublishedAnswer(
            text=published_words(reference, verdict.median, verdict.unit),
            **msgspec.structs.asdict(reference),
        ),
        reason=str(verdict.reason.__struct_config__.tag) if verdict.reason else "",
        limited_by=verdict.limit,
    )


def _assumes(limit: Limit | None) -> str:
    return assumption_words(limit.assumption) if limit and limit.assumption else ""


def reason_words(reason: Reason | None) -> str:
    """Return why a series has its word, or what to do about it; empty without a reason."""
    match reason:
        case TooSmall(least):
            return f"too small a message to fill it; measure {format_size(least)} or more"
        case AboveAssumption(assumption):
            return f"impossible only if {assumption_words(assumption)}"
        case NoLimit():
            return _missing_words(reason)
        case BusyHost(word):
            return f"may be {word} only because the host was busy"
        case NoLimitOfLatency():
            return LATENCIES
        case RateAsRequested():
            return "UDP is sent as fast as it was asked for (-b), whatever the network could take"
        case Low(check) | Collapse(check) if check:
            return f"next: {CHECKS[check]}"
        case _:
            return ""


MISSING = {  # what must be known for a limit
    "network_within_host": "it stayed within one host",
    "hardware": "say what it ran on: --hardware p4d.24xlarge, h100, nic=100gbit ...",
    "hosts": "say on how many hosts: --hosts 2",
    "network_beside_nvlink": "NVLink joins its hosts, or may do so, so the network is not a limit",
    "network": "say what network it has, such as --hardware {network}",
    "operation": "say which collective it was: --operation all_reduce, or broadcast, ...",
    "gpu": "no figure of {hardware} is listed: --hardware pcie=gen4x16 (or nvlink=300GB/s, "
    "memory=936GB/s), or --hardware a100",
}


def _missing_words(reason: NoLimit) -> str:
    network = shlex.quote(f"{reason.hardware},nic=100gbit")
    return MISSING[reason.missing].format(hardware=reason.hardware, network=network)


STEPS = {  # what a command is for
    "again": "again when quiet: {command}",
    "name_network": "with the rate of your network: {command}",
    "compare_settings": "compare two settings of it: {command}",
    "memory_copy": "measure a bandwidth beside its limit on one host, a copy in memory: {command}",
    "compare_runs": "compare it with another run of the test: {command}",
    "read_log": "look at what else it says: cluster more topology LOG shows links, cluster more "
    "profile LOG calls of MPI; lines that were not understood may hold its figures",
}


def next_words(step: Advice | None) -> str:
    """Return what to do next: a command, and what it is for where that is not plain."""
    if step is None:
        return ""
    command = shlex.join(step.command)
    match step.purpose:
        case "confirm" if step.fleet:
            return step.fleet.confirm
        case "confirm" if step.sign:
            return finding_words(step.sign).confirm.rstrip(".")
        case purpose if purpose in STEPS:
            return STEPS[purpose].format(command=command)
    match step.reason:
        case Low(check) | Collapse(check):
            return CHECKS[check] if check else ""
        case AboveAssumption(assumption):
            words = assumption_words(assumption)
            return f"find out whether {words}; if not, say what it is: --hardware, --hosts"
        case TooSmall(least):
            return f"measure {format_size(least)} or more"
        case NoLimit():
            return _missing_words(step.reason)
        case _:
            return command


def summary_answers(summaries: Iterable[Summary]) -> tuple[SummaryAnswer, ...]:
    """Return summaries as JSON has them: with the words of their limits, and these as values."""
    return tuple(
        SummaryAnswer(
            **{name: getattr(summary, name) for name in SummaryFigures.__struct_fields__},
            limit=limit_words(summary.limit),
            assumes=_assumes(summary.limit),
            limited_by=summary.limit,
        )
        for summary in summaries
    )
