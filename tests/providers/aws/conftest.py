"""Clusters in the strict test cloud of Amazon, for all tests of this folder."""

import time
from typing import Any

from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state import journal
from cluster.providers.aws import AwsProvider
from tests.fakes.aws import Cloud
from tests.fakes.aws.values import Thing

INSTANCE = "c5.18xlarge"


def spec_of(name: str = "c5", **fields: Any) -> ClusterSpec:
    values = {"provider": "aws", "instance": INSTANCE, "placement": True, **fields}
    return ClusterSpec(name=name, **values)


def provider(*regions: str) -> AwsProvider:
    return AwsProvider(regions)


def create(spec: ClusterSpec, on_state: StateCallback = ignore) -> tuple[Machine, ...]:
    """Do what a launch does, up to the first connection."""
    amazon = provider()
    amazon.plan(spec)
    book = journal.for_cluster(spec.name)
    if not book.entries():
        book.append(journal.Intended(spec=spec, at=time.time()))
    return amazon.create(spec, book, on_state)


def own_things(cloud: Cloud) -> set[Thing]:
    return {thing for thing in cloud.things() if any("cluster=" in tag for tag in thing.tags)}


def actions(cloud: Cloud, since: int = 0) -> list[str]:
    return [call.action for call in cloud.mutating()[since:]]
