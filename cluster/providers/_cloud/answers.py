"""What a cloud's answers are read into, ready for several threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


def prepare(types: Iterable[object]) -> None:
    """Let msgspec read the annotations of structs now, in one thread.

    It reads them when the first answer is decoded, and msgspec 0.22.0 crashes with a segmentation
    fault if several threads do that at once: we ask for policies, and in regions, all at once.

    Args:
        types: the structs; others are passed over.

    """
    for one in types:
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            msgspec.json.Decoder(one)
