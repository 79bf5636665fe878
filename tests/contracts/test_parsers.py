"""What every parser promises: the same numbers in any dress, no wrong number of half a log."""

import contextlib
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cluster.core import plugins
from cluster.core.errors import ParseError
from cluster.core.model.logs import Reading
from cluster.core.model.results.measurements import Measurement
from cluster.logs.parsers import Parser, symptoms
from cluster.logs.reader import marks_of_parsers, read
from tests.conftest import LONG, tries
from tests.logs.samples import LOGS, kinds

SAMPLES = [pytest.param(path, id=path.stem) for path in sorted(LOGS.glob("*.txt"))]
NAMES = plugins.names(Parser)


def tagged(text: str) -> str:
    return "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines())


def tagged_by_prrte(text: str) -> str:
    return "".join(f"[prterun-a-17@1,3]<stdout>: {line}\n" for line in text.splitlines())


def labelled_by_srun(text: str) -> str:
    return "".join(f" 3: {line}\n" for line in text.splitlines())


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


def numbered(text: str) -> str:
    if text.count("\n") < 3:
        return text  # one number may be anything
    return "".join(f"{n:6}\t{line}\n" for n, line in enumerate(text.splitlines(), 1))


def found_by_grep(text: str) -> str:
    if text.count("\n") < 3:
        return text
    return "".join(f"{n}:{line}\n" for n, line in enumerate(text.splitlines(), 17))


def windows(text: str) -> str:
    return text.replace("\n", "\r\n")


def coloured(text: str) -> str:
    return "".join(f"\x1b[1;32m{line}\x1b[0m\n" for line in text.splitlines())


def stamped(text: str) -> str:
    return "".join(f"2026-01-02T03:04:05.678901234Z {line}\n" for line in text.splitlines())


def collapsed(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


DRESSES = (
    *(tagged, tagged_by_prrte, labelled_by_srun, quoted, numbered, found_by_grep, windows),
    *(coloured, stamped, collapsed),
)
DRESSED = [  # two dresses of each log for a commit, every dress of several logs; all with --long
    pytest.param(path.values[0], dress, id=f"{path.id}-{dress.__name__}")
    for index, path in enumerate(SAMPLES)
    for number, dress in enumerate(DRESSES)
    if LONG or number in (index % len(DRESSES), (index // 2 + 5) % len(DRESSES))
]


def reading(text: str) -> Reading:
    return read([text.encode()])


def values(log: Reading) -> list[tuple[str, Measurement]]:
    return [(result.format, m) for result in log.results for m in result.measurements]


def names_of(path: Path) -> str:
    return path.name.split(".")[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_parser_has_a_log_and_reads_it(name: str) -> None:
    paths = list(LOGS.glob(f"{name}.*.txt"))

    assert paths
    for path in paths:
        log = reading(path.read_text())
        assert name in {result.format for result in log.results}, path.name


@pytest.mark.parametrize("name", NAMES)
def test_a_forced_parser_reads_nothing_of_another_text(name: str) -> None:
    with pytest.raises(ParseError, match="line 1 is"):
        read([b"to be or not to be\n"], name)


@pytest.mark.parametrize("name", NAMES)
def test_its_marks_are_read_from_its_file(name: str) -> None:
    """The reader finds the marks without importing the parser, and they are the same."""
    assert sorted(marks_of_parsers()[name]) == sorted(plugins.find(Parser, name).marks)


def test_only_parsers_whose_mark_is_in_a_log_are_imported() -> None:
    code = (
        "import sys; from cluster.logs.reader import read; "
        f"read([open({str(LOGS / 'mpip.fft.txt')!r}, 'rb').read()]); "
        "print(*(n.rpartition('.')[2] for n in sys.modules if 'logs.parsers.' in n))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert result.stdout.decode().split() == ["symptoms", "mpip"]  # the diagnosis reads each log


def test_every_word_of_a_symptom_is_a_mark_of_its_parser() -> None:
    """Without its mark in a log, the parser is not imported, and the rule would never run."""
    parser = plugins.load(Parser, "symptoms")
    words = {word for _, word, _ in symptoms.rules()}

    assert words == set(parser.marks)


@pytest.mark.parametrize("name", NAMES)
def test_its_definitions_say_everything(name: str) -> None:
    """Unit, direction, clock, aggregation: no word is empty, and each name is there once."""
    definitions = plugins.load(Parser, name).definitions

    assert all(definition.benchmark == name for definition in definitions)
    assert len({definition.metric for definition in definitions}) == len(definitions)
    for definition in definitions:
        assert all(msgspec.to_builtins(definition).values())


@pytest.mark.parametrize("path", SAMPLES)
def test_values_have_the_definitions_of_their_parser(path: Path) -> None:
    for result in reading(path.read_text()).results:
        definitions = {d.id: d for d in plugins.load(Parser, result.format).definitions}
        keys = [m.key for m in result.measurements]

        assert all(definitions[m.definition].unit == m.unit for m in result.measurements)
        assert {d.id for d in result.definitions} == {m.definition for m in result.measurements}
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("path", "dress"), DRESSED)
def test_a_dress_changes_nothing(path: Path, dress: Callable[[str], str]) -> None:
    """Launchers, mails, editors and terminals add something to each line."""
    text = path.read_text()
    plain, dressed = reading(text), reading(dress(text))

    assert [msgspec.structs.replace(r, first=0) for r in plain.results] == [
        msgspec.structs.replace(r, first=0) for r in dressed.results
    ]
    assert plain.unread == dressed.unread


@pytest.mark.parametrize("path", SAMPLES)
def test_portions_change_nothing(path: Path) -> None:
    data = path.read_bytes()
    portions = [data[start : start + 7] for start in range(0, len(data), 7)]

    assert read(portions) == read([data])


@pytest.mark.parametrize("path", SAMPLES)
def test_a_log_may_follow_any_other(path: Path) -> None:
    """Nobody takes the lines of a log that comes behind his own, or before it."""
    chance = random.Random(path.name)
    paths = [p for p in sorted(LOGS.glob("*.txt")) if names_of(p) != names_of(path)]
    for other in chance.sample(paths, 6):
        first, second = (p.read_text() for p in (path, other))
        one_by_one = {(n, m.key, m.values) for t in (first, second) for n, m in values(reading(t))}

        assert {(n, m.key, m.values) for n, m in values(reading(first + second))} == one_by_one


OF_INTERVALS = ("interval", "jitter", "lost")  # what iperf prints for each interval


@pytest.mark.parametrize("path", SAMPLES)
def test_a_part_of_a_log_has_no_other_number(path: Path) -> None:
    """Cut anywhere, what is left is a beginning of what the whole log says, or an error."""
    data = path.read_bytes()
    whole: defaultdict[object, set[float]] = defaultdict(set)
    for name, m in values(read([data])):
        whole[name, m.key] |= set(m.values)
    chance = random.Random(path.name)
    cuts = {chance.randrange(len(data)) for _ in range(tries(150))}
    cuts |= {index + 1 for index, byte in enumerate(data) if byte == ord("\n")}
    for end in sorted(cuts):
        try:
            part = read([data[:end]])
        except ParseError:
            continue
        is_labelled = any("only_intervals" in kinds(result) for result in part.results)
        for name, m in values(part):
            if m.metric in OF_INTERVALS and is_labelled:
                continue  # which stand for totals that were cut off, and are said to
            assert set(m.values) <= whole[name, m.key], (end, m)


@pytest.mark.parametrize("path", SAMPLES)
def test_damage_is_survived(path: Path) -> None:
    """Lines lost, doubled, torn and shuffled, bytes changed: a result or a ParseError."""
    chance = random.Random(path.name)
    lines = path.read_bytes().splitlines(keepends=True)
    for _ in range(tries(60)):
        selection = [line for line in lines if chance.random() > 0.1]
        for _ in range(chance.randrange(6)):
            index = chance.randrange(len(selection) + 1)
            piece = chance.choice(lines)
            selection.insert(index, piece[chance.randrange(len(piece) + 1) :])
        if chance.random() < 0.3:
            chance.shuffle(selection)
        data = bytearray(b"".join(selection))
        for _ in range(chance.randrange(8)):
            if data:
                data[chance.randrange(len(data))] = chance.choice(b'\x00\xff{}[]"\\\x1b\r9-.e, \t')
        try:
            read([bytes(data)])
        except ParseError:
            continue


@pytest.mark.parametrize("path", SAMPLES)
@pytest.mark.parametrize("wide", [b" ", b"\t"], ids=["spaces", "tabs"])
def test_wide_columns_take_no_longer_than_narrow_ones(path: Path, wide: bytes) -> None:
    """A pattern that tries each space in several ways would take hours for such lines."""
    lines = path.read_bytes().splitlines(keepends=True)[:200]
    data = b"".join(re.sub(rb"[ \t]{2,}", wide * 300, line) for line in lines)

    for variant in (data, data.replace(b".", b"x"), re.sub(rb"\w+(?=\n)", b"?", data)):
        with contextlib.suppress(ParseError):
            read([variant])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n \n\t\n", id="blank"),
        pytest.param(random.Random(7).randbytes(300_000), id="binary"),
        pytest.param(b"\x00" * 5_000_000, id="zeros"),
        pytest.param(b" " * 3_000_000, id="spaces"),
        pytest.param(b"{" * 100_000, id="braces"),
        pytest.param(b"{\n" * 100_000, id="lines of braces"),
        pytest.param(b'{"a":' * 50_000, id="deep"),
        pytest.param(b"NCCL OSU algbw iperf3 images/sec " * 40_000, id="a long line of marks"),
        pytest.param(("9" * 9000 + " ").encode() * 3, id="long numbers"),
    ],
)
def test_what_is_no_log_is_an_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        read([data])
