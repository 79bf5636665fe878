"""Logs that nobody would think of: any parser reads them, or says with a ParseError why not."""

import math
import subprocess
import sys
from collections import defaultdict
from itertools import zip_longest

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.core import plugins
from cluster.core.errors import ParseError
from cluster.core.model.logs import Reading
from cluster.logs.parsers import Parser, number
from cluster.logs.reader import read
from tests.conftest import tries
from tests.logs.samples import LOGS

pytestmark = pytest.mark.quick(False)  # many logs for every parser


NAMES = plugins.names(Parser)
SAMPLES = {path.stem: path.read_text() for path in sorted(LOGS.glob("*.txt"))}
LINES = sorted({line for text in SAMPLES.values() for line in text.splitlines() if line.strip()})
CHARACTERS = st.characters(codec="utf-8")
WORDS = st.sampled_from(["-1", "nan", "inf", "1e999", "0", "9" * 30, "N/A", "", "{", "}", "[", "#"])
QUIET = settings(
    max_examples=tries(60),
    deadline=None,
    derandomize=True,  # the same everywhere: a failure here is one there
    suppress_health_check=list(HealthCheck),
)


def sound(reading: Reading) -> None:
    """Every value is a finite number, and has a definition of its result."""
    for result in reading.results:
        ids = {definition.id for definition in result.definitions}
        for m in result.measurements:
            assert m.definition in ids
            assert m.values
            assert all(math.isfinite(value) for value in m.values)


def try_to_read(text: str, format_: str = "") -> None:
    try:
        reading = read([text.encode(errors="surrogatepass")], format_)
    except ParseError:
        return
    sound(reading)


@pytest.mark.parametrize("name", NAMES)
@QUIET
@given(text=st.text(CHARACTERS, max_size=400))
def test_any_text(name: str, text: str) -> None:
    try_to_read(text, name)


@pytest.mark.parametrize("name", NAMES)
@QUIET
@given(data=st.binary(max_size=400))
def test_any_bytes(name: str, data: bytes) -> None:
    try:
        read([data], name)
    except ParseError:
        return


@pytest.mark.parametrize("name", NAMES)
@QUIET
@given(lines=st.lists(st.sampled_from(LINES), max_size=30))
def test_lines_of_all_tools_in_any_order(name: str, lines: list[str]) -> None:
    try_to_read("\n".join(lines), name)
    try_to_read("\n".join(lines) + "\n")


@pytest.mark.parametrize("sample", SAMPLES)
@QUIET
@given(data=st.data())
def test_words_of_a_log_are_changed(sample: str, data: st.DataObject) -> None:
    """A number may be any other, or none; a line may be anything."""
    lines = SAMPLES[sample].splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(lines) - 1))
        words = lines[index].split(" ")
        word = data.draw(st.integers(0, len(words) - 1))
        words[word] = data.draw(st.one_of(WORDS, st.text(CHARACTERS, max_size=6)))
        lines[index] = " ".join(words)
    try_to_read("\n".join(lines) + "\n", sample.partition(".")[0])


def metric_values(text: str) -> dict[str, set[float]]:
    """Return all values of each metric; none of a text that nobody understands."""
    values: defaultdict[str, set[float]] = defaultdict(set)
    try:
        results = read([text.encode()]).results
    except ParseError:
        return values
    for m in (m for result in results for m in result.measurements):
        values[m.metric] |= set(m.values)
    return values


@pytest.mark.parametrize("sample", SAMPLES)
def test_two_logs_line_by_line(sample: str) -> None:
    """Of a log between the lines of another one, nothing is read that neither of them says.

    Of two logs of one format nobody could tell whose a line is.
    """
    format_ = sample.partition(".")[0]
    samples = [name for name in list(SAMPLES)[::5] if name.partition(".")[0] != format_]
    for other in samples:
        logs = (SAMPLES[sample].splitlines(), SAMPLES[other].splitlines())
        mixture = [line for pair in zip_longest(*logs) for line in pair if line is not None]
        first, second = metric_values(SAMPLES[sample]), metric_values(SAMPLES[other])
        for metric, values in metric_values("\n".join(mixture) + "\n").items():
            if metric == "interval":  # read only if the totals cannot be told apart
                continue
            expected = first[metric] | second[metric]
            if metric.startswith("untitled"):  # the other log hides its title
                expected = set().union(*first.values(), *second.values())
            assert values <= expected, (other, metric)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_other_encodings(sample: str, encoding: str) -> None:
    text = SAMPLES[sample]

    assert read([text.encode(encoding, "replace")]) == read([text.encode("ascii", "replace")])


@QUIET
@given(value=st.floats(allow_nan=True, allow_infinity=True))
def test_a_number_is_read_as_it_is_or_not_at_all(value: float) -> None:
    result = number(repr(value))

    assert result is None or result == value
    assert math.isfinite(value) or result is None


SCRIPT = """
import resource, sys
from cluster.core.errors import ParseError
from cluster.logs.reader import read
part = open(sys.argv[1], "rb").read() if sys.argv[1] != "zeros" else bytes(1 << 16)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read(part * 16 for _ in range(max(1, (32 << 20) // len(part) // 16)))
except ParseError:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("name", ["nccl_log.two_nodes", "zeros"])
def test_memory_does_not_grow_with_the_file(name: str) -> None:
    """A gigabyte is read like this one of 32 MiB, only longer."""
    path = name if name == "zeros" else str(LOGS / f"{name}.txt")
    growth = subprocess.run(
        [sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True
    ).stdout

    assert int(growth) < 24 << 10  # KiB
