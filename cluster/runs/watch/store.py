"""Benchmarks that a timer repeats: what is repeated, and what became of each attempt.

Both are files in the folder of the cluster's runs, `RUNS/NAME`: `watch.json`, and `watch.jsonl`, to
which every attempt adds a line. The folder is locked while one is measured.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Literal

import msgspec

from cluster.core import decoders, files
from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.value import Value
from cluster.core.paths import make_private
from cluster.core.units import format_seconds
from cluster.runs.run import RECORD

WATCH, LOG = "watch.json", "watch.jsonl"
EARLY = 0.9  # of the interval: a timer may come as early as that, and finds nothing to skip
BUSY = 0.25  # of the processors of a host

Outcome = Literal["measured", "skipped", "failed", "told"]


class Watch(Value, frozen=True, kw_only=True):
    """A benchmark that a timer repeats."""

    name: str
    every: float  # seconds between two runs
    bench: tuple[str, ...]  # the words behind `cluster bench`
    at: float  # when it was added, in seconds since the epoch
    busy: float = BUSY  # the share of a host's processors in use, above which it is not measured
    prometheus: str = ""  # the file for node_exporter; empty for none
    on_change: str = ""  # the shell command for an alarm; empty for none


class WatchEvent(Value, frozen=True, kw_only=True):
    """What became of an attempt to measure."""

    at: float  # when, in seconds since the epoch
    outcome: Outcome  # `told` is an alarm that was handed to the command of the user
    reason: str = ""
    # that were measured, the oldest first; or with which the told change began
    runs: tuple[str, ...] = ()
    series: str = ""  # whose change was told


def add(where: Path, watch: Watch) -> None:
    """Write a watch; one of the same name is replaced, and its log stays (ClusterError)."""
    folder = where / watch.name
    part = folder / f".{WATCH}.part"
    try:
        make_private(folder)
        part.write_bytes(msgspec.json.format(msgspec.json.encode(watch), indent=2) + b"\n")
        part.replace(folder / WATCH)
    except OSError as error:
        raise _unwritable(folder, error) from error


def remove(where: Path, name: str) -> None:
    """Remove a watch; its runs and its log stay (SpecError)."""
    find(where, name)
    (where / name / WATCH).unlink(missing_ok=True)


def find(where: Path, name: str) -> Watch:
    """Read a watch (SpecError: there is none; ParseError: it is damaged)."""
    path = where / name / WATCH
    try:
        return decoders.decode(path.read_bytes(), Watch)
    except FileNotFoundError as error:
        raise SpecError(
            f"There is no watch {name!r} under {where}.",
            remedy=f"Type: cluster watch add {name} --every 6h --bench 'p2p --hosts 2'",
        ) from error
    except msgspec.DecodeError as error:
        raise ParseError(
            f"{path} cannot be read: {error}. Nothing is measured until it is written again.",
            remedy=f"Type: cluster watch add {name} --every 6h --bench 'p2p --hosts 2'",
        ) from error


def names(where: Path) -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in where.glob(f"*/{WATCH}")))


def events(where: Path, name: str) -> tuple[WatchEvent, ...]:
    """Read what became of all attempts, in order, but for a line cut off (ParseError)."""
    path = where / name / LOG
    try:
        lines = files.complete_lines(path.read_bytes())
        return tuple(decoders.decode(line, WatchEvent) for line in lines)
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        raise ParseError(
            f"{path} cannot be read: {error}. Without it, runs stay, and the next one is due.",
            remedy=f"Move it away: mv {path} {path}.bad",
        ) from error


def note(where: Path, name: str, event: WatchEvent) -> None:
    """Add an event to the log (ClusterError)."""
    path = where / name / LOG
    try:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # a skipped attempt writes beside the one that runs
            files.append(path, msgspec.json.encode(event) + b"\n", sync=True)
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def lock(where: Path, name: str) -> Iterator[bool]:
    """Keep a second attempt from measuring at the same time; the lock ends with the process."""
    handle = os.open(where / name, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except BlockingIOError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(handle)


def why_not_due(watch: Watch, events: Sequence[WatchEvent], now: float) -> str:
    """Return why it is too early to measure at `now`, in epoch seconds; empty if a run is due."""
    newest = next((e.at for e in reversed(events) if e.outcome == "measured"), None)
    if newest is None or not 0 <= now - newest < EARLY * watch.every:
        return ""
    return (
        f"the newest run is {format_seconds(now - newest)} old, and one is due every "
        f"{format_seconds(watch.every)}"
    )


def in_order(folders: Sequence[Path], events: Sequence[WatchEvent]) -> list[Path]:
    """Sort runs by the log, as a clock that was set back gives new runs older names.

    Folders come sorted by name; those that are not in the log keep their places.
    """
    place = {folder.name: at for at, folder in enumerate(folders)}
    measured = [event for event in events if event.outcome == "measured"]
    logged = [place[run] for event in measured for run in event.runs if run in place]
    pairs = zip(logged, accumulate(logged, max), strict=True)
    after = {own: (latest, number) for number, (own, latest) in enumerate(pairs)}
    ages = sorted(range(len(folders)), key=lambda at: after.get(at, (at, -1)))
    return [folders[at] for at in ages]


def run_ids(where: Path, name: str) -> frozenset[str]:
    return frozenset(path.parent.name for path in (where / name).glob(f"*/{RECORD}"))


def _unwritable(path: Path, error: OSError) -> ClusterError:
    return ClusterError(
        f"The watch cannot be written: {path}: {error.strerror}.",
        means="Without its log, the next attempt would not know of this one.",
        remedy="Make room, or choose another place: --runs DIR",
    )
