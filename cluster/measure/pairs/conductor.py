"""Lets all hosts test their pairs, round by round; what hangs or dies is a cell with a reason."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Literal

from cluster.analysis.fleet.pair_measurements import measurement_of
from cluster.analysis.fleet.survey import survey
from cluster.core.errors import ClusterError
from cluster.core.model.fleet import PairTest
from cluster.measure.first_host import HOSTS, SSH_CONFIG
from cluster.measure.pairs.host_links import HostLinks
from cluster.measure.pairs.messages import BeginTest, EndTest, Listening, TestOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cluster.analysis.fleet.survey import SurveyPlan, SurveyStep
    from cluster.core.model.fleet import Fleet
    from cluster.core.model.measurements import Definition
    from cluster.measure.pairs.messages import Answer
    from cluster.measure.rank import Rank

FIRST_LIMIT = 10.0  # seconds beyond its own that a test may take, before any was good
PATIENCE = 3.0  # times the slowest good test
LEAST_LIMIT = 1.0  # seconds beyond its own that any test may take
SILENCES = 2  # tests that a host does not so much as begin, after which it is lost


def conduct(
    rank: Rank,
    plan: SurveyPlan,
    fleet_of: Callable[[Iterable[str]], Fleet],
    definition: Definition,
    seconds: float,
) -> None:
    """Test a fleet from its first host.

    Args:
        rank: where values go.
        plan: of the survey.
        fleet_of: gives the fleet of the names of its hosts.
        definition: of the metric.
        seconds: of each test.

    Raises:
        ClusterError: nobody said where the hosts are.

    """
    addresses = os.environ.get(HOSTS, "").split(",")
    if addresses == [""]:
        raise ClusterError(f"Nobody said where the hosts are: {HOSTS} is not set.")
    fleet = fleet_of(addresses)
    with HostLinks(addresses, os.environ.get(SSH_CONFIG, "")) as links:
        conductor = Conductor(rank, links, addresses, definition, seconds)
        survey(fleet, plan, conductor.measure)
    for why in links.lost.values():
        rank.note(why)


class Conductor:
    """Takes the tests of a step.

    Args:
        rank: where values go.
        links: to the agents of the hosts.
        addresses: of the hosts.
        definition: of the metric.
        seconds: of each test.

    """

    def __init__(
        self,
        rank: Rank,
        links: HostLinks,
        addresses: Sequence[str],
        definition: Definition,
        seconds: float,
    ) -> None:
        """Begin with no test."""
        self._rank = rank
        self._links = links
        self._addresses = addresses
        self._definition = definition
        self._seconds = seconds
        self._numbers = 0
        self._slowest = 0.0
        self._silences: dict[int, int] = {}

    def measure(self, step: SurveyStep) -> list[PairTest]:
        """Test the pairs of a step: one direction of all, then the other; or one after another."""
        forward = [(int(a), int(b)) for a, b in step.pairs]
        ways = [forward, [(b, a) for a, b in forward]]
        turns = [[pair] for way in ways for pair in way] if step.alone else ways
        found: list[PairTest] = []
        for turn in turns:
            for test in self._together(turn, step):
                found.append(test)
                self._rank.add(measurement_of(test, self._definition, self._addresses[test.source]))
        good = [test.value for test in found if test.value]
        self._rank.progress(step.number, step.number + 1, step.what)
        self._rank.print_line(f"{step.what}: {len(good)} of {len(found)} tests gave a value")
        return found

    @property
    def _limit(self) -> float:
        """How long a test may take in all: three times the slowest good one."""
        if not self._slowest:
            return self._seconds + FIRST_LIMIT
        return max(PATIENCE * self._slowest, self._seconds + LEAST_LIMIT)

    def _together(self, pairs: Sequence[tuple[int, int]], step: SurveyStep) -> list[PairTest]:
        """Run tests at the same time."""
        taken = [pair for pair in pairs if not set(pair) & self._links.lost.keys()]
        turn = _Turn(self._links, taken, self._numbers)
        self._numbers += len(taken)
        limit = self._limit
        self._begin(turn, limit)
        self._note_silence(turn)
        reports = {pair: turn.report(pair, self._links.lost) for pair in taken}
        times = [turn.took[pair] for pair in taken if reports[pair][0]]
        self._slowest = max([self._slowest, *times])
        return [self._test(pair, reports.get(pair), step) for pair in pairs]

    def _begin(self, turn: _Turn, limit: float) -> None:
        """Let the receivers listen, then all senders begin, then wait for what they say."""
        for number, (_, target) in turn.tests.items():
            self._links.say(target, self._order("receive", number, target, limit))
        turn.listen(time.monotonic() + limit)
        for number, port in turn.ports.items():
            source, target = turn.tests[number]
            self._links.say(source, self._order("send", number, target, limit, port))
        turn.finish(time.monotonic() + limit + LEAST_LIMIT)
        for number in turn.tests:
            for host in turn.tests[number]:
                self._links.say(host, EndTest(test=number))

    def _order(
        self,
        role: Literal["receive", "send"],
        number: int,
        target: int,
        limit: float,
        port: int = 0,
    ) -> BeginTest:
        return BeginTest(
            test=number,
            role=role,
            metric=self._definition.metric,
            seconds=self._seconds,
            limit=limit,
            address=self._addresses[target],
            port=port,
        )

    def _note_silence(self, turn: _Turn) -> None:
        """Give up a host that has not so much as begun to listen, twice."""
        for number, (_, target) in turn.tests.items():
            if number in turn.ports or target in self._links.lost:
                self._silences.pop(target, None)
                continue
            self._silences[target] = self._silences.get(target, 0) + 1
            if self._silences[target] >= SILENCES:
                self._links.give_up(target, "it does not answer")

    def _test(
        self, pair: tuple[int, int], report: tuple[float, str] | None, step: SurveyStep
    ) -> PairTest:
        """Put a test together; one with a host that was lost before was not tried."""
        lost = [self._links.lost[host] for host in pair if host in self._links.lost]
        value, reason = report or (None, lost[0] if lost else "it was not tried")
        return PairTest(
            round=step.number,
            source=pair[0],
            target=pair[1],
            value=value,
            reason=reason,
            alone=step.alone,
            port=step.port,
        )


class _Turn:
    """Tests that run at the same time.

    Args:
        links: to the agents.
        pairs: sender and receiver of each test.
        first: the number of the first test.

    """

    def __init__(self, links: HostLinks, pairs: Sequence[tuple[int, int]], first: int) -> None:
        """Number the tests."""
        self._links = links
        self.tests = {first + place: pair for place, pair in enumerate(pairs)}
        self.ports: dict[int, int] = {}
        self.took: dict[tuple[int, int], float] = {}
        self._values: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self._done: dict[int, int] = {}
        self._began = time.monotonic()

    def listen(self, deadline: float) -> None:
        """Wait until every receiver listens."""
        self._hear(deadline, lambda number: number in self.ports or number in self._reasons)

    def finish(self, deadline: float) -> None:
        """Wait until both ends of every test have said how it ended."""
        both = 2
        self._hear(
            deadline,
            lambda number: number not in self.ports or self._done.get(number, 0) == both,
        )

    def _hear(self, deadline: float, over: Callable[[int], bool]) -> None:
        while (left := deadline - time.monotonic()) > 0:
            waiting = [n for n, pair in self.tests.items() if not over(n) and not self._lost(pair)]
            if not waiting:
                return
            for _, answer in self._links.answers(left):
                self._take(answer)

    def _lost(self, pair: tuple[int, int]) -> bool:
        return bool(set(pair) & self._links.lost.keys())

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, Listening) and answer.test in self.tests:
            self.ports[answer.test] = answer.port
        elif isinstance(answer, TestOutcome) and answer.test in self.tests:
            self._done[answer.test] = self._done.get(answer.test, 0) + 1
            if answer.value is not None:
                self._values[answer.test] = answer.value
            if answer.reason:
                self._reasons.setdefault(answer.test, answer.reason)
            self.took[self.tests[answer.test]] = time.monotonic() - self._began

    def report(self, pair: tuple[int, int], lost: dict[int, str]) -> tuple[float, str]:
        """Give the value of a pair, or 0 and why there is none."""
        number = next(n for n, own in self.tests.items() if own == pair)
        if number in self._values:
            return self._values[number], ""
        why = next((lost[host] for host in pair if host in lost), "")
        if number in self._reasons:
            return 0.0, self._reasons[number]
        return 0.0, why or f"host:{pair[1]} did not begin to listen within the limit"
