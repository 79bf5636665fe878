"""Nothing on real hosts is destroyed unasked: neither a cluster with a dead host, nor a job."""

import pytest

import cluster
from cluster.core.errors import InUse
from tests.background import record
from tests.conftest import command, runs_folder
from tests.lab.conftest import must

pytestmark = pytest.mark.usefixtures("own_labs", "faulty")
BENCH = ("bench", "faulty", "dead")


def test_a_cluster_with_a_dead_host_is_rebuilt_only_on_request() -> None:
    """The message names the host, where to look, and the flag; what is on the hosts stays."""
    c = cluster.launch("dead", provider="lab", hosts=2)
    must(c, 0, "echo mine > /root/kept")
    command("lab", "dead", "kill", "1")
    for words in (BENCH, ("up", "dead"), (*BENCH, "--ab", "env:A=1,2"), (*BENCH, "--hosts", "3")):
        message = command(*words, status=2).stderr
        assert "1.mpi.dead" in message
        assert "0.mpi.dead" not in message
        assert "cluster check dead" in message
        assert "--replace" in message
    with pytest.raises(cluster.SpecError, match=r"1\.mpi\.dead"):
        cluster.launch("dead", provider="lab", hosts=2)
    assert must(c, 0, "cat /root/kept") == "mine\n"
    assert not list(runs_folder().glob("*/*"))

    command(*BENCH, "--replace")
    assert must(cluster.attach("dead"), 0, "ls /root/kept 2> /dev/null || echo gone") == "gone\n"
    [folder] = runs_folder().glob("*/*")
    assert record(folder)["status"] == "done"
    assert "; 0 left" in command("down", "dead").stdout


def test_a_second_job_blames_no_host() -> None:
    """It is refused before it gives the hosts new keys, which would end the first."""
    with cluster.launch("busy", provider="lab", hosts=2) as busy:
        old = busy.bench("faulty", how="hang", detach=True).folder
        with pytest.raises(InUse):
            busy.bench("faulty")
        assert busy.job()[1] == "running"
        with pytest.raises(InUse):
            busy.bench("faulty")
        assert record(old)["status"] == "running"
        assert busy.bench("faulty", replace=True).status == "done"

    assert record(old)["status"] == "interrupted"
    assert "--replace" in record(old)["reason"]
    assert "does not answer" not in record(old)["reason"]
