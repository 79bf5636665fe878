"""What holds of started jobs on the hosts of any provider."""

import pytest

from cluster.core.errors import ClusterError
from cluster.core.model.jobs import TaskState
from cluster.orchestration.cluster import Cluster, attach
from tests.conftest import answer, until


def check_started_jobs(c: Cluster) -> None:
    """A job is followed, found again and ended with a reason; another one fails with a status."""
    job = c.start("echo $CLUSTER_NODE_RANK of $CLUSTER_NUM_NODES; exec sleep 300", name="serve")
    hosts = len(c.hosts)
    until(lambda: len(job.logs().splitlines()) == hosts, "each host has printed")
    assert {line.text for line in job.lines(follow=False)} == {
        f"{n} of {hosts}" for n in range(hosts)
    }
    again = attach(c.name).jobs["serve"]
    assert again.state == "running"
    again.stop("Enough.")
    ends = [state.end for state in job.states().values() if isinstance(state, TaskState)]
    assert [(end.state, end.reason) for end in ends if end] == [("stopped", "Enough.")] * hosts
    failing = c.hosts[0].start("exit 3", name="failing")
    with pytest.raises(ClusterError, match=r"failing .* 3"):
        failing.wait()
    rows = {row["name"]: (row["state"], len(row["tasks"])) for row in answer("jobs", c.name)}
    assert rows == {"serve": ("stopped", hosts), "failing": ("failed", 1)}
