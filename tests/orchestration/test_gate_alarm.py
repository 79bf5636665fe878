"""The alarm of a gate: whatever it interrupts, the time is over, and nothing else is wrong."""

import threading
import time
from typing import Any, cast

import pytest

from cluster.orchestration.launch.gate import TimeOver, _Attempt


def attempt() -> _Attempt:
    return _Attempt(cast("Any", None), 1.2, time.monotonic(), None, None)  # it rings at 0.7 s


def interrupt_a_lock() -> None:
    """Fail as Condition.wait does where a signal comes while it takes its lock again."""
    lock = threading.Lock()
    with attempt()._alarm(), lock:
        try:
            time.sleep(60)  # the alarm interrupts it after 0.7 s
        finally:
            lock.release()


def test_an_error_that_the_alarm_causes_says_that_the_time_is_over() -> None:
    with pytest.raises(TimeOver):
        interrupt_a_lock()


def test_an_error_before_the_alarm_is_raised_as_it_is() -> None:
    with pytest.raises(RuntimeError), attempt()._alarm():
        raise RuntimeError("before")
