"""Hosts that are asked over TCP whether they are alive."""

import socket
import threading
from itertools import chain, repeat

import pytest

from cluster.agent import peers
from tests.conftest import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask more often than for users."""
    monkeypatch.setattr(peers, "BETWEEN", 0.01)
    monkeypatch.setattr(peers, "AGAIN", 0.01)
    monkeypatch.setattr(peers, "SILENT", 0.05)


def test_a_live_kernel_answers_also_where_nobody_listens() -> None:
    """Port 9 of this machine is closed; a refusal is an answer."""
    family, *_, address = socket.getaddrinfo("127.0.0.1", peers.PORT)[0]

    assert peers._answers(family, address, 3.0)


def test_a_host_that_answers_no_more_is_lost_and_one_that_never_did_is_not_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No test can kill a host without a lab; `tests/lab/test_slurm.py` does."""
    answers = {
        "10.0.0.1": chain([True, False, True, True], repeat(False)),
        "10.0.0.2": repeat(False),
        "10.0.0.3": repeat(True),
    }
    monkeypatch.setattr(peers, "_answers", lambda _, address, _within: next(answers[address[0]]))
    loss = threading.Event()
    watch = peers.Probes(loss.set)
    for number in (1, 2, 3):
        watch.watch(f"{number}.mpi.x", f"10.0.0.{number}")
    watch.watch("4.mpi.x", "no-such-name.invalid")

    until(loss.is_set, "a host is lost")
    assert {name: why.split()[0] for name, why in watch.silent().items()} == {"1.mpi.x": "10.0.0.1"}
    watch.end()


def test_questions_share_the_seconds_that_a_host_may_be_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A dead network answers nothing at all, so that each question takes its whole time."""
    limits: list[float] = []

    def answers(_family: socket.AddressFamily, _address: object, within: float) -> bool:
        limits.append(within)
        return len(limits) == 1 or loss.wait(within)

    monkeypatch.setattr(peers, "_answers", answers)
    loss = threading.Event()
    watch = peers.Probes(loss.set)
    watch.watch("1.mpi.x", "10.0.0.1")

    until(loss.is_set, "a host is lost")
    assert limits[1:]
    assert sum(limits[1:]) <= peers.SILENT - peers.BETWEEN
    watch.end()
