"""What is read of a log stands in it: the number, and a word for its unit."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

import pytest

from cluster.core.errors import ParseError
from cluster.logs.reader import read
from tests.logs.samples import LOGS

if TYPE_CHECKING:
    from collections.abc import Iterable

SAMPLES = {
    path.stem: path.read_text(errors="replace")
    for path in sorted(LOGS.glob("*.txt"))
    if not path.read_text(errors="replace").lstrip().startswith("{")  # rates are computed there
}
COMPUTED = re.compile(r"derived_|lost$")  # as their definitions say
ADDED = "were added"  # in the note of a result whose rates are sums
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?")
POWERS = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
BITS = re.compile(r"([KMGT]?)(?:bit|bits|b|bps)(?:/s|/sec|ps)?(?![a-zA-Z])")
BYTES = re.compile(r"([KMGT]?)(?:B|Bytes|bytes)(?:/s|/sec|ps|s)(?![a-zA-Z])")
MEGABITS = "10^6bits/sec"  # netperf
CSV = re.compile(r"^\d{14},", re.MULTILINE)  # iperf: bits per second, without a word
TIMES = {"us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "ns": 1e-9, "nsec": 1e-9}
COUNTS = {"Mpps": 1e6, "K/sec": 1e3, "M/sec": 1e6, "TFLOP": 1e12, "Gflop": 1e9, "GFLOP": 1e9}
SLACK = 1e-9


def scales(unit: str, text: str) -> set[float]:
    """Give how much a printed number of this unit may be, by the words in a text."""
    if unit == "B/s":
        found = {POWERS[power] / 8 for power in BITS.findall(text)}
        for power in BYTES.findall(text):
            found |= {POWERS[power], BINARY[power]}
        return found | ({1e6 / 8} if MEGABITS in text else {1 / 8} if CSV.search(text) else set())
    if unit == "s":
        words = {word for word in TIMES if re.search(rf"(?<![a-zA-Z]){word}(?![a-zA-Z])", text)}
        return {1.0, *(TIMES[word] for word in words)}
    words = {word for word in COUNTS if word in text}
    return {1.0, *(COUNTS[word] for word in words), *POWERS.values()}


def printed(text: str) -> list[float]:
    found = set()
    for number in NUMBER.findall(text):
        for form in (*number.split(","), number.replace(",", ""), number.replace(",", ".")):
            try:
                found.add(abs(float(form)))
            except ValueError:
                continue
    return sorted(found)


def figures(text: str) -> Iterable[tuple[str, str, float]]:
    """Give metric, unit and value of all figures that are read and not computed."""
    try:
        results = read([text.encode()]).results
    except ParseError:
        return
    for result in results:
        if any(ADDED in note for note in result.notes):
            continue
        for m in result.measurements:
            if not COMPUTED.match(m.metric):
                yield from ((m.metric, m.unit, value) for value in m.values)


def is_printed(value: float, numbers: list[float], ways: Iterable[float]) -> bool:
    for scale in ways:
        wanted = abs(value) / scale
        at = bisect_left(numbers, wanted * (1 - SLACK))
        if at < len(numbers) and numbers[at] <= wanted * (1 + SLACK) + 1e-300:
            return True
    return False


@pytest.mark.parametrize("name", SAMPLES)
def test_a_number_that_is_read_is_in_the_text_with_its_unit(name: str) -> None:
    text = SAMPLES[name]
    numbers = printed(text)
    ways = {unit: scales(unit, text) for _, unit, _ in figures(text)}
    for metric, unit, value in figures(text):
        assert is_printed(value, numbers, ways[unit]), (metric, unit, value)
