"""Start a job's ranks, and end them cleanly."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import msgspec

from cluster.agent import protocol
from cluster.agent.follow import GRACE, POLL, is_alive, job_end, job_state
from cluster.agent.hardware import read_text
from cluster.agent.peers import Peers
from cluster.core.model.results.measurements import Progress

RANKS_GRACE = 5.0  # seconds for ranks to write their values, and then for their starter to end
LOST_GRACE = 2.0  # seconds for the starter if a host is lost: srun waits for it
BEGIN_WITHIN = 120.0  # seconds for rank 0 to begin, under a starter that may wait for ever:
MAY_HANG = ("srun", "aprun")
STOP_GRACE = 20.0  # seconds for a job to end cleanly on SIGTERM: more than its own grace periods
RANK_MARKS = (  # of a rank's environment; the last two are of torchrun and aprun
    *(b"PMIX_RANK=", b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="),
    *(b"TORCHELASTIC_RUN_ID=", b"ALPS_APP_PE="),
)
HALT_GRACE = 3.0  # seconds for the ranks of one host: less than the first host waits


def stop_job(folder: Path, grace: float = STOP_GRACE) -> protocol.Ended | protocol.Lost:
    """End a job: send SIGTERM, wait for `grace` seconds, then SIGKILL."""
    start = time.monotonic()
    while is_alive(folder) is None and job_state(folder) == protocol.Running():
        if time.monotonic() - start > RANKS_GRACE:
            break
        time.sleep(POLL)  # tmux has started it, or is about to
    pid = read_text(folder / "pid")
    if is_alive(folder):
        _signal(int(pid), signal.SIGTERM)
    end = _wait(folder, grace)
    if end is None:
        # Keep killing until no process is left: survivors may fork meanwhile.
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            alive = {*(_session(int(pid)) if pid else ()), *find_ranks(folder)}
            if not alive:
                break
            for straggler in alive:
                _signal(straggler, signal.SIGKILL)
            time.sleep(POLL)
        end = _wait(folder, GRACE) or protocol.Lost(reason="its processes could not be ended")
    return end


def _wait(folder: Path, seconds: float) -> protocol.Ended | protocol.Lost | None:
    deadline = time.monotonic() + seconds
    while (end := job_end(folder, has_begun=True)) is None and time.monotonic() < deadline:
        time.sleep(POLL)
    return end


def run_job(seconds: float, argv: list[str]) -> int:
    """Run the command that starts the ranks, in the job's folder, and return its exit status.

    124 if the time was up, 143 after a signal to end, 113 if a host was lost.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    stop_signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in (*stop_signals, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # the number comes through the pipe
    peers = Peers(Path.cwd(), partial(os.write, writer, bytes([signal.SIGCHLD])))
    peers.connect()
    # A process group of its own: a Ctrl-C in the session comes only here, and is a clean end.
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, process_group=0)
    start = time.monotonic()
    status = None
    while status is None and process.poll() is None:
        limit = seconds if _has_begun(argv) else min(seconds, BEGIN_WITHIN)
        if not select.select([reader], [], [], max(0.0, start + limit - time.monotonic()))[0]:
            status = _time_up(argv, limit, seconds)
        elif any(number in stop_signals for number in os.read(reader, 64)):
            status = protocol.BY_SIGNAL + signal.SIGTERM
        elif process.poll() is None and (losses := peers.find_lost()):
            # Report lost hosts before the other ranks are ended, which takes a while.
            reason = "; ".join(f"{n} does not answer any more ({why})" for n, why in losses.items())
            Path(protocol.REASON).write_text(reason)
            Path(protocol.LOST_HOSTS).write_text("\n".join(losses))
            sys.stderr.write(f"{protocol.NOTICE}{reason}\n")
            sys.stderr.flush()
            status = protocol.HOST_LOST
    if status is not None:
        _end_cleanly(process, peers, is_lost=status == protocol.HOST_LOST)
    peers.disconnect()
    if status is not None:
        return status
    return (
        process.returncode if process.returncode >= 0 else protocol.BY_SIGNAL - process.returncode
    )


def _has_begun(argv: list[str]) -> bool:
    """Tell whether rank 0 has begun, or its starter may take as long as it likes."""
    return argv[0] not in MAY_HANG or Path(protocol.PROGRESS).exists()


def _time_up(argv: list[str], limit: float, seconds: float) -> int | None:
    """Report why the ranks are ended; None if they have begun just now, and have time left."""
    if not _has_begun(argv):
        Path(protocol.REASON).write_text(
            f"{argv[0]} started no rank within {limit:g} s. It waits for hosts that another step "
            "of the job holds, or for a daemon that does not answer: squeue --steps; sinfo."
        )
    elif limit < seconds:
        return None
    elif lines := read_text(Path(protocol.PROGRESS)).splitlines():
        # How much of the job was done when its time was up, and when it last made progress.
        last = msgspec.json.decode(lines[-1], type=Progress)
        idle = max(0.0, time.time() - Path(protocol.PROGRESS).stat().st_mtime)
        Path(protocol.REASON).write_text(
            "It did not end within --timeout, and all ranks were stopped. "
            f"{last.done / last.total:.0%} was done; the last progress, of {last.what}, was "
            f"{idle:.0f} s before the end."
        )
    return protocol.TIMED_OUT


def _end_cleanly(process: subprocess.Popen[bytes], peers: Peers, *, is_lost: bool) -> None:
    """End the ranks, so that they write their values; then their starter; then what is left.

    SIGTERM to mpirun alone is not enough: it kills its ranks a quarter of a second later. A starter
    that has lost a host may wait for it: its end is not awaited once its ranks here have ended.
    """
    folder = Path.cwd()
    deadline = time.monotonic() + RANKS_GRACE  # for the ranks of all hosts, also of lost ones
    ranks = find_ranks(folder)
    for rank in ranks:
        _signal(rank, signal.SIGTERM)
    peers.kill_ranks(RANKS_GRACE)
    while is_lost and process.poll() is None and time.monotonic() < deadline and find_ranks(folder):
        time.sleep(POLL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()) if ranks and not is_lost else 0)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LOST_GRACE if is_lost else RANKS_GRACE)
    for straggler in find_ranks(folder):
        _signal(straggler, signal.SIGKILL)
    process.kill()
    process.wait()
    # Its ssh to a host stays, and holds stderr, while its daemon there tries to connect.
    for helper in _session(os.getsid(0)):
        with contextlib.suppress(OSError):
            is_here = Path(f"/proc/{helper}/cwd").readlink().is_relative_to(folder)
            if is_here and os.getpgid(helper) != os.getpgrp():
                os.kill(helper, signal.SIGKILL)


def kill_ranks(folder: Path) -> None:
    """End a job's ranks on this host: SIGTERM, time to write their values, then SIGKILL."""
    for rank in find_ranks(folder):
        _signal(rank, signal.SIGTERM)
    deadline = time.monotonic() + HALT_GRACE
    while (alive := find_ranks(folder)) and time.monotonic() < deadline:
        time.sleep(POLL)
    for straggler in alive:
        _signal(straggler, signal.SIGKILL)


def find_ranks(folder: Path) -> list[int]:
    """Find the ranks of a job: processes in its folder or below, with a rank's variables."""
    ranks = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "cwd").readlink().is_relative_to(folder):
                variables = (path / "environ").read_bytes().split(b"\0")
                if any(variable.startswith(RANK_MARKS) for variable in variables):
                    ranks.append(int(path.name))
    return ranks


def _session(leader: int) -> list[int]:
    """Return the live processes of a session; the job's script leads one."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            if os.getsid(int(path.name)) == leader and state != "Z":
                processes.append(int(path.name))
    return processes


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
