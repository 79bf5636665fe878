"""What only Amazon says when something goes wrong; for the rest see `test_clouds_faults.py`."""

from typing import Any

import pytest

from cluster.core.errors import Capacity, ClusterError, Denied, ProvisionError
from cluster.providers import Stops
from tests.clouds import AWS
from tests.fakes.aws import Cloud, Fault
from tests.snapshots import Snapshot

PATIENCE = 0.7  # seconds


@pytest.fixture(autouse=True)
def impatient(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose patience sooner than with Amazon."""
    monkeypatch.setenv("CLUSTER_LATE", "0.3")
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", PATIENCE)


def refused(code: str, status: int = 400) -> dict[str, Any]:
    return {"code": code, "status": status}


AT_ALL = "User: a is not authorized to perform: ec2:RunInstances on resource: b"
ENCODED = "Encoded authorization failure message: AbC"
REASONS = (
    "with an explicit deny in a service control policy",
    "because no service control policy allows the ec2:RunInstances action",
    "with an explicit deny in a permissions boundary",
    "because no identity-based policy allows the ec2:RunInstances action",
)
WRONG: dict[str, dict[str, Any]] = {
    **{code: refused(code) for code in ("RequestExpired", "ExpiredToken", "VcpuLimitExceeded")},
    **{code: refused(code) for code in ("InstanceLimitExceeded", "Unsupported", "SomethingNew")},
    **{code: refused(code, 500) for code in ("InsufficientInstanceCapacity", "InternalError")},
    **{
        why: {**refused("UnauthorizedOperation", 403), "message": f"{AT_ALL} {why}. {ENCODED}"}
        for why in REASONS
    },
}


@pytest.mark.parametrize("harm", WRONG)
def test_each_failure_has_its_class_and_leaves_nothing(
    snapshot: Snapshot, aws: Cloud, harm: str
) -> None:
    before = aws.things()
    provider = AWS.planned()
    aws.fail(Fault(action="RunInstances", where=AWS.in_earnest, **WRONG[harm]))

    with pytest.raises(ClusterError) as error:
        AWS.create(provider)
    snapshot(f"{type(error.value).__name__}: {error.value}")
    assert aws.things() == before


def test_a_part_of_the_machines_is_given_back_before_the_next_zone_is_asked(
    snapshot: Snapshot, aws: Cloud
) -> None:
    before = aws.things()
    provider = AWS.planned()
    aws.set(gives=1)

    with snapshot.raises(Capacity):
        AWS.create(provider)
    calls = [c.action for c in aws.mutating() if c.action in {"RunInstances", "TerminateInstances"}]
    assert calls[:4] == ["RunInstances", "TerminateInstances"] * 2
    assert aws.things() == before


def test_what_may_not_be_taken_away_is_not_said_to_be_gone(aws: Cloud) -> None:
    provider = AWS.planned()
    aws.set(pending=3600.0)
    aws.fail(Fault(action="DescribeInstances", code="InternalError", status=500, times=3))
    aws.fail(Fault(action="TerminateInstances", code="UnauthorizedOperation", status=403))

    with pytest.raises(Denied, match="TerminateInstances") as error:
        AWS.create(provider)
    assert "may still exist" in error.value.means
    assert "Nothing is left" not in error.value.means
    aws.mend()
    provider.destroy("c5")


def machines(aws: Cloud) -> list[str]:
    return [life.instance.id for life in aws.region("us-east-1").alive() if _has_tag(aws, life)]


def _has_tag(aws: Cloud, life: Any) -> bool:
    return "cluster-launch" in aws.region("us-east-1").backend.tags.get(life.instance.id, {})


def test_a_protected_machine_is_named_with_the_command_that_frees_it(aws: Cloud) -> None:
    provider = AWS.planned()
    AWS.create(provider)
    first = machines(aws)[0]
    instance = aws.region("us-east-1").lives[first].instance
    instance.disable_api_termination = True

    with pytest.raises(ProvisionError, match="TerminateInstances") as error:
        provider.destroy("c5")
    assert f"--instance-id {first} --no-disable-api-termination" in error.value.remedy
    assert "--plan" not in str(error.value)
    instance.disable_api_termination = False
    provider.destroy("c5")


@pytest.mark.parametrize(
    ("call", "code", "remedy"),
    [
        ("StartInstances", "InsufficientInstanceCapacity", "cluster down NAME, then"),
        ("StartInstances", "IncorrectInstanceState", "cluster ls"),
        ("StopInstances", "IncorrectInstanceState", "cluster ls"),
        ("StopInstances", "UnsupportedOperation", "Take them down instead"),
    ],
)
def test_a_switch_that_fails_has_a_remedy_that_can_help(
    aws: Cloud, call: str, code: str, remedy: str
) -> None:
    provider = AWS.planned()
    assert isinstance(provider, Stops)
    hosts = AWS.create(provider)
    if call == "StartInstances":
        provider.stop("c5", hosts)
    aws.fail(Fault(action=call, code=code))

    with pytest.raises(ProvisionError) as error:
        (provider.start if call == "StartInstances" else provider.stop)("c5", hosts)
    assert remedy in error.value.remedy
    assert not error.value.remedy.startswith("Try another zone")
    aws.mend()
    provider.destroy("c5")
