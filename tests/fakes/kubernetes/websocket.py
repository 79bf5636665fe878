"""Commands in pods over a WebSocket (`v4.channel.k8s.io`, `v5.channel.k8s.io`)."""

import base64
import contextlib
import hashlib
import json
import struct
import subprocess
import threading
from collections.abc import Callable
from email.message import Message
from io import BufferedIOBase
from typing import IO, Any, Protocol

from tests.fakes.kubernetes.errors import Gap

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
BINARY, END, PING, PONG = 2, 8, 9, 10
PIECE = 32 << 10


class Connection(Protocol):
    def recv(self, most: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...


class WebSocket:
    """The server's end of a connection."""

    def __init__(self, reader: BufferedIOBase, writer: Connection) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self.closed = False

    def send(self, channel: int, data: bytes) -> None:
        self._frame(BINARY, bytes([channel]) + data)

    def close(self) -> None:
        """End the connection properly."""
        with contextlib.suppress(OSError):
            self._frame(END, struct.pack(">H", 1000))
        self.closed = True

    def _frame(self, code: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = bytes([0x80 | code, size])
        elif size < 1 << 16:
            head = bytes([0x80 | code, 126]) + struct.pack(">H", size)
        else:
            head = bytes([0x80 | code, 127]) + struct.pack(">Q", size)
        with self._lock:
            self._writer.sendall(head + data)

    def receive(self) -> tuple[int, bytes] | None:
        """Receive a message: its channel and its data; None at the end."""
        message = b""
        while True:
            head = self._exactly(2)
            size = head[1] & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self._exactly(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._exactly(8))
            mask = self._exactly(4) if head[1] & 0x80 else bytes(4)
            data = self._exactly(size)
            whole = int.from_bytes(data, "big") ^ int.from_bytes(
                (mask * (size // 4 + 1))[:size], "big"
            )
            data = whole.to_bytes(size, "big")
            code = head[0] & 0x0F
            if code == END:
                return None
            if code == PING:
                self._frame(PONG, data)
                continue
            if code == PONG:
                continue
            message += data
            if head[0] & 0x80:
                return message[0], message[1:]

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) < size:
            raise ConnectionError("the other end is gone")
        return data


def answer(headers: Message) -> tuple[str, dict[str, str]]:
    """Choose the protocol, and give the headers that accept the upgrade."""
    offered = [word.strip() for word in headers["Sec-WebSocket-Protocol"].split(",")]
    protocol = next((p for p in PROTOCOLS if p in offered), "")
    if not protocol:
        raise Gap(f"exec by {', '.join(offered)}")
    key = headers["Sec-WebSocket-Key"].encode()
    accept = base64.b64encode(hashlib.sha1(key + MAGIC, usedforsecurity=False).digest()).decode()
    return protocol, {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accept,
        "Sec-WebSocket-Protocol": protocol,
    }


class Session:
    """A process that a client sees through a connection until it ends.

    `watch` gets a channel and how many bytes are to be sent on it, and returns how many are; fewer
    mean that the connection then ends, and the client is told of success.
    """

    def __init__(
        self, socket: WebSocket, process: subprocess.Popen[bytes], watch: Callable[[int, int], int]
    ) -> None:
        self._socket = socket
        self._process = process
        self._watch = watch
        self._cut = threading.Event()

    def serve(self) -> None:
        """Carry the streams, then tell the status."""
        process = self._process
        senders = [
            threading.Thread(target=self._send, args=(channel, stream), daemon=True)
            for channel, stream in ((STDOUT, process.stdout), (STDERR, process.stderr))
        ]
        threading.Thread(target=self._receive, daemon=True).start()
        for thread in senders:
            thread.start()
        status = process.wait()
        for thread in senders:
            thread.join(5.0)
        with contextlib.suppress(OSError):
            self._socket.send(
                ERROR, json.dumps(_status(0 if self._cut.is_set() else status)).encode()
            )
        self._socket.close()
        self._close_input()

    def _send(self, channel: int, stream: IO[bytes] | None) -> None:
        with contextlib.suppress(OSError, ValueError), stream or contextlib.nullcontext():
            while stream and (piece := stream.read(PIECE)):
                allowed = 0 if self._cut.is_set() else self._watch(channel, len(piece))
                if allowed:
                    self._socket.send(channel, piece[:allowed])
                if allowed < len(piece):
                    self._cut.set()
                    self._process.kill()

    def _receive(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while message := self._socket.receive():
                channel, data = message
                if channel == STDIN and self._process.stdin:
                    allowed = self._watch(STDIN, len(data))
                    if allowed < len(data):
                        self._cut.set()
                        self._process.kill()
                    view = memoryview(data[:allowed])
                    while view:
                        view = view[self._process.stdin.write(view) or 0 :]
                elif channel == CLOSE and data == bytes([STDIN]):
                    self._close_input()
        self._close_input()

    def _close_input(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


def _status(status: int) -> dict[str, Any]:
    if not status:
        return {"metadata": {}, "status": "Success"}
    code = status if status > 0 else 128 - status
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
