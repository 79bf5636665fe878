"""Prepare types for decoding in several threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


def prepare(*types: object) -> None:
    """Make msgspec read the annotations of types now, in one thread.

    By default it reads them when the first value is decoded, and msgspec 0.22.0 crashes with a
    segmentation fault if several threads do that at once, one for each host or region.
    """
    for kind in types:
        msgspec.json.Decoder(kind)


def structs(names: Iterable[object]) -> list[type[msgspec.Struct]]:
    """Return the structs among a module's `vars().values()`."""
    return [item for item in names if isinstance(item, type) and issubclass(item, msgspec.Struct)]
