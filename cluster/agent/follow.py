"""Follow a job: print what it writes, until it ends."""

import os
import sys
import time
from pathlib import Path

import msgspec

from cluster.agent.hardware import read_text
from cluster.agent.protocol import FOLLOWED, HEARTBEAT, Ended, Event, Lost, Running, Wrote
from cluster.core.model.hang import HostReport
from cluster.core.model.hosts import Facts, HostUsage
from cluster.core.model.jobs import TaskOutput, TaskState

POLL = 0.1  # seconds between two polls of a job's files; each may interrupt a rank
CHUNK = 1 << 20
GRACE = 10.0  # seconds for a job to begin


def job_state(folder: Path) -> Running | Ended | Lost:
    try:
        age = time.time() - (folder / "job.sh").stat().st_mtime
    except FileNotFoundError:
        return Lost(reason="its folder is gone")
    return job_end(folder, has_begun=age > GRACE) or Running()


def follow_job(folder: Path) -> Ended | Lost:
    """Follow a job until it ends, and print what it writes as `Wrote` events.

    `Running` is printed at times, so that the reader can tell a quiet job from a watcher that was
    stopped.
    """
    offsets: dict[Path, int] = {}
    start = beat = time.monotonic()
    while True:
        now = time.monotonic()
        end = job_end(folder, has_begun=now > start + GRACE)
        final = end is not None
        values = sorted(folder.glob("measurements.*.jsonl"))
        for path in [*(folder / name for name in FOLLOWED), *values]:
            while text := _new_text(path, offsets, final=final):
                print_event(Wrote(file=path.name, text=text.decode(errors="replace")))
        if end is not None:
            return end
        if now > beat + HEARTBEAT:
            print_event(Running())
            beat = now
        time.sleep(POLL)


def job_end(folder: Path, *, has_begun: bool) -> Ended | Lost | None:
    """Tell how a job ended; None while it runs, or may still begin."""
    alive = is_alive(folder)  # before the status is read: the script writes it before it ends
    status = read_text(folder / "status")
    if status:
        return Ended(status=int(status))
    if alive or (alive is None and not has_begun):
        return None
    if alive is None:
        return Lost(reason="its script never started")
    return Lost(reason="its tmux session was killed from outside, or this host was restarted")


def is_alive(folder: Path) -> bool | None:
    """Tell by its command line whether the job's script runs; None if it has not begun."""
    pid = read_text(folder / "pid")
    if not pid:
        return None
    try:
        words = Path(f"/proc/{int(pid)}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(folder / "job.sh") in words


def _new_text(path: Path, offsets: dict[Path, int], *, final: bool) -> bytes:
    """Read about a chunk of what was added to a file: whole lines, unless it is final."""
    text = piece = b""
    try:
        with path.open("rb") as file:
            file.seek(offsets.get(path, 0))
            while b"\n" not in piece and (piece := file.read(CHUNK)):
                text += piece
            at_end = not file.read(1)
    except FileNotFoundError:
        return b""
    if not (final and at_end):
        text = text[: text.rfind(b"\n") + 1]
    offsets[path] = offsets.get(path, 0) + len(text)
    return text


def print_event(answer: Facts | Event | HostReport | TaskOutput | TaskState | HostUsage) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
