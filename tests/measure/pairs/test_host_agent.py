"""The agent that begins and ends the processes of tests on a host."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from cluster.measure.pairs import messages  # pytest would take `TestOutcome` for tests
from cluster.measure.pairs.messages import Answer, BeginTest, EndTest, Listening, Order, Ready
from tests.conftest import until

RECEIVE = BeginTest(
    test=1, role="receive", metric="bandwidth", seconds=1, limit=600, address="127.0.0.1"
)


class Agent:
    """An agent that runs, and its standard input and output."""

    def __init__(self) -> None:
        words = [sys.executable, "-P", "-m", "cluster.measure.pairs.host_agent"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.answer() == Ready()

    def order(self, order: Order) -> None:
        assert self.process.stdin
        self.process.stdin.write(msgspec.json.encode(order) + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Answer:
        assert self.process.stdout
        answer: Answer = msgspec.json.decode(self.process.stdout.readline(), type=Answer)
        return answer

    def children(self) -> list[str]:
        """Return the states of its children: `S` sleeps, `Z` has ended and was not reaped."""
        pid = self.process.pid
        pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        states = []
        for child in pids:
            with suppress(FileNotFoundError):  # it was reaped since
                states.append(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2][1])
        return states


@pytest.fixture
def agent() -> Iterator[Agent]:
    """Run an agent; it ends with its standard input, which is closed afterwards."""
    host_agent = Agent()
    with host_agent.process:
        yield host_agent
    assert host_agent.process.returncode == 0


def test_a_test_that_is_ended_leaves_no_process(agent: Agent) -> None:
    agent.order(RECEIVE)
    assert isinstance(agent.answer(), Listening)
    assert agent.children() != []

    agent.order(EndTest(test=1))
    until(lambda: agent.children() == [], "it is killed and reaped")


def test_the_number_of_a_process_is_kept_until_its_end_was_noticed(agent: Agent) -> None:
    """Else an order to end it could kill another process that got its number."""
    agent.order(msgspec.structs.replace(RECEIVE, role="send", port=1, limit=1))
    outcome = agent.answer()
    assert isinstance(outcome, messages.TestOutcome)
    assert outcome.reason
    until(lambda: agent.children() == ["Z"], "it has ended")

    agent.order(EndTest(test=1))
    until(lambda: agent.children() == [], "it is reaped")
    agent.order(RECEIVE)
    assert isinstance(agent.answer(), Listening)


def test_the_end_of_the_orders_ends_all_tests(agent: Agent) -> None:
    agent.order(RECEIVE)
    assert isinstance(agent.answer(), Listening)
    pid = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text().strip()
    assert agent.process.stdin
    agent.process.stdin.close()

    assert agent.process.wait(60) == 0
    assert not Path(f"/proc/{pid}").exists()
