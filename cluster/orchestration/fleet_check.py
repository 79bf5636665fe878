"""A check of a fleet, or of the devices within hosts: a verdict, kept in the run's folder."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from cluster.analysis.limits.link import goodput
from cluster.analysis.topology import OLD, UNKNOWN
from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.logs import Topology
from cluster.core.model.network.fleet import (
    UNMEASURED,
    DeviceKind,
    Drift,
    Fleet,
    FleetFinding,
    FleetVerdict,
    NextStep,
    PairAssumption,
    PairMetric,
    PairTest,
    Part,
    Reason,
)
from cluster.core.model.results.measurements import Measurement
from cluster.core.text.units import format_size
from cluster.fleet.devices import diagnose_devices
from cluster.fleet.diagnosis import USUAL, diagnose
from cluster.fleet.evidence import (
    Confirmation,
    causes,
    confirmations,
    counter_changes,
    drifts,
    good_hosts,
)
from cluster.fleet.foreign import diagnose_foreign
from cluster.fleet.pair_measurements import pair_tests, proven_rates
from cluster.fleet.simulation import FleetSimulator
from cluster.logs.hosts import host_order
from cluster.orchestration.simulated import simulator_of
from cluster.reports.words.devices import KINDS, nothing_compared
from cluster.reports.words.fleet import answer_line, confirmation_words, with_words
from cluster.reports.words.notes import assumption_words, note_words
from cluster.runs import store
from cluster.runs.run import PAIRS, RAW, WITHIN, Run, topologies

LOOPBACK = "127.0.0.1"


def judge_check(run: Run) -> FleetVerdict:
    """Judge what a check has measured so far; write the verdict into its folder (SpecError)."""
    return (judge_within if run.record.benchmark == WITHIN else judge_fleet)(run)


class SurveyParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of `pairs` that a verdict needs."""

    metric: PairMetric = "bandwidth"
    allreduce: int = 0  # bytes: how near its limit an operation of a library comes is not known
    groups: tuple[int, ...] = ()
    confirm: bool = False
    directed: bool = True
    foreign: bool = False
    limit: float | None = None
    devices: DeviceKind = ""
    assumptions: tuple[str, ...] = ()


def judge_fleet(run: Run) -> FleetVerdict:
    """Judge a run of `pairs`, also an interrupted one; write the verdict into its folder."""
    record = run.record
    if record.benchmark != PAIRS:
        raise SpecError(
            f"{run.folder} is a run of {record.benchmark}, and no check of a fleet.",
            remedy="Check a cluster: cluster check NAME",
        )
    params = decoders.decode(record.params, SurveyParams)
    simulator = simulator_of(record.spec) if record.simulated else None
    fleet = Fleet(
        names=tuple(machine.name for machine in record.machines),
        groups=params.groups or (0,) * len(record.machines),
        nics=1 if simulator is None else simulator.fabric_links.fabric.nics,
        limit=params.limit or (None if params.allreduce else link_limit(record.machines)),
        metric=params.metric,
        directed=params.directed,
        foreign=params.foreign,
        devices=params.devices,
    )
    tests = pair_tests(run.measurements)
    diagnosis = _diagnose(fleet, tests, record.machines, simulator.routes if simulator else None)
    if fleet.limit and not (params.limit or fleet.devices or fleet.foreign):
        diagnosis = _with_own_links(diagnosis, record.machines, tests)
    retests = confirmations(diagnosis, tests) if params.confirm else {}
    is_complete = len(record.environment) == len(record.machines)
    differences = drifts(dict(enumerate(record.environment))) if is_complete else ()
    before = store.verdict(run.folder)
    risen = counter_changes(diagnosis, tests)
    good = good_hosts(diagnosis, len(fleet.names))
    complete = partial(_with_step, params, record.spec.name, retests, (differences, good))
    findings = [
        replace(complete(finding), counters=risen.get(place, ()))
        for place, finding in enumerate(diagnosis.findings)
    ]
    suspects = enumerate(diagnosis.suspects, len(findings))
    verdict = replace(
        diagnosis,
        suspects=tuple(replace(s, counters=risen.get(place, ())) for place, s in suspects),
        run=str(run.folder),
        blamed=tuple(findings[: len(diagnosis.blamed)]),
        observations=tuple(findings[len(diagnosis.blamed) :]),
        simulated=record.simulated,
        assumptions=params.assumptions,
        replaced=before.replaced if before else (),
    )
    return write_verdict(with_words(verdict, fleet, tests), run)


def _diagnose(
    fleet: Fleet,
    tests: Sequence[PairTest],
    machines: Sequence[Machine],
    routes: FleetSimulator | None,
) -> FleetVerdict:
    if fleet.devices:
        return diagnose_devices(fleet, tests)
    if fleet.foreign:
        return diagnose_foreign(fleet, tests)
    diagnosis = diagnose(fleet, tests, routes)
    if not machines or any(machine.address != LOOPBACK for machine in machines):
        return diagnosis
    # without a network, what differs is the load of processors: no part is at fault
    return replace(
        diagnosis,
        verdict="UNDECIDED",
        blamed=(),
        observations=(),
        suspects=(),
        reason=Reason(code="one_machine"),
    )


def write_verdict(verdict: FleetVerdict, run: Run) -> FleetVerdict:
    """Write a verdict into the run's folder; a run that was cut off proves nothing."""
    is_complete = run.status == "done" or verdict.verdict == "FAULTY"
    verdict = replace(
        verdict,
        verdict=verdict.verdict if is_complete else "UNDECIDED",
        answer=answer_line(verdict, run.status, run.record.reason),
    )
    store.write_verdict(run.folder, verdict)
    return verdict


def link_limit(machines: Sequence[Machine]) -> float | None:
    """Return the goodput of TCP through the median link of the hosts, in B/s; None if unknown."""
    rates = sorted(_goodputs(machines).values())
    return rates[len(rates) // 2] if rates else None


def _goodputs(machines: Sequence[Machine]) -> dict[int, float]:
    """Return the goodput of the hosts whose link is known, by their numbers; most have the same."""
    links = {host: machine.link for host, machine in enumerate(machines) if machine.link}
    rates = {link: goodput(link) for link in set(links.values())}
    return {host: rates[link] for host, link in links.items()}


def _with_own_links(
    verdict: FleetVerdict, machines: Sequence[Machine], tests: Sequence[PairTest]
) -> FleetVerdict:
    """Add hosts that reached an unusually small share of their own links to those not proven.

    The limit of the fleet is that of a median link. No host is faster than its best partner.
    """
    links = _goodputs(machines)
    if verdict.metric != "bandwidth" or len(set(links.values())) == 1:
        return verdict
    most, best = sorted(links.values())[-2:][0], proven_rates(tests)
    low = {h for h, rate in links.items() if min(best.get(h, (0.0,))) < USUAL * min(rate, most)}
    return replace(verdict, unproven=tuple(sorted(low.union(verdict.unproven))))


def _metric_flag(params: SurveyParams) -> tuple[str, ...]:
    """Return the flag that makes a check measure the same again."""
    if params.allreduce:
        return "--metric", f"allreduce:{format_size(params.allreduce).replace(' ', '')}"
    return () if params.metric == "bandwidth" else ("--metric", params.metric)


def _with_step(
    params: SurveyParams,
    name: str,
    retests: Mapping[Part, Confirmation],
    drift: tuple[Sequence[Drift], set[int]],
    finding: FleetFinding,
) -> FleetFinding:
    """Add the command that confirms a finding, its result if it ran, and what explains it."""
    pairs = ",".join(f"{finding.place.host}-{other}" for other in finding.partners)
    arguments = (name, "--pairs", pairs, *_metric_flag(params))
    step = NextStep(command="check", arguments=arguments) if pairs and not params.foreign else None
    result = retests.get(finding.place)
    holds, words = (result.holds, confirmation_words(result)) if result else (False, "")
    reasons = causes(finding, *drift)
    return replace(finding, step=step, confirmed=words, holds=holds, causes=reasons)


class WithinRunParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of `within` that a verdict needs."""

    devices: str = "auto"


def judge_within(run: Run) -> FleetVerdict:
    """Judge a run of `within`, which may have been interrupted; write the verdict into its folder.

    Devices of all hosts are compared with one another, each pair with others of its class, so the
    hosts must be of one kind.
    """
    measurements = list(run.measurements)
    kinds = {str(m.params.get("devices", "")) for m in measurements}
    kinds_asked = decoders.decode(run.record.params, WithinRunParams).devices
    if len(kinds) != 1:
        reason = Reason(code="several_kinds" if kinds else "no_pairs")
        notes = tuple(map(note_words, run.record.notes))
        verdict = FleetVerdict(verdict="UNDECIDED", rounds=0, reason=reason, missing=notes)
        verdict = replace(verdict, answer=nothing_compared(sorted(kinds), kinds_asked))
    else:
        kind, paths = kinds.pop(), topologies(run.folder / RAW)
        several = len({measurement.host for measurement in measurements}) > 1
        ends = [_ends(measurement, kind, several=several) for measurement in measurements]
        names = tuple(host_order(name for pair in ends for name in pair))
        tests = [
            PairTest(
                round=0,
                source=names.index(reader),
                target=names.index(writer),
                value=measurement.bytes / min(measurement.values) if measurement.values else None,
                reason="" if measurement.values else UNMEASURED,
                alone=True,
                path=_path(measurement, kind, paths.get(measurement.host)),
            )
            for measurement, (reader, writer) in zip(measurements, ends, strict=True)
        ]
        fleet = Fleet(
            names=names,
            groups=(0,) * len(names),
            directed=kind != "gpus",  # both directions of a pair of GPUs pass the same links
            foreign=True,
            devices=kind,
        )
        verdict = with_words(diagnose_devices(fleet, tests), fleet, tests)
    several = len({measurement.host for measurement in measurements}) > 1
    candidates = (PairAssumption("fastest_copy"), PairAssumption("one_kind"))
    assumptions = tuple(map(assumption_words, candidates[: bool(measurements) + several]))
    return write_verdict(replace(verdict, run=str(run.folder), assumptions=assumptions), run)


def _ends(measurement: Measurement, kind: DeviceKind, *, several: bool) -> tuple[str, str]:
    host = f"{measurement.host}/" if several else ""
    reader, writer = (
        f"{host}{KINDS[kind].mark}{measurement.params[end]}" for end in ("reader", "writer")
    )
    return reader, writer


def _path(measurement: Measurement, kind: DeviceKind, topology: Topology | None) -> str:
    """Return the class of a pair; that of two GPUs is in the output of `nvidia-smi topo -m`."""
    if kind != "gpus":
        return str(measurement.params.get("path", ""))
    if topology is None:
        return ""
    path = topology.path(f"GPU{measurement.params['reader']}", f"GPU{measurement.params['writer']}")
    return "" if path == UNKNOWN else OLD.get(path, path)
