"""Which address of a host is connected to."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from cluster.remote.ssh.connection import dial
from tests.conftest import until

LONG = 3600.0  # seconds: more than any test has


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.2", 0)) as server:
        yield server


@contextlib.contextmanager
def silent(port: int) -> Iterator[tuple[str, int]]:
    """Have an address that answers nobody: its backlog is full, so Linux drops each further SYN."""
    with (
        socket.create_server(("127.0.0.3", port), backlog=0) as server,
        contextlib.ExitStack() as stack,
    ):
        place = server.getsockname()
        with contextlib.suppress(TimeoutError):
            while True:
                stack.enter_context(socket.create_connection(place, timeout=0.2))
        yield place


def test_an_address_that_is_dead_holds_up_no_other(listener: socket.socket) -> None:
    live = listener.getsockname()
    with silent(live[1]) as dead, dial([dead, live], LONG) as connection:
        assert connection.getpeername() == live
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_refuses_is_passed_over(listener: socket.socket) -> None:
    live = listener.getsockname()
    with dial([("127.0.0.3", live[1]), live], LONG) as connection:
        assert connection.getpeername() == live


@pytest.mark.parametrize("kind", [OSError, ValueError])
def test_where_none_answers_the_error_is_that_of_the_last_address(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """Also if it is none of the network: nobody waits for an attempt that has failed."""

    def attempt(place: tuple[str, int], _: float) -> socket.socket:
        raise kind(f"{place[0]} fails")

    monkeypatch.setattr(socket, "create_connection", attempt)
    with pytest.raises(kind, match=r"127\.0\.0\.4 fails"):
        dial([("127.0.0.3", 22), ("127.0.0.4", 22)], LONG)


def test_an_address_that_answers_too_late_is_closed(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would read from it."""
    monkeypatch.setattr("cluster.remote.ssh.connection.STAGGER", 0.0)
    connect, first = socket.create_connection, threading.Event()
    connections: list[socket.socket] = []

    def slow(place: tuple[str, int], seconds: float) -> socket.socket:
        connection = connect(place, seconds)
        if place[0] == "127.0.0.3":
            connections.append(connection)
            first.wait()
        return connection

    monkeypatch.setattr(socket, "create_connection", slow)
    live = listener.getsockname()
    with socket.create_server(("127.0.0.3", live[1])) as other:
        with dial([other.getsockname(), live], LONG) as connection:
            first.set()
            assert connection.getpeername() == live
        until(lambda: connections and connections[0].fileno() == -1, "it is closed")
