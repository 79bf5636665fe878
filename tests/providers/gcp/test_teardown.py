"""What goes when a cluster of Google ends, what stays, and who sees it until then."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster.core.state import journal
from tests.conftest import answer, command, until
from tests.fakes.gcp import Cloud
from tests.fakes.gcp.catalog import PROJECT
from tests.providers.gcp.conftest import (
    ZONE,
    create,
    instances,
    kinds,
    live_names,
    own_things,
    provider,
    spec_of,
)

pytestmark = pytest.mark.usefixtures("after_a_second")


def test_everything_goes_and_nothing_of_others(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not what another user of the project has under the same name."""
    monkeypatch.setenv("CLOUDSDK_CORE_ACCOUNT", "somebody@example.com")
    create(spec_of())
    journal.for_cluster("c5").forget()
    monkeypatch.setenv("CLOUDSDK_CORE_ACCOUNT", "me@example.com")
    before = gcp.things()
    create(spec_of())
    gcp.set(stopping=0.5, operation=0.2)
    provider().destroy("c5")

    assert gcp.things() == before
    assert provider().find("c5") == ()
    assert live_names() == []


def test_a_policy_that_somebody_else_uses_holds_up_the_end_until_it_is_free(gcp: Cloud) -> None:
    create(spec_of())
    [policy] = [thing.id for thing in own_things(gcp) if thing.kind == "resourcePolicies"]
    stranger = gcp.resources[f"projects/{PROJECT}/zones/{ZONE}/instances/c5-0001"]
    path = f"projects/{PROJECT}/regions/us-central1/resourcePolicies/{policy}"
    stranger["resourcePolicies"] = [path]

    def free() -> None:
        until(lambda: kinds(gcp) == {"resourcePolicies"}, "everything else is gone")
        time.sleep(0.5)
        assert kinds(gcp) == {"resourcePolicies"}
        stranger["resourcePolicies"] = []

    with ThreadPoolExecutor(1) as pool:
        release = pool.submit(free)
        provider().destroy("c5")
    release.result()

    assert own_things(gcp) == frozenset()


def test_down_from_labels_alone(gcp: Cloud) -> None:
    before = gcp.things()
    create(spec_of())
    journal.for_cluster("c5").forget()
    output = command("down", "c5").stdout

    assert "0 left" in output
    assert gcp.things() == before


def test_an_expired_cluster_of_another_machine_is_forgotten(gcp: Cloud) -> None:
    create(spec_of())
    journal.for_cluster("c5").forget()

    assert "c5" in command("more", "gc").stdout
    command("more", "gc", "-y")
    assert own_things(gcp) == frozenset()


def test_machines_end_by_themselves(gcp: Cloud) -> None:
    create(spec_of(ttl=60.0))
    stay = instances(gcp)
    gcp.set(second=0.05)
    create(spec_of("short", ttl=60.0))

    until(lambda: instances(gcp) == stay, "their time is over")


def test_a_cluster_is_seen_from_everywhere(gcp: Cloud) -> None:
    create(spec_of(ttl=600.0))
    journal.for_cluster("c5").forget()

    [row] = until(lambda: answer("ls"), "the cloud answers in the time of ls")
    assert (row["name"], row["hosts"], row["region"]) == ("c5", 2, f"projects/{PROJECT}")
    assert row["status"].startswith("running, of ")
    assert 0 < row["dollars"] < 5.52
    assert 0 < row["expires"] - time.time() <= 601  # a label has whole seconds
