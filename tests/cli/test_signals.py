"""What Ctrl-C and SIGTERM do to a command, also where whoever started it ignores Ctrl-C."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.orchestration.bench.collect import interrupts_ignored
from tests.background import Background, hanging_run, no_rank_is_left, only_run, record, values
from tests.conftest import COMMAND, command, processes, run
from tests.snapshots import Snapshot

INHERITED = ["--default-signal", "--ignore-signal=INT"]


@pytest.fixture(params=INHERITED)
def hanging(request: pytest.FixtureRequest, faulty: None, tools: None) -> Iterator[Background]:
    """A run whose ranks hang, from a parent that does or does not ignore SIGINT."""
    with hanging_run(signals=request.param) as background:
        yield background


def test_sigterm_stops_the_ranks_and_keeps_the_values(
    snapshot: Snapshot, hanging: Background
) -> None:
    """As Ctrl-C does; a second one changes nothing."""
    hanging.process.terminate()
    hanging.process.terminate()
    status, stderr = hanging.end()

    assert status == 143
    snapshot(stderr)
    assert record(only_run())["status"] == "interrupted"
    snapshot(record(only_run())["reason"])
    assert values(only_run()) == {0: [1.0, 2.0, 3.0], 1: [1.0, 2.0, 3.0]}
    assert no_rank_is_left()


@pytest.mark.parametrize("hanging", ["--ignore-signal=INT"], indirect=True)
def test_an_ignored_ctrl_c_stays_ignored(snapshot: Snapshot, hanging: Background) -> None:
    """Of two signals that wait, Python handles the lower number first: SIGINT was seen."""
    os.killpg(hanging.process.pid, signal.SIGINT)
    hanging.process.terminate()
    status, _ = hanging.end()

    assert status == 143
    snapshot(record(only_run())["reason"])


@pytest.mark.parametrize("hanging", ["--ignore-signal=INT"], indirect=True)
def test_no_program_of_a_job_ignores_ctrl_c(hanging: Background) -> None:
    """Neither the server of tmux, nor the job's script, nor mpirun, nor a rank.

    Only its `tee -i` does, on purpose: it keeps what the others say when they are interrupted.
    """
    server = int(run("tmux", "display-message", "-p", "-t", "hanging", "#{pid}").stdout)
    of_job = [pid for pid in processes("") if _works_in(pid, Path(os.environ["CLUSTER_STATE"]))]
    names = {pid: (Path("/proc") / str(pid) / "comm").read_text().strip() for pid in of_job}

    assert {"mpirun", "prterun"} & {*names.values()}
    for pid in (server, *of_job):
        ignores = _ignores_sigint((Path("/proc") / str(pid) / "status").read_text())
        assert ignores == (names.get(pid) == "tee")


@pytest.mark.parametrize("signals", INHERITED)
def test_a_local_command_does_not_ignore_ctrl_c(signals: str) -> None:
    command("up", "mine", "--provider", "local")
    words = ["env", signals, COMMAND, "run", "mine", "--on", "0", "--"]
    words += ["grep", "SigIgn", "/proc/self/status"]

    assert not _ignores_sigint(run(*words).stdout)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_that_another_thread_gets_interrupts_the_main_thread(number: str) -> None:
    """The kernel gives it to any thread, if another signal of the main thread is pending."""
    program = f"""
import os, signal, threading
from cluster.cli import signals

signals.handle()
def get_it():
    while "S (sleeping)" not in open(f"/proc/self/task/{{os.getpid()}}/status").read():
        pass  # the main thread does not wait yet
    signal.pthread_kill(threading.get_ident(), signal.{number})

try:
    threading.Thread(target=get_it).start()
    threading.Event().wait()
except KeyboardInterrupt:
    print("interrupted")
"""
    words = ["env", "--default-signal", sys.executable, "-c", program]

    assert run(*words).stdout == "interrupted\n"


@pytest.mark.parametrize(
    ("first", "later", "interrupted"),
    [
        ("SIGTERM", "SIGTERM", False),
        ("SIGINT", "SIGTERM", False),
        ("SIGTERM", "SIGINT", False),
        ("SIGINT", "SIGINT", False),
        ("SIGINT", "SIGINT", True),
        ("SIGTERM", "SIGINT", True),
    ],
)
def test_only_the_first_signal_interrupts(first: str, later: str, *, interrupted: bool) -> None:
    """Another would interrupt the clean-up, unless somebody presses Ctrl-C again to leave."""
    program = f"""
import signal
from cluster.cli import signals

signals.SAME = {0 if interrupted else 3600}
received = signals.handle()
try:
    signal.raise_signal(signal.{first})
except KeyboardInterrupt as interrupt:
    print(repr(str(interrupt)))
try:
    signal.raise_signal(signal.{later})
except KeyboardInterrupt:
    print("again")
print(received[0].number == signal.{first}, len(received))
"""
    words = ["env", "--default-signal", sys.executable, "-c", program]
    message = "SIGTERM was received." if first == "SIGTERM" else ""

    assert run(*words).stdout.splitlines() == [
        repr(message),
        *(["again"] if interrupted else []),
        "True 2",
    ]


def test_a_signal_that_python_drops_is_sent_again(snapshot: Snapshot) -> None:
    """What a `__del__` raises is shown at most; the command would go on."""
    program = """
import signal, threading
from cluster.cli import signals

class Dropping:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

received = signals.handle()
try:
    Dropping()
    print("it goes on", flush=True)
    threading.Event().wait()
except KeyboardInterrupt as interrupt:
    print(interrupt, len(received))
"""
    words = ["env", "--default-signal", sys.executable, "-c", program]

    snapshot(run(*words).stdout)


def test_what_brings_values_home_is_not_interrupted() -> None:
    """Handlers come back afterwards, and what is ignored stays so."""
    interrupts: list[int] = []
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number)),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    }
    try:
        with interrupts_ignored():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        assert interrupts == []
        signal.raise_signal(signal.SIGINT)
        assert interrupts == [signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return (Path("/proc") / str(pid) / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def _ignores_sigint(status: str) -> bool:
    [line] = [line for line in status.splitlines() if "SigIgn" in line]
    return bool(int(line.split()[-1], 16) >> (signal.SIGINT - 1) & 1)
