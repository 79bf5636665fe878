"""Text from hosts and logs, made safe to print: the terminal obeys no control character in it."""

import re

# What moves the cursor, changes the title, makes the terminal answer as if the user had typed, or
# reverses the direction of writing.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def printable(text: str) -> str:
    r"""Show control characters as text, such as `\x1b` for an escape; newlines and tabs stay."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def json_printable(text: str) -> str:
    """Escape control characters of eight bits in JSON text, which decodes to the same value."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
