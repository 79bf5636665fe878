"""The controller dies at every phase of a launch and of a job: what then takes it all away."""

import pytest

from cluster.orchestration.cluster import Cluster
from tests.lab.alone import Alone

LAUNCH = "made = cluster.launch('crash', provider='lab', options={'rate': '1gbit'})\n"
BENCH = f"{LAUNCH}made.bench('p2p', metrics=['latency'], sizes='8', iterations=10)\n"
LAUNCHING = {  # the function that is about to be called
    "nothing but the intent is on disk": "cluster.providers.lab:_write_files",
    "the folder is there, the keys are not": "cluster.providers.lab.rootfs:Upper.folder",
    "all files are there": "cluster.providers.lab:_bring_up",
    "the processes are started": "cluster.providers.lab:network.join",
    "the links are half made": "cluster.providers.lab.network:shape",
    "the links are made": "cluster.providers.lab:network.write_network",
    "the hosts are up": "cluster.orchestration.launch.launch:journal.Created",
    "the hosts are in the journal": "cluster.orchestration.launch.launch:connect",
    "connecting": "cluster.remote.ssh.connection:open_hop",
}
RUNNING = {
    "installing": "cluster.remote.environment.install:HostInstaller._push",
    "joining": "cluster.remote.network.ssh_mesh:_write_files",
    "a job is in the journal": "cluster.remote.sessions.jobs:MpiJob.start",
    "the job runs": "cluster.remote.sessions.jobs:MpiJob.watch",
    "the job ended": "cluster.remote.sessions.jobs:MpiJob.fetch",
}


@pytest.mark.parametrize("remedy", ["down crash", "more gc -y"])
@pytest.mark.parametrize("point", LAUNCHING.values(), ids=LAUNCHING)
def test_a_launch_that_was_killed_leaves_nothing(alone: Alone, point: str, remedy: str) -> None:
    before = alone.list_leftovers()
    alone.die_at(point, LAUNCH)
    assert "crash" in alone.command("ls").stdout

    assert "; 0 left." in alone.command(*remedy.split()).stdout
    assert alone.await_leftovers(before) == before


@pytest.mark.parametrize("point", RUNNING.values(), ids=RUNNING)
def test_a_measurement_that_was_killed_leaves_nothing(
    alone: Alone, cached: None, request: pytest.FixtureRequest, point: str
) -> None:
    """The cluster is as good as any other: it is listed, kept by gc, and taken down."""
    if point == RUNNING["installing"]:
        request.getfixturevalue("installed_anew")
    before = alone.list_leftovers()
    alone.die_at(point, BENCH)
    assert alone.command("more", "gc", "-y", "--json").stdout == "[]\n"

    assert "; 0 left" in alone.command("down", "crash").stdout
    assert alone.await_leftovers(before) == before


@pytest.fixture
def cached(lab: Cluster) -> None:
    """Have the wheels here: a machine of its own reaches no index."""
    lab.install()


@pytest.mark.parametrize(
    "point", ["cluster.providers.lab:shutil.rmtree", "cluster.core.state.journal:Journal.forget"]
)
def test_a_down_that_was_killed_is_done_again(alone: Alone, point: str) -> None:
    before = alone.list_leftovers()
    alone.command("up", "crash", "--provider", "lab")
    alone.die_at(point, "from cluster.orchestration.cluster import attach; attach('crash').down()")

    assert "; 0 left" in alone.command("down", "crash").stdout
    assert alone.await_leftovers(before) == before
