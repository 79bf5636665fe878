"""The two ends of a connection's stream, as files that are written and read forwards only."""

from __future__ import annotations

import tarfile
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 1 << 18  # bytes that are read from a file at a time
MOST_HEADER = 1 << 20  # bytes that describe one file: its name, and who it belongs to
MOST_LINE = 256  # bytes of the line before a file's content


class ChunkWriter:
    """A writer that cuts a stream into pieces of the size that a connection takes at once.

    Args:
        send: sends the beginning of a piece, and tells how much of it; 0 if nobody reads any more.
        most: bytes in a piece.

    """

    def __init__(self, send: Callable[[bytes], int], most: int) -> None:
        """Hold nothing back yet."""
        self._send = send
        self._most = most
        self._held = b""

    def write(self, data: bytes) -> int:
        """Send what makes whole pieces, and hold the rest.

        Args:
            data: the next bytes.

        Returns:
            How many they are.

        Raises:
            BrokenPipeError: nobody reads any more.

        """
        view = memoryview(self._held + data if self._held else data)
        end = len(view) - len(view) % self._most
        for start in range(0, end, self._most):
            self._all_of(bytes(view[start : start + self._most]))
        self._held = bytes(view[end:])
        return len(data)

    def flush(self) -> None:
        """Send what is held.

        Raises:
            BrokenPipeError: nobody reads any more.

        """
        held, self._held = self._held, b""
        self._all_of(held)

    def tell(self) -> int:
        """Say that this is the beginning, which is all that `tarfile` asks."""
        return 0

    def _all_of(self, piece: bytes) -> None:
        while piece:
            sent = self._send(piece)
            if sent == 0:
                raise BrokenPipeError
            piece = piece[sent:]


class StreamReader:
    """A reader of a stream that comes out of a connection, forwards only.

    Args:
        receive: waits for more bytes and gives them; none at the end.

    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        """Begin at the beginning."""
        self._receive = receive
        self.header_left = MOST_HEADER
        self._held = memoryview(b"")
        self._at = 0

    def piece(self, most: int) -> memoryview:
        """Give the next bytes, at least one.

        Args:
            most: how many at most.

        Returns:
            Them; none at the end, or if none were asked for.

        """
        if not self._held:
            self._held = memoryview(self._receive())
        given, self._held = self._held[:most], self._held[most:]
        self._at += len(given)
        return given

    def read(self, size: int) -> bytes:
        """Give the next bytes of a header, as many as were asked for if there are so many.

        Args:
            size: how many.

        Returns:
            Them.

        Raises:
            tarfile.TarError: the header of this file is too long: it is held in memory.

        """
        self.header_left -= size
        if self.header_left < 0:
            raise tarfile.TarError(f"what describes a file is longer than {MOST_HEADER} bytes")
        parts = []
        while size > 0 and (part := self.piece(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def line(self) -> bytes:
        """Give the next line, without its newline, or the beginning of a long one."""
        return b"".join(islice(iter(lambda: self.read(1).strip(b"\n"), b""), MOST_LINE))

    def tell(self) -> int:
        """Give how many bytes were read."""
        return self._at

    def seek(self, position: int) -> None:
        """Go on to a position that is not yet read."""
        while self._at < position and self.piece(position - self._at):
            pass
