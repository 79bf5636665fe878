"""Files for the two ends of a stream through a connection, without seeking back."""

import tarfile
from collections.abc import Callable
from itertools import islice

CHUNK = 1 << 18  # bytes that are read from a file at a time
MOST_HEADER = 1 << 20  # bytes of the headers of one file, such as its name and owner
MOST_LINE = 256  # bytes of the first line, before a file's content


class ChunkWriter:
    """Cuts a stream into pieces of at most `most` bytes; `send` returns how many were sent."""

    def __init__(self, send: Callable[[bytes], int], most: int) -> None:
        self._send = send
        self._most = most
        self._held = b""

    def write(self, data: bytes) -> int:
        """Send all whole pieces, and buffer the rest (BrokenPipeError: the host reads no more)."""
        view = memoryview(self._held + data if self._held else data)
        end = len(view) - len(view) % self._most
        for start in range(0, end, self._most):
            self._all_of(bytes(view[start : start + self._most]))
        self._held = bytes(view[end:])
        return len(data)

    def flush(self) -> None:
        """Send the rest in the buffer (BrokenPipeError: the host reads no more)."""
        pending, self._held = self._held, b""
        self._all_of(pending)

    def tell(self) -> int:
        """Return 0: `tarfile` asks only before it writes."""
        return 0

    def _all_of(self, piece: bytes) -> None:
        while piece:
            count = self._send(piece)
            if count == 0:
                raise BrokenPipeError
            piece = piece[count:]


class StreamReader:
    """Reads a stream from a connection, whose `receive` waits for bytes, none at its end."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self.header_left = MOST_HEADER
        self._held = memoryview(b"")
        self._at = 0

    def piece(self, most: int) -> memoryview:
        """Read the next bytes, from 1 to `most`; none at the end, or if `most` is 0."""
        if not self._held:
            self._held = memoryview(self._receive())
        piece, self._held = self._held[:most], self._held[most:]
        self._at += len(piece)
        return piece

    def read(self, size: int) -> bytes:
        """Read the next bytes of a header, fewer at the end (tarfile.TarError: it is too long)."""
        self.header_left -= size
        if self.header_left < 0:
            raise tarfile.TarError(f"what describes a file is longer than {MOST_HEADER} bytes")
        parts = []
        while size > 0 and (part := self.piece(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def line(self) -> bytes:
        """Read the next line, without its newline, or the beginning of a long one."""
        return b"".join(islice(iter(lambda: self.read(1).strip(b"\n"), b""), MOST_LINE))

    def tell(self) -> int:
        return self._at

    def seek(self, position: int) -> None:
        while self._at < position and self.piece(position - self._at):
            pass
