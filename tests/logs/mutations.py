"""Logs whose numbers were changed at random: a reader refuses them in its own words, or reads."""

import random
import re
from pathlib import Path

from cluster.core.errors import ParseError
from cluster.logs.reader import read

LOGS = sorted(Path(__file__).parent.glob("*.txt"))
NUMBER = re.compile(r"\d+(?:\.\d+)?")
ODD = (
    *("", "-", ".", "-1", "0", "-0.0", "1e999", "-1e999", "1e-999", "nan", "inf", "NaN", "1.2.3"),
    *("9" * 30, "9" * 400, "0x1f", "1_000", "1,000", "٣", "²", "½", "1" + "e" * 9, "+7", "∞"),
    *("18446744073709551616", "2147483648", "1e18", "1e300", "1/0", "%s", "{}", "0" * 50),
)
MOST = 4  # numbers that are changed in one log


def survives(text: str) -> bool:
    """Read a log; whatever else than a value or a `ParseError` comes of it is raised."""
    try:
        read([text.encode()])
    except ParseError:
        return False
    return True


def mutants(count: int, seed: int) -> list[tuple[str, str]]:
    """Return logs, each with some of its numbers changed, and the name of the log that each was."""
    chance = random.Random(seed)
    texts = [(path.name, path.read_text(errors="replace")) for path in LOGS]
    return [_mutant(*texts[n % len(texts)], chance) for n in range(count)]


def _mutant(name: str, text: str, chance: random.Random) -> tuple[str, str]:
    places = [match.span() for match in NUMBER.finditer(text)]
    selection = chance.sample(places, min(len(places), chance.randint(1, MOST)))
    for start, end in sorted(selection, reverse=True):
        text = text[:start] + chance.choice(ODD) + text[end:]
    return name, text
