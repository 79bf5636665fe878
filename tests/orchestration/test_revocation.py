"""Machines that are taken away while a job runs, and providers that do not answer."""

import threading
import time

import pytest

from cluster.core.errors import ProvisionError
from cluster.orchestration.hosts import machines
from cluster.orchestration.hosts.machines import RevocationWatch
from tests.conftest import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask more often than for users, and wait less."""
    monkeypatch.setattr(machines, "BETWEEN", 0.01)
    monkeypatch.setattr(machines, "ANSWERS_WITHIN", 0.05)


def test_a_provider_that_does_not_answer_keeps_no_run_from_its_end() -> None:
    """As a slurmctld that hangs: its command is given up only after a minute."""
    answers = threading.Event()
    question = threading.Event()

    def ask() -> ProvisionError:
        question.set()
        answers.wait(60)
        return ProvisionError("somebody cancelled it")

    start = time.monotonic()
    stopped: list[str] = []
    with RevocationWatch(ask, lambda: stopped.append("now")) as watch:
        until(question.is_set, "the provider is asked")
        assert watch.ask() is None
    assert time.monotonic() - start < 30

    answers.set()  # too late: the run has ended, and nothing is stopped any more
    watch._thread.join()
    assert (watch.reason, stopped) == (None, [])


def test_what_is_taken_away_is_stopped_once_and_its_stop_is_waited_for() -> None:
    stopping, end = threading.Event(), threading.Event()

    def stop() -> None:
        stopping.set()
        until(watch._over.is_set, "the block is over")
        end.set()

    preempted = ProvisionError("it was preempted")
    watch = RevocationWatch(lambda: preempted, stop)
    with watch:
        until(stopping.is_set, "it is stopped")
    assert end.is_set()
    assert watch.reason is preempted
