"""Google with a real host behind each instance: from a launch to nothing left, also when killed."""

import pytest

from cluster.core.state import ssh_keys
from cluster.core.state.files import state_folder
from cluster.orchestration.cluster import attach
from tests.conftest import answer, command, until
from tests.fakes.gcp import Cloud, Fault
from tests.providers.launcher import check_killed_launch, check_launcher
from tests.providers.started_jobs import check_started_jobs
from tests.snapshots import Snapshot

pytestmark = [
    pytest.mark.usefixtures("late"),
    pytest.mark.timeout(300),  # each takes seconds; one that hangs gives its worker back sooner
]
HOW = ("--provider", "gcp", "--zone", "us-central1-a", "--instance", "c2-standard-60", "--yes")
UP = ("up", "c5", *HOW, "--placement")


def test_the_founding_command_on_google(gcp_hosts: Cloud) -> None:
    output, run = check_launcher(gcp_hosts, *HOW)

    assert "2 x c2-standard-60" in output
    assert "Receipt: " in output
    assert "$2.76 " in output
    assert run["machines"][0]["link"]["rate"] == 32e9 / 8  # without Tier_1, which costs extra


def test_a_cluster_that_stays_is_used_and_taken_down(snapshot: Snapshot, gcp_hosts: Cloud) -> None:
    before = gcp_hosts.things()
    command(*UP)
    known_hosts = (state_folder() / "c5" / ssh_keys.KNOWN).read_text()
    assert len(set(known_hosts.split()[2::3])) == 2  # each has a key of its own

    command("run", "c5", "--", "sudo", "-n", "true")
    check_started_jobs(attach("c5"))
    calls_before = len(gcp_hosts.mutating())
    gcp_hosts.set(quotas={"us-central1 C2_CPUS": 0})  # what it uses itself is not in its way
    command(*UP)  # it is there already
    assert len(gcp_hosts.mutating()) == calls_before

    words = command("connect", "--print", "c5").stdout
    assert "StrictHostKeyChecking" not in words
    assert "HostKeyAlias=instance-" in words
    snapshot(command("more", "pause", "c5", status=2).stderr)
    assert "0 left" in command("down", "c5").stdout
    assert gcp_hosts.things() == before


def test_a_name_may_be_used_again(gcp_hosts: Cloud) -> None:
    """Google has names where others have ids: the new machines are not the old ones."""
    before = gcp_hosts.things()
    for _ in range(2):
        command(*UP)
        assert command("run", "c5", "--", "hostname").stdout.count("ip-10-128-0-") == 2
        command("down", "c5")
    assert gcp_hosts.things() == before


def test_a_host_key_that_is_not_the_one_that_google_told(gcp_hosts: Cloud) -> None:
    """Somebody who answers at a host's address is found out, and nothing is left."""
    before = gcp_hosts.things()
    public = ssh_keys.load_or_create(state_folder().parent / "somebody").public.split()[1]
    gcp_hosts.host_keys_told = {"ssh-ed25519": public}

    refused = command(*UP, status=1).stderr
    gcp_hosts.host_keys_told = None

    assert "key" in refused
    assert gcp_hosts.things() == before


def test_hosts_that_answer_before_they_know_who_may_log_in(gcp_hosts: Cloud) -> None:
    gcp_hosts.set(login=2.0)
    command(*UP)
    command("run", "c5", "--", "true")
    command("down", "c5")
    assert gcp_hosts.things(foreign=False) == frozenset()


def test_machines_end_by_themselves_when_nobody_is_there_any_more(gcp_hosts: Cloud) -> None:
    gcp_hosts.set(second=0.4)
    command(*UP, "--ttl", "60s")
    names = [machine["id"].partition("/")[2] for machine in answer("ls", "c5")]
    assert all(gcp_hosts.running(name) for name in names)

    until(lambda: not any(t.id in names for t in gcp_hosts.things()), "the instances are gone")
    assert not any(gcp_hosts.running(name) for name in names)
    assert "c5" in command("more", "gc").stdout or answer("ls")
    command("down", "c5")
    assert gcp_hosts.things(foreign=False) == frozenset()


def test_sixty_four_machines(gcp_hosts: Cloud) -> None:
    command("up", "many", *HOW, "--hosts", "64", "--option", "zones=a,b")
    assert command("run", "many", "--", "hostname").stdout.count("ip-10-128-0-") == 64
    assert "0 left" in command("down", "many").stdout
    assert gcp_hosts.things(foreign=False) == frozenset()


def test_a_launch_that_was_killed_goes_on(gcp_hosts: Cloud) -> None:
    gcp_hosts.fail(Fault(action="instances.bulkInsert", kill="after", times=1))
    check_killed_launch(gcp_hosts, *UP)
