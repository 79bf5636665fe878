"""A gate of Slurm ends in its time, whatever is slow, and keeps the answer that it has."""

from __future__ import annotations

import signal
import threading

import pytest

import cluster
from cluster.orchestration.batch import slurm_gate
from cluster.orchestration.batch.slurm_gate import SlurmGate
from cluster.orchestration.cluster import Cluster

WITHIN = 40.0


@pytest.mark.usefixtures("home")
def test_nodes_that_are_left_slowly_do_not_overrun_the_time_of_a_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answer counts, and its log says what remains; the clock is not asked: the alarm is."""
    simulated = cluster.launch(
        "gate-7", provider="sim", hosts=8, options={"fabric": "leafspine:2x4", "fault": "host:3=0"}
    )
    remaining: list[float] = []
    down = simulated.down

    def slow_down(_cluster: Cluster) -> None:
        seconds = signal.getitimer(signal.ITIMER_REAL)[0]
        remaining.append(seconds)
        signal.setitimer(signal.ITIMER_REAL, min(seconds, 0.1) if seconds else 0)
        threading.Event().wait(60)

    monkeypatch.setattr(slurm_gate, "launch", lambda *_names, **_options: simulated)
    monkeypatch.setattr(Cluster, "down", slow_down)
    job = slurm_gate._Job(
        gate=SlurmGate(within=f"{WITHIN:g}s"), number="7", names=tuple(f"n{n}" for n in range(8))
    )
    before = signal.getsignal(signal.SIGALRM)
    try:
        is_bad, reasons = job._prove(job.names)
    finally:
        signal.signal(signal.SIGALRM, before)
        monkeypatch.undo()
        down()

    assert (is_bad, list(reasons)) == (True, ["n3"])
    assert 0 < remaining[0] <= WITHIN
    assert "cluster down gate-7" in capsys.readouterr().out
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_signals_that_slurmctld_blocks_reach_a_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program inherits what is blocked: without its alarm, a gate would not end in its time."""
    monkeypatch.setenv("PATH", "/nowhere")  # there is no Slurm
    handler = signal.getsignal(signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
    try:
        assert slurm_gate.main("{}", "undo") == 0
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGTERM, handler)

    assert blocked == set()
    assert capsys.readouterr().out
