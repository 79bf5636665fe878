"""What tests that are the same for every cloud have to know of each."""

import importlib
import time
from collections.abc import Mapping
from typing import Any

from cluster.core import plugins
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state import journal
from cluster.providers import Provider
from cluster.providers._cloud.provider import CloudProvider
from tests.fakes.cloud import Emulated

NAME = "c5"
WAITS: dict[
    str, Any
] = {  # seconds that the product waits for a real cloud, and how long for one on loopback
    "cluster.orchestration.launch.orphans.LOOK_AGAIN": 0.05,
    "cluster.providers._cloud.deletion.FIRST_POLL": 0.01,
    "cluster.providers._cloud.launch.PAUSE": 0.05,
    "cluster.providers._cloud.launch.POLL": 0.05,
    "cluster.providers.gcp.api.FIRST_POLL": 0.01,
    "cluster.providers.gcp.create.PAUSE": 0.05,
    "cluster.providers.gcp.delete.LOOK_AGAIN": 0.1,
    "cluster.providers.gcp.flex_start.PAUSE": 0.1,
    "cluster.providers.gcp.flex_start.PAUSES": (0.1,),
}


def hurry() -> None:
    """Wait for a cloud on loopback, in a process of its own."""
    for path, seconds in WAITS.items():
        module, _, name = path.rpartition(".")
        setattr(importlib.import_module(module), name, seconds)


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

    def provider(self) -> CloudProvider[Any, Any, Any]:
        """Return the provider as a new process has it."""
        provider = plugins.load(Provider, self.name)
        assert isinstance(provider, CloudProvider)
        return provider

    def planned(self) -> CloudProvider[Any, Any, Any]:
        """Return the provider, which has planned already: it does not plan again."""
        provider = self.provider()
        provider.plan(self.spec)
        return provider

    def create(self, provider: Provider, on_state: StateCallback = ignore) -> tuple[Machine, ...]:
        """Do what a launch does, up to the first connection."""
        book = journal.for_cluster(NAME)
        with book.open_for_launch(journal.Intended(spec=self.spec, at=time.time())), book.lock():
            return provider.create(self.spec, book, on_state)


def machines(cloud: Emulated[Any]) -> set[str]:
    """List the ids of the machines of ours."""
    things = cloud.things(foreign=False)
    return {thing.id for thing in things if thing.kind in ("instance", "instances")}


def permission_calls(cloud: Emulated[Any]) -> set[str]:
    """Return the calls that only asked whether one would be permitted."""
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
    optional=("DescribeCapacityReservations", "GetProducts", "GetServiceQuota"),
    deleting=("TerminateInstances", "DeleteKeyPair", "DeletePlacementGroup", "DeleteSecurityGroup"),
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
        name=NAME, provider="gcp", zone="us-central1-a", instance="c2-standard-60", placement=True
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
    optional=("regions.get", "reservations.aggregatedList", "skus.list"),
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
