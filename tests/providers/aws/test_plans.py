"""What Amazon shows and refuses before anything exists: plans, quotas and prices."""

from typing import Any

import pytest

from cluster.core.errors import Quota, SpecError
from tests.conftest import answer, command, launcher
from tests.fakes.aws import Cloud, Fault
from tests.providers.aws.conftest import INSTANCE, provider, spec_of
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("after_a_second")


def test_a_plan_shows_what_will_be_and_makes_nothing(aws: Cloud, snapshot: Snapshot) -> None:
    lines = "\n".join(provider().plan(spec_of()).lines)

    snapshot(lines)
    snapshot(lines)
    assert not aws.mutating()


def test_the_founding_command_on_a_type_that_cannot_be_placed(
    aws: Cloud, snapshot: Snapshot
) -> None:
    refused = launcher("--placement=1", "--instance=t2.large", status=2).stderr

    snapshot(refused)
    assert not aws.mutating()


def test_plan_as_a_command_and_as_a_flag(aws: Cloud) -> None:
    plan = command(
        "up", "c5", "--plan", "--provider=aws", "--instance", INSTANCE, "--placement"
    ).stdout

    assert launcher(f"--instance={INSTANCE}", "--placement=1", "--name=c5", "--plan").stdout == plan
    assert (
        answer("up", "c5", "--plan", "--provider=aws", "--instance", INSTANCE, "--ttl", "30min")[
            "ttl"
        ]
        == 1800
    )
    assert not aws.mutating()
    assert answer("ls") == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"instance": None}, 'instance="c5.18xlarge"'),
        ({"instance": "c5.huge"}, "no instance type 'c5.huge' in us-east-1"),
        ({"zone": "mars"}, "zone mars is not a zone"),
        ({"instance": "p4d.24xlarge", "zone": "us-east-1f"}, "It is in: us-east-1"),
        ({"instance": "p4d.24xlarge", "options": {"efa": "1"}}, 'options={"public": "0"}'),
        ({"options": {"efa": "1"}}, "has no Elastic Fabric Adapter"),
        ({"instance": "c6g.16xlarge", "image": "ami-nothing"}, "There is no image ami-nothing"),
        ({"image": "ubuntu"}, "neither an id nor an alias"),
        ({"options": {"threads_per_core": "1"}, "instance": "c6g.16xlarge"}, ""),
        ({"options": {"allow": "everybody"}}, "is not a network"),
        ({"options": {"allow": "::/0"}}, "IPv6"),
        ({"options": {"subnet": "subnet-0"}}, "There is no subnet-0"),
    ],
)
def test_refusals_come_before_any_change(aws: Cloud, fields: dict[str, Any], text: str) -> None:
    if text:
        with pytest.raises(SpecError) as refused:
            provider().plan(spec_of(**fields))
        assert text in str(refused.value)
    else:
        provider().plan(spec_of(**fields))
    assert not aws.mutating()


def test_an_image_of_another_architecture(aws: Cloud, snapshot: Snapshot) -> None:
    arm = spec_of(instance="c6g.16xlarge")
    image = next(w for w in provider().plan(arm).lines[1].split() if w.startswith("ami-"))

    with snapshot.raises(SpecError):
        provider().plan(spec_of(image=image))


def test_a_quota_is_no_matter_of_capacity(snapshot: Snapshot, aws: Cloud) -> None:
    aws.set(vcpus=100)

    with snapshot.raises(Quota):
        provider().plan(spec_of())
    assert not aws.mutating()


def test_a_subnet_that_is_too_small(aws: Cloud, snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        provider().plan(spec_of(hosts=5000))


def test_a_price_that_cannot_be_had_is_unknown(aws: Cloud) -> None:
    aws.fail(Fault(action="GetProducts", code="AccessDeniedException", status=400))
    plan = provider().plan(spec_of())

    assert plan.price is None
    assert "price: unknown" in plan.lines


def test_spot_has_a_price_of_its_own(aws: Cloud) -> None:
    plan = provider().plan(spec_of(spot=True))

    assert plan.price is not None
    assert plan.price.source == "spot price in us-east-1a"
    assert plan.price.hourly < 3.06
