"""Every log format: what is read of its samples, in any dress, cut, mixed, and how fast."""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from stopwatch import MILLION, ROOT, say

from cluster.core import plugins
from cluster.core.errors import ParseError
from cluster.logs.parsers import Parser
from cluster.logs.reader import read
from cluster.logs.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from cluster.core.model.logs import Reading

    Values = dict[tuple[str, object], set[float]]

LOGS = ROOT / "tests" / "logs"
FAST = 20.0  # MB/s
PREFIXES: tuple[Callable[[str], str], ...] = (
    lambda line: f"[1,0]<stdout>:{line}",
    lambda line: f"> {line}",
    lambda line: f"2026-01-02T03:04:05.678Z {line}",
    lambda line: f" 3: {line}",
    lambda line: f"\x1b[32m{line}\x1b[0m",
)
CUTS = 40
FAILURE = "\nsrun: error: node-1: task 3: Segmentation fault (core dumped)\n"
COLUMNS = ("format", "values", "prefixes", "cut", "mixed", "failure", "MB/s", "redacted MB/s")


def formats(megabytes: int) -> None:
    """Print a row per format; a figure such as 5/5 counts what held of what was tried.

    Args:
        megabytes: of each format, to measure its speed.

    """
    rows = [_row(name, megabytes) for name in plugins.names(Parser)]
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells) + "\n")
    slow = [row[0] for row in rows if float(row[-2]) < FAST]
    say("formats below 20 MB/s", str(len(slow)), "0", good=not slow)


def _row(name: str, megabytes: int) -> tuple[str, ...]:
    paths = sorted(LOGS.glob(f"{name}.*.txt"))
    chance = random.Random(name)  # noqa: S311 - no secret
    held: dict[str, list[bool]] = defaultdict(list)
    count = 0
    for path in paths:
        text = path.read_text()
        whole = _values(text)
        count += sum(map(len, whole.values()))
        for prefix in PREFIXES:
            dressed = "".join(f"{prefix(line)}\n" for line in text.splitlines())
            held["prefixes"].append(_values(dressed) == whole)
        for end in (chance.randrange(1, len(text)) for _ in range(CUTS)):
            held["cut"].append(_is_within(_values(text[:end]), whole))
        others = [p for p in sorted(LOGS.glob("*.txt")) if not p.name.startswith(f"{name}.")]
        for other in chance.sample(others, 5):
            known = _values(other.read_text())
            both = {key: whole.get(key, set()) | known.get(key, set()) for key in whole | known}
            mixture = _mixed(text, other.read_text(), chance)
            held["mixed"].append(_is_within(_values(mixture), both))
        held["failure"].append(_fails(text + FAILURE))
    rate, redacted = _speed(paths, megabytes)
    kinds = ("prefixes", "cut", "mixed", "failure")
    shown = (f"{sum(held[kind])}/{len(held[kind])}" for kind in kinds)
    return name, str(count), *shown, f"{rate:.1f}", f"{redacted:.1f}"


def _reading(text: str) -> Reading | None:
    try:
        return read([text.encode()])
    except ParseError:
        return None


def _values(text: str) -> Values:
    found: Values = defaultdict(set)
    reading = _reading(text)
    for result in reading.results if reading else ():
        for m in result.measurements:
            found[result.format, m.key] |= set(m.values)
    return dict(found)


def _is_within(found: Values, whole: Values) -> bool:
    return all(values <= whole.get(key, set()) for key, values in found.items())


def _fails(text: str) -> bool:
    reading = _reading(text)
    return reading is not None and any(result.failures for result in reading.results)


def _mixed(a: str, b: str, chance: random.Random) -> str:
    parts = [iter(text.splitlines(keepends=True)) for text in (a, b)]
    order = [0] * len(a.splitlines()) + [1] * len(b.splitlines())
    chance.shuffle(order)
    return "".join(next(parts[which]) for which in order)


def _speed(paths: Iterable[Path], megabytes: int) -> tuple[float, float]:
    """Give megabytes per second of processor time, to read and to redact samples over and over.

    That is the hardest case: tests of a few rows each, one after another.
    """
    part = "".join(path.read_text().rstrip("\n") + "\n" for path in paths)
    text = part * (megabytes * MILLION // len(part.encode()) + 1)
    data = text.encode()
    chunks = [data[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    begun = time.process_time()
    read(chunks)
    read_ = time.process_time()
    for _ in redact(chunks):
        pass
    return (
        len(data) / (read_ - begun) / MILLION,
        len(data) / (time.process_time() - read_) / MILLION,
    )
