"""Reading takes time in proportion to the length of a log, whatever is in it.

Each pattern is attacked with texts made from itself: what it matches up to a repetition, and then
very many of what it repeats. The time of what uses the pattern is taken at 1, 2, 4 and 8 times a
size within one process, so that a busy machine slows all of them.
"""

import importlib
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from re import _constants as ops  # type: ignore[attr-defined] # what a pattern consists of
from re import _parser  # type: ignore[attr-defined]
from types import FrameType, ModuleType
from typing import Any

import pytest

from cluster import logs
from cluster.core import plugins
from cluster.core.errors import ClusterError
from cluster.logs import parsers
from cluster.logs.hosts import (
    Participants,
    host_lines,
    nics_of_results,
    nodes_of_results,
    read_host_values,
)
from cluster.logs.reader import read
from cluster.logs.redaction import redact
from cluster.logs.text import LONGEST

SIZE = 2_000  # characters; a line of 8 times as many is longer than any that a parser is given
ENOUGH = 0.04  # seconds for 16 kB: 0.4 MB/s, whatever is in it
LINEAR = 24  # at most for 8 times as much: linear time takes 8 times as long, quadratic 64 times
LATE = 3.0  # seconds of processor time, after which nothing else is needed to say that it is slow


def whole(text: str) -> None:
    read([text.encode()])


def redacted(text: str) -> None:
    for _ in redact([text.encode()]):
        pass


def whole_hosts(text: str) -> None:
    read_host_values(text)
    host_lines(text)
    nics_of_results(text, "a.log", [1])
    nodes_of_results(text, "a.log", [1])
    Participants().scan(text, 1, text)


USES: dict[str, Callable[[str], object]] = {
    "hosts": whole_hosts,
    "redaction": redacted,
    "text": whole,
}
FORMATS = plugins.names(parsers.Parser)


def patterns(holder: object) -> Iterator[re.Pattern[str]]:
    """Find the patterns of a module or a parser, also in tables, and of a package's modules."""
    queue = [value for name, value in vars(holder).items() if not name.startswith("__")]
    if isinstance(holder, ModuleType) and hasattr(holder, "__path__"):
        for submodule in pkgutil.iter_modules(holder.__path__, f"{holder.__name__}."):
            queue += vars(importlib.import_module(submodule.name)).values()
    while queue:
        value = queue.pop()
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
            yield value
        elif isinstance(value, dict):
            queue += [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | frozenset):
            queue += value


def matched(tree: Any, before: str, pumps: list[tuple[str, str]]) -> str:  # noqa: C901 - flat
    """Return a text that a pattern nearly matches, and collect its repetitions on the way."""
    text = ""
    for op, value in tree:
        if op is ops.LITERAL:
            text += chr(value)
        elif op is ops.IN:
            text += next((c for c in 'x1 -:"\n,=~@|[' if _is_in(c, value)), "x")
        elif op in (ops.ANY, ops.NOT_LITERAL, ops.CATEGORY):
            text += "x"
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            least, most, inner = value
            unit = matched(inner, before + text, pumps)
            if most > 16 and unit:
                pumps.append((before + text, unit))
            text += unit * max(least, 1)
        elif op is ops.SUBPATTERN:
            text += matched(value[-1], before + text, pumps)
        elif op is ops.ATOMIC_GROUP:
            text += matched(value, before + text, pumps)
        elif op is ops.BRANCH:
            text += max((matched(b, before + text, pumps) for b in value[1]), key=len)
    return text


def _is_in(character: str, items: Any) -> bool:
    kinds: dict[str, Callable[[str], bool]] = {
        "DIGIT": str.isdigit,
        "SPACE": str.isspace,
        "WORD": str.isalnum,
    }
    negated, is_member = items[0][0] is ops.NEGATE, False
    for op, value in items:
        if op is ops.LITERAL:
            is_member |= ord(character) == value
        elif op is ops.RANGE:
            is_member |= value[0] <= ord(character) <= value[1]
        elif op is ops.CATEGORY:
            kind = str(value).removeprefix("CATEGORY_")
            is_member |= kinds[kind.removeprefix("NOT_")](character) != kind.startswith("NOT_")
    return is_member != negated


def attacks(pattern: re.Pattern[str]) -> set[tuple[str, str]]:
    """Return what comes first, and what is then repeated."""
    pumps: list[tuple[str, str]] = []
    text = matched(_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG), "", pumps)
    repeats = {("", before + unit) for before, unit in pumps}
    lines = {("", f"{line}\n") for _, line in repeats}
    return {*pumps, *repeats, *lines, ("", text or " "), ("", " ")}


def seconds(use: Callable[[str], object], attack: tuple[str, str], size: int) -> float:
    before, unit = attack
    text = before + unit * (size // len(unit) + 1)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, LATE)
    try:
        with suppress(ClusterError, TimeoutError):
            use(text)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - start


@pytest.fixture(autouse=True)
def _late() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


def is_slow(use: Callable[[str], object], attack: tuple[str, str]) -> bool:
    """Take the time again, the best of several, before anything is called slow.

    At half of the size, what takes quadratic time takes a quarter of it.
    """
    if any(seconds(use, attack, factor * SIZE) < ENOUGH * (factor / 8) ** 2 for factor in (4, 8)):
        return False
    return all(_grows(use, attack) for _ in range(2))  # other processes slow one of them only


def _grows(use: Callable[[str], object], attack: tuple[str, str]) -> bool:
    times = [min(seconds(use, attack, factor * SIZE) for _ in range(3)) for factor in (1, 2, 4, 8)]
    return times[-1] > ENOUGH and times[-1] > LINEAR * times[0]


@pytest.mark.parametrize("name", USES)
def test_every_pattern_of_whole_texts(name: str) -> None:
    module = importlib.import_module(f"{logs.__name__}.{name}")
    texts = {attack for pattern in patterns(module) for attack in attacks(pattern)}

    assert texts
    assert [attack for attack in texts if is_slow(USES[name], attack)] == []


@pytest.mark.parametrize("name", FORMATS)
def test_every_pattern_of_a_parser(name: str) -> None:
    module = importlib.import_module(f"{parsers.__name__}.{name}")
    later = module.rules() if name == "symptoms" else ()  # they are compiled when first used
    parser = plugins.load(parsers.Parser, name)
    every = (*patterns(module), *patterns(parser), *(pattern for _, _, pattern in later))
    texts = {attack for pattern in every for attack in attacks(pattern)}

    def use(text: str) -> None:
        lines = (text[start : start + LONGEST] for start in range(0, len(text), LONGEST))
        read(["\n".join(lines).encode()], name)

    assert texts
    assert [attack for attack in texts if is_slow(use, attack)] == []
