"""The bytes that ranks send, and the check that they arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Buffer: TypeAlias = "NDArray[np.uint8]"
PAGE = 4096  # bytes, the alignment of all buffers
CHUNK = 1 << 20  # bytes compared at a time: they stay in the cache
SEED = 20180626  # any number, the same on all ranks


class WrongDataError(Exception):
    """A byte that arrived differs from the byte that was sent."""


def aligned(size: int) -> Buffer:
    """Return zeroed memory that starts at a page boundary."""
    import numpy as np  # noqa: PLC0415 - not needed to list or plan benchmarks

    raw = np.zeros(size + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + size]


def pattern(size: int) -> Buffer:
    """Return pseudo-random bytes from a page boundary, the same on every rank."""
    import numpy as np  # noqa: PLC0415

    bytes_ = aligned(size)
    bytes_[:] = np.frombuffer(np.random.default_rng(SEED).bytes(size), np.uint8)
    return bytes_


def inverse(bytes_: Buffer) -> Buffer:
    """Return a copy of bytes with every bit inverted."""
    import numpy as np  # noqa: PLC0415

    return np.invert(bytes_, out=aligned(len(bytes_)))


def check_data(arrived: Buffer, expected: Buffer, label: str) -> None:
    """Compare the bytes received with those expected, as many (WrongDataError: one differs)."""
    offset = first_difference(arrived, expected)
    if offset is not None:
        raise WrongDataError(
            f"{label}: byte {offset} arrived as {arrived[offset]}, but was sent as "
            f"{expected[offset]}"
        )


def first_difference(arrived: Buffer, expected: Buffer) -> int | None:
    """Find the first byte that differs."""
    import numpy as np  # noqa: PLC0415

    for start in range(0, len(expected), CHUNK):
        piece, expected_piece = arrived[start : start + CHUNK], expected[start : start + CHUNK]
        if not np.array_equal(piece, expected_piece):
            return start + int(np.argmax(piece != expected_piece))
    return None
