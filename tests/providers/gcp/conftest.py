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
    given = {"provider": "gcp", "zone": ZONE, "placement": True, **fields}
    if "accelerator" not in given:
        given.setdefault("instance", INSTANCE)
    return ClusterSpec(name=name, **given)


def provider() -> GcpProvider:
    return GcpProvider()


def create(spec: ClusterSpec) -> tuple[Machine, ...]:
    """Do what a launch does, up to the first connection."""
    chosen = provider()
    chosen.plan(spec)
    return chosen.create(spec, book_of(spec))


def book_of(spec: ClusterSpec) -> journal.Journal:
    book = journal.for_cluster(spec.name)
    if not book.entries():
        with book.open_for_launch(journal.Intended(spec=spec, at=time.time())):
            pass
    return book


def ours(cloud: Cloud) -> frozenset[Thing]:
    return cloud.things(foreign=False)


def kinds(cloud: Cloud) -> set[str]:
    return {thing.kind for thing in ours(cloud)}


def instances(cloud: Cloud) -> list[str]:
    return sorted(thing.id for thing in ours(cloud) if thing.kind == "instances")


def seen() -> list[str]:
    return [one.name for one in provider().live()]


def asked(cloud: Cloud) -> dict[str, Any]:
    """Return the properties that the last machines were asked for with."""
    found: dict[str, Any] = cloud.calls(BULK)[-1].params["instanceProperties"]
    return found
