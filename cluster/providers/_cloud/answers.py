"""Prepare the structs of a cloud's answers for decoding in several threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


def prepare(types: Iterable[object]) -> None:
    """Make msgspec read the annotations of structs now, in one thread.

    By default it reads them when the first answer is decoded, and msgspec 0.22.0 crashes with a
    segmentation fault if several threads do that at once, as they do for policies and regions.

    Args:
        types: the structs; everything else is ignored.

    """
    for one in types:
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            msgspec.json.Decoder(one)
