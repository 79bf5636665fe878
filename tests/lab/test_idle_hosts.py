"""Hosts that nobody uses end by themselves, all at the same time, with no client there."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

import cluster
from cluster.orchestration.cluster import Cluster
from cluster.providers.lab import LabProvider
from tests.conftest import until
from tests.lab.conftest import first_process

Use = Callable[[Cluster], AbstractContextManager[None]]

IDLE = 2.0  # seconds


def hosts_of(c: Cluster) -> set[str]:
    return {item.kind for item in LabProvider().find(c.name) if item.kind.startswith("host")}


@contextmanager
def job(c: Cluster) -> Iterator[None]:
    task = c.hosts[1].start("sleep 300", name="long")
    c.close()
    yield
    task.stop()
    c.close()


@contextmanager
def attached(c: Cluster) -> Iterator[None]:
    screen, terminal = pty.openpty()
    process = str(first_process(c, 1))
    words = ["nsenter", "-t", process, "-m", "-p", "-n", "-u", "-i", "tmux", "new-session"]
    env = {**os.environ, "TERM": "xterm"}
    client = subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, env=env)
    os.close(terminal)
    assert os.read(screen, 1)
    c.close()
    yield
    client.send_signal(signal.SIGKILL)
    client.wait()
    os.close(screen)  # the terminal is gone, and the client there with it


@contextmanager
def session(c: Cluster) -> Iterator[None]:
    assert c.run("true")
    yield
    c.close()


@pytest.mark.usefixtures("own_labs")
@pytest.mark.parametrize("use", [job, attached, session])
def test_hosts_end_once_none_of_them_is_used(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.core.model.spec.SHORTEST_IDLE", IDLE)
    c = cluster.launch("rest", provider="lab", hosts=2, idle=IDLE)
    with use(c):
        start = time.monotonic()
        until(lambda: time.monotonic() > start + 2 * IDLE, "twice the time")
        assert hosts_of(c) == {"host 0", "host 1"}  # also the one that has nothing to do
    start = time.monotonic()
    until(lambda: not hosts_of(c), "the end of both")

    assert time.monotonic() - start > IDLE / 2
