"""Clusters in the strict test cloud of Google, for all tests of this folder."""

import time
from typing import Any

from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.providers.gcp import GcpProvider
from tests.fakes.gcp import Cloud, Thing

INSTANCE, ZONE, NEXT = "c2-standard-60", "us-central1-a", "us-central1-b"
BULK = "instances.bulkInsert"


def spec_of(name: str = "c5", **fields: Any) -> ClusterSpec:
    values = {"provider": "gcp", "zone": ZONE, "placement": True, **fields}
    if "accelerator" not in values:
        values.setdefault("instance", INSTANCE)
    return ClusterSpec(name=name, **values)


def provider() -> GcpProvider:
    return GcpProvider()


def create(spec: ClusterSpec) -> tuple[Machine, ...]:
    """Do what a launch does, up to the first connection."""
    google = provider()
    google.plan(spec)
    return google.create(spec, book_of(spec))


def book_of(spec: ClusterSpec) -> journal.Journal:
    book = journal.for_cluster(spec.name)
    if not book.entries():
        with book.open_for_launch(journal.Intended(spec=spec, at=time.time())):
            pass
    return book


def own_things(cloud: Cloud) -> frozenset[Thing]:
    return cloud.things(foreign=False)


def kinds(cloud: Cloud) -> set[str]:
    return {thing.kind for thing in own_things(cloud)}


def instances(cloud: Cloud) -> list[str]:
    return sorted(thing.id for thing in own_things(cloud) if thing.kind == "instances")


def live_names() -> list[str]:
    return [cluster.name for cluster in provider().live()]


def properties_of(cloud: Cloud) -> dict[str, Any]:
    """Return the properties that the last machines were asked for with."""
    properties: dict[str, Any] = cloud.calls(BULK)[-1].params["instanceProperties"]
    return properties
