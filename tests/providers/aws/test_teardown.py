"""What goes when a cluster of Amazon ends, what stays, and who sees it until then."""

import time

import pytest

from cluster.core.errors import Denied, Timeout
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from tests.conftest import answer, command, until
from tests.fakes.aws import Cloud, Fault
from tests.providers.aws.conftest import create, own_things, provider, spec_of
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")


def test_everything_goes_and_nothing_of_others(aws: Cloud) -> None:
    before = aws.things()
    create(spec_of())
    aws.set(ending=0.5)
    provider().destroy("c5")

    assert aws.things() == before
    assert provider().find("c5") == ()


@pytest.mark.parametrize("call", ["DescribeAddresses", "DeletePlacementGroup"])
def test_a_kind_that_may_not_be_listed_or_deleted_keeps_nothing_else(aws: Cloud, call: str) -> None:
    """So it is with a policy that was written before there were Elastic IPs."""
    aws.set(default_vpc=())
    before = aws.things()
    create(spec_of())
    aws.fail(Fault(action=call, code="UnauthorizedOperation", status=403))
    with pytest.raises(Denied, match=call):
        provider().destroy("c5")
    kinds = {"placement-group"} if call == "DeletePlacementGroup" else set()
    assert {thing.kind for thing in aws.things() - before} == kinds

    aws.mend()
    provider().destroy("c5")
    assert aws.things() == before


def test_down_from_tags_alone(snapshot: Snapshot, aws: Cloud) -> None:
    before = aws.things()
    create(spec_of())
    journal.for_cluster("c5").forget()
    output = command("down", "c5", "--region", "us-east-1").stdout

    snapshot(output)
    assert aws.things() == before


def test_machines_that_appear_late_go_too(aws: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_LATE", "3")
    before = aws.things()
    aws.set(visible=1.5)
    aws.fail(Fault(action="RunInstances", drop="after", skip=1))  # it is done, and nobody hears

    with pytest.raises(Timeout):
        create(spec_of())
    assert aws.things() == before


def test_gc_finds_what_no_journal_knows_of(aws: Cloud) -> None:
    before = aws.things()
    create(spec_of("lost"))
    create(spec_of("lost2", placement=False))
    for name in ("lost", "lost2"):
        journal.for_cluster(name).forget()
    orphans = answer("more", "gc")
    assert {orphan["name"] for orphan in orphans} == {"lost", "lost2"}

    command("more", "gc", "-y")
    assert aws.things() == before


def test_gc_looks_everywhere_if_asked(aws: Cloud) -> None:
    create(spec_of(zone="eu-west-1a"))
    journal.for_cluster("c5").forget()
    [far] = answer("more", "gc")  # regions are remembered when journals are gone
    assert far["regions"] == ["eu-west-1"]
    (state_folder() / "regions.jsonl").unlink()
    assert answer("more", "gc") == []
    command("more", "gc", "-y", "--all-regions")

    assert not own_things(aws)


def test_ls_shows_what_was_launched_elsewhere(aws: Cloud) -> None:
    create(spec_of())
    journal.for_cluster("c5").forget()
    [row] = until(lambda: answer("ls"), "the cloud answers in the time of ls")

    assert (row["name"], row["hosts"], row["region"]) == ("c5", 2, "us-east-1")
    assert row["dollars"] is not None
    assert 7000 < row["expires"] - time.time() <= 7200
    command("down", "c5")
    assert answer("ls") == []


def test_another_owners_cluster_of_the_same_name_is_not_touched(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spec_of())
    things = own_things(aws)
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
    for name, value in aws.user("bob", policy).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CLUSTER_STATE", str(state_folder().parent / "bobs"))
    assert answer("ls") == []
    create(spec_of())
    provider().destroy("c5")

    assert own_things(aws) == things


def test_without_any_sign_of_amazon_nobody_is_asked(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in aws.environ:
        if name.startswith("AWS"):
            monkeypatch.delenv(name)

    assert provider().names() == ()
    assert provider().live() == ()
    assert not aws.calls()
