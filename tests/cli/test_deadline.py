"""A gate answers in its time, whatever it waits for."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.cli.deadline import answer_by
from tests.conftest import PATIENCE, run, until


def status_of(work: Callable[[], bytes]) -> int:
    """Return the exit status of a process that waits for the answer of such work."""
    child = os.fork()
    if not child:
        status = 0
        try:
            answer_by(time.monotonic() + PATIENCE, work)
        except SystemExit as exited:  # as the child of this child
            status = int(exited.code or 0)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fail() -> bytes:
    sys.exit(7)


def die() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_long_answer_arrives_whole() -> None:
    assert answer_by(time.monotonic() + PATIENCE, lambda: b"x" * 1_000_000) == b"x" * 1_000_000


def test_what_is_late_is_no_answer_and_ends_what_it_began(tmp_path: Path) -> None:
    go, end = tmp_path / "go", tmp_path / "over"

    def work() -> bytes:
        try:
            until(go.exists, "the answer was given up")
            end.touch()
        finally:
            os._exit(0)

    start = time.monotonic()
    assert answer_by(start + 0.2, work) is None
    assert not end.exists()
    go.touch()
    until(end.exists, "the child has cleaned up")


def test_an_answer_does_not_wait_for_the_end_of_its_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, end, leave = tmp_path / "go", tmp_path / "over", os._exit

    def leave_late(status: int) -> None:
        until(go.exists, "the answer has arrived")
        end.touch()
        leave(status)

    monkeypatch.setattr(os, "_exit", leave_late)
    assert answer_by(time.monotonic() + PATIENCE, lambda: b"proven") == b"proven"
    assert not end.exists()
    go.touch()
    until(end.exists, "the child ends")


PRIORITY = """
import os
from cluster.cli import command_line, main

command_line.run = lambda _: print(os.sched_getscheduler(0), flush=True) or os._exit(0)
main()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_no_other_process_delays_the_start_of_a_gate() -> None:
    def policy(*words: str) -> int:
        return int(run(sys.executable, "-c", PRIORITY, "check", "mine", *words).stdout)

    assert policy() == os.SCHED_OTHER
    assert policy("--gate") == os.SCHED_RR | os.SCHED_RESET_ON_FORK


def test_a_child_that_ends_well_without_an_answer_has_none() -> None:
    assert answer_by(time.monotonic() + PATIENCE, lambda: os._exit(0)) is None


LATE = """
import os, sys, time
from pathlib import Path
from cluster.cli.deadline import answer_by

def work():
    print("begun", file=sys.stderr, flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    print("late", file=sys.stderr, flush=True)
    Path(sys.argv[2]).touch()
    os._exit(0)

assert answer_by(time.monotonic() + 1, work) is None
print("answer", flush=True)
os._exit(0)
"""


def test_who_reads_the_output_does_not_wait_for_what_is_late(tmp_path: Path) -> None:
    go, end = tmp_path / "go", tmp_path / "over"
    result = run(sys.executable, "-c", LATE, str(go), str(end))  # until both pipes are closed
    assert (result.stdout, result.stderr) == ("answer\n", "begun\n")
    assert not end.exists()

    go.touch()
    until(end.exists, "the child goes on")


@pytest.mark.parametrize(("work", "status"), [(fail, 7), (die, 128 + signal.SIGKILL)])
def test_work_that_fails_ends_both_with_its_status(work: Callable[[], bytes], status: int) -> None:
    assert status_of(work) == status
