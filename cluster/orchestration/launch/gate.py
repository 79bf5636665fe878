"""A gate: hosts are proven, bad or undecided within a time, before a job starts on them."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from cluster.core import journal
from cluster.core.errors import ClusterError, InUse, SpecError, Unreachable
from cluster.core.model.fleet import Drift, FleetFinding, Part, Reason
from cluster.core.model.gate import FEWEST, Gate, GateCode
from cluster.core.model.hosts import SIMULATED, Machine
from cluster.core.model.steps import NextStep
from cluster.core.units import parse_seconds
from cluster.fleet.evidence import drifts
from cluster.fleet.gate import decide
from cluster.orchestration.bench.listener import Listener
from cluster.orchestration.bench.plan import LONGEST
from cluster.orchestration.check.fleet_check import known_groups
from cluster.orchestration.check.verdict import judge_check
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.cluster_jobs import GIVE_UP_AFTER
from cluster.orchestration.hosts.setup import examine
from cluster.orchestration.launch.busy import busy_hosts
from cluster.remote.hosts import DEAD_AFTER
from cluster.reports.words.gate import with_words
from cluster.runs import store
from cluster.runs.run import PAIRS

WITHIN = 60.0  # seconds, by default
COLLECT_SHARE, COLLECT = 0.04, 1.0  # of the time, and seconds, for collecting and judging the tests
JUDGE = 1e-3  # seconds that it takes for each host besides
OVERRUN = 0.04  # of the time, after which the gate answers with what it has
# The factor by which more time would probably decide it, and the seconds to which it is rounded up.
MORE: dict[GateCode, float] = {
    "unconfirmed": 2, "unproven": 2, "few_rounds": 3, "not_ready": 2, "no_time": 3,
}  # fmt: skip
ROUNDED = 5.0


class TimeOver(KeyboardInterrupt):
    """The time of a gate is over; what is interrupted cleans up as for Ctrl-C."""


def prove(
    cluster: Cluster,
    within: float = WITHIN,
    *,
    busy: bool = False,
    runs: str | Path | None = None,
    listener: Listener | None = None,
    params: Mapping[str, Any] | None = None,
    began: float | None = None,
    typed: Mapping[str, str] = MappingProxyType({}),
) -> Gate:
    """Test hosts for some seconds, and answer whether a job may start on them.

    Args:
        cluster: the hosts.
        within: the seconds that it may take; it answers in time, also if hosts do not.
        busy: leave out hosts on which a job runs; without it, nothing is measured beside a job.
        runs: the folder of all runs.
        listener: called with the progress of the tests.
        params: of the benchmark `pairs`, such as `limit`.
        began: when the time began, by the monotonic clock; now, if it is not given.
        typed: flags with their values, which the next step repeats.

    Raises:
        SpecError: the hosts cannot be tested in pairs.
    """
    within = min(parse_seconds(within), LONGEST)  # no timer takes more than some years
    attempt = _Attempt(cluster, within, began or time.monotonic(), runs, listener)
    gate = attempt.answer(busy=busy, params=params or {})
    took = round(time.monotonic() - attempt.began, 3)
    timed = replace(gate, within=within, took=took)
    return with_words(
        _with_step(replace(timed, needs=_needs(timed)), cluster.name, typed), cluster.name
    )


def compare_hosts(cluster: Cluster) -> tuple[Drift, ...]:
    """Read the facts of all hosts that answer again, and return in what they differ (ClusterError).

    A run that follows has these facts, as it explains slow hosts by them.
    """
    if cluster.machines[0].shell == SIMULATED:
        raise SpecError("Simulated hosts have no settings.", remedy="Leave --drift out.")
    cluster.remote.omit_dead(DEAD_AFTER)
    return _differences(cluster) if cluster.shells() else ()


def _differences(cluster: Cluster) -> tuple[Drift, ...]:
    cluster.install()
    shells = cluster.shells()
    present = [host for host, machine in enumerate(cluster.machines) if machine.name in shells]
    machines = [cluster.machines[host] for host in present]
    facts = examine(shells, machines, ())
    if len(facts) == len(cluster.machines):
        cluster.disk.record(journal.Examined(facts=facts))
    return drifts(dict(zip(present, facts, strict=True)))


class _Attempt(NamedTuple):
    """One gate of a cluster."""

    cluster: Cluster
    within: float
    began: float
    runs: str | Path | None
    listener: Listener | None

    def answer(self, *, busy: bool, params: Mapping[str, Any]) -> Gate:
        jobs, machines = len(self.cluster.state.jobs), self.cluster.machines
        hosts, dead = len(machines), dict[str, Unreachable]()
        code: GateCode = "not_ready"
        reason, skip = "", tuple[int, ...]()
        try:
            with self._alarm():
                if machines[0].shell != SIMULATED:
                    dead = self.cluster.remote.omit_dead(GIVE_UP_AFTER)
                if machines[0].name in dead:
                    raise dead[machines[0].name]
                skip = self._with_jobs(busy=busy)
                if hosts - len(skip) >= FEWEST:
                    return self._measured(skip, params)
                code = "in_use" if skip else "too_few"
        except InUse as error:
            code, reason = "in_use", error.what
        except SpecError:
            raise
        except (TimeOver, ClusterError) as error:
            reason = str(error.args[0])
        if len(self.cluster.state.jobs) > jobs and code == "not_ready":
            with suppress(ClusterError):
                run = store.read(Path(self.cluster.state.jobs[-1].run))
                return decide(judge_check(run), hosts, skip)
        numbers = tuple(range(hosts))
        undecided = Gate(verdict="UNDECIDED", code=code, reason=reason, hosts=hosts)
        lost = tuple(_lost(*host, dead) for host in enumerate(machines) if host[1].name in dead)
        return replace(undecided, unproven=numbers, suspected=lost)

    def _with_jobs(self, *, busy: bool) -> tuple[int, ...]:
        """Return the numbers of the hosts on which a job runs (InUse: some, and not `busy`)."""
        jobs = busy_hosts(self.cluster)
        if jobs and not busy:
            raise InUse(f"{'; '.join(f'{host}: {job}' for host, job in jobs.items())}.")
        machines = enumerate(self.cluster.machines)
        return tuple(number for number, machine in machines if machine.name in jobs)

    def _measured(self, skip: tuple[int, ...], params: Mapping[str, Any]) -> Gate:
        """Test the pairs of hosts on which no job runs (ClusterError)."""
        cluster, hosts = self.cluster, len(self.cluster.machines)
        began = time.monotonic()
        groups = params.get("groups") or known_groups(cluster.spec, cluster.machines)
        if cluster.machines[0].shell != SIMULATED:
            _differences(cluster)
        start = time.monotonic() - began  # to begin the tests takes about as long
        reserve = max(COLLECT, COLLECT_SHARE * self.within) + JUDGE * hosts + start
        seconds = max(1.0, self._remaining() - reserve)
        tested = {**params, "groups": groups, "skip": skip, "confirm": True, "seconds": seconds}
        run = cluster.bench(
            PAIRS,
            runs=self.runs,
            timeout=min(self.within + COLLECT, LONGEST),
            listener=self.listener,
            busy=bool(skip),
            **tested,
        )
        return decide(run.fleet or judge_check(run), hosts, skip)

    def _remaining(self) -> float:
        return self.within - (time.monotonic() - self.began)

    @contextmanager
    def _alarm(self) -> Iterator[None]:
        """Interrupt a block when the time is over, and again if it does not end then.

        Only a main thread can be interrupted; elsewhere the limits of the tests bound the time.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(_signal: int, _frame: FrameType | None) -> None:
            again = max(0.1, self._remaining() + OVERRUN * self.within)
            signal.setitimer(signal.ITIMER_REAL, again)
            raise TimeOver("The time of the gate was over before all tests.")

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, self._remaining() - COLLECT / 2))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _lost(host: int, machine: Machine, dead: Mapping[str, Unreachable]) -> FleetFinding:
    """Return that a host does not answer, as a test of it does."""
    words = dead[machine.name].what
    return FleetFinding(
        part=f"host:{host}",
        name=machine.name,
        kind="HUNG",
        direction="both",
        evidence=words,
        place=Part(kind="host", host=host),
        reason=Reason(code="lost", message=words),
    )


def _needs(gate: Gate) -> float:
    """Return the seconds in which it would probably be decided; 0 if time alone does not do it."""
    helps = gate.code in MORE and gate.took >= gate.within / 2
    return math.ceil(MORE[gate.code] * gate.within / ROUNDED) * ROUNDED if helps else 0.0


def _with_step(gate: Gate, name: str, typed: Mapping[str, str]) -> Gate:
    """Add what to type next, if anything helps."""

    def again(flags: Mapping[str, str]) -> tuple[str, ...]:
        words = (word for flag in flags.items() for word in flag if word)
        return (name, "--gate", "--within", f"{gate.needs or gate.within:g}s", *words)

    allreduce = {"--metric": "allreduce:64MiB", "--limit": typed.get("--limit", "RATE")}
    hosts = [finding for finding in gate.bad if finding.place.kind in ("host", "nic")]
    arguments: dict[str, tuple[str, ...]] = {
        "faults": (name, "--replace") if hosts else ("--from", gate.run),
        "below_limit": ("--from", gate.run) if gate.simulated else (name, "--drift"),
        "few_rounds": again(typed if gate.needs else {"--groups": "FILE", **typed}),
        "no_limit": again({**typed, "--limit": "RATE"}),
        "processor": again({**typed, **allreduce}),
        "in_use": again({**typed, "--busy": ""}),
        **dict.fromkeys(("no_values", "too_few", "no_network"), (name,)),
    }
    if gate.code == "proven":
        return gate
    words = arguments.get(gate.code) or again(typed)
    return replace(gate, step=NextStep(command="check", arguments=words))
