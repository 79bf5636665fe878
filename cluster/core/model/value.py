"""The base of every frozen value."""

from collections.abc import Callable, Sequence

import msgspec

Scalar = int | float | str
StateCallback = Callable[[str, str], None]
"""Called with the name of a host, and the state that it has reached."""
Argv = Sequence[str]
"""A command and its arguments, unquoted."""
LineCallback = Callable[[str], None]
"""Called with each line that a command prints, as it comes."""


def ignore(host: str, state: str) -> None:
    """Do nothing: the callback of a caller who does not follow the states of hosts."""


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every value: unknown fields are errors; subclasses are frozen, keyword-only."""
