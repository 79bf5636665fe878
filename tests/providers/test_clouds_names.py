"""A name that no journal here knows: what was searched, where and as whom; never "0 left"."""

import time
from typing import Any

import pytest

from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.orphans import take_down
from tests.clouds import AWS, GCP, NAME, World, machines
from tests.conftest import answer, command
from tests.fakes import gcp as google
from tests.fakes.aws import Cloud
from tests.fakes.aws.permissions import ACCOUNT, OTHER_ACCOUNT
from tests.fakes.cloud import Emulated
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")


def launched(world: World) -> None:
    """Launch a cluster, and lose the state folder."""
    world.create(world.planned())
    journal.for_cluster(NAME).forget()
    (state_folder() / "regions.jsonl").unlink()


def refused(*words: str) -> str:
    """Run `cluster down`, see that it claims nothing, and return what it says."""
    result = command("down", *words, "-y", status=2)
    assert "0 left" not in result.stdout + result.stderr
    return result.stderr


@pytest.mark.parametrize("case", ["typo", "account", "user", "region"])
def test_what_amazon_was_searched_for_and_as_whom_is_said(
    snapshot: Snapshot, aws: Cloud, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    launched(AWS)
    machine_ids = machines(aws)
    name = "c6" if case == "typo" else NAME
    region = "us-west-2" if case == "region" else "us-east-1"
    account = OTHER_ACCOUNT if case == "account" else ACCOUNT
    user = "admin"
    if case in ("account", "user"):
        user = "bob"
        key = aws.user(user, None, account)["AWS_ACCESS_KEY_ID"]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)

    words = refused(name, "--region", region)
    snapshot(words)
    assert machines(aws) == machine_ids


@pytest.mark.parametrize("case", ["typo", "user"])
def test_what_google_was_searched_for_and_as_whom_is_said(
    gcp: google.Cloud, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    gcp.set(**GCP.settings)
    launched(GCP)
    machine_ids = machines(gcp)
    user = "eve@example.com" if case == "user" else "me@example.com"
    monkeypatch.setenv("CLOUDSDK_CORE_ACCOUNT", user)

    words = refused("c6" if case == "typo" else NAME, "--region", "projects/test-project")
    assert "test-project" in words
    assert user in words
    assert machines(gcp) == machine_ids


def test_a_project_that_may_not_be_searched_is_not_said_to_be_empty(
    snapshot: Snapshot, gcp: google.Cloud
) -> None:
    del gcp
    result = command("down", NAME, "--region", "projects/other", "-y", status=1)
    snapshot(result.stderr)


def test_a_region_that_no_provider_has_is_refused(snapshot: Snapshot) -> None:
    snapshot(refused(NAME, "--region", "us-esat"))


def test_without_credentials_the_clouds_are_said_not_to_be_searched(snapshot: Snapshot) -> None:
    words = refused(NAME)
    snapshot(words)
    assert str(state_folder()) in words


def test_all_of_none_claims_nothing_and_names_what_runs_elsewhere(
    snapshot: Snapshot, aws: Cloud
) -> None:
    result = command("down", "--all", "-y").stdout
    snapshot(result)
    launched(AWS)

    assert f"cluster down {NAME}" in refused("--all")
    assert len(machines(aws)) == AWS.spec.hosts


def test_the_answer_for_a_program_names_what_is_down_and_nothing_else(aws: Cloud) -> None:
    launched(AWS)
    result = command("down", NAME, "nosuch", "--region", "us-east-1", "-y", "--json", status=2)
    assert f'"name": "{NAME}"' in result.stdout
    assert "nosuch" not in result.stdout
    assert "nosuch" in result.stderr
    assert not machines(aws)
    assert answer("more", "gc") == []


def test_a_program_gets_the_same_error(snapshot: Snapshot, aws: Cloud) -> None:
    del aws
    with snapshot.raises(SpecError):
        take_down("nosuch", ["us-east-1"])


def test_a_cluster_whose_journal_was_lost_is_not_down(world: World, cloud: Emulated[Any]) -> None:
    entry = journal.Intended(spec=world.spec, at=time.time())
    journal.for_cluster(NAME).append(entry)
    cluster = attach(NAME)
    journal.for_cluster(NAME).forget()
    launched(world)

    with pytest.raises(ProvisionError, match=NAME):
        cluster.down()
    assert machines(cloud)


@pytest.mark.parametrize("provider", ["local", "sim", "ssh", "lab"])
def test_a_name_that_other_providers_do_not_know_is_refused(
    snapshot: Snapshot, provider: str
) -> None:
    spec = ClusterSpec(name="known", provider=provider, hosts=1)
    journal.for_cluster("known").append(journal.Intended(spec=spec, at=time.time()))
    snapshot(refused("unknown"))
    assert journal.names() == ("known",)
