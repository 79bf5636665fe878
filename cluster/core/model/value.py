"""The base of every frozen value."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Scalar = int | float | str
Tell = Callable[[str, str], None]
"""Called with a machine and the state that it got to."""


def nothing(host: str, state: str) -> None:
    """Hear of a host, and do nothing.

    Args:
        host: its name.
        state: that it got to.

    """


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every value: strict; each is frozen and keyword-only, and says so."""
