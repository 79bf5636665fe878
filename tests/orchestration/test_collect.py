"""What an exit status means, and how a run is closed: once."""

from pathlib import Path

import pytest

from cluster.agent.protocol import Wrote
from cluster.core.errors import JobError
from cluster.orchestration.bench.collect import (
    JobOutput,
    JobResult,
    Listener,
    close_run,
    job_result,
    raise_unless_done,
)
from cluster.runs import store
from cluster.runs.run import Run
from tests.conftest import runs_folder
from tests.plain_values import plain_record
from tests.snapshots import Snapshot


@pytest.mark.parametrize(
    ("status", "expected", "reason"),
    [
        (0, "done", ""),
        (1, "failed", "exit status 1"),
        (124, "failed", "--timeout"),
        (137, "failed", "SIGKILL"),
        (139, "failed", "SIGSEGV"),
        (163, "failed", "ended by signal 35"),
        (250, "failed", "ended with exit status 250,"),
        (255, "failed", "ended with exit status 255,"),
    ],
)
def test_an_exit_status_is_explained(status: int, expected: str, reason: str) -> None:
    ending = job_result(status)

    assert (ending.status, ending.exit_status) == (expected, status)
    assert reason in ending.reason


def test_the_ending_is_written_and_phases_are_added() -> None:
    folder = store.create(runs_folder(), "mine", "p2p", 0.0)
    record = plain_record(id=folder.name, status="running", phases={"launch": 1.0})
    store.write(folder, record)
    close_run(folder, JobResult(status="failed", reason="It broke.", exit_status=3), {"run": 2.0})

    closed = store.record(folder)
    assert (closed.status, closed.reason, closed.exit_status) == ("failed", "It broke.", 3)
    assert closed.phases == {"launch": 1.0, "run": 2.0}


@pytest.mark.parametrize(
    ("status", "message"),
    [("failed", "The job mine failed: Why."), ("interrupted", "The job mine was interrupted: W")],
)
def test_only_a_run_that_is_done_succeeded(status: str, message: str) -> None:
    """The error carries the tails of both streams, and says where the rest is."""
    folder = store.create(runs_folder(), "mine", "p2p", 0.0)
    (folder / "raw").mkdir()
    (folder / "raw" / "stdout").write_text("out\n")
    (folder / "raw" / "stderr").write_text("err\n")
    (folder / "raw" / "reason").write_text("Why.\n\nWhat it means.\nWhat to do.")
    record = plain_record(id=folder.name, status=status, reason="Why.")
    with pytest.raises(JobError, match=message) as failed:
        raise_unless_done(Run(folder=folder, record=record, measurements=()))
    assert (failed.value.stdout, failed.value.stderr) == ("out", "err")
    assert str(failed.value).startswith(f"{failed.value.what}\n{failed.value.means}\n")
    assert str(folder) in failed.value.remedy


# Open MPI 5.0.8, after `comm.Abort(1)` of a rank.
ABORTED = Path(__file__).with_name("aborted.txt").read_text()


def test_what_a_rank_said_is_not_followed_by_what_mpi_says_when_it_ends(snapshot: Snapshot) -> None:
    folder = store.create(runs_folder(), "mine", "p2p", 0.0)
    (folder / "raw").mkdir()
    (folder / "raw" / "stderr").write_text(ABORTED)
    record = plain_record(id=folder.name, status="failed")
    with pytest.raises(JobError) as failed:
        raise_unless_done(Run(folder=folder, record=record, measurements=()))

    snapshot(failed.value.stderr)


def test_what_is_ours_among_the_ranks_complaints_is_told() -> None:
    """At once, and apart from what they print."""
    events: list[tuple[str, str]] = []

    class Keeps(Listener):
        def output(self, line: str) -> None:
            events.append(("output", line))

        def notice(self, line: str) -> None:
            events.append(("notice", line))

    hearing = JobOutput(Keeps(), None)
    hearing(Wrote(file="stderr", text="a warning\n[cluster] 1.mpi.x is gone\n"))
    hearing(Wrote(file="stdout", text="[cluster] a rank may print this\n"))
    hearing(Wrote(file="measurements.0.jsonl", text="{}\n"))
    hearing(Wrote(file="progress.jsonl", text="epoch 1\n"))  # of a program, which may do so

    assert events == [
        ("notice", "[cluster] 1.mpi.x is gone"),
        ("output", "[cluster] a rank may print this"),
    ]
