"""Which address of a host is connected to."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from cluster.remote.ssh.dial import dial

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 3600.0  # seconds: more than any test has


@pytest.fixture
def answering() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.2", 0)) as server:
        yield server


@contextlib.contextmanager
def silent(port: int) -> Iterator[tuple[str, int]]:
    """Have an address that answers nobody: whom it has not accepted yet fills its queue."""
    with (
        socket.create_server(("127.0.0.3", port), backlog=0) as server,
        contextlib.ExitStack() as stack,
    ):
        place = server.getsockname()
        with contextlib.suppress(TimeoutError):
            while True:
                stack.enter_context(socket.create_connection(place, timeout=0.2))
        yield place


def test_an_address_that_is_dead_holds_up_no_other(answering: socket.socket) -> None:
    live = answering.getsockname()
    with silent(live[1]) as dead, dial([dead, live], LONG) as made:
        assert made.getpeername() == live
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_refuses_is_passed_over(answering: socket.socket) -> None:
    live = answering.getsockname()
    with dial([("127.0.0.3", live[1]), live], LONG) as made:
        assert made.getpeername() == live


def test_where_none_answers_the_last_one_says_why(answering: socket.socket) -> None:
    _, port = answering.getsockname()
    with pytest.raises(ConnectionRefusedError):
        dial([("127.0.0.3", port), ("127.0.0.4", port)], LONG)
