"""Switch machines off and on again; the public address may change, the host key does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cluster.core.errors import ProvisionError, Timeout
from cluster.core.model.value import ignore
from cluster.providers._cloud.tags import EXPIRES, timestamp
from cluster.providers.aws.instances import instances, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from types_boto3_ec2.type_defs import InstanceTypeDef

    from cluster.core.model.hosts import Machine
    from cluster.core.model.value import StateCallback
    from cluster.providers.aws.api import Region
    from cluster.providers.aws.instances import Filters

WITHIN = 600.0  # seconds for all machines to change their state
POLL = 1.0  # seconds between two checks


def stop(region: Region, filters: Filters, machines: Sequence[Machine]) -> None:
    """Stop instances, and wait until they are stopped (Failure, Timeout)."""
    region.call("stop_instances", InstanceIds=[machine.id for machine in machines])
    _wait(region, filters, machines, lambda instance: state_of(instance) == "stopped")


def start(
    region: Region,
    filters: Filters,
    machines: Sequence[Machine],
    *,
    public: bool,
    ttl: float,
    on_state: StateCallback,
) -> list[InstanceTypeDef]:
    """Start instances, and wait until they run and have their addresses (Failure, Timeout).

    Their TTL starts again at boot, so their tags get the new time of expiry first.
    """
    ids = [machine.id for machine in machines]
    expires = timestamp(region.now() + ttl)
    region.call("create_tags", Resources=ids, Tags=[{"Key": EXPIRES, "Value": expires}])
    region.call("start_instances", InstanceIds=ids)

    def ready(instance: InstanceTypeDef) -> bool:
        return state_of(instance) == "running" and bool(
            instance.get("PublicIpAddress") or not public
        )

    return _wait(region, filters, machines, ready, on_state)


def _wait(
    region: Region,
    filters: Filters,
    machines: Sequence[Machine],
    ready: Callable[[InstanceTypeDef], bool],
    on_state: StateCallback = ignore,
) -> list[InstanceTypeDef]:
    deadline = time.monotonic() + WITHIN
    while True:
        by_id = {item["InstanceId"]: item for item in instances(region, filters)}
        states = {item.name: state_of(by_id[item.id]) for item in machines if item.id in by_id}
        for name, state in states.items():
            on_state(name, state)
            if state == "terminated":
                raise _vanished_error(name)
        late = [item for item in machines if item.id not in by_id or not ready(by_id[item.id])]
        if not late:
            return [by_id[item.id] for item in machines]
        if time.monotonic() > deadline:
            raise _late(late[0].name, states.get(late[0].name, "not listed"), len(late))
        time.sleep(POLL)


def _vanished_error(name: str) -> ProvisionError:
    return ProvisionError(
        f"{name} does not exist any more.",
        means="It ended, or somebody ended it; the others are as they were.",
        remedy=f"Take the rest down: cluster down {name.rpartition('.')[2]}",
    )


def _late(name: str, state: str, count: int) -> Timeout:
    return Timeout(
        f"{name} is not ready after {WITHIN:.0f} s: {state} ({count} are late).",
        means="It exists all the same, and may cost money.",
        remedy=f"Look at it: cluster ls; try again, or: cluster down {name.rpartition('.')[2]}",
    )
