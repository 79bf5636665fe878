"""`down` says "0 left" only with evidence; what the clouds really hold is the judge."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from cluster.core.state import journal
from cluster.orchestration.cluster import attach
from cluster.providers.aws.delete import LISTS
from tests.cli.conftest import Typed
from tests.clouds import NAME, WORLDS, World
from tests.fakes.aws import Cloud
from tests.fakes.aws.permissions import ACCOUNT, OTHER_ACCOUNT
from tests.fakes.cloud import Emulated
from tests.fakes.values import Fault

BLOCKED = "<!DOCTYPE html><html><body>Access blocked by policy</body></html>"
PAGES: dict[str, dict[str, Any]] = {
    "HTML": {"body": BLOCKED, "status": 200},
    "HTML, 403": {"body": BLOCKED, "status": 403},
    "HTML, 404": {"body": BLOCKED, "status": 404},
    "JSON": {"body": "{}", "status": 200},
    "empty": {"body": "", "status": 200},
    "cut": {"cut": True},
}
LATE = {"young": "30", "old": "0"}  # seconds after which all is listed
OF_LISTS = {  # the calls that list, and those of machines alone
    "aws": ("".join(part.capitalize() for part in entry.split("_")) for entry in LISTS),
    "gcp": (
        "instances.list",
        "instances.aggregatedList",
        "disks.aggregatedList",
        "disks.list",
        "instanceGroupManagers.aggregatedList",
        "instanceTemplates.list",
        "resourcePolicies.aggregatedList",
        "firewalls.list",
        "networks.list",
    ),
}
CALLS = {
    world.name: {"all": ("*",), "lists": tuple(OF_LISTS[world.name]), "machines": world.after}
    for world in WORLDS
}
worlds = pytest.mark.parametrize("world", WORLDS, ids=[entry.name for entry in WORLDS])


@pytest.fixture
def cloud(world: World, request: pytest.FixtureRequest) -> Emulated[Any]:
    emulation: Emulated[Any] = request.getfixturevalue(world.name)
    emulation.set(**world.settings)
    return emulation


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", 0.0)
    monkeypatch.setattr("cluster.providers._cloud.launch.POLL", 0.05)
    monkeypatch.setattr("cluster.providers.gcp.delete.LOOK_AGAIN", 0.1)


def identities(cloud: Emulated[Any], world: World) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield who types it, in which environment, and with which flags."""
    place = "us-east-1" if world.name == "aws" else ""
    yield "right", {}, ""
    if world.name == "aws":
        emulated: Any = cloud
        yield "another account", emulated.user("eve", None, OTHER_ACCOUNT), ""
        yield "another user", emulated.user("bob", None, ACCOUNT), ""
        yield "another region, no journal", {}, "--region eu-west-1"
    else:
        yield "another user", {"CLOUDSDK_CORE_ACCOUNT": "eve@example.com"}, ""
        yield "another project, no journal", {"GOOGLE_CLOUD_PROJECT": "other-project"}, ""
    yield "no journal", {}, f"--region {place}" if place else ""


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Let a cluster have no journal for a while; an empty name changes nothing."""
    folder = journal.for_cluster(name or NAME).folder
    aside = folder.with_name("aside") if name else folder
    folder.rename(aside)
    yield
    aside.rename(folder)


@pytest.mark.parametrize("age", LATE)
@worlds
def test_nothing_is_said_to_be_gone_that_is_there(
    cloud: Emulated[Any], world: World, age: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks and whichever calls fail, whatever answers, however old the cluster is."""
    monkeypatch.setenv("CLUSTER_LATE", LATE[age])
    if world.name == "aws":  # what is in these from the beginning
        emulated: Any = cloud
        emulated.region("eu-west-1")
        emulated.region("us-east-1", OTHER_ACCOUNT)
    before = cloud.things()
    world.create(world.planned())
    rows = product(identities(cloud, world), PAGES.items(), CALLS[world.name].items())
    pairs = [row for row in rows if row[0][0] == "right" or row[2][0] == "all"]
    for (identity, environ, flags), (page, harm), (group, calls) in pairs:
        for call in calls:
            cloud.fail(Fault(action=call, **harm))
        with monkeypatch.context() as other, hidden(NAME if "no journal" in identity else ""):
            for key, value in environ.items():
                other.setenv(key, value)
            status, out, _ = typed(f"down {NAME} {flags}")
        cloud.mend()

        assert "0 left" not in out, f"{identity}, {page} for {group}"
        assert status != 0, f"{identity}, {page} for {group}: {out}"
        assert tuple(sorted(thing.kind for thing in cloud.things() - before)) == world.kinds
    assert len(pairs) == len(PAGES) * (3 + (4 if world.name == "aws" else 3))
    attach(NAME).down(reachable=False)
    assert cloud.things() == before


@worlds
def test_a_page_is_shown_with_what_it_means(
    cloud: Emulated[Any], world: World, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_LATE", "0")
    world.create(world.planned())
    cloud.fail(Fault(action="*", body=BLOCKED, status=200))
    for line in (f"down {NAME}", "ls", "more gc -y"):
        status, out, err = typed(line)
        text = " ".join((out + err).split())

        assert status != 0 or line == "ls"  # it shows what the journals know
        assert "Access blocked by policy" in text
        assert "curl -iL" in text
    cloud.mend()
    attach(NAME).down(reachable=False)


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "forgotten"])
def test_a_journal_ends_with_instances_that_amazon_knows_no_more(
    aws: Cloud, typed: Typed, monkeypatch: pytest.MonkeyPatch, *, is_listed: bool
) -> None:
    """That they are in no list shows nothing: they are asked for by their ids."""
    [world] = [w for w in WORLDS if w.name == "aws"]
    before = aws.things()
    monkeypatch.setenv("CLUSTER_LATE", "0")
    ids = [machine.id for machine in world.create(world.planned())]
    for id_ in ids:
        aws.end(id_)
    if not is_listed:
        aws.forget_ended()
    status, out, _ = typed(f"down {NAME}")
    calls = [call for call in aws.calls("DescribeInstances") if "InstanceIds" in call.params]

    assert status == 0
    assert "0 left" in out
    assert {call.code for call in calls} == (set() if is_listed else {"InvalidInstanceID.NotFound"})
    assert aws.things() == before


def test_instances_that_are_only_in_no_list_are_named(
    aws: Cloud, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    [world] = [w for w in WORLDS if w.name == "aws"]
    monkeypatch.setenv("CLUSTER_LATE", "0")
    ids = [machine.id for machine in world.create(world.planned())]
    empty = "<DescribeInstancesResponse><requestId>r</requestId><reservationSet/>"
    page = f"{empty}</DescribeInstancesResponse>"
    aws.fail(Fault(action="DescribeInstances", body=page, status=200))
    with monkeypatch.context() as impatient:
        impatient.setattr("cluster.providers._cloud.deletion.WITHIN", 0.3)
        status, out, err = typed(f"down {NAME}")

    assert status != 0
    assert "0 left" not in out
    text = " ".join(err.split())
    assert [id_ for id_ in ids if f"{id_} (not listed any more)" not in text] == [], text
    assert journal.for_cluster(NAME).entries()
    aws.mend()
    attach(NAME).down(reachable=False)


LABELLED = {
    "aws": ("instance", "volume", "network-interface", "key-pair", "placement-group"),
    "gcp": ("instances", "disks", "firewalls", "resourcePolicies"),
}


@pytest.mark.parametrize("way", ["down", "gc"])
@pytest.mark.parametrize(
    ("world", "kind"),
    [
        (world, kind)
        for world in WORLDS
        for kind in (*LABELLED[world.name], "security-group", "")
        if world.name == "aws" or kind != "security-group"
    ],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_what_lost_its_tags_is_found_by_the_journal(
    cloud: Emulated[Any],
    world: World,
    kind: str,
    way: str,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each kind alone, and of all."""
    monkeypatch.setenv("CLUSTER_LATE", "0")
    before = cloud.things()
    world.create(world.planned())
    cloud.lose_tags(*([kind] if kind else []))
    status, out, err = typed(f"down {NAME}" if way == "down" else "more gc -y")

    assert (status, err) == (0, ""), err
    assert cloud.things() == before, out
    assert not journal.for_cluster(NAME).entries()
