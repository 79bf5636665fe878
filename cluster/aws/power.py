"""Machines off and on again; on, each may have another public address, and keeps its host key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cluster.aws.sweeping import instances
from cluster.cloud import marks
from cluster.errors import ProvisionError, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.aws.api import Region
    from cluster.aws.shapes import Instance
    from cluster.aws.sweeping import Filters

WITHIN = 600.0  # seconds
POLL = 1.0  # seconds between two looks


def stop(region: Region, filters: Filters, ids: Sequence[str]) -> None:
    """Switch instances off, and wait until they are.

    Args:
        region: where.
        filters: that find them.
        ids: of them.

    Raises:
        Failure: Amazon refused.
        Timeout: they go on.

    """
    region.call("stop_instances", InstanceIds=list(ids))
    _wait(region, filters, ids, lambda one: one.state.name == "stopped")


def start(
    region: Region, filters: Filters, ids: Sequence[str], *, public: bool, ttl: float
) -> list[Instance]:
    """Switch instances on, and wait until they run and have their addresses.

    Their time to live begins anew with their boot, so that is written on them first.

    Args:
        region: where.
        filters: that find them.
        ids: of them.
        public: they have public addresses.
        ttl: seconds until they end by themselves.

    Returns:
        Them, in the order of the ids.

    Raises:
        Failure: Amazon refused.
        Timeout: they do not come up.

    """
    expires = marks.timestamp(region.now() + ttl)
    region.call("create_tags", Resources=list(ids), Tags=[{"Key": marks.EXPIRES, "Value": expires}])
    region.call("start_instances", InstanceIds=list(ids))

    def ready(one: Instance) -> bool:
        return one.state.name == "running" and bool(one.public_ip_address or not public)

    return _wait(region, filters, ids, ready)


def _wait(
    region: Region, filters: Filters, ids: Sequence[str], ready: Callable[[Instance], bool]
) -> list[Instance]:
    deadline = time.monotonic() + WITHIN
    while True:
        found = {one.instance_id: one for one in instances(region, filters)}
        late = [id_ for id_ in ids if id_ not in found or not ready(found[id_])]
        if not late:
            return [found[id_] for id_ in ids]
        for id_ in late:
            if id_ in found and found[id_].state.name == "terminated":
                raise ProvisionError(f"{id_} does not exist any more.")
        if time.monotonic() > deadline:
            raise Timeout(f"{late[0]} is not ready after {WITHIN:.0f} s ({len(late)} are late).")
        time.sleep(POLL)
