"""Amazon, when something goes wrong: the error says what, and nothing is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from cluster import journal, plugins
from cluster.errors import Capacity, ClusterError, Denied, ProvisionError, Quota, Timeout
from cluster.model import ClusterSpec
from cluster.providers import Provider
from tests.fakes.aws import Fault

if TYPE_CHECKING:
    from tests.fakes.aws import Cloud
    from tests.fakes.values import Moment

PATIENCE = 0.7  # seconds
SPEC = ClusterSpec(name="c5", provider="aws", instance="c5.18xlarge", placement=True)
MAKING = (
    "CreateSecurityGroup",
    "AuthorizeSecurityGroupIngress",
    "CreatePlacementGroup",
    "ImportKeyPair",
    "RunInstances",
)
LOOKING = (
    "DescribeSecurityGroups",
    "DescribePlacementGroups",
    "DescribeKeyPairs",
    "DescribeInstances",
)
PLANNING = (
    "DescribeImages",
    "DescribeInstances",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInternetGateways",
    "DescribeKeyPairs",
    "DescribeNetworkInterfaces",
    "DescribePlacementGroups",
    "DescribeSecurityGroups",
    "DescribeSubnets",
    "DescribeVolumes",
    "DescribeVpcs",
    "GetCallerIdentity",
    "GetParameters",
)
OPTIONAL = {"GetProducts", "GetServiceQuota"}  # what they would have told is shown as unknown
IN_EARNEST = {"DryRun": "None"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose patience sooner than with Amazon."""
    monkeypatch.setenv("CLUSTER_LATE", "0.3")
    monkeypatch.setattr("cluster.cloud.failures.PATIENCE", PATIENCE)
    monkeypatch.setattr("cluster.aws.making.POLL", 0.05)


def planned() -> Provider:
    provider = plugins.load(Provider, "aws")
    provider.plan(SPEC)
    return provider


def create(provider: Provider) -> int:
    """Do what a launch does, up to the first connection; give how many machines there are."""
    book = journal.of("c5")
    book.append(journal.Intended(spec=SPEC, at=time.time()))
    return len(provider.create(SPEC, book))


def refused(code: str, status: int = 400) -> dict[str, Any]:
    return {"code": code, "status": status}


DENIED = refused("UnauthorizedOperation", 403)
THROTTLED = refused("RequestLimitExceeded", 503)
WRONG: list[tuple[str, dict[str, Any], type[ClusterError], str, str]] = [
    # of a call, what goes wrong, the error, a word of what happened, a word of what to type
    *((call, DENIED, Denied, call, "docs/aws-policy.json") for call in MAKING),
    *((call, {**DENIED, "times": 1}, Denied, call, "docs/aws-policy.json") for call in LOOKING),
    *((call, THROTTLED, Timeout, call, "Wait a minute") for call in MAKING),
    *((call, {"drop": "before"}, Timeout, f"did not answer {call}", "gc") for call in MAKING),
    *((call, {"drop": "after"}, Timeout, f"did not answer {call}", "gc") for call in MAKING),
    *((call, {"delay": 30.0}, Timeout, f"did not answer {call}", "gc") for call in MAKING),
    *(
        (call, refused("RequestExpired"), Denied, "clock is wrong", "timedatectl")
        for call in ("CreateSecurityGroup", "RunInstances")
    ),
    ("RunInstances", refused("ExpiredToken"), Denied, "have expired", "aws sso login"),
    ("RunInstances", refused("VcpuLimitExceeded"), Quota, "own limit", "servicequotas"),
    ("RunInstances", refused("InstanceLimitExceeded"), Quota, "own limit", "servicequotas"),
    (
        "RunInstances",
        refused("InsufficientInstanceCapacity", 500),
        Capacity,
        "not enough machines",
        "zones=",
    ),
    ("RunInstances", refused("Unsupported"), ProvisionError, "cannot be had", "--plan"),
    ("RunInstances", refused("InternalError", 500), Timeout, "did not answer", "gc"),
    ("RunInstances", refused("SomethingNew"), ProvisionError, "SomethingNew", "--plan"),
]


def _id(row: Any) -> str:
    return row if isinstance(row, str) else "" if isinstance(row, type) else str(row)[1:40]


@pytest.mark.parametrize(("call", "harm", "error", "what", "remedy"), WRONG, ids=_id)
def test_each_failure_has_its_class_and_leaves_nothing(
    aws: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    harm: dict[str, Any],
    error: type[ClusterError],
    what: str,
    remedy: str,
) -> None:
    before = aws.things()
    if "delay" in harm:
        monkeypatch.setattr("cluster.aws.api.READ_TIMEOUT", 3.0)
    provider = planned()
    aws.fail(Fault(action=call, where=IN_EARNEST, **harm))

    with pytest.raises(ClusterError) as caught:
        create(provider)
    assert type(caught.value) is error
    assert what in str(caught.value)
    assert remedy in caught.value.remedy
    assert "Nothing is left." in caught.value.means
    assert aws.things() == before


@pytest.mark.parametrize("call", PLANNING)
def test_what_may_not_be_looked_at_is_refused_before_any_change(aws: Cloud, call: str) -> None:
    aws.fail(Fault(action=call, code="UnauthorizedOperation", status=403))

    with pytest.raises(Denied, match=call) as caught:
        planned()
    assert "Nothing was created." in caught.value.means
    assert "docs/aws-policy.json" in caught.value.remedy
    assert not aws.mutating()


def test_these_are_all_calls_of_a_launch(aws: Cloud) -> None:
    """A call that is new wants its lines above."""
    provider = planned()
    plan = {call.action for call in aws.calls() if "DryRun" not in call.params}
    asked = {call.action for call in aws.calls() if "DryRun" in call.params} - set(MAKING)
    since = len(aws.calls())
    create(provider)

    assert (plan | asked) - OPTIONAL == set(PLANNING)
    assert {call.action for call in aws.calls()[since:]} == {*MAKING, *LOOKING}


@pytest.mark.parametrize("call", MAKING)
@pytest.mark.parametrize("drop", ["before", "after"])
def test_a_connection_that_breaks_once_makes_nothing_twice(
    aws: Cloud, call: str, drop: Moment
) -> None:
    provider = planned()
    aws.fail(Fault(action=call, where=IN_EARNEST, drop=drop, times=1))

    assert create(provider) == 2
    things = [thing for thing in aws.things(theirs=False) if "cluster=c5" in thing.tags]
    kinds = sorted(thing.kind for thing in things)
    assert kinds == [
        *("instance", "instance", "key-pair", "network-interface", "network-interface"),
        *("placement-group", "security-group", "volume", "volume"),
    ]


def test_a_part_of_the_machines_is_given_back_before_the_next_zone_is_asked(aws: Cloud) -> None:
    before = aws.things()
    provider = planned()
    aws.set(gives=1)

    with pytest.raises(Capacity, match="gave 1 of 2 machines") as caught:
        create(provider)
    assert "Nothing is left." in caught.value.means
    assert "--hosts" in caught.value.remedy
    made = [c.action for c in aws.mutating() if c.action in {"RunInstances", "TerminateInstances"}]
    assert made[:4] == ["RunInstances", "TerminateInstances"] * 2
    assert aws.things() == before


def test_what_may_not_be_taken_away_is_not_said_to_be_gone(aws: Cloud) -> None:
    provider = planned()
    aws.set(pending=3600.0)
    aws.fail(Fault(action="DescribeInstances", code="InternalError", status=500, times=3))
    aws.fail(Fault(action="TerminateInstances", code="UnauthorizedOperation", status=403))

    with pytest.raises(Denied, match="TerminateInstances") as caught:
        create(provider)
    assert "may still exist" in caught.value.means
    assert "Nothing is left" not in caught.value.means
    aws.mend()
    provider.destroy("c5")
