"""A gate of Slurm ends in its time, whatever is slow, and keeps the answer that it has."""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import cluster
from cluster.core.model.hosts import Completed
from cluster.orchestration.batch import slurm_gate
from cluster.orchestration.batch.slurm_gate import SlurmGate
from cluster.orchestration.cluster import Cluster
from cluster.providers.slurm.client import SlurmClient
from tests.conftest import write_program

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


@pytest.mark.parametrize(
    ("state", "calls", "log"),
    [
        ("IDLE", ["drain n1", "requeuehold 7"], ["drained: n1", "release 7"]),
        ("IDLE+DRAIN", ["drain n1"], ["drained: n1"]),
    ],
)
def test_a_job_is_held_while_a_bad_node_with_the_reason_of_another_stays_in_service(
    state: str,
    calls: list[str],
    log: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On n2, an administrator has written a reason: it is left as it is."""
    nodes = f"NodeName=n1 State=IDLE\nNodeName=n2 State={state} Reason=fan [root@now]\n"
    actions: list[str] = []

    def run(_client: SlurmClient, argv: Sequence[str], **_options: object) -> Completed:
        words = dict(word.split("=", 1) for word in argv if "=" in word)
        if "update" in argv:
            actions.append(f"{words['state']} {words['nodename']}")
        elif "requeuehold" in argv:
            actions.append(" ".join(argv[1:]))
        return Completed(
            argv=tuple(argv), status=0, stdout=nodes if "node" in argv else "", stderr=""
        )

    monkeypatch.setattr(SlurmClient, "run", run)
    monkeypatch.setattr(
        slurm_gate._Job, "_prove", lambda *_: (True, dict.fromkeys(("n1", "n2"), "slow"))
    )
    gate = SlurmGate(drain=True, at_most="100%")
    job = slurm_gate._Job(gate=gate, number="7", names=("n1", "n2"))

    assert job.prolog() == slurm_gate.KEEP_OFF
    assert actions == calls
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith(end) for line, end in zip(lines, log, strict=True)] == [True] * len(log)


# It takes only what gates ask, and refuses the words in $REFUSED, as slurmctld does.
SCONTROL = """#!/bin/sh
case "$*" in *$REFUSED*) echo "$1 failed: Only batch jobs are accepted" >&2; exit 1 ;; esac
case "$*" in
"show hostnames n[1-2]") printf 'n1\\nn2\\n' ;;
"--oneliner show node") printf 'NodeName=n%d State=IDLE\\n' 1 2 ;;
"update nodename=n"[12]" state=drain reason=cluster-gate:7:bad slow") echo "drain $2" >> "$DONE" ;;
"requeuehold 7") echo "$*" >> "$DONE" ;;
*) exit 64 ;;
esac
"""
DRAINS = ["drain nodename=n1", "drain nodename=n2"]


@pytest.mark.parametrize(
    ("gate", "refused", "actions"),
    [
        ("{}", "requeuehold", []),
        ('{"drain": true, "at_most": "100%"}', "update", ["requeuehold 7"]),
        ('{"drain": true, "at_most": "100%"}', "nodename=n1", [DRAINS[1], "requeuehold 7"]),
        ('{"drain": true, "at_most": "100%"}', "oneliner", ["requeuehold 7"]),
        ('{"drain": true, "at_most": "100%"}', "requeuehold", DRAINS),
    ],
)
def test_no_job_starts_on_bad_nodes_that_slurm_does_not_drain_or_hold(
    gate: str,
    refused: str,
    actions: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in (("scontrol", SCONTROL), ("squeue", "#!/bin/sh\n")):
        write_program(tmp_path / name, text)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "REFUSED": refused,
        "DONE": str(tmp_path / "done"),
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmctld",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n[1-2]",
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    reasons = dict.fromkeys(("n1", "n2"), "slow")
    monkeypatch.setattr(slurm_gate._Job, "_prove", lambda *_: (True, reasons))
    handler = signal.getsignal(signal.SIGTERM)
    try:
        status = slurm_gate.main(gate)
    finally:
        signal.signal(signal.SIGTERM, handler)

    assert status == slurm_gate.KEEP_OFF
    path = tmp_path / "done"
    assert (path.read_text().splitlines() if path.exists() else []) == actions
    is_logged = "Only batch jobs are accepted" in capsys.readouterr().out
    assert is_logged == (refused != "requeuehold" or actions != DRAINS)


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
