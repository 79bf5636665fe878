"""Coordinates the tests of all pairs, round by round; a test that fails is recorded with a reason.

No host can end the survey: a test that hangs has a limit, and a host that dies is lost.
"""

from __future__ import annotations

import math
import os
import selectors
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from cluster.core.errors import ClusterError
from cluster.core.model.network.fleet import Fleet, PairTest
from cluster.core.model.results.measurements import Definition
from cluster.fleet.pair_measurements import measurements_of
from cluster.fleet.rounds import SurveyPlan, SurveyStep, survey
from cluster.measure.first_host import HOSTS, NAMES, REACH, SSH_CONFIG
from cluster.measure.mpi import PREFIXES
from cluster.measure.pairs import messages
from cluster.measure.rank import Rank
from cluster.reports.words.fleet import step_words

FIRST_LIMIT = 10.0  # seconds that a test may take longer than planned, before one has succeeded
PATIENCE = 3.0  # times the slowest test that succeeded
LEAST_LIMIT = 1.0  # seconds that any test may take longer than planned
LIMIT_SHARE = 0.125  # of the time that is left, which one test may take longer than planned
SHORT = 0.5  # of the time of a test: a process that ran or waited for a processor so long lost some
UNSEEN = messages.TestOutcome(test=-1)  # of a side that reported nothing
Pair = tuple[int, int]  # of hosts, by their numbers
MOST_UNANSWERED = 2  # tests in a row that a host does not begin, after which it is lost


def coordinate(
    rank: Rank,
    plan: SurveyPlan,
    fleet_of: Callable[[Iterable[str]], Fleet],
    definition: Definition,
    seconds: float,
    allreduce: int = 0,
) -> None:
    """Test the pairs of a fleet from its first host (ClusterError), or sum `allreduce` bytes."""
    addresses = os.environ.get(HOSTS, "").split(",")
    if addresses == [""]:
        raise ClusterError(f"The addresses of the hosts are not known: {HOSTS} is not set.")
    fleet = fleet_of(addresses)
    words, names = shlex.split(os.environ.get(REACH, "")), os.environ.get(NAMES, "").split(",")
    reach = [[word.replace("{}", name) for word in words] for name in names] if words else []
    deadline = time.monotonic() + (plan.seconds or math.inf)
    patience = min(START_WITHIN, START_SHARE * plan.seconds or math.inf)
    with HostLinks(addresses, os.environ.get(SSH_CONFIG, ""), reach, patience) as links:
        coordinator = Coordinator(rank, links, addresses, definition, seconds, allreduce, deadline)
        survey(fleet, plan, coordinator.measure, remaining=coordinator.remaining)
    for host, reason in links.losses.items():
        rank.note(f"host:{host} is lost: {reason}")


@dataclass
class Coordinator:
    """Runs the tests of a step of the survey; `allreduce` as in `coordinate`.

    After `deadline`, in seconds of the monotonic clock, no test is waited for.
    """

    rank: Rank
    links: HostLinks
    addresses: Sequence[str]
    definition: Definition
    seconds: float
    allreduce: int
    deadline: float
    numbers: int = 0  # of tests so far
    slowest: float = 0.0  # seconds of a test that succeeded
    silences: dict[int, int] = field(default_factory=dict)  # tests in a row, by host

    def measure(self, step: SurveyStep) -> list[PairTest]:
        """Test the pairs of a step: all in one direction, then in the other; or one at a time.

        An allreduce sends in both directions at once, so its value is that of both.
        """
        forward = [(int(a), int(b)) for a, b in step.pairs]
        ways = [forward] if self.allreduce else [forward, [(b, a) for a, b in forward]]
        batches = [[pair] for way in ways for pair in way] if step.alone else ways
        results: list[PairTest] = []
        for batch in batches:
            tests = self._run_batch(batch, step)
            if self.allreduce:
                tests += [replace(t, source=t.target, target=t.source) for t in tests]
            results += tests
            for measurement in measurements_of(tests, self.definition, self.addresses):
                self.rank.add(measurement)
        values = [test.value for test in results if test.value]
        label = step_words(step)
        self.rank.progress(step.number, step.number + 1, label)
        self.rank.print_line(f"{label}: {len(values)} of {len(results)} tests gave a value")
        return results

    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    @property
    def _limit(self) -> float:
        """The seconds that a test may take: three times the slowest that succeeded.

        None may take more than a share of the time that is left for all.
        """
        usual = max(PATIENCE * self.slowest, self.seconds + LEAST_LIMIT)
        limit = usual if self.slowest else self.seconds + FIRST_LIMIT
        return min(limit, self.seconds + LIMIT_SHARE * max(0.0, self.remaining()))

    def _run_batch(self, pairs: Sequence[Pair], step: SurveyStep) -> list[PairTest]:
        limit = self._limit
        self._settle()
        ready = self.links.ready_pairs(pairs, limit)
        batch = _TestBatch(self, ready)
        self.numbers += len(ready)
        if self.allreduce:
            # let one host of each pair start the ranks on both
            for number, (source, target) in batch.tests.items():
                order = self._order("allreduce", number, target, limit)
                address = self.addresses[source]
                variables = tuple((k, v) for k, v in os.environ.items() if k.startswith(PREFIXES))
                full = replace(order, own_address=address, size=self.allreduce, variables=variables)
                self.links.send(source, full)
        else:
            # start all receivers, then all senders
            for number, (_, target) in batch.tests.items():
                self.links.send(target, self._order("receive", number, target, limit))
            batch.wait(time.monotonic() + limit, for_ports=True)
            for number, port in batch.ports.items():
                source, target = batch.tests[number]
                self.links.send(source, self._order("send", number, target, limit, port))
        batch.wait(time.monotonic() + limit + LEAST_LIMIT)
        for number, pair in batch.tests.items():
            for host in pair:
                self.links.send(host, messages.EndTest(test=number))
        self._settle()
        if not self.allreduce:
            self._give_up_silent_hosts(batch)
        reports = {pair: batch.report(pair, self.links.losses) for pair in ready}
        times = [batch.took[pair] for pair in ready if reports[pair].value]
        self.slowest = max([self.slowest, *times])
        return [self._test(pair, reports.get(pair), step, batch) for pair in pairs]

    def _settle(self) -> None:
        share = LIMIT_SHARE * max(0.0, self.remaining())
        self.links.settle(min(AGAIN_WITHIN, share))

    def _order(
        self, role: messages.Role, number: int, target: int, limit: float, port: int = 0
    ) -> messages.BeginTest:
        return messages.BeginTest(
            test=number,
            role=role,
            metric=self.definition.metric,
            seconds=self.seconds,
            limit=limit,
            address=self.addresses[target],
            port=port,
        )

    def _give_up_silent_hosts(self, batch: _TestBatch) -> None:
        """Skip each host that did not begin to listen, twice in a row.

        The silence of an allreduce does not say which of the two hosts is the cause.
        """
        for number, (_, target) in batch.tests.items():
            if number in batch.ports or target in self.links.losses:
                self.silences.pop(target, None)
                continue
            self.silences[target] = self.silences.get(target, 0) + 1
            if self.silences[target] >= MOST_UNANSWERED:
                self.links.give_up(target, "it does not answer")

    def _test(
        self, pair: Pair, report: _Report | None, step: SurveyStep, batch: _TestBatch
    ) -> PairTest:
        """Make the record of a test; without a report it was not tried, as one host was lost."""
        late = "a host was not ready in the time" if self.links.late.intersection(pair) else ""
        fallback = _Report(None, late or "it was not tried")
        source, target = (batch.sides.get((pair, host), UNSEEN) for host in pair)
        outcome = report or _lost_report(pair, self.links.losses) or fallback
        return PairTest(
            round=step.number,
            source=pair[0],
            target=pair[1],
            value=outcome.value,
            reason=outcome.reason,
            lost=outcome.lost_host,
            alone=step.alone,
            port=step.port,
            source_busy=round(source.busy, 2),
            target_busy=round(target.busy, 2),
            source_counters=source.counters,
            target_counters=target.counters,
        )


class _TestBatch:
    """Tests that run at the same time."""

    def __init__(self, coordinator: Coordinator, pairs: Sequence[Pair]) -> None:
        self._links, self._deadline = coordinator.links, coordinator.deadline
        self._sides = 1 if coordinator.allreduce else 2
        self.tests = dict(enumerate(pairs, coordinator.numbers))
        self.ports: dict[int, int] = {}
        self.took: dict[Pair, float] = {}
        self.sides: dict[tuple[Pair, int], messages.TestOutcome] = {}  # of a pair, at one host
        self._values: dict[int, float] = {}
        self._failures: dict[int, messages.TestOutcome] = {}
        self._answers: dict[int, int] = {}
        self._began = time.monotonic()
        self._before = frozenset(coordinator.links.drops)

    @property
    def _dropouts(self) -> set[int]:
        """The hosts whose agents ended meanwhile, and with them their tests."""
        return self._links.drops.keys() - self._before

    def wait(self, deadline: float, *, for_ports: bool = False) -> None:
        """Wait until every test that has begun has all its results; or its port, or has failed."""
        while (remaining := min(deadline, self._deadline) - time.monotonic()) > 0:
            starts = self.ports.keys() if self._sides > 1 else self.tests.keys()
            results = {n for n, count in self._answers.items() if count == self._sides}
            ends = self.ports.keys() | self._failures.keys()
            ends = ends if for_ports else results | (self.tests.keys() - starts)
            lost_hosts = self._links.losses.keys() | self._dropouts
            waiting = [
                n for n, pair in self.tests.items() if n not in ends and lost_hosts.isdisjoint(pair)
            ]
            if not waiting:
                return
            for host, answer in self._links.answers(remaining):
                if isinstance(answer, messages.Listening) and answer.test in self.tests:
                    self.ports[answer.test] = answer.port
                elif isinstance(answer, messages.TestOutcome) and answer.test in self.tests:
                    self._answers[answer.test] = self._answers.get(answer.test, 0) + 1
                    self.sides[self.tests[answer.test], host] = answer
                    if answer.value is not None:
                        self._values[answer.test] = answer.value
                    if answer.reason:
                        self._failures.setdefault(answer.test, answer)
                    else:  # a side that gave up took the limit, and no test takes so long
                        self.took[self.tests[answer.test]] = time.monotonic() - self._began

    def report(self, pair: Pair, reasons: dict[int, str]) -> _Report:
        """Return the value of a pair, or 0 and the reason why there is none; None if untried."""
        number = next(n for n, test in self.tests.items() if test == pair)
        if number in self._values:
            return _Report(self._values[number])
        if self._dropouts.intersection(pair) and not reasons.keys() & pair:
            return _Report(None, "a connection ended, and was made again")
        if failure := self._failures.get(number):
            busy = max(self.sides[pair, host].busy for host in pair if (pair, host) in self.sides)
            is_short = failure.untried and busy >= SHORT
            return _Report(None if is_short else 0.0, failure.reason)
        if time.monotonic() >= self._deadline:
            return _Report(None, "the time for all tests was over")
        silent = f"host:{pair[1]} did not begin to listen within the limit"
        late = silent if self._sides > 1 else "it did not end within the limit"
        loss = _lost_report(pair, reasons)
        return loss._replace(value=0.0) if loss else _Report(0.0, late)


class _Report(NamedTuple):
    """The value of a pair, or why there is none; `lost_host` does not answer any more."""

    value: float | None
    reason: str = ""
    lost_host: int = -1


def _lost_report(pair: Pair, reasons: dict[int, str]) -> _Report | None:
    """Report a pair that was not tried, as a host of it was lost."""
    return next((_Report(None, reasons[host], host) for host in pair if host in reasons), None)


AGENT = ("-P", "-m", "cluster.measure.pairs.host_agent")
PATH = '"PATH=$CLUSTER_PATH:$PATH"'  # a shell's start-up file may have put another Python first
START_WITHIN, END_WITHIN = 30.0, 1.0  # seconds for an agent to be ready, and for all to end
AGAIN_WITHIN = 10.0  # seconds for an agent that is started again
START_SHARE = 0.25  # of the time for all tests, in which an agent is to be ready
AT_ONCE = 32  # agents that start: connections of more may time out where a host has few cores
KEEPALIVE = (
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2"),
    *("-o", "ConnectTimeout=5"),
)
MOST_READ = 1 << 16


@dataclass(eq=False)
class HostLinks:
    """Agents on all hosts, and the connections to them.

    `ssh_config` is for OpenSSH's client, empty if all hosts are this one; inside of an allocation,
    `reach` runs a program on each host by its number. `losses` has why each host is lost, such as
    that it was not ready within `patience` seconds; if these are few, it is `late` until it is.
    `drops` says why an agent ended; it is started again once, as a connection may end by itself.
    """

    addresses: Sequence[str]
    ssh_config: str
    reach: Sequence[Sequence[str]] = ()
    patience: float = START_WITHIN
    losses: dict[int, str] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    drops: dict[int, str] = field(default_factory=dict)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _stderr: list[IO[bytes]] = field(default_factory=list)
    _agents: list[subprocess.Popen[bytes]] = field(default_factory=list)  # in the hosts' order
    _rests: dict[int, bytes] = field(default_factory=dict)

    def _start(self) -> None:
        self._stderr.append(tempfile.TemporaryFile())  # noqa: SIM115 - open to the end
        self._agents.append(self._agent(len(self._agents)))

    def _agent(self, number: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, *AGENT]
        if self.ssh_config and number:
            ssh = ("ssh", "-F", self.ssh_config, *KEEPALIVE)
            words = [*ssh, self.addresses[number], "exec", "env", PATH, "python3", *AGENT]
        elif self.reach and number:
            words = [*self.reach[number], *words]
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr[number]
        )
        self._selector.register(_pipe(process.stdout), selectors.EVENT_READ, number)
        return process

    def __enter__(self) -> Self:
        """Start an agent on each host, and wait until all are ready, or are lost."""
        deadlines: dict[int, float] = {}  # of agents that are not ready
        count, last = len(self.addresses), time.monotonic() + self.patience
        while deadlines or len(self._agents) < count:
            if self.patience < START_WITHIN and time.monotonic() > last:
                count = len(self._agents)
            while len(deadlines) < AT_ONCE and len(self._agents) < count:
                deadlines[len(self._agents)] = time.monotonic() + self.patience
                self._start()
            if not deadlines:
                break
            for number, answer in self.answers(min(deadlines.values()) - time.monotonic()):
                if isinstance(answer, messages.Ready):
                    deadlines.pop(number, None)
            for number in [n for n, end in deadlines.items() if end < time.monotonic()]:
                self._note_slow(number)
            dropouts = self.losses.keys() | self.late
            deadlines = {n: end for n, end in deadlines.items() if n not in dropouts}
        self.late.update(range(len(self._agents), len(self.addresses)))
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._agents:
            _pipe(process.stdin).close()
        deadline = time.monotonic() + END_WITHIN
        for process in self._agents:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _pipe(process.stdout).close()
        for file in self._stderr:
            file.close()
        self._selector.close()

    def send(self, number: int, order: messages.Order) -> None:
        if number in self.losses:
            return
        pipe = _pipe(self._agents[number].stdin)
        try:
            pipe.write(msgspec.json.encode(order) + b"\n")
            pipe.flush()
        except OSError:
            self._drop(number)

    def answers(self, seconds: float) -> Iterator[tuple[int, messages.Answer]]:
        """Wait for answers of the agents for some seconds, and yield those that came."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            number: int = key.data
            data = os.read(key.fd, MOST_READ)
            if not data:
                self._drop(number)
                continue
            self.late.discard(number)  # the first that it says is that it is ready
            *lines, self._rests[number] = (self._rests.get(number, b"") + data).split(b"\n")
            for line in lines:
                yield number, msgspec.json.decode(line, type=messages.Answer)

    def ready_pairs(self, pairs: Sequence[Pair], wait: float) -> list[Pair]:
        """Return the pairs whose hosts are ready; if there is none, wait for a late one."""
        deadline = time.monotonic() + wait
        while True:
            ready = [pair for pair in pairs if (self.losses.keys() | self.late).isdisjoint(pair)]
            wait = deadline - time.monotonic()
            if ready or wait < 0 or all(self.losses.keys() & pair for pair in pairs):
                return ready
            list(self.answers(wait))

    def settle(self, seconds: float) -> None:
        """Wait until agents that were started again are ready; after that time, give them up."""
        deadline = time.monotonic() + seconds
        while again := self.late & self.drops.keys():
            remaining = deadline - time.monotonic()
            for number in again if remaining <= 0 else ():
                self.give_up(number, self.drops[number])
            list(self.answers(remaining))

    def _drop(self, number: int) -> None:
        """Start an agent that ended again; the second time, its host is lost."""
        if number in self.drops:
            self.give_up(number, self._last_error_line(number))
            return
        self.drops[number] = self._last_error_line(number)
        self.late.add(number)
        self._rests.pop(number, None)
        old = self._agents[number]
        self._selector.unregister(_pipe(old.stdout))
        old.kill()
        self._agents[number] = self._agent(number)
        with suppress(BrokenPipeError), old:  # what it was not sent
            pass

    def give_up(self, number: int, why: str) -> None:
        if number not in self.losses:
            self.losses[number] = why
            self.late.discard(number)
            self._selector.unregister(_pipe(self._agents[number].stdout))
            self._agents[number].kill()

    def _note_slow(self, number: int) -> None:
        if self.patience < START_WITHIN:
            self.late.add(number)
        else:
            self.give_up(number, f"it did not answer within {self.patience:g} s")

    def _last_error_line(self, number: int) -> str:
        file = self._stderr[number]
        file.seek(0)
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its connection ended"


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("an agent has both pipes")
    return pipe
