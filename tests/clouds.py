"""What tests that are the same for every cloud have to know of each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.core import journal, plugins
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.providers import Provider
from cluster.providers._cloud.provider import CloudProvider

if TYPE_CHECKING:
    from cluster.core.model.hosts import Machine
    from tests.fakes.cloud import Emulated

NAME = "c5"


class World(Value, frozen=True, kw_only=True):
    """A cloud, in the words of its own calls.

    Args:
        name: of its provider, and of the fixture of its test cloud; that with hosts has `_hosts`.
        spec: of a cluster in it.
        settings: of the test cloud, so that all calls come.
        making: the calls of a launch that change something, in their order.
        looking: those of a launch that do not.
        after: calls by which machines are seen, and seen to be gone, once they were made.
        planning: those that come before, none of which may be refused.
        optional: those whose answers are shown as unknown without them.
        deleting: the calls of a teardown.
        in_earnest: parameters of a call that is no mere question for permission.
        denied: how it refuses somebody who may not.
        throttled: how it refuses one call too many.
        permit: a word of what to type against the first.
        timeout: where the seconds are kept that a reply may take.
        kinds: of what a launch makes, sorted.
        milestones: of a launch after its machines were made; hosts get new keys in `rotated`, where
            the cloud does not tell the keys that they made themselves.
    """

    name: str
    spec: ClusterSpec
    settings: Mapping[str, Any] = {}
    making: tuple[str, ...]
    looking: tuple[str, ...]
    after: tuple[str, ...]
    planning: tuple[str, ...]
    optional: tuple[str, ...]
    deleting: tuple[str, ...]
    in_earnest: Mapping[str, str] = {}
    denied: Mapping[str, Any]
    throttled: Mapping[str, Any]
    permit: str
    timeout: str
    kinds: tuple[str, ...]
    milestones: tuple[str, ...]

    def planned(self) -> CloudProvider[Any, Any]:
        """Give the provider, which has planned already: it does not plan again."""
        provider = plugins.load(Provider, self.name)
        assert isinstance(provider, CloudProvider)
        provider.plan(self.spec)
        return provider

    def create(self, provider: Provider, on_state: StateCallback = ignore) -> tuple[Machine, ...]:
        """Do what a launch does, up to the first connection."""
        book = journal.for_cluster(NAME)
        with book.open_for_launch(journal.Intended(spec=self.spec, at=time.time())), book.lock():
            return provider.create(self.spec, book, on_state)


def asked(cloud: Emulated[Any]) -> set[str]:
    """Give the calls that only asked whether one would be permitted."""
    return {call.action for call in cloud.calls() if "DryRun" in call.params}


AWS = World(
    name="aws",
    spec=ClusterSpec(name=NAME, provider="aws", instance="c5.18xlarge", placement=True),
    making=(
        "CreateSecurityGroup",
        "AuthorizeSecurityGroupIngress",
        "CreatePlacementGroup",
        "ImportKeyPair",
        "RunInstances",
    ),
    looking=(
        "DescribeSecurityGroups",
        "DescribePlacementGroups",
        "DescribeKeyPairs",
        "DescribeInstances",
    ),
    after=("DescribeInstances",),
    planning=(
        "DescribeAddresses",
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
    ),
    optional=("GetProducts", "GetServiceQuota"),
    deleting=(
        "TerminateInstances",
        "DeleteKeyPair",
        "DeletePlacementGroup",
        "DeleteSecurityGroup",
    ),
    in_earnest={"DryRun": "None"},
    denied={"code": "UnauthorizedOperation", "status": 403},
    throttled={"code": "RequestLimitExceeded", "status": 503},
    permit="docs/aws-policy.json",
    timeout="cluster.providers.aws.api.READ_TIMEOUT",
    kinds=(
        *("instance", "instance", "key-pair", "network-interface", "network-interface"),
        *("placement-group", "security-group", "volume", "volume"),
    ),
    milestones=("created", "rotated", "launched"),
)
GCP = World(
    name="gcp",
    spec=ClusterSpec(
        name=NAME,
        provider="gcp",
        zone="us-central1-a",
        instance="c2-standard-60",
        placement=True,
    ),
    settings={"operation": 0.5, "looks": 1},
    making=("firewalls.insert", "resourcePolicies.insert", "instances.bulkInsert"),
    looking=(
        "globalOperations.get",
        "firewalls.get",
        "regionOperations.get",
        "zoneOperations.get",
        "instances.list",
        "instances.getGuestAttributes",
    ),
    after=("instances.list", "instances.aggregatedList"),
    planning=(
        "firewalls.list",
        "images.getFromFamily",
        "machineTypes.aggregatedList",
        "networks.get",
    ),
    optional=("regions.get", "skus.list"),
    deleting=("instances.delete", "resourcePolicies.delete", "firewalls.delete"),
    denied={"code": "forbidden", "status": 403},
    throttled={"code": "rateLimitExceeded", "status": 429},
    permit="gcloud auth",
    timeout="cluster.providers.gcp.api.TIMEOUT",
    kinds=(
        *("disks", "disks", "firewalls", "firewalls", "firewalls"),
        *("instances", "instances", "resourcePolicies"),
    ),
    milestones=("created", "launched"),
)
WORLDS = (AWS, GCP)
