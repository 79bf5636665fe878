"""Text of others, on a terminal: seen as it is, and never obeyed."""

from __future__ import annotations

import re

# What moves the cursor, changes the title, answers as if typed, or turns the direction of writing.
_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def printable(text: str) -> str:
    r"""Show control characters as text.

    Args:
        text: of a host, a log or an error.

    Returns:
        The same, with `\x1b` for an escape; newlines and tabs stay.

    """
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def json_printable(text: str) -> str:
    r"""Show control characters in JSON as JSON does: the same value is read from it.

    Args:
        text: valid JSON, which has those below 0x20 as escapes already.

    Returns:
        The same, with `\u009b` for a control character of eight bits.

    """
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
