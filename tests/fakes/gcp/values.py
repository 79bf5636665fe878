"""What a test says to the test cloud beside what it can say to any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from cluster.core.model.value import Value
from tests.fakes import values
from tests.fakes.values import Call, Thing

__all__ = ["Call", "Fault", "Settings", "Thing"]


class Settings(Value, frozen=True, kw_only=True):
    """How the cloud behaves; times are in seconds.

    Args:
        operation: how long an operation takes.
        looks: after how many looks it is done, though its time is not over; 0: none count.
        provisioning: how long an instance is `PROVISIONING` after its operation is done.
        stopping: how long an instance is `STOPPING`.
        boot: how long a host takes to come up, besides what it really takes.
        guest: how long a running instance has no guest attributes.
        login: how long a host's sshd answers before the guest agent has made the user.
        second: how long a second of `maxRunDuration` takes.
        minute: how long a minute of a host's `shutdown -P +1` takes.
        rate: of every host's link, such as `10gbit`; as fast as this machine can, if empty.
        capacity: how many instances there are, by "zone" or "zone type"; enough, if not said.
        shortage: how a lack of capacity shows: as an `error` of the operation; as one after
            instances could be seen for a moment (`ghost`); as instances that vanish after the
            operation went well (`vanish`); as fewer instances than were asked for (`short`).
        summary: how an error of a bulkInsert comes: alone; behind the summary
            VM_MIN_COUNT_NOT_REACHED (`first`); or only with the insertions of its group, while it
            says the summary (`parts`).
        details: the code of that error ends with `_WITH_DETAILS`.
        status: errors of operations carry an HTTP status as well.
        quotas: limits by "region METRIC", and by "METRIC" for those of the project.
        default_network: whether the project has one.
        policies: organisation policies by constraint, and what their rule says: `enforce`,
            `denyAll`, or names of machines that alone may.
        policies_api: whether the project has the API that tells them enabled.
        policies_answer: status and text that are answered instead, if any.
        retired: whether there are accelerators that Google has taken away.
        page: how many things a page has at most.
        locations: cluster, block, sub-block and host of each machine of a launch; all are in one
            sub-block, if none are said.
        physical_topology: whether these are told one by one, and not only as a path.
    """

    operation: float = 0.0
    looks: int = 0
    provisioning: float = 0.0
    stopping: float = 0.0
    boot: float = 0.0
    guest: float = 0.0
    login: float = 0.0
    second: float = 1.0
    minute: float = 60.0
    rate: str = ""
    capacity: Mapping[str, int] = {}
    shortage: Literal["error", "ghost", "vanish", "short"] = "error"
    summary: Literal["", "first", "parts"] = ""
    details: bool = True
    status: bool = True
    quotas: Mapping[str, float] = {}
    default_network: bool = True
    policies: Mapping[str, str] = {}
    policies_api: bool = True
    policies_answer: tuple[int, str] | None = None
    retired: bool = False
    page: int = 500
    locations: tuple[tuple[str, str, str, str], ...] = ()
    physical_topology: bool = True


class Fault(values.Fault, frozen=True, kw_only=True):
    """What goes wrong with a call.

    Args:
        operation: the call is taken, and the error comes with the operation that it began.
        made: so many instances are made all the same, and stay.
    """

    operation: bool = False
    made: int = 0
