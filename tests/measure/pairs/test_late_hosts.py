"""Hosts whose agents are ready late: tests wait for them, and for none that is lost."""

import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from cluster.benchmarks.pairs import BANDWIDTH
from cluster.fleet.rounds import SurveyStep
from cluster.measure.pairs import messages  # pytest would take `TestOutcome` for tests
from cluster.measure.pairs.coordinator import Coordinator, HostLinks, _TestBatch
from cluster.measure.pairs.messages import Answer
from tests.conftest import PATIENCE, until

HURRY = 0.1  # seconds in which no agent is ready
PAIRS = [(0, 1)]


def test_a_host_that_is_ready_late_takes_part_from_then_on(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    late = ("sh", "-c", f'while [ ! -e {mark} ]; do sleep 0.05; done; exec "$@"', "late")
    with HostLinks(["127.0.0.1"] * 2, "", [(), late], HURRY) as links:
        assert 1 in links.late
        assert links.ready_pairs(PAIRS, 2 * HURRY) == []

        mark.touch()

        assert links.ready_pairs(PAIRS, PATIENCE) == PAIRS
        assert (links.late, links.losses) == (set(), {})


def test_a_host_that_ended_is_not_waited_for() -> None:
    with HostLinks(["127.0.0.1"] * 2, "", [(), ("false",)], HURRY) as links:
        assert links.ready_pairs(PAIRS, 1000 * PATIENCE) == []
        assert list(links.losses) == [1]


class Answered(HostLinks):
    """Hosts of which each says why test 0 has no value."""

    untried = False
    busy = (0.0, 0.0)

    def answers(self, seconds: float) -> Iterator[tuple[int, Answer]]:  # noqa: ARG002 - none waits
        yield 1, messages.Listening(test=0, port=1)
        for host in (0, 1):
            yield (
                host,
                messages.TestOutcome(
                    test=0, reason="little", untried=self.untried, busy=self.busy[host]
                ),
            )


@pytest.mark.parametrize(
    ("untried", "busy", "value"),
    [
        (True, (0.0, 0.7), None),
        (True, (0.7, 0.0), None),  # a sender without a processor sends little
        (True, (0.1, 0.1), 0.0),
        (False, (0.7, 0.7), 0.0),
    ],
)
def test_a_test_that_says_nothing_of_the_link_has_no_value(
    untried: bool,  # noqa: FBT001 - a parameter of a test
    busy: tuple[float, float],
    value: float | None,
) -> None:
    links = Answered(["127.0.0.1"] * 2, "")
    links.untried, links.busy = untried, busy
    coordinator = Coordinator(Mock(), links, "ab", BANDWIDTH, 1.0, 0, math.inf)
    batch = _TestBatch(coordinator, PAIRS)
    batch.wait(math.inf, for_ports=True)

    assert batch.report((0, 1), {}) == (value, "little", -1)


class Halted(HostLinks):
    """Hosts of which the receiver has a rate, and the sender gives up later."""

    def answers(self, seconds: float) -> Iterator[tuple[int, Answer]]:  # noqa: ARG002 - none waits
        yield 1, messages.Listening(test=0, port=1)
        yield 1, messages.TestOutcome(test=0, value=1.0)
        time.sleep(HURRY)
        yield 0, messages.TestOutcome(test=0, reason="nothing arrived")


def test_a_side_that_gave_up_does_not_say_how_long_tests_take() -> None:
    """The limit of the next test would be three times that of this one, and so on."""
    links = Halted(["127.0.0.1"] * 2, "")
    batch = _TestBatch(Coordinator(Mock(), links, "ab", BANDWIDTH, 1.0, 0, math.inf), PAIRS)
    batch.wait(math.inf, for_ports=True)

    assert batch.report((0, 1), {}).value == 1.0
    assert batch.took[0, 1] < HURRY


def noticed(links: HostLinks, places: Mapping[int, str]) -> bool:
    return bool(list(links.answers(HURRY)) or places)


def test_an_agent_that_ended_is_started_again_once() -> None:
    with HostLinks(["127.0.0.1"] * 2, "", [(), ()]) as links:
        for places in (links.drops, links.losses):
            links._agents[1].kill()
            until(partial(noticed, links, places), "the end of its agent is noticed")
            links.settle(PATIENCE)

            assert (list(places), links.late) == ([1], set())
            assert links.ready_pairs(PAIRS, HURRY) == ([] if links.losses else PAIRS)


def test_tests_of_an_agent_that_ended_say_nothing_of_its_host() -> None:
    """Nor is it lost if it is ready again; the next test has a value."""
    with HostLinks(["127.0.0.1"] * 2, "", [(), ()]) as links:
        coordinator = Coordinator(Mock(), links, ["127.0.0.1"] * 2, BANDWIDTH, 0.1, 0, math.inf)
        batch = _TestBatch(coordinator, PAIRS)
        links._agents[1].kill()
        batch.wait(time.monotonic() + PATIENCE, for_ports=True)
        links.settle(PATIENCE)

        assert (batch.report((0, 1), links.losses).value, links.losses) == (None, {})
        step = SurveyStep(1, np.array(PAIRS), alone=True, port=0, purpose="round")
        assert all(test.value for test in coordinator.measure(step))
