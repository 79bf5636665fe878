"""What Google is asked for, and what it costs, without a launch."""

import pytest
from google.cloud.compute_v1.types import compute

from cluster.core.errors import SpecError
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec
from cluster.providers._cloud.tags import Tags
from cluster.providers.gcp import GcpProvider, machine_types
from cluster.providers.gcp.options import GcpOffer, GcpOptions
from cluster.providers.gcp.request import request
from tests.fakes.gcp import Cloud, Settings
from tests.fakes.gcp.catalog import PROJECT
from tests.snapshots import Snapshot

TAGS = Tags(name="c", owner="me", launch="l", expires=0.0)


@pytest.mark.parametrize(
    ("name", "memory", "region", "hourly"),
    [
        ("c2-standard-60", 240, "europe-west4", 60 * 0.040 + 240 * 0.005),  # newer: "... Instance"
        ("c2d-standard-112", 448, "us-central1", 112 * 0.020 + 448 * 0.003),
    ],
)
def test_a_family_may_have_another_name_in_the_catalog(
    gcp: Cloud, name: str, memory: int, region: str, hourly: float
) -> None:
    assert gcp.url
    cpus = int(name.rpartition("-")[2])
    kind = compute.MachineType(name=name, guest_cpus=cpus, memory_mb=memory * 1024)
    project = GcpProvider().client(PROJECT, None)
    price = machine_types.price(project, kind, region, None, spot=False)

    assert price
    assert price.hourly == pytest.approx(hourly)


@pytest.mark.parametrize(
    ("instance", "disk"),
    [
        ("a3-ultragpu-8g", "hyperdisk-balanced"),
        ("a4x-highgpu-4g", "hyperdisk-balanced"),
        ("n4d-standard-8", "hyperdisk-balanced"),
        ("a3-megagpu-8g", "pd-balanced"),
        ("n2-standard-8", "pd-balanced"),
    ],
)
def test_a_type_boots_from_the_disk_that_it_takes(instance: str, disk: str) -> None:
    assert machine_types.disk_type(instance) == disk


def test_only_some_families_have_tier_1() -> None:
    assert not machine_types.has_tier_1("n4-standard-80", 80)
    assert machine_types.has_tier_1("n2-standard-80", 80)
    assert not machine_types.has_tier_1("n2-standard-16", 16)


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        ("h3-standard-88", "TERMINATE"),
        ("h4d-highmem-192-lssd", "TERMINATE"),
        ("c2-standard-60", "MIGRATE"),
    ],
)
def test_types_that_cannot_move_are_not_told_to(instance: str, expected: str) -> None:
    """Also where nothing else fixes them: neither placement nor spot."""
    offer = GcpOffer(
        allow="",
        ttl=60.0,
        link=None,
        price=None,
        lines=(),
        project="p",
        region="r",
        sites=(),
        network="n",
        image="i",
        disk=0,
        instance=instance,
    )
    body = request(ClusterSpec(name="c"), GcpOptions(), offer, TAGS, "ssh-ed25519 A")

    assert body["instance_properties"]["scheduling"]["on_host_maintenance"] == expected


ONE_OLD_HOST = "projects/p/zones/us-central1-a/instances/bastion"


def plan(**options: str) -> Plan:
    spec = ClusterSpec(
        name="c", provider="gcp", zone="us-central1-a", instance="c2-standard-60", options=options
    )
    return GcpProvider().plan(spec)


@pytest.mark.parametrize(
    ("constraint", "rule", "instead"),
    [
        ("compute.requireOsLogin", "enforce", "--provider ssh"),
        ("compute.managed.requireOsLogin", "enforce", "--provider ssh"),
        ("compute.disableGuestAttributesAccess", "enforce", "--provider ssh"),
        ("compute.vmExternalIpAccess", "denyAll", "--option jump=USER@HOST"),
        ("compute.vmExternalIpAccess", ONE_OLD_HOST, "--option public=0"),
        ("compute.managed.vmExternalIpAccess", "enforce", "--option jump=USER@HOST"),
    ],
)
def test_a_policy_of_the_organisation_refuses_before_anything_is_made(
    snapshot: Snapshot, gcp: Cloud, constraint: str, rule: str, instead: str
) -> None:
    gcp.reset(Settings(policies={constraint: rule}))

    with snapshot.raises(SpecError) as refused:
        plan()
    assert instead in refused.value.remedy
    assert not gcp.mutating()


def test_without_external_addresses_their_policy_does_not_matter(
    snapshot: Snapshot, gcp: Cloud
) -> None:
    gcp.reset(Settings(policies={"compute.vmExternalIpAccess": "denyAll"}))

    snapshot(plan(public="0").lines)


def test_policies_that_nobody_tells_are_said_to_be_unknown(
    snapshot: Snapshot, gcp: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most projects have that API switched off; another cloud has none."""
    gcp.reset(Settings(policies_api=False, policies={"compute.requireOsLogin": "enforce"}))
    [line] = [line for line in plan().lines if line.startswith("organisation policies")]
    snapshot(line)

    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_ORGPOLICY")
    assert not [line for line in plan().lines if line.startswith("organisation policies")]


@pytest.mark.parametrize(
    "answer",
    [
        (200, ""),
        (200, "[]"),
        (200, '{"spec": {"rules": 7}}'),
        (403, "<html>"),
        (403, '{"error": "no"}'),
        (403, '{"error": ["no"]}'),
        (404, "<html>"),
    ],
    ids=str,
)
def test_an_answer_that_is_not_googles_leaves_policies_unknown(
    gcp: Cloud, answer: tuple[int, str]
) -> None:
    gcp.reset(Settings(policies_answer=answer))

    assert [row for row in plan().lines if row.startswith("organisation policies: not known (The ")]
