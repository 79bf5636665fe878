"""A gate: hosts are proven, bad or undecided within a time, before a job starts on them."""

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple, NoReturn

from msgspec.structs import replace

from cluster.core.errors import ClusterError, InUse, SpecError, Unreachable
from cluster.core.model.hosts import SIMULATED, Machine
from cluster.core.model.network.fleet import Drift, FleetFinding, NextStep, Part, Reason
from cluster.core.model.network.gate import FEWEST, Gate, GateCode
from cluster.core.state import journal
from cluster.core.text.units import parse_seconds
from cluster.fleet.diagnosis import USUAL
from cluster.fleet.evidence import drifts
from cluster.fleet.gate import FALSE_ALARMS, decide
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.bench.plan import LONGEST
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.cluster_jobs import ANSWERS_WITHIN
from cluster.orchestration.fleet_check import judge_check, link_limit
from cluster.orchestration.hosts.setup import examine
from cluster.orchestration.proximity import ask_topology
from cluster.orchestration.usage import busy_hosts
from cluster.remote.hosts import DEAD_AFTER
from cluster.reports.words.gate import busy_words, with_words
from cluster.runs import store
from cluster.runs.run import PAIRS

WITHIN = 60.0  # seconds, by default
COLLECT_SHARE, COLLECT = 0.04, 1.0  # of the time, and seconds, for collecting and judging the tests
JUDGE = 1e-3  # seconds that it takes for each host besides
CHECK_SHARE = 0.5  # of the time: what a gate keeps for its own tests when it waits for a check
CHECK_POLL = 0.5  # seconds
# The factor by which more time would probably decide it, and the seconds to which it is rounded up.
MORE: dict[GateCode, float] = {
    "unconfirmed": 2, "unproven": 2, "few_rounds": 3, "not_ready": 2, "no_time": 3,
}  # fmt: skip
ROUNDED = 5.0
UNCLEAR: tuple[GateCode, ...] = ("unconfirmed", "unproven", "silent_flows")  # all tests have run
OF_GATES = ("--limit", "--busy")  # flags that a check without --gate does not take


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
    start: float | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> Gate:
    """Test hosts for some seconds, and answer whether a job may start on them (SpecError).

    It answers in time, also if hosts do not; the time began at `start` of the monotonic clock, or
    now. `busy` leaves out hosts on which a job runs; without it, nothing is measured beside a job.
    `params` are of the benchmark `pairs`; the next step repeats the flags in `options`.
    """
    within = min(parse_seconds(within), LONGEST)  # no timer takes more than some years
    attempt = _Attempt(cluster, within, start or time.monotonic(), runs, listener)
    return _finish(attempt.answer(busy=busy, params=params or {}), attempt, options)


def prove_nothing(
    cluster: Cluster,
    within: float,
    start: float,
    params: Mapping[str, Any],
    options: Mapping[str, str] = MappingProxyType({}),
) -> Gate:
    """Return the answer of a gate that has none in its time, such as while it ends its tests."""
    attempt = _Attempt(cluster, within, start, None, None)
    return _finish(attempt.unproven("no_time", "", params), attempt, options)


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
        new_facts = None if facts == cluster.disk.refresh().facts else facts
        cluster.disk.record(journal.Examined(facts=new_facts, at=time.time()))
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
        reason, skip = "", tuple[int, ...]()  # skip: the numbers of the hosts on which a job runs
        try:
            with self._alarm():
                if machines[0].shell != SIMULATED:
                    dead = self.cluster.remote.omit_dead(ANSWERS_WITHIN)
                if machines[0].name in dead:
                    raise dead[machines[0].name]
                used = self._used_hosts()
                skip = tuple(n for n, machine in enumerate(machines) if machine.name in used)
                _refuse_used(used, hosts if busy else 0)
                if hosts >= FEWEST:
                    return self._measure(skip, params)
                code = "too_few"
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
        return self.unproven(code, reason, params, skip, dead)

    def _used_hosts(self) -> dict[str, str]:
        """Return the hosts on which a job runs; wait for a check, such as a gate that ends late."""
        used = busy_hosts(self.cluster)
        while used and self._check_runs() and self._remaining() > CHECK_SHARE * self.within:
            time.sleep(CHECK_POLL)
            used = busy_hosts(self.cluster)
        return used

    def _check_runs(self) -> bool:
        newest = self.cluster.disk.refresh().jobs[-1:]
        is_check = any(job.benchmark == PAIRS for job in newest)
        return is_check and self.cluster.bench_jobs.user() is not None

    def unproven(
        self,
        code: GateCode,
        reason: str,
        params: Mapping[str, Any],
        skip: Sequence[int] = (),
        dead: Mapping[str, Unreachable] = MappingProxyType({}),
    ) -> Gate:
        """Return the answer without a test."""
        machines = self.cluster.machines
        unproven = tuple(host for host in range(len(machines)) if host not in skip)
        suspects = tuple(_suspect(h, m, dead) for h, m in enumerate(machines) if m.name in dead)
        limit = params.get("limit") or (None if params.get("allreduce") else link_limit(machines))
        return Gate(
            verdict="UNDECIDED", code=code, reason=reason, hosts=len(machines), unproven=unproven,
            skipped=tuple(skip), suspected=suspects, limit=limit, share=USUAL,
            false_alarms=FALSE_ALARMS, simulated=machines[0].shell == SIMULATED,
        )  # fmt: skip

    def _measure(self, skip: tuple[int, ...], params: Mapping[str, Any]) -> Gate:
        """Test the pairs of hosts on which no job runs (ClusterError)."""
        cluster, hosts = self.cluster, len(self.cluster.machines)
        start_time = time.monotonic()
        groups = params.get("groups")
        groups = groups or ask_topology(cluster.spec, cluster.machines).switch_groups
        if cluster.machines[0].shell != SIMULATED:
            _differences(cluster)
        start = time.monotonic() - start_time  # to begin the tests takes about as long
        reserve = max(COLLECT, COLLECT_SHARE * self.within) + JUDGE * hosts + start
        seconds = max(1.0, self._remaining() - reserve)
        arguments = {**params, "groups": groups, "skip": skip, "confirm": True, "seconds": seconds}
        run = cluster.bench(
            PAIRS,
            runs=self.runs,
            timeout=min(self.within + COLLECT, LONGEST),
            listener=self.listener,
            busy=bool(skip),
            **arguments,
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

        is_late = is_over = False

        def ring(_signal: int, _frame: FrameType | None) -> None:
            nonlocal is_late
            if is_over:
                return
            is_late = True
            signal.setitimer(signal.ITIMER_REAL, max(0.1, self._remaining()))
            _raise_time_over()

        before = signal.signal(signal.SIGALRM, ring)
        cleanup = max(COLLECT, COLLECT_SHARE * self.within) / 2
        signal.setitimer(signal.ITIMER_REAL, max(0.01, self._remaining() - cleanup))
        try:
            yield
        except Exception as error:
            # Interrupted in the wrong place, Python raises its own: "release unlocked lock".
            if is_late:
                _raise_time_over(error)
            raise
        finally:
            is_over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _finish(gate: Gate, attempt: _Attempt, options: Mapping[str, str]) -> Gate:
    name, took = attempt.cluster.name, round(time.monotonic() - attempt.began, 3)
    result = replace(gate, within=attempt.within, took=took)
    return with_words(_with_step(replace(result, needs=_needs(result)), name, options), name)


def _refuse_used(used: Mapping[str, str], hosts: int) -> None:
    """Refuse to measure beside jobs where fewer than two of these hosts are free (InUse)."""
    if used and hosts - len(used) < FEWEST:
        raise InUse(f"{busy_words(used)}.")


def _raise_time_over(cause: Exception | None = None) -> NoReturn:
    raise TimeOver("The time of the gate was over before all tests.") from cause


def _suspect(host: int, machine: Machine, dead: Mapping[str, Unreachable]) -> FleetFinding:
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
    """Return the seconds that a decision would probably take; 0 if more time would not help."""
    helps = gate.code in MORE and gate.took >= gate.within / 2 and not _lacks_hosts(gate)
    return math.ceil(MORE[gate.code] * gate.within / ROUNDED) * ROUNDED if helps else 0.0


def _lacks_hosts(gate: Gate) -> bool:
    """Tell whether no test could begin because the first host, or too many, do not answer."""
    dead = {finding.place.host for finding in gate.suspected}
    return gate.code == "not_ready" and (0 in dead or 0 < gate.hosts - len(dead) < FEWEST)


def _with_step(gate: Gate, name: str, options: Mapping[str, str]) -> Gate:
    """Add what to type next, if anything helps."""

    def again(flags: Mapping[str, str]) -> tuple[str, ...]:
        words = (word for flag in flags.items() for word in flag if word)
        return (name, "--gate", "--within", f"{gate.needs or gate.within:g}s", *words)

    flags = (word for flag in options.items() if flag[0] not in OF_GATES for word in flag if word)
    thorough = (name, "--confirm", "--rounds", "all", *flags)
    allreduce = {"--metric": "allreduce:64MiB", "--limit": options.get("--limit", "RATE")}
    hosts = [finding for finding in gate.bad if finding.place.kind in ("host", "nic")]
    arguments: dict[str, tuple[str, ...]] = {
        "faults": (name, "--replace") if hosts else ("--from", gate.run),
        "below_limit": ("--from", gate.run) if gate.simulated else (name, "--drift"),
        "few_rounds": again(options if gate.needs else {"--groups": "FILE", **options}),
        "no_limit": again({**options, "--limit": "RATE"}),
        "processor": again({**options, **allreduce}),
        **({} if gate.needs else dict.fromkeys(UNCLEAR, thorough)),
        **dict.fromkeys(("no_values", "too_few", "no_network"), (name,)),
    }
    if gate.code == "proven":
        return gate
    if gate.code == "in_use":
        are_free = gate.hosts - len(gate.skipped) >= FEWEST and "--busy" not in options
        wait = NextStep(command="wait", arguments=(name,))
        busy = NextStep(command="check", arguments=again({**options, "--busy": ""}))
        return replace(gate, step=busy if are_free else wait)
    words = (name,) if _lacks_hosts(gate) else arguments.get(gate.code) or again(options)
    return replace(gate, step=NextStep(command="check", arguments=words))
