"""Is a run as it should be? One word, one line that answers, and what to do next.

Our own runs and logs of other tools are judged in the same way: `verdict` judges each series, and
this module all series together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from cluster.analysis.limits import hardware as known_hardware
from cluster.analysis.limits.devices import with_hardware_bound
from cluster.analysis.limits.link import MEMORY, goodput, with_given_bound
from cluster.analysis.limits.network import JUMBO
from cluster.analysis.models.step_limits import TRAINING, TrainingVerdict
from cluster.analysis.verdict.evidence import (
    AboveLimit,
    Finding,
    JobFailure,
    OtherLoad,
    Sign,
    is_slow,
)
from cluster.analysis.verdict.reasons import (
    AboveAssumption,
    Advice,
    BusyHost,
    Collapse,
    Low,
    NoLimit,
    Purpose,
    TooSmall,
)
from cluster.analysis.verdict.verdict import Verdict, is_too_small, verdicts
from cluster.core.model.hosts import Link
from cluster.core.model.jobs import BATCH
from cluster.core.model.network.fleet import FleetVerdict, FleetWord
from cluster.core.model.results.limits import Hardware, Limit, LimitKind
from cluster.core.model.results.measurements import Definition, Medium, Summary
from cluster.core.model.results.records import Record
from cluster.core.model.value import Value

RunWord = Literal["failed", "impossible", "low", "normal", "plausible", "unknown"]
ORDER: tuple[RunWord, ...] = ("failed", "impossible", "low", "normal", "plausible", "unknown")
"""From the worst to the least informative: the word of a run is the first that a series has."""
MEDIA: dict[str, Medium] = {"p2p": "network", "iperf": "TCP"}
"""What the bytes of our own benchmarks pass, if others have measured what is usual there."""
LARGE_SIZES = "64KiB:4MiB"  # of messages that are large enough to fill a memory or a network
FLEETS: dict[FleetWord, RunWord] = {
    "FAULTY": "low",
    "LOW": "low",
    "HEALTHY": "normal",
    "UNDECIDED": "unknown",
}
LOG_PURPOSES: tuple[Purpose, ...] = ("settle_assumption", "larger_messages", "name_missing")
# Of what is missing, by the user.
CAN_BE_STATED = ("hardware", "hosts", "network", "operation", "gpu")
FATAL = ("shared_subnet",)  # findings that explain why a job failed
WITHIN = "device_copy"  # within a GPU: matrices have it beside what they are about
MOST_SHOWN = 2  # series in the line that answers


class SmallSizes(Value, frozen=True, kw_only=True):
    """The sizes of a metric's messages that are too small to say anything, in bytes."""

    metric: str
    least: int
    most: int


class Judgement(Value, frozen=True, kw_only=True):
    """The judgement of a run."""

    word: RunWord  # for the whole run
    figures: tuple[Verdict, ...] = ()  # the series that decide it
    next_step: Advice | None = None  # what to do next; none if nothing would help
    verdicts: tuple[Verdict, ...] = ()  # one for each series
    # the points whose messages are too small to say anything
    not_judged: tuple[SmallSizes, ...] = ()
    training: TrainingVerdict | None = None  # what limits it, if the run is of training
    fleet: FleetVerdict | None = None  # the verdict on the hosts, if the run is a check of a fleet
    failure: str = ""  # why it failed; empty if it did not, or if that is not known
    interrupted: bool = False  # it has measured only a part
    launches: int = 1  # how many it is the median of
    load: OtherLoad | None = None  # what else ran on a host meanwhile; none if that was little


def judge(
    summaries: Sequence[Summary],
    record: Record,
    findings: Sequence[Sign] = (),
    hardware: Hardware | None = None,
    *,
    fleet: FleetVerdict | None = None,
    training: TrainingVerdict | None = None,
) -> Judgement:
    """Judge one of our runs, or an imported one; `unknown` if nothing bounds what was measured.

    The hardware is that of the record, unless the user names it. The verdict on the hosts, of a
    check of a `fleet`, is that of the run.
    """
    if fleet is not None:
        first = next((finding for finding in fleet.findings if finding.confirm), None)
        return Judgement(
            word=FLEETS[fleet.verdict],
            next_step=Advice(purpose="confirm", fleet=first) if first else None,
            fleet=fleet,
        )
    definitions = {key: _with_medium(d, record) for key, d in record.definitions.items()}
    if hardware is not None:
        summaries = [
            _on_hardware(s, definitions[s.definition], record, hardware) for s in summaries
        ]
    board = hardware or record.hardware or _own_hardware(record)
    load = next((sign for sign in findings if isinstance(sign, OtherLoad)), None)
    series_verdicts = _series_verdicts(summaries, record, definitions, board, load)
    word = _word(series_verdicts, record, findings)
    next_step = _next_step(word, record, findings, series_verdicts, hardware, training)
    if training and word == "unknown":  # it was held against limits that it measured itself
        word = "plausible"
    too_small = [s for s in summaries if is_too_small(s, definitions[s.definition])]
    return Judgement(
        word=word,
        figures=() if training else _figures(series_verdicts, word),
        next_step=next_step,
        verdicts=series_verdicts,
        not_judged=tuple(_small_sizes(too_small, series_verdicts)),
        training=training,
        failure=record.reason if word == "failed" else "",
        interrupted=record.status == "interrupted",
        load=load,
    )


def _series_verdicts(
    summaries: Sequence[Summary],
    record: Record,
    definitions: Mapping[str, Definition],
    board: Hardware | None,
    load: OtherLoad | None,
) -> tuple[Verdict, ...]:
    # Our own with and without a medium apart: `verdicts` leaves out what repeats one with a medium.
    groups = [
        [s for s in summaries if bool(definitions[s.definition].medium) is is_set]
        for is_set in (False, True)
    ]
    several = groups if _is_ours(record) else [summaries]
    series = [_unless_small(v) for group in several for v in verdicts(group, definitions, board)]
    return tuple(_unless_busy(v, load) if load else v for v in series)


def _word(series: Sequence[Verdict], record: Record, findings: Sequence[Sign]) -> RunWord:
    bad: tuple[RunWord, ...] = ("impossible", "low")
    subjects = [v for v in series if v.metric != WITHIN or v.word in bad] or series
    words: set[str] = {verdict.word for verdict in subjects}
    words |= {"low"} if any(map(is_slow, findings)) else set()
    words |= {"failed"} if record.status == "failed" else set()
    return next((candidate for candidate in ORDER if candidate in words), "unknown")


def _small_sizes(too_small: Sequence[Summary], series: Sequence[Verdict]) -> Iterator[SmallSizes]:
    large = [v for v in series if not isinstance(v.reason, TooSmall)]
    points = [(v.metric, v.params.get("size")) for v in large]
    sizes: dict[str, list[int]] = {}
    for s in too_small:
        if (s.metric, s.params.get("size")) not in points:
            sizes.setdefault(s.metric, []).append(int(s.params["size"]))
    for metric, metric_sizes in sizes.items():
        yield SmallSizes(metric=metric, least=min(metric_sizes), most=max(metric_sizes))


def _figures(series: Sequence[Verdict], word: RunWord) -> tuple[Verdict, ...]:
    busbw = (v.metric for v in series if v.metric.endswith("_busbw"))
    bus = {metric.replace("_busbw", "_algbw") for metric in busbw}
    candidates = [v for v in series if v.metric not in bus]
    latency = next((v for v in candidates if v.metric == "latency"), None)
    figures = [] if latency is None else [latency]
    figures += [v for v in candidates if v.word == word and v is not latency and v.bound]
    figures += [v for v in candidates if v not in figures and v.metric != MEMORY]
    figures.sort(key=lambda v: v.metric == WITHIN)
    return tuple(figures[:MOST_SHOWN] or candidates[-1:])


def judge_launches(
    launches: Sequence[Sequence[Summary]],
    record: Record,
    findings: Sequence[Sign] = (),
    hardware: Hardware | None = None,
    *,
    training: TrainingVerdict | None = None,
) -> Judgement:
    """Judge the medians over the launches of one command; `training` is of a single one."""
    from cluster.analysis.statistics.summarize import pool_launches  # noqa: PLC0415 - it imports NumPy

    if len(launches) == 1:
        return judge(launches[0], record, findings, hardware, training=training)
    judgement = judge(pool_launches(launches), record, findings, hardware)
    return msgspec.structs.replace(judgement, launches=len(launches))


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
        bare = msgspec.structs.replace(summary, bound=None, share=None, limit=None)
        return with_hardware_bound(bare, definition, hardware)
    hosts = _hosts(record)
    if hardware.nic is None or hosts == 1 or not definition.flow or _is_sender(summary, record):
        return summary
    mtu = hardware.mtu or JUMBO  # the limit must hold whatever the MTU is
    link = Link(rate=hardware.nic.rate, mtu=mtu, source=hardware.nic.source)
    rate = link.rate if hardware.rdma else goodput(link)
    kind: LimitKind = "rdma" if hardware.rdma else "tcp"
    kind = "efa" if known_hardware.is_efa(hardware) else kind
    limit = Limit(kind=kind, rate=rate, flow=definition.flow, source=hardware.nic.source, host=True)
    ranks = record.spec.hosts * record.spec.ranks_per_host
    return with_given_bound(summary, definition, limit, hosts, ranks)


def _is_sender(summary: Summary, record: Record) -> bool:
    """Tell whether these are times of a rank that only sends, which no link bounds."""
    pair = msgspec.json.decode(record.params).get("pair") or (0, 1)
    return summary.params.get("rank") == pair[0]


def _unless_small(verdict: Verdict) -> Verdict:
    """Change the verdict to unknown if the messages are too small to saturate the link."""
    if verdict.word == "impossible" or not isinstance(verdict.reason, TooSmall):
        return verdict
    return msgspec.structs.replace(verdict, word="unknown")


def _unless_busy(verdict: Verdict, load: OtherLoad) -> Verdict:
    """Change a verdict to unknown if what else ran on its host may be the cause.

    It may not, if even the best value would be low with all the processor time that was lacking.
    """
    in_memory = verdict.limit is not None and verdict.limit.kind == "memory_copy"
    low = isinstance(verdict.reason, Low | Collapse) and (
        (best := verdict.reason.best_value_of_usual) is None or best * load.slowdown >= 1
    )
    if not (low if verdict.word == "low" else verdict.word == "impossible" and in_memory):
        return verdict
    return msgspec.structs.replace(verdict, word="unknown", reason=BusyHost(verdict.word))


def _next_step(
    word: RunWord,
    record: Record,
    findings: Sequence[Sign],
    verdicts: Sequence[Verdict],
    hardware: Hardware | None,
    training: TrainingVerdict | None,
) -> Advice | None:
    """Choose the most informative step, given what is known; never the command just run."""
    name = record.spec.name
    signs = [sign for sign in findings if not isinstance(sign, OtherLoad)]
    if sign := _sign_of(word, signs) or next(iter(() if verdicts else signs), None):
        return Advice(purpose="confirm", sign=sign)
    if not _is_ours(record):
        return _next_for_log(word, verdicts)
    has_values = bool(verdicts) or training is not None
    if word in ("failed", "normal") or not has_values:
        return None if word == "normal" else _show("logs", name)
    is_disturbed = len(signs) < len(findings) and word == "plausible"
    if is_disturbed or any(isinstance(verdict.reason, BusyHost) for verdict in verdicts):
        return Advice(purpose="again", command=("cluster", "compare", name, "--again"))
    waits = training is not None and training.waits_for_network and _hosts(record) > 1
    if record.benchmark == TRAINING and not waits:
        return _show("report", name)  # it draws the parts of a step
    return (
        _next_on_one_host(word, record, verdicts)
        if _hosts(record) == 1
        else _next_on_several_hosts(word, record, verdicts, hardware)
    )


def _sign_of(word: RunWord, findings: Sequence[Sign]) -> Sign | None:
    """Return the finding that the word of a run is about, or that may explain it."""
    limit_signs = [finding for finding in findings if isinstance(finding, AboveLimit)]
    beside_limits = [finding for finding in findings if not isinstance(finding, AboveLimit)]
    slow = [finding for finding in beside_limits if is_slow(finding)]
    fatal = [sign for sign in beside_limits if isinstance(sign, Finding) and sign.kind in FATAL]
    candidates: dict[RunWord, Sequence[Sign]] = {
        "failed": fatal or [sign for sign in beside_limits if isinstance(sign, JobFailure)],
        "impossible": limit_signs,
        "low": slow or beside_limits,
    }
    return next(iter(candidates.get(word, ())), None)


def _show(*words: str) -> Advice:
    return Advice(purpose="show", command=("cluster", *words))


def _bench(*words: str) -> Advice:
    return Advice(purpose="measure", command=("cluster", "bench", *words))


def _next_for_log(word: RunWord, verdicts: Sequence[Verdict]) -> Advice | None:
    """Ask for what is missing, or for the measurement that shows why a value is low."""
    purposes = {"low": ("find_cause",), "unknown": LOG_PURPOSES}.get(word, ())
    small = all_too_small(verdicts)
    steps = [(_purpose(verdict, small=small), verdict.reason) for verdict in verdicts]
    for purpose in purposes:
        for step_purpose, reason in steps:
            if step_purpose == purpose:
                return Advice(purpose=step_purpose, reason=reason)
    if word == "unknown" and not verdicts:
        return Advice(purpose="read_log")
    command = ("cluster", "compare", "RUN_A", "RUN_B")
    return Advice(purpose="compare_runs", command=command) if word == "unknown" else None


def _purpose(verdict: Verdict, *, small: bool) -> Purpose | None:
    """Return what a step would do about a reason; `small`: all messages are too small."""
    match verdict.reason:
        case Low(check) | Collapse(check) if check:
            return "find_cause"
        case AboveAssumption():
            return "settle_assumption"
        case TooSmall() if small:
            return "larger_messages"
        case NoLimit(missing) if missing in CAN_BE_STATED and not verdict.bound:
            return "name_missing"
        case _:
            return None


def _next_on_several_hosts(
    word: RunWord, record: Record, verdicts: Sequence[Verdict], hardware: Hardware | None
) -> Advice:
    """Measure what the network limits; if that was done, name the network or measure its rate."""
    name = record.spec.name
    if record.simulated:  # there is a model of pairs, and of nothing else
        return _show("check", name)
    if word == "unknown" and (lacking := _lacking_flags(record, verdicts)):
        return _again(record, "p2p", *lacking)
    if word in ("unknown", "impossible") and (hardware is None or hardware.nic is None):
        command = ("cluster", "judge", name, "--hardware", "nic=RATE")
        return Advice(purpose="name_network", command=command)
    return _again(record, "p2p" if record.benchmark == "iperf" else "iperf")


def _next_on_one_host(word: RunWord, record: Record, verdicts: Sequence[Verdict]) -> Advice:
    """Measure something that has a limit on one host; if that was done, measure a network."""
    bench = ("cluster", "bench")
    in_memory = (v.reason for v in verdicts if isinstance(v.reason, Low | Collapse))
    if word == "low" and (reason := next(in_memory, None)):
        return Advice(purpose="find_cause", reason=reason)
    if record.benchmark == "program":
        command = msgspec.json.decode(record.params).get("command", "...")
        settings = ("program", "--ab", "env:NAME=A,B", "--command", command)
        return Advice(purpose="compare_settings", command=(*bench, *settings))
    if word != "unknown" or record.benchmark != "p2p":
        benchmark = record.benchmark if record.benchmark in ("collectives", "iperf") else "p2p"
        return _bench(benchmark, "own-hosts", "--provider", "ssh", "--option", "hosts=HOST1,HOST2")
    if all_too_small(verdicts):
        return _bench("p2p", "--sizes", LARGE_SIZES)
    metrics = ("p2p", "--metrics", "memory_copy,bandwidth")
    return Advice(purpose="memory_copy", command=(*bench, *metrics))


def _lacking_flags(record: Record, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the flags of a measurement that a network bounds, if none was taken."""
    if all_too_small(verdicts):
        return "--sizes", LARGE_SIZES
    metrics = {verdict.metric for verdict in verdicts}
    has_flow = any(d.flow and d.metric in metrics for d in record.definitions.values())
    return () if has_flow else ("--metrics", "bandwidth")


def all_too_small(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether rates were measured, but no message was large enough to fill anything."""
    rates = [v for v in verdicts if v.metric != MEMORY and (v.bound or v.unit == "B/s")]
    return bool(rates) and all(isinstance(v.reason, TooSmall) for v in rates)


def _again(record: Record, benchmark: str, *flags: str) -> Advice:
    """Return the command that runs a benchmark on the same hosts, or on as many in a batch job."""
    spec = record.spec
    hosts = ("--hosts", str(spec.hosts))
    if spec.provider == BATCH:
        starter = record.command[0].rpartition("/")[2] if record.command else "srun"
        command = ("cluster", "more", "script", starter, benchmark, *hosts, *flags)
        return Advice(purpose="measure", command=command)
    options = [word for k, v in spec.options.items() for word in ("--option", f"{k}={v}")]
    place = (spec.name, "--provider", spec.provider)
    return _bench(benchmark, *place, *(() if spec.provider == "ssh" else hosts), *options, *flags)
