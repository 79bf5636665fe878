"""Hosts that play a script, for tests of users: what they know, and what they refuse."""

from contextlib import suppress
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import Capacity, HostErrors, Unreachable
from cluster.core.state.journal import Entry, Journal, Timed
from cluster.testing import Answer, FakeHosts, FakeJob, Reply, UnknownCommand
from tests.snapshots import Snapshot


def test_a_command_is_answered_by_each_host(snapshot: Snapshot) -> None:
    replies: dict[str, Answer] = {
        "hostname": lambda name: f"{name}\n",
        "false": Reply(status=1, stderr="no"),
    }
    with FakeHosts(replies) as hosts, cluster.launch("mine", provider="fake", hosts=2) as c:
        assert {n: d.stdout for n, d in c.run(["hostname"]).items()} == {
            "0.mpi.mine": "0.mpi.mine\n",
            "1.mpi.mine": "1.mpi.mine\n",
        }
        assert {result.status for result in c.run("false", check=False).values()} == {1}
        assert sorted(hosts.commands) == [
            *(("0.mpi.mine", "false"), ("0.mpi.mine", "hostname")),
            *(("1.mpi.mine", "false"), ("1.mpi.mine", "hostname")),
        ]
    assert hosts.made == {}
    with snapshot.raises(cluster.SpecError):
        cluster.launch("mine", provider="fake")


def test_a_command_that_the_script_does_not_know_fails_the_test_although_its_error_is_caught(
    snapshot: Snapshot,
) -> None:
    with (
        snapshot.raises(UnknownCommand),
        FakeHosts(),
        cluster.launch("mine", provider="fake") as c,
        suppress(UnknownCommand),
    ):
        c.run(["uptime", "-p"])


def test_a_job_leaves_the_values_of_a_run() -> None:
    values = Path(__file__).with_name("plain_run") / "measurements.jsonl"
    with FakeHosts(jobs=[FakeJob(files={"measurements.0.jsonl": values.read_text()})]):
        with cluster.launch("mine", provider="fake") as c:
            run = c.bench("p2p", metrics=["latency"], sizes=[8])
        assert run.status == "done"
        assert [m.metric for m in run.measurements] == ["latency", "bandwidth"]

        job = FakeJob.of_run(run.folder / "raw")
        assert job.files["measurements.0.jsonl"] == values.read_text()


def test_jobs_end_one_after_the_other_as_they_are_told_to(snapshot: Snapshot) -> None:
    jobs = [FakeJob(status=3, stderr="rank 1 had enough\n"), FakeJob(status=None, reason="reboot")]
    with FakeHosts(jobs=jobs), cluster.launch("mine", provider="fake") as c:
        with pytest.raises(cluster.JobError) as error:
            c.bench("p2p", metrics=["latency"], sizes=[8])
        snapshot(error.value.stderr)
        with pytest.raises(cluster.JobError, match="reboot"):
            c.bench("p2p", metrics=["latency"], sizes=[8])


def test_a_host_that_does_not_answer_and_a_provider_without_machines(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    with FakeHosts({"hostname": "h\n"}) as hosts, cluster.launch("mine", provider="fake") as c:
        hosts.silent.add(1)
        with pytest.raises((Unreachable, HostErrors)):
            c.run(["hostname"])
        hosts.silent.clear()
        (tmp_path / "f").write_text("text")
        c.put(tmp_path / "f", "there/f")
        assert (c.get("there", tmp_path / "back")["1.mpi.mine"] / "f").read_text() == "text"

    with (
        FakeHosts(refuses=Capacity("no hosts are left")) as hosts,
        snapshot.raises(Capacity),
    ):
        cluster.launch("mine", provider="fake")


def test_a_look_at_the_jobs_reads_the_journal_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only if another process wrote into it."""
    read, looks = Journal.entries, list[str]()

    def entries(book: Journal) -> tuple[Entry, ...]:
        looks.append(book.name)
        return read(book)

    with FakeHosts(jobs=[FakeJob()]), cluster.launch("mine", provider="fake") as c:
        c.bench("p2p", metrics=["latency"], sizes=[8])
        monkeypatch.setattr(Journal, "entries", entries)
        assert (next(iter(c.jobs)), len(looks)) == ("bench-p2p", 0)
        entry = Timed(phase="other", seconds=1.0)
        c.disk.journal.append(entry)
        assert (next(iter(c.jobs)), len(looks)) == ("bench-p2p", 1)
        c.disk.journal.append(entry)
        assert (len(c.jobs), len(looks)) == (1, 2)
        c.disk.journal.append(entry)
        c.disk.record(entry)
        assert (c.jobs["bench-p2p"].record.name, len(looks)) == ("bench-p2p", 3)
        c.disk.record(entry)
        assert (c.state.phases["other"], len(c.jobs), len(looks)) == (1.0, 1, 3)
