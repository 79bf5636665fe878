"""A connection whose other end is silent is closed, whatever has become of the jump host."""

import socket
from typing import NoReturn

import pytest

from cluster.remote.ssh import connection


class Broken(socket.socket):
    """It fails as a channel of a jump host does, whose own connection has just ended."""

    def close(self) -> NoReturn:
        raise EOFError


def test_a_silent_hop_behind_one_that_is_gone_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread closes it: what it raises would be printed on the user's terminal."""
    monkeypatch.setattr(connection, "SILENCE", 0)
    channel = Broken()
    transport = connection.Transport(channel)
    monkeypatch.setattr(transport, "active", True)  # as once it has begun
    transport._listen()

    assert transport.silent
    socket.socket.close(channel)
