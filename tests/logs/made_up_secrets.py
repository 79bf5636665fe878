"""A corpus of secrets, made up when the test runs."""

import random
import re
import string
from pathlib import Path

# A kind of secret: how it stands in a log. `<a36>` is made up when the test runs: a letters and
# digits, d digits, h hexadecimal, u upper case and digits, l lower case, b base64, w a password;
# n is a new line, t a tab, e an escape, c and q a full-width `:` and `=`.
# Nothing here looks like a secret to a scanner of this repository.
KINDS = Path(__file__).with_suffix("").read_text().splitlines()
ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "h": string.hexdigits[:16],
    "l": string.ascii_lowercase,
    "u": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits + "!#%^*_-.",
}
SIGNS = {"": "", "n": "\n", "t": "\t", "e": "\x1b", "c": "\uff1a", "q": "\uff1d"}
MADE_UP = re.compile(r"<(?:([abdhluw])(?=\d))?([ntecq]?|\d+)>")


def made_up(template: str, chance: random.Random) -> tuple[str, list[str]]:
    """Fill in a template; give it with the parts that nobody may see."""
    parts: list[str] = []

    def fill(match: re.Match[str]) -> str:
        if not match[1]:
            return SIGNS[match[2]]
        part = "".join(chance.choices(ALPHABETS[match[1]], k=int(match[2])))
        if match[1] == "w":  # begins and ends as passwords of people do
            part = f"p{part[1:-2]}7x"
        parts.append(part)
        return part

    return MADE_UP.sub(fill, template), [part for part in parts if len(part) > SHORT]


SHORT = 11  # characters: what is shorter may be the name of an account


def corpus(seed: int) -> list[tuple[str, str, list[str]]]:
    chance = random.Random(seed)
    pairs = [line.split("|", 1) for line in KINDS]
    return [(kind, *made_up(template, chance)) for kind, template in pairs]
