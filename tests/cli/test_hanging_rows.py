"""`cluster ls` where a host or a cloud does not answer: the rest is listed, in seconds."""

import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

import cluster
from cluster.cli.commands import ls, status
from cluster.orchestration.cluster_jobs import Jobs
from cluster.providers.lab import LabProvider


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """An event that a test waits for; it comes when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.usefixtures("home")
def test_ls_waits_for_nobody_without_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hang: threading.Event
) -> None:
    """As a step of srun in a suspended job, and a slurmctld that hangs."""
    c = cluster.launch("mine", provider="local", hosts=1)
    c.bench("program", command="sleep 300", detach=True)
    monkeypatch.setattr(Jobs, "exit_status", lambda *_: hang.wait(120))
    monkeypatch.setattr(LabProvider, "live", lambda _: hang.wait(120))
    monkeypatch.setattr(status, "ANSWERS_WITHIN", 0.1)
    monkeypatch.setattr(ls, "LIVE_WITHIN", 0.1)
    start = time.monotonic()

    ls.command(json=True)

    assert time.monotonic() - start < 60
    output = capsys.readouterr()
    [row] = msgspec.json.decode(output.out)
    assert (row["name"], row["status"]) == ("mine", "unreachable")
    assert "lab" in output.err
    c.down()
