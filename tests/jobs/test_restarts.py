"""Jobs that lose a host are started again: on the same host, or with a new one in its place."""

import os
import signal
from collections.abc import Collection
from pathlib import Path

import pytest
from msgspec.structs import replace

import cluster
from cluster.core.errors import JobError, ProvisionError, Timeout
from cluster.orchestration.jobs import job as job_module
from cluster.orchestration.jobs.job import Job
from tests.conftest import command, until

pytestmark = pytest.mark.usefixtures("tools")

SPARE = '''
"""Hosts of this machine, each with a folder and programs of its own; a new one replaces any."""

from pathlib import Path
from msgspec.structs import replace
from cluster.core.model.resources import Resource
from cluster.core.model.value import ignore
from cluster.providers import Replaces
from cluster.providers.local import LocalProvider

made = {}


class SpareProvider(LocalProvider, Replaces):
    def _make(self, machine, serial, folder):
        own = folder / f"spare-{serial}"
        (own / "bin").mkdir(parents=True)
        (own / "bin" / "python3").write_text(f'#!/bin/sh\\nexec {machine.bin}/python3 "$@"\\n')
        (own / "bin" / "python3").chmod(0o755)
        made[machine.name, serial] = own
        return replace(machine, id=str(serial), bin=str(own / "bin"), folder=str(own))

    def create(self, spec, journal, on_state=ignore):
        machines = super().create(spec, journal, on_state)
        return tuple(self._make(m, n, journal.folder) for n, m in enumerate(machines))

    def add(self, spec, peer, places, journal, on_state=ignore):
        machines = super().create(spec, journal, on_state)
        return tuple(self._make(machines[n], 100 + n, journal.folder) for n in places)

    def list_except(self, name, kept):
        ids = {machine.id for machine in kept}
        return tuple(Resource(kind="host", id=str(n)) for _, n in made if str(n) not in ids)

    def delete_except(self, name, kept):
        ids = {machine.id for machine in kept}
        for key in [key for key in made if str(key[1]) not in ids]:
            del made[key]
'''
LINE = 'echo "$CLUSTER_RESTART of $RANK: $(cat state)"; [ $CLUSTER_RESTART = 1 ] || exec sleep 300'


def lines_of(job: Job) -> list[str]:
    return sorted(line.text for line in job.lines(follow=False))


def test_a_host_that_is_lost_is_replaced_and_the_job_starts_again_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "providers").mkdir()
    (tmp_path / "providers" / "spare.py").write_text(SPARE)
    monkeypatch.setenv("CLUSTER_PLUGINS", str(tmp_path))
    monkeypatch.setattr(job_module, "GIVE_UP", 1.0)
    with cluster.launch("spare", provider="spare", hosts=3) as c:
        c.hosts.write("checkpoint\n", "work/state")
        assert len(c.setup("echo ready > ready")) == len(c.setup("echo again >> ready")) == 3
        job = c.hosts.start(LINE, cwd="work", name="train", restarts=2, most_output=1 << 20)
        until(lambda: len(lines_of(job)) == 3, "the first lines")
        first, victim = job.record, c.machines[1]
        Path(victim.bin, "python3").unlink()
        c.jobs["train"].wait()

        assert [machine.id for machine in c.machines] == ["0", "101", "2"]
        assert [host.read("ready") for host in c.hosts] == ["ready\nagain\n"] * 3
        assert lines_of(c.jobs["train"]) == [f"1 of {rank}: checkpoint" for rank in range(3)]
        (attempt,) = c.jobs["train"].record.attempts
        assert (attempt.at, attempt.folder) == (first.at, first.folder)
        assert (list(attempt.lost), attempt.replaced) == (["1.mpi.spare"], ("1.mpi.spare",))
        files = {path.name for path in Path(first.folder).glob("*.output")}
        assert files == {"0.mpi.spare.output", "2.mpi.spare.output"}


def test_what_runs_is_not_stopped_for_a_host_that_cannot_be_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_module, "GIVE_UP", 1.0)
    with cluster.launch("alone", provider="local", hosts=2) as c:
        job = c.start("sleep 300", name="train", restarts=1)
        silent = replace(c.machines[1], bin="/nowhere")
        monkeypatch.setattr(c.remote, "_machines", lambda: (c.machines[0], silent))

        def fail(names: Collection[str]) -> tuple[str, ...]:
            raise ProvisionError(f"no room for {', '.join(names)}")

        monkeypatch.setattr(c.jobs, "_bring_back", fail)
        with pytest.raises(ProvisionError, match=r"no room for 1\.mpi\.alone"):
            c.jobs["train"].wait()
        assert job.runs_on() == ("0.mpi.alone",)
        assert not c.jobs["train"].record.attempts
        monkeypatch.undo()


def test_a_host_that_answers_again_is_the_same_and_the_number_of_restarts_is_a_limit() -> None:
    with cluster.launch("same", provider="local", hosts=2) as c:
        command("run", "same", "--job", "train", "--restarts", "1", "--detach", "--", "sleep 300")
        for _ in range(2):
            folder = Path(c.jobs["train"].record.tasks[1].folder)
            os.kill(int((folder / "pid").read_text().split()[0]), signal.SIGKILL)
            until(lambda: c.jobs["train"].state == "lost", "the loss")
            with pytest.raises((JobError, Timeout)):
                c.jobs["train"].wait(timeout=1.0)

        job = c.jobs["train"]
        assert job.state == "lost"
        assert [attempt.replaced for attempt in job.record.attempts] == [()]
        assert [*job.record.attempts[0].lost] == ["1.mpi.same"]
