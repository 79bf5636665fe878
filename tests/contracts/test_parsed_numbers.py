"""A number that is read is in the text, with its unit: nothing is made up or guessed."""

import re
from pathlib import Path

import pytest

from cluster.core.model.results.measurements import Measurement
from cluster.logs.reader import read
from tests.logs.samples import LOGS

# Of these, figures are sums or quotients of what is printed, or JSON that names no unit.
COMPUTED = {"iperf3.json", "iperf3.stream", "iperf2.csv", "iperf2.both_ways", "iperf3.old_udp"}
COMPUTED |= {"nccl_tests.json", "perftest.json"}
COMPUTED |= {"sockperf.round_trips"}  # halves
SAMPLES = [
    pytest.param(path, id=path.stem)
    for path in sorted(LOGS.glob("*.txt"))
    if path.stem not in COMPUTED
]
# Thousands may be grouped; in CSV, a comma separates figures.
NUMBER = re.compile(r"(?<!\d)\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d*)?|\d+\.?\d*(?:[eE][+-]?\d+)?")
K, M, G, T = 1e3, 1e6, 1e9, 1e12
# Of each unit of ours: what a printed number is multiplied by, and the words that say so.
TIMES: tuple[tuple[float, str], ...] = (
    (1, r"\bs\b|sec|SECONDS|elapsed|seconds|Time"),
    (1e-3, r"(?<![A-Za-z])ms\b|msec|\(ms\)|milliseconds"),
    (1e-6, r"\bus\b|usec|\(us\)|\bMicro|µs|_usec"),
    (1e-9, r"\bns\b|nsec|\(ns\)"),
)
POWERS = ((1, ""), (K, "[kK]"), (M, "M"), (G, "G"), (T, "T"))
BINARY = ((2**10, "[kK]"), (2**20, "M"), (2**30, "G"), (2**40, "T"))
RATES = tuple(
    (power / 8, rf"{letter}(?:bits|bit|bps|b)(?:/s|\b)|\^{len(str(int(power))) - 1}bits")
    for power, letter in POWERS
)
RATES += tuple(
    (power, rf"{letter}i?(?:Bytes|bytes|Byte|B|bytes/sec)(?:ps|/s|\b)|{letter}B|{letter}bytes|_GBs")
    for power, letter in (*POWERS, *BINARY)
)
FLOPS = tuple((power, rf"{letter}(?:FLOP|flop)") for power, letter in POWERS)
PLAIN = ((1, ""), (1 / 100, "%"), (100, ""), (K, "[kK]|thousand"), (M, "M"), (G, "G"))


def factors(unit: str) -> tuple[tuple[float, str], ...]:
    if unit == "s":
        return TIMES
    if unit == "B/s":
        return RATES
    return FLOPS if unit == "FLOP/s" else PLAIN


def is_printed(value: float, unit: str, text: str, numbers: set[float]) -> bool:
    """Tell whether a number of the text is this value in a unit whose word is in the text."""
    return any(
        any(abs(number * factor - abs(value)) <= 1e-9 * abs(value) for number in numbers)
        and re.search(words, text) is not None
        for factor, words in factors(unit)
    )


def is_derived(m: Measurement) -> bool:
    return m.metric.startswith("derived_")


@pytest.mark.parametrize("path", SAMPLES)
def test_a_number_that_is_read_is_in_the_text_with_its_unit(path: Path) -> None:
    text = path.read_text()
    numbers = {float(number.replace(",", "")) for number in NUMBER.findall(text)}
    for result in read([text.encode()]).results:
        for m in result.measurements:
            if is_derived(m):
                continue
            for value in m.values:
                assert is_printed(value, m.unit, text, numbers), (m.metric, m.params, value)
