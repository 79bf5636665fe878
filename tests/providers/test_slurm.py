"""The provider slurm on a real Slurm of one node: what is asked for, refused, waited for, ended."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import ProvisionError, SpecError
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec, make_spec, plan_spec
from cluster.orchestration.launch.orphans import remove
from cluster.providers.slurm.client import SlurmClient
from tests.conftest import answer, command, write_program
from tests.orphans import find_orphans
from tests.providers.started_jobs import check_started_jobs
from tests.slurm_here import SlurmHere, slurm_here
from tests.snapshots import Snapshot

__all__ = ["slurm_here"]


@pytest.fixture
def slurm(
    slurm_here: SlurmHere, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmHere]:
    """A Slurm whose commands are on this machine; no job is left in it."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_here.conf))
    yield slurm_here
    jobs = slurm_here.call("squeue", "-h", "-o", "%A").split()
    for job in jobs:
        slurm_here.end(job)
    assert not jobs


def up(name: str = "mine", **options: str) -> cluster.Cluster:
    return cluster.launch(name, provider="slurm", hosts=1, options={"reach": "srun", **options})


def test_a_cluster_is_a_job_and_its_end_is_the_end_of_the_job(
    snapshot: Snapshot, slurm: SlurmHere
) -> None:
    c = up(time="5m")

    assert c.run(["printenv", "HOME"])["0.mpi.mine"].status == 0
    assert slurm.call("squeue", "-h", "-o", "%j %l").split() == ["cluster-mine", "5:00"]
    assert [row["status"] for row in answer("ls")] == ["idle"]
    slurm.call("scontrol", "suspend", c.machines[0].job)
    assert [row["status"] for row in answer("ls")] == ["SUSPENDED"]
    slurm.call("scontrol", "resume", c.machines[0].job)
    assert 0 < (c.expires or 0) - journal.for_cluster("mine").path.stat().st_mtime <= 300
    check_started_jobs(c)

    c.down()
    assert slurm.call("squeue", "-h") == ""
    snapshot(c.looked_for)


def test_inside_an_allocation_its_nodes_are_used_and_it_is_never_cancelled(
    slurm: SlurmHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = slurm.hold()
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")

    result = command("up", "inside", "--provider", "slurm", "--option", "reach=srun")
    assert "here" in result.stdout
    command("down", "inside")
    assert slurm.call("squeue", "-h", "-o", "%A %T").split() == [job, "RUNNING"]

    slurm.end(job)
    refused = command("up", "inside", "--provider", "slurm", status=2).stderr
    assert job in refused
    assert "unset SLURM_JOB_ID" in refused


@pytest.mark.parametrize(
    ("options", "text", "typed"),
    [
        ({"partition": "gpu"}, "no such partition", "sinfo --summarize"),
        ({"gres": "gpu:8"}, "No node has such a generic resource", "sinfo --format '%N %G'"),
        ({"constraint": "fast"}, "No node has this feature", "constraint=FEATURE"),
        ({"reservation": "mine"}, "no such reservation", "scontrol show reservation"),
        ({"nodelist": "moon"}, "no such node", "sinfo --Node"),
        ({"time": "soon"}, "is not a duration", "90min"),
        ({"login": "a", "lab": "b"}, "name two Slurms", "Leave one"),
        ({"login": "-oProxyCommand=x"}, "is not a login host", "alice@login1"),
        ({"lab": "none"}, "no laboratory 'none' with Slurm", "slurm=1"),
        ({"extra": "--no-such-flag"}, "unrecognized option", "sbatch --version"),
    ],
)
@pytest.mark.usefixtures("slurm")
def test_what_slurm_refuses_is_said_before_anything_is_submitted(
    options: dict[str, str], text: str, typed: str
) -> None:
    with pytest.raises((SpecError, ProvisionError)) as refused:
        plan_spec(make_spec("mine", {"provider": "slurm", "hosts": 1, "options": options}))

    assert text in str(refused.value)
    assert typed in refused.value.remedy


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"accelerator": "h100:8"}, "gres=gpu:8"),
        ({"ttl": 300.0, "options": {"time": "3m"}}, "Both are the time limit"),
    ],
)
@pytest.mark.usefixtures("slurm")
def test_other_requests_that_cannot_be(fields: dict[str, object], text: str) -> None:
    with pytest.raises((SpecError, ProvisionError)) as refused:
        plan_spec(make_spec("mine", {"provider": "slurm", "hosts": 1, **fields}))

    assert text in refused.value.what + refused.value.means


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({"hosts": 9}, "so many nodes."), ({"ttl": 7200.0}, "so much time.")],
)
def test_what_can_never_start_is_refused_and_cancelled(
    slurm: SlurmHere, fields: dict[str, object], limit: str
) -> None:
    """Slurm takes a job that its partition can never run, and lets it wait for ever."""
    with pytest.raises((SpecError, ProvisionError)) as refused:
        launch_spec(make_spec("mine", {"provider": "slurm", "hosts": 1, **fields}))

    # Slurm names the limit as soon as its scheduler has looked at the job
    limits = ("so many nodes or so much time.", limit)
    begin = "PENDING: the partition gives no job"
    assert any(f"{begin} {words}" in str(refused.value) for words in limits)
    assert slurm.call("squeue", "-h") == ""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("DOWN", "the partition off is DOWN: jobs wait in it until it is UP"),
        ("DRAIN", "the partition off is DRAIN: it takes no new jobs"),
        ("INACTIVE", "the partition off is INACTIVE: it takes no new jobs, and starts none"),
    ],
)
def test_a_plan_says_that_a_partition_starts_nothing(
    snapshot: Snapshot, slurm: SlurmHere, state: str, reason: str
) -> None:
    """For one that is down, `sbatch --test-only` says that the job would start now."""
    slurm.call("scontrol", "update", "PartitionName=off", f"State={state}")

    def planned(partition: str) -> str:
        options = {"partition": partition}
        spec = make_spec("mine", {"provider": "slurm", "hosts": 1, "options": options})
        return plan_spec(spec)[1].lines[1]

    assert planned("off").endswith(reason)
    snapshot(planned("all"))
    slurm.call("scontrol", "update", "PartitionName=off", "State=DOWN")


def test_a_partition_that_is_down_is_said_and_waited_for(slurm: SlurmHere) -> None:
    states: list[str] = []

    def hear(host: str, state: str) -> None:
        states.append(f"{host} {state}")
        if "partition is down" in state:
            slurm.call("scontrol", "update", "PartitionName=off", "State=UP")

    options = {"partition": "off", "reach": "srun"}
    c = launch_spec(make_spec("mine", {"provider": "slurm", "hosts": 1, "options": options}), hear)
    slurm.call("scontrol", "update", "PartitionName=off", "State=DOWN")
    c.down()
    assert "0.mpi.mine PENDING: the partition is down" in states


def test_without_slurm_the_message_says_where_to_look(
    snapshot: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))

    with snapshot.raises(SpecError):
        plan_spec(make_spec("mine", {"provider": "slurm"}))


def test_a_command_that_hangs_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A strict stand-in: a real slurmctld cannot be made to hang without stopping it."""
    write_program(home / "squeue", "#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    monkeypatch.setattr("cluster.providers.slurm.client.ANSWERS_WITHIN", 0.2)

    with pytest.raises(ProvisionError, match="squeue") as hung:
        SlurmClient().run(("squeue",), within=0.2)
    assert "scontrol ping" in str(hung.value)


@pytest.fixture
def drained(slurm: SlurmHere) -> Iterator[SlurmHere]:
    """A Slurm whose node takes no new jobs."""
    slurm.call("scontrol", "update", "NodeName=here", "State=DRAIN", "Reason=test")
    yield slurm
    slurm.call("scontrol", "update", "NodeName=here", "State=RESUME")


def interrupt(host: str, state: str) -> None:
    """Press Ctrl-C as soon as the job waits."""
    del host, state
    raise KeyboardInterrupt


def test_a_job_that_was_left_in_the_queue_is_found_by_the_same_command(drained: SlurmHere) -> None:
    options = {"interrupt": "leave", "reach": "srun"}
    spec = make_spec("mine", {"provider": "slurm", "hosts": 1, "options": options})
    provider, plan = plan_spec(spec)
    assert "wait until nodes are up" in plan.lines[1]
    with pytest.raises(ProvisionError, match=r"\d+"):
        launch_spec(spec, interrupt)
    [resource] = provider.find("mine")

    drained.call("scontrol", "update", "NodeName=here", "State=RESUME")
    c = launch_spec(spec)
    assert [machine.job for machine in c.machines] == [resource.id]
    c.down()


def test_ctrl_c_cancels_what_waits(drained: SlurmHere) -> None:
    with pytest.raises(KeyboardInterrupt):
        launch_spec(make_spec("mine", {"provider": "slurm", "hosts": 1}), interrupt)

    assert drained.call("squeue", "-h") == ""


def test_gc_finds_ours_by_its_comment_and_nothing_else(slurm: SlurmHere) -> None:
    other = slurm.call("sbatch", "--parsable", "--begin=now+1hour", "--wrap=true").strip()
    c = up()
    journal.for_cluster("mine").forget()

    [orphan] = find_orphans()
    assert (orphan.name, orphan.provider) == ("mine", "slurm")
    remove(orphan)
    assert slurm.call("squeue", "-h", "-o", "%A").split() == [other]
    c.close()
    slurm.end(other)


def test_a_job_that_others_cancel_ends_the_run_with_its_reason(slurm: SlurmHere) -> None:
    """It is noticed within the 4 s after which Slurm is asked again."""
    c = up()
    c.bench("program", command="sleep 600", detach=True)
    slurm.call("scancel", c.machines[0].job)

    with pytest.raises(cluster.JobError, match=r"is over\. CANCELLED: somebody cancelled it"):
        c.wait()
    with pytest.raises(cluster.JobError, match="CANCELLED"):
        c.fetch()
    assert "CANCELLED" in cluster.load("mine").record.reason
    c.down()
    assert find_orphans() == ()


def preempt(slurm: SlurmHere, job: str) -> None:
    del job
    words = ("--partition=first", "--exclusive", "--output=/dev/null", "--wrap=exec sleep 600")
    slurm.call("sbatch", *words)


def put_back(slurm: SlurmHere, job: str) -> None:
    slurm.call("scontrol", "requeue", job)


def suspend(slurm: SlurmHere, job: str) -> None:
    slurm.call("scontrol", "suspend", job)


def take_down(slurm: SlurmHere, job: str) -> None:
    del job
    slurm.call("scontrol", "update", "NodeName=here", "State=DOWN", "Reason=broken DIMM")


@pytest.mark.parametrize(
    ("options", "happens", "text"),
    [
        ({"partition": "requeued"}, preempt, "PREEMPTED: it was preempted by another job"),
        ({"partition": "cancelled"}, preempt, "PREEMPTED: it was preempted by another job"),
        ({"extra": "--requeue"}, put_back, "requeued; whether.* preempted it is not"),
        ({}, suspend, "cannot be used any more. SUSPENDED: it was suspended .scontrol suspend"),
        ({}, take_down, r"one of its nodes failed.*Slurm calls here DOWN: broken DIMM"),
    ],
)
def test_a_job_that_slurm_takes_back_ends_the_run_with_slurms_reason(
    slurm: SlurmHere, options: dict[str, str], happens: Callable[[SlurmHere, str], None], text: str
) -> None:
    """6 s each: a job starts, and Slurm is asked every 4 s whether it still runs."""
    c = up(**options)
    c.bench("program", command="sleep 600", detach=True)
    happens(slurm, c.machines[0].job)

    with pytest.raises(cluster.JobError, match=text):
        c.wait()
    with pytest.raises(cluster.JobError, match=text):
        c.fetch()
    assert cluster.load("mine").status in ("failed", "interrupted")
    slurm.call("scontrol", "update", "NodeName=here", "State=RESUME")
    c.down()
    for job in slurm.call("squeue", "-h", "--partition=first", "-o", "%A").split():
        slurm.end(job)


def test_a_holder_is_not_put_back_into_the_queue(slurm: SlurmHere) -> None:
    """It would start again, alone, on other nodes."""
    c = up()
    put_back(slurm, c.machines[0].job)

    assert slurm.call("squeue", "-h", "-o", "%T").split() == ["RUNNING"]
    c.down()


@pytest.mark.usefixtures("slurm")
def test_a_login_host_of_old_that_is_gone_hinders_no_launch() -> None:
    journal.remember_region("slurm", "login:root@no-such-host.invalid")

    up().down()


@pytest.mark.usefixtures("home")
def test_a_cluster_whose_login_host_is_gone_is_not_said_to_be_down() -> None:
    place = "root@no-such-host.invalid"
    options = {"provider": "slurm", "hosts": 1, "options": {"login": place}}
    book = journal.for_cluster("away")
    book.append(journal.Intended(spec=make_spec("away", options), at=0.0))
    request = journal.Requested(
        provider="slurm", region=f"login:{place}", kind="job", token=secrets.token_hex(2), at=0.0
    )
    book.append(request)
    book.append(journal.Answered(token=request.token, ids=("4711",)))
    refused = command("down", "away", status=1)

    assert "0 left" not in refused.stdout
    assert place in refused.stderr
    assert "scancel 4711" in refused.stderr
    assert [row["name"] for row in answer("ls")] == ["away"]


@pytest.mark.usefixtures("slurm")
def test_a_launch_that_never_got_hosts_is_taken_down() -> None:
    spec = make_spec("mine", {"provider": "slurm", "hosts": 1})
    journal.for_cluster("mine").append(journal.Intended(spec=spec, at=0.0))

    assert "0 left" in command("down", "mine").stdout
