"""A check of a fleet: tests of pairs give a verdict, which is kept in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from cluster.analysis.limits.link import goodput
from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.fleet import (
    DeviceKind,
    Drift,
    Fleet,
    FleetFinding,
    FleetVerdict,
    PairMetric,
    PairTest,
    Part,
    Reason,
)
from cluster.core.model.hosts import Machine, full_names
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.steps import NextStep
from cluster.core.units import format_size
from cluster.fleet.devices import diagnose_devices
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.evidence import blamed_hosts, causes, counter_changes, drifts, is_low, passes
from cluster.fleet.foreign import diagnose_foreign
from cluster.fleet.pair_measurements import pair_tests
from cluster.fleet.proximity import switch_groups
from cluster.fleet.simulation import FleetSimulator
from cluster.orchestration.check.simulated import simulator_of
from cluster.orchestration.proximity import ask_topology
from cluster.reports.words.fleet import answer_line, with_words
from cluster.runs import store
from cluster.runs.run import PAIRS, Run

LOOPBACK = "127.0.0.1"


FEWEST_AGAIN = 2  # tests alone that confirm a fault


class SurveyParams(msgspec.Struct, frozen=True, kw_only=True):
    """Those parameters of `pairs` that a verdict needs."""

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
        limit=params.limit or (None if params.allreduce else _limit(record.machines)),
        metric=params.metric,
        directed=params.directed,
        foreign=params.foreign,
        devices=params.devices,
    )
    tests = pair_tests(run.measurements)
    diagnosed = _diagnosed(fleet, tests, simulator.routes if simulator else None)
    if _is_one_machine(record.machines):
        diagnosed = _without_network(diagnosed)
    confirmed = confirmations(diagnosed, tests) if params.confirm else {}
    is_complete = len(record.environment) == len(record.machines)
    differences = drifts(dict(enumerate(record.environment))) if is_complete else ()
    before = store.verdict(run.folder)
    risen = counter_changes(diagnosed, tests)
    complete = partial(_with_step, params, record.spec.name, confirmed, differences)
    findings = [
        replace(complete(finding), counters=risen.get(place, ()))
        for place, finding in enumerate(diagnosed.findings)
    ]
    suspects = enumerate(diagnosed.suspects, len(findings))
    verdict = replace(
        diagnosed,
        suspects=tuple(replace(s, counters=risen.get(place, ())) for place, s in suspects),
        run=str(run.folder),
        blamed=tuple(findings[: len(diagnosed.blamed)]),
        observations=tuple(findings[len(diagnosed.blamed) :]),
        simulated=record.simulated,
        assumptions=params.assumptions,
        replaced=before.replaced if before else (),
    )
    return written(with_words(verdict, fleet, tests), run)


def written(verdict: FleetVerdict, run: Run) -> FleetVerdict:
    """Write a verdict into the run's folder; a run that was cut off assures of nothing."""
    ended = run.status == "done" or verdict.verdict == "FAULTY"
    verdict = replace(
        verdict,
        verdict=verdict.verdict if ended else "UNDECIDED",
        answer=answer_line(verdict, run.status, run.record.reason),
    )
    store.write_verdict(run.folder, verdict)
    return verdict


def _diagnosed(
    fleet: Fleet, tests: Sequence[PairTest], routes: FleetSimulator | None
) -> FleetVerdict:
    if fleet.devices:
        return diagnose_devices(fleet, tests)
    return diagnose_foreign(fleet, tests) if fleet.foreign else diagnose(fleet, tests, routes)


def _is_one_machine(machines: Sequence[Machine]) -> bool:
    """Tell whether all hosts are this machine, which they reach without a network."""
    return bool(machines) and all(machine.address == LOOPBACK for machine in machines)


def _without_network(verdict: FleetVerdict) -> FleetVerdict:
    """Keep the figures only: what differs is the load of processors, and no part is at fault."""
    return replace(
        verdict,
        verdict="UNDECIDED",
        blamed=(),
        observations=(),
        suspects=(),
        reason=Reason(code="one_machine"),
    )


def _limit(machines: Sequence[Machine]) -> float | None:
    """Return the goodput of TCP through the median link of the hosts, in B/s; None if unknown."""
    rates = sorted(goodput(machine.link) for machine in machines if machine.link)
    return rates[len(rates) // 2] if rates else None


def _metric_flag(params: SurveyParams) -> tuple[str, ...]:
    """Return the flag that makes a check measure the same again."""
    if params.allreduce:
        return "--metric", f"allreduce:{format_size(params.allreduce).replace(' ', '')}"
    return () if params.metric == "bandwidth" else ("--metric", params.metric)


def _with_step(
    params: SurveyParams,
    name: str,
    confirmed: Mapping[Part, Confirmation],
    differences: Sequence[Drift],
    finding: FleetFinding,
) -> FleetFinding:
    """Add the command that confirms a finding, its result if it ran, and what explains it."""
    pairs = ",".join(f"{finding.place.host}-{other}" for other in finding.partners)
    arguments = (name, "--pairs", pairs, *_metric_flag(params))
    step = NextStep(command="check", arguments=arguments) if pairs and not params.foreign else None
    result = confirmed.get(finding.place)
    holds, words = (result.holds, result.words) if result else (False, "")
    explained = causes(finding, differences)
    return replace(finding, step=step, confirmed=words, holds=holds, causes=explained)


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What the last step of a check showed, which tests a blamed host again."""

    low: int
    tests: int
    partners: tuple[int, ...]
    others_good: bool = True  # most pairs of other hosts are good alone

    @property
    def holds(self) -> bool:
        """Whether every test was low, and neither one partner nor what all share is the cause."""
        return self.others_good and self.low == self.tests >= FEWEST_AGAIN

    @property
    def words(self) -> str:
        """The result in words."""
        partners = ", ".join(map(str, self.partners))
        return f"low in {self.low} of {self.tests} tests alone, with {partners}"


def confirmations(verdict: FleetVerdict, tests: Sequence[PairTest]) -> dict[Part, Confirmation]:
    """Return what the last step showed of each part that it tested again."""
    last = max((test.round for test in tests), default=-1)
    usual = verdict.reference or 0.0
    again = [t for t in tests if t.round == last and t.alone and t.value is not None]
    others_good = _are_good_alone(verdict, tests)
    confirmed: dict[Part, Confirmation] = {}
    for blamed in verdict.blamed if usual else ():
        place = blamed.place
        hosts = blamed_hosts(verdict, blamed)
        own = [
            test
            for test in again
            if place.nic in (-1, test.nic) and passes(test, hosts, blamed.direction)
        ]
        if place.kind == "pair":
            own = [test for test in own if place.peer in (test.source, test.target)]
        if own:
            low = [test for test in own if is_low(verdict, test)]
            ends = {host for test in own for host in (test.source, test.target)}
            partners = tuple(sorted(ends - hosts))
            confirmed[place] = Confirmation(
                low=len(low), tests=len(own), partners=partners, others_good=others_good
            )
    return confirmed


def _are_good_alone(verdict: FleetVerdict, tests: Sequence[PairTest]) -> bool:
    """Tell whether most pairs of the sample are good alone; with known groups, partners are near.

    Where unknown links are shared, a low test says nothing of a host.
    """
    first = min((test.round for test in tests if test.alone), default=-1)
    blamed = {host for finding in verdict.blamed for host in blamed_hosts(verdict, finding)}
    sample = [
        is_low(verdict, test)
        for test in tests
        if test.round == first and blamed.isdisjoint((test.source, test.target))
    ]
    return bool(verdict.groups) or 2 * sum(sample) <= len(sample)


def known_groups(spec: ClusterSpec, machines: tuple[Machine, ...]) -> tuple[int, ...]:
    """Return the group of each host if the provider of a cluster names groups; else nothing."""
    return switch_groups(ask_topology(spec, machines).layers)


def read_groups(
    text: str, machines: Sequence[Machine], *, remedy: str = "See its hosts: cluster ls NAME"
) -> tuple[int, ...]:
    """Parse which hosts share a switch: one line per group, with its hosts (SpecError).

    Hosts are names, ids, addresses or numbers, with spaces or commas; `#` begins a comment. A host
    that is not named gets a group of its own; `remedy` is for an unknown one.
    """
    machines_by_name = {
        word: number
        for number, machine in enumerate(machines)
        for word in (machine.name, machine.id, machine.address, str(number), f"host:{number}")
    }
    groups = [line.partition("#")[0].replace(",", " ").split() for line in text.splitlines()]
    full = full_names([*machines_by_name, *(word for words in groups for word in words)])
    numbers = {full[name]: number for name, number in machines_by_name.items()}
    group_of: dict[int, int] = {}
    for group, words in enumerate(groups):
        for word in words:
            number = numbers.get(full[word])
            if number is None:
                raise SpecError(
                    f"The groups name a host {word!r} that is not of this cluster.", remedy=remedy
                )
            if number in group_of:
                raise SpecError(
                    f"The groups name the host {word!r} twice.",
                    remedy="Name each host on one line only.",
                )
            group_of[number] = group
    if not group_of:
        raise SpecError(
            "The groups name no host.", remedy="Write the hosts of a group on each line."
        )
    first = len(groups)
    return tuple(group_of.get(number, first + number) for number in range(len(machines)))
