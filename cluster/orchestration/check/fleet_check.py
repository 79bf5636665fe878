"""A check of a fleet: tests of pairs give a verdict, which is kept in the run's folder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from cluster.analysis.limits.link import goodput
from cluster.core.errors import SpecError
from cluster.core.host_names import full_names
from cluster.core.model.fleet import DeviceKind, Fleet, FleetVerdict, FleetWord, PairMetric
from cluster.core.units import format_size
from cluster.fleet.devices import diagnose_devices
from cluster.fleet.diagnosis import diagnose
from cluster.fleet.foreign import diagnose_foreign
from cluster.fleet.pair_measurements import pair_tests
from cluster.fleet.proximity import switch_groups
from cluster.orchestration.check.simulated import simulator_of
from cluster.orchestration.provider_topology import ask_topology
from cluster.runs import verdict_files
from cluster.runs.run import PAIRS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.core.model.fleet import FleetFinding, PairTest
    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.fleet.simulation import FleetSimulator
    from cluster.runs.run import Run


class SurveyParams(msgspec.Struct, frozen=True, kw_only=True):
    """Those parameters of `pairs` that a verdict needs."""

    metric: PairMetric = "bandwidth"
    allreduce: int = 0  # bytes: how near its limit an operation of a library comes is not known
    groups: tuple[int, ...] = ()
    confirm: bool = False
    directed: bool = True
    foreign: bool = False
    limit: float | None = None
    devices: DeviceKind | Literal[""] = ""
    assumptions: tuple[str, ...] = ()


def judge_fleet(run: Run) -> FleetVerdict:
    """Judge the hosts of a run of pairs, and write the verdict into its folder.

    Args:
        run: of the benchmark `pairs`; it may have been interrupted.

    Raises:
        SpecError: the run is of another benchmark.

    """
    record = run.record
    if record.benchmark != PAIRS:
        raise SpecError(
            f"{run.folder} is a run of {record.benchmark}, and no check of a fleet.",
            remedy="Check a cluster: cluster check NAME",
        )
    params = msgspec.json.decode(record.params, type=SurveyParams)
    routes = simulator_of(record.spec) if record.simulated else None
    fleet = Fleet(
        names=tuple(machine.name for machine in record.machines),
        groups=params.groups or (0,) * len(record.machines),
        nics=1 if routes is None else routes.fabric_links.fabric.nics,
        limit=params.limit or (None if params.allreduce else _limit(record.machines)),
        metric=params.metric,
        directed=params.directed,
        foreign=params.foreign,
    )
    tests = tuple(pair_tests(run.measurements))
    found = _diagnosed(fleet, tests, routes, params)
    shown = confirmations(found, tests) if params.confirm else {}
    confirmed = {part: one.words for part, one in shown.items()}
    before = verdict_files.verdict(run.folder)
    words = partial(
        _with_words, name=record.spec.name, metric=_metric_words(params), confirmed=confirmed
    )
    verdict = msgspec.structs.replace(
        found,
        run=str(run.folder),
        blamed=tuple(map(words, found.blamed)),
        observations=tuple(map(words, found.observations)),
        simulated=record.simulated,
        assumptions=params.assumptions,
        replaced=before.replaced if before else (),
    )
    verdict = of_cut_off_run(verdict, run)
    verdict_files.write_verdict(run.folder, verdict)
    return verdict


def of_cut_off_run(verdict: FleetVerdict, run: Run) -> FleetVerdict:
    """Say of a run that did not end by itself that the rest was not tested."""
    if run.status == "done":
        return verdict
    why = f" ({run.record.reason.rstrip('.')})" if run.record.reason else ""
    cut = f"the check is {run.status}{why} and has {verdict.rounds} round(s): the rest is untested"
    if verdict.verdict == "FAULTY":
        answer = f"{verdict.answer.rstrip('.')}; {cut}."
    else:
        so_far = verdict.answer.removeprefix("UNDECIDED: ")
        answer = f"UNDECIDED: {cut}. So far: {so_far}"
    word: FleetWord = "FAULTY" if verdict.verdict == "FAULTY" else "UNDECIDED"
    return msgspec.structs.replace(verdict, verdict=word, answer=answer)


def _diagnosed(
    fleet: Fleet, tests: Sequence[PairTest], routes: FleetSimulator | None, params: SurveyParams
) -> FleetVerdict:
    if params.devices:
        return diagnose_devices(fleet, tests, params.devices)
    return diagnose_foreign(fleet, tests) if params.foreign else diagnose(fleet, tests, routes)


def _limit(machines: Sequence[Machine]) -> float | None:
    """Return the goodput of TCP through the median link of the hosts, in B/s; None if unknown."""
    known = sorted(goodput(machine.link) for machine in machines if machine.link)
    return known[len(known) // 2] if known else None


def _metric_words(params: SurveyParams) -> str:
    """Return the flag that makes a check measure the same again."""
    if params.allreduce:
        return f" --metric allreduce:{format_size(params.allreduce).replace(' ', '')}"
    return "" if params.metric == "bandwidth" else f" --metric {params.metric}"


def _with_words(
    one: FleetFinding, name: str, metric: str, confirmed: Mapping[str, str]
) -> FleetFinding:
    """Complete the command that confirms a finding, and add its result if it ran."""
    confirm = one.confirm and f"{one.confirm.replace(' NAME', f' {name}')}{metric}"
    return msgspec.structs.replace(one, confirm=confirm, confirmed=confirmed.get(one.part, ""))


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What the last step of a check showed, which tests a blamed host again."""

    low: int
    tests: int
    partners: tuple[int, ...]

    @property
    def holds(self) -> bool:
        """Whether every test was low."""
        return self.low == self.tests

    @property
    def words(self) -> str:
        """The result in words."""
        partners = ", ".join(map(str, self.partners))
        return f"low in {self.low} of {self.tests} tests alone, with {partners}"


def confirmations(found: FleetVerdict, tests: Sequence[PairTest]) -> dict[str, Confirmation]:
    """Return the result of the last step of a check, which tests each blamed host again.

    Args:
        tests: of the run. Tests that were not tried, because a host was lost, show nothing.

    Returns:
        For each blamed host or NIC that was tested in that step, what was shown.

    """
    last = max((test.round for test in tests), default=-1)
    usual = found.reference or 0.0
    confirmed: dict[str, Confirmation] = {}
    for blamed in found.blamed:
        kind, _, number = blamed.part.partition(":")
        if kind not in ("host", "nic") or not usual:
            continue
        host = int(number.partition(".")[0])
        nic = int(number.partition(".")[2]) if kind == "nic" else None
        own = [
            test
            for test in tests
            if test.round == last
            and test.alone
            and test.value is not None
            and nic in (None, test.nic)
            and host in _blamed_ends(test, blamed.direction)
        ]
        if own:
            low = [test for test in own if _is_low(found, test, usual)]
            others = sorted({t.source if t.target == host else t.target for t in own})
            confirmed[blamed.part] = Confirmation(
                low=len(low), tests=len(own), partners=tuple(others)
            )
    return confirmed


def _blamed_ends(test: PairTest, direction: str) -> tuple[int, ...]:
    return {"tx": (test.source,), "rx": (test.target,)}.get(direction, (test.source, test.target))


def _is_low(found: FleetVerdict, test: PairTest, usual: float) -> bool:
    if not test.value:
        return True
    share = test.value / usual if found.metric == "bandwidth" else usual / test.value
    return share < 1 - found.tolerance


def known_groups(spec: ClusterSpec, machines: tuple[Machine, ...]) -> tuple[int, ...]:
    """Return the groups that the provider of a cluster names, if it names any.

    Returns:
        The group of each host; empty if they are not known.

    """
    return switch_groups(ask_topology(spec, machines).layers)


def read_groups(
    text: str, machines: Sequence[Machine], *, remedy: str = "See its hosts: cluster hosts NAME"
) -> tuple[int, ...]:
    """Parse which hosts share a switch: one line per group, with its hosts.

    Args:
        text: names, ids, addresses or numbers of hosts, with spaces or commas; `#` begins a
            comment.
        remedy: what to do about an unknown host.

    Returns:
        The group of each host; one that is not named gets a group of its own.

    Raises:
        SpecError: a host is unknown, or named twice, or none is named.

    """
    known = {
        word: number
        for number, machine in enumerate(machines)
        for word in (machine.name, machine.id, machine.address, str(number), f"host:{number}")
    }
    groups = [line.partition("#")[0].replace(",", " ").split() for line in text.splitlines()]
    same = full_names([*known, *(word for words in groups for word in words)])
    numbers = {same[name]: number for name, number in known.items()}
    found: dict[int, int] = {}
    for group, words in enumerate(groups):
        for word in words:
            number = numbers.get(same[word])
            if number is None:
                raise SpecError(
                    f"The groups name a host {word!r} that is not of this cluster.",
                    remedy=remedy,
                )
            if number in found:
                raise SpecError(
                    f"The groups name the host {word!r} twice.",
                    remedy="Name each host on one line only.",
                )
            found[number] = group
    if not found:
        raise SpecError(
            "The groups name no host.", remedy="Write the hosts of a group on each line."
        )
    first = len(groups)
    return tuple(found.get(number, first + number) for number in range(len(machines)))
