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
    """A cloud, in the words of its own calls."""

    name: str  # of its provider, and of the fixture of its test cloud; that with hosts has `_hosts`
    spec: ClusterSpec  # of a cluster in it
    settings: Mapping[str, Any] = {}  # of the test cloud, so that all calls come
    making: tuple[str, ...]  # the calls of a launch that change something, in their order
    looking: tuple[str, ...]  # those of a launch that do not
    # calls by which machines are seen, and seen to be gone, once they were made
    after: tuple[str, ...]
    planning: tuple[str, ...]  # those that come before, none of which may be refused
    optional: tuple[str, ...]  # those whose answers are shown as unknown without them
    deleting: tuple[str, ...]  # the calls of a teardown
    # parameters of a call that is no mere question for permission
    in_earnest: Mapping[str, str] = {}
    denied: Mapping[str, Any]  # how it refuses somebody who may not
    throttled: Mapping[str, Any]  # how it refuses one call too many
    permit: str  # a word of what to type against the first
    timeout: str  # where the seconds are kept that a reply may take
    kinds: tuple[str, ...]  # of what a launch makes, sorted
    # of a launch after its machines were made; hosts get new keys in `rotated`, where the cloud
    # does not tell the keys that they made themselves
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
