"""What ranks send one another, and the proof that it arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Buffer = NDArray[np.uint8]

PAGE = 4096  # bytes, the alignment of all buffers
CHUNK = 1 << 20  # bytes compared at a time: they stay in the cache
SEED = 20180626  # any number will do, if it is the same on all ranks


class WrongDataError(Exception):
    """A byte arrived that was not sent."""


def aligned(size: int) -> Buffer:
    """Give zeroed memory that begins at a page.

    Args:
        size: of it in bytes.

    Returns:
        The memory.

    """
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

    raw = np.zeros(size + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + size]


def pattern(size: int) -> Buffer:
    """Give bytes without a period, the same on every rank.

    Args:
        size: how many.

    Returns:
        The bytes, at the beginning of a page.

    """
    import numpy as np  # noqa: PLC0415

    bytes_ = aligned(size)
    bytes_[:] = np.frombuffer(np.random.default_rng(SEED).bytes(size), np.uint8)
    return bytes_


def inverse(bytes_: Buffer) -> Buffer:
    """Give the same bytes with every bit turned over.

    Args:
        bytes_: to turn over.

    Returns:
        As many others, at the beginning of a page.

    """
    import numpy as np  # noqa: PLC0415

    return np.invert(bytes_, out=aligned(len(bytes_)))


def check_data(arrived: Buffer, wanted: Buffer, what: str) -> None:
    """Compare what arrived with what was to arrive.

    Args:
        arrived: the bytes received.
        wanted: as many.
        what: they belong to, for the message.

    Raises:
        WrongDataError: a byte differs.

    """
    offset = first_difference(arrived, wanted)
    if offset is not None:
        raise WrongDataError(
            f"{what}: byte {offset} arrived as {arrived[offset]}, but was sent as {wanted[offset]}"
        )


def first_difference(arrived: Buffer, sent: Buffer) -> int | None:
    """Find the first byte that differs.

    Args:
        arrived: the bytes received.
        sent: as many that were expected.

    Returns:
        Its offset; none if all are equal.

    """
    import numpy as np  # noqa: PLC0415

    for start in range(0, len(sent), CHUNK):
        piece, wanted = arrived[start : start + CHUNK], sent[start : start + CHUNK]
        if not np.array_equal(piece, wanted):
            return start + int(np.argmax(piece != wanted))
    return None
