"""What Google shows and refuses before anything exists: plans, quotas and prices."""

from typing import Any

import pytest

from cluster.core.errors import Denied, Quota, SpecError
from cluster.providers.gcp.machine_types import requested_accelerators
from tests.fakes.gcp import Cloud, Settings
from tests.fakes.gcp.catalog import PROJECT
from tests.providers.gcp.conftest import create, properties_of, provider, spec_of
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")


def test_a_plan_shows_what_will_be_and_makes_nothing(gcp: Cloud, snapshot: Snapshot) -> None:
    lines = "\n".join(provider().plan(spec_of()).lines)
    extra = "\n".join(provider().plan(spec_of(options={"tier1": "1"})).lines)

    snapshot(lines)
    snapshot(lines)
    snapshot(extra)
    assert not gcp.mutating()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"instance": None}, 'instance="c2-standard-60"'),
        ({"instance": "c2-standard-61"}, "c2-standard-61 is not offered in us-central1-a"),
        ({"zone": "mars"}, "zone mars is not a zone"),
        ({"zone": None}, 'zone="us-central1-a"'),
        ({"zone": "us-east1-c"}, "It is in: europe-west4-a, us-central1-a"),
        ({"instance": "e2-standard-4"}, "no compact placement for the family e2"),
        ({"instance": "n1-standard-8"}, "no compact placement for the family n1"),
        ({"accelerator": "t4:1"}, 'a2-highgpu-1g: accelerator="a100:1"'),
        ({"accelerator": "t4:3", "placement": False}, "Ask for 1, 2, 4 of them"),
        ({"accelerator": "gtx"}, "there are: t4, v100, l4, a100, h100, a100-80gb"),
        ({"accelerator": "l4", "instance": "n1-standard-8"}, 'instance="g2-standard-4"'),
        ({"image": "ubuntu"}, "Write PROJECT/FAMILY"),
        ({"image": "ubuntu-os-cloud/ubuntu-0004"}, "no image ubuntu-os-cloud/ubuntu-0004"),
        ({"image": "ubuntu-os-cloud/ubuntu-2404-lts-arm64"}, "is for ARM64 machines, not X86_64"),
        ({"options": {"allow": "everybody"}}, "is not a network"),
        ({"options": {"network": "nowhere"}}, "no network 'nowhere'"),
        ({"options": {"network": "own"}}, 'Say which: options={"subnet": "NAME"}'),
        ({"options": {"subnet": "nowhere"}}, "no subnet 'nowhere' in us-central1"),
    ],
)
def test_refusals_come_before_any_change(gcp: Cloud, fields: dict[str, Any], text: str) -> None:
    gcp.resources[f"projects/{PROJECT}/global/networks/own"] = {
        "name": "own",
        "autoCreateSubnetworks": False,
    }
    with pytest.raises(SpecError) as refused:
        provider().plan(spec_of(**fields))

    assert text in str(refused.value)
    assert not gcp.mutating()


def test_a_k80_is_refused_before_anybody_is_asked_anything(gcp: Cloud, snapshot: Snapshot) -> None:
    with pytest.raises(SpecError) as refused:
        provider().plan(spec_of(accelerator="k80:2", hosts=3, placement=False))

    snapshot(str(refused.value))
    command_line = "cluster up c5 --provider gcp --hosts 3 --zone us-central1-a --accelerator t4:2"
    assert f"Type: {command_line}\n" in refused.value.remedy
    assert not gcp.calls()


@pytest.mark.parametrize(
    ("accelerator", "machine", "quota"),
    [
        ("h100-mega:8", "a3-megagpu-8g", "H100_MEGA"),
        ("h200:8", "a3-ultragpu-8g", "H200"),
        ("b200:8", "a4-highgpu-8g", "B200"),
        ("gb200:4", "a4x-highgpu-4g", "GB200"),
    ],
)
def test_newer_accelerators_have_their_machine_type_and_quota(
    gcp: Cloud, accelerator: str, machine: str, quota: str
) -> None:
    spec = spec_of(instance=None, accelerator=accelerator, placement=False, zone="us-central1")
    plan = provider().plan(spec)
    assert f" x {machine} with {accelerator[-1]} x nvidia-" in plan.lines[0]
    assert plan.price is None
    [line] = [line for line in plan.lines if line.startswith("quota: ")]
    assert line.startswith(f"quota: {2 * int(accelerator[-1])} NVIDIA_{quota}_GPUS needed")


def test_an_rtx_pro_6000_is_part_of_a_g4() -> None:
    gpus = requested_accelerators(spec_of(accelerator="rtx-pro-6000"), allow_retired=False)
    assert gpus
    assert (gpus.kind.type, gpus.machine) == ("nvidia-rtx-pro-6000", "g4-standard-48")


@pytest.mark.parametrize(("accelerator", "expected"), [("h100:8", 1), ("h100:1", 0), ("a100:8", 0)])
def test_a_network_between_gpus_that_is_not_used_is_said(
    gcp: Cloud, accelerator: str, expected: int
) -> None:
    spec = spec_of(accelerator=accelerator, placement=False, options={"fabric": "0"})
    lines = provider().plan(spec).lines

    assert (
        len([line for line in lines if "network between its GPUs is not used" in line]) == expected
    )


def test_a_k80_is_asked_for_where_there_may_be_some(gcp: Cloud) -> None:
    gcp.reset(Settings(retired=True))

    create(spec_of(accelerator="k80:2", placement=False, options={"allow_retired": "1"}))

    [gpus] = properties_of(gcp)["guestAccelerators"]
    assert gpus == {"acceleratorType": "nvidia-tesla-k80", "acceleratorCount": 2}
    assert properties_of(gcp)["machineType"] == "n1-standard-8"


def test_a_quota_is_no_matter_of_capacity(gcp: Cloud, snapshot: Snapshot) -> None:
    gcp.set(quotas={"us-central1 C2_CPUS": 100})

    with snapshot.raises(Quota):
        provider().plan(spec_of())
    assert not gcp.mutating()


@pytest.mark.parametrize("metric", ["us-central1 NVIDIA_T4_GPUS", "GPUS_ALL_REGIONS"])
def test_accelerators_have_two_quotas(snapshot: Snapshot, gcp: Cloud, metric: str) -> None:
    gcp.set(quotas={metric: 1})

    with snapshot.raises(Quota):
        provider().plan(spec_of(accelerator="t4:1", placement=False))


def test_prices_of_spare_machines_and_of_accelerators(gcp: Cloud) -> None:
    spare = provider().plan(spec_of(spot=True)).price
    gpus = provider().plan(spec_of(accelerator="t4:2", placement=False)).price
    spot_gpus = provider().plan(spec_of(accelerator="t4:2", placement=False, spot=True)).price

    assert spare
    assert gpus
    assert spot_gpus
    assert spot_gpus.hourly == pytest.approx(8 * 0.010 + 30 * 0.001 + 2 * 0.1)
    assert spare.hourly == pytest.approx(60 * 0.010 + 240 * 0.001)
    assert gpus.hourly == pytest.approx(8 * 0.030 + 30 * 0.004 + 2 * 0.35)


@pytest.mark.parametrize(
    "fields", [{"instance": "n2-standard-80"}, {"instance": "e2-standard-4", "placement": False}]
)
def test_a_price_of_which_a_part_is_missing_is_unknown(gcp: Cloud, fields: dict[str, Any]) -> None:
    plan = provider().plan(spec_of(**fields))

    assert plan.price is None
    assert "price: unknown" in plan.lines


def test_a_price_that_cannot_be_had_is_unknown(gcp: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING", f"{gcp.url}/nothing")

    assert "price: unknown" in provider().plan(spec_of()).lines
    assert gcp.gaps.pop()


def test_one_project_more_than_there_is(
    gcp: Cloud, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with snapshot.raises(SpecError):
        provider().plan(spec_of())
    with snapshot.raises(Denied):
        provider().plan(spec_of(options={"project": "other"}))
    provider().plan(spec_of(options={"project": PROJECT}))


@pytest.mark.parametrize(
    ("fields", "spare", "normal"),
    [
        ({}, "PREEMPTIBLE_CPUS", "C2_CPUS"),
        ({"accelerator": "t4:1", "instance": None}, "PREEMPTIBLE_NVIDIA_T4_GPUS", "NVIDIA_T4_GPUS"),
    ],
)
def test_spot_without_a_quota_of_its_own_counts_as_the_others(
    snapshot: Snapshot, gcp: Cloud, fields: dict[str, Any], spare: str, normal: str
) -> None:
    """A limit of 0 is the usual one, and refuses nobody."""
    spec = spec_of(spot=True, placement=False, **fields)
    gcp.set(quotas={f"us-central1 {spare}": 0})
    assert any(f" {normal} needed" in line for line in provider().plan(spec).lines)
    create(spec)
    provider().destroy("c5")

    gcp.set(quotas={f"us-central1 {spare}": 0, f"us-central1 {normal}": 1})
    with snapshot.raises(Quota):
        provider().plan(spec)
    gcp.set(quotas={f"us-central1 {spare}": 1})
    with snapshot.raises(Quota):
        provider().plan(spec)
