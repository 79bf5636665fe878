"""The samples of logs beside this file, and how tests read them."""

import random
from pathlib import Path

from cluster.core.model.logs import Parsed
from cluster.logs.reader import read

LOGS = Path(__file__).parent


def results(name: str) -> tuple[Parsed, ...]:
    """Read a sample by its name without `.txt`."""
    return read([(LOGS / f"{name}.txt").read_bytes()]).results


def parse(text: str) -> Parsed:
    """Read a text that holds one result."""
    (result,) = read([text.encode()]).results
    return result


def kinds(result: Parsed) -> list[str]:
    return [note.kind for note in result.notes]


def values(result: Parsed, metric: str, **params: object) -> list[float]:
    """Return all values of a metric, at the points that have these parameters."""
    return [
        value
        for m in result.measurements
        if m.metric == metric and params.items() <= m.params.items()
        for value in m.values
    ]


def damaged(lines: list[bytes], chance: random.Random, wrong: bytes) -> list[bytes]:
    """Cut after any line, lose, double and shuffle lines, and put wrong bytes in."""
    texts = [b"".join(lines[:end]) for end in range(len(lines))]
    for _ in range(100):
        selection = [line for line in lines for _ in range(chance.choice((0, 1, 1, 1, 2)))]
        if chance.random() < 0.3:
            chance.shuffle(selection)
        data = bytearray(b"".join(selection))
        for _ in range(chance.randrange(8)):
            data[chance.randrange(len(data))] = chance.choice(wrong)
        texts.append(bytes(data))
    return texts
