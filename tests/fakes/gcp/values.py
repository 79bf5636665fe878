"""What a test says to the test cloud beside what it can say to any."""

from collections.abc import Mapping
from typing import Literal

from cluster.core.model.value import Value
from tests.fakes import values
from tests.fakes.values import Call, Thing

__all__ = ["Call", "Fault", "Settings", "Thing"]


class Reserved(Value, frozen=True, kw_only=True):
    """A reservation of the project; `ends` is in seconds from now."""

    name: str
    instance: str
    zone: str = "us-central1-a"
    status: str = "READY"
    count: int = 4
    specific: bool = True  # only machines that name it use it
    dense: bool = False  # its machines end with it
    ends: float | None = None


class Settings(Value, frozen=True, kw_only=True):
    """How the cloud behaves; times are in seconds."""

    operation: float = 0.0  # how long an operation takes
    looks: int = 0  # after how many looks it is done, though its time is not over; 0: none count
    provisioning: float = 0.0  # how long an instance is `PROVISIONING` after its operation is done
    stopping: float = 0.0  # how long an instance is `STOPPING`
    boot: float = 0.0  # how long a host takes to come up, besides what it really takes
    guest: float = 0.0  # how long a running instance has no guest attributes
    login: float = 0.0  # how long a host's sshd answers before the guest agent has made the user
    second: float = 1.0  # how long a second of `maxRunDuration` takes
    minute: float = 60.0  # how long a minute of a host's `shutdown -P +1` takes
    rate: str = ""  # of every host's link, such as `10gbit`; as fast as this machine can, if empty
    # how many instances there are, by "zone" or "zone type"; enough, if not said
    capacity: Mapping[str, int] = {}
    # how a lack of capacity shows: as an `error` of the operation; as one after instances could
    # be seen for a moment (`ghost`); as instances that vanish after the operation went well
    # (`vanish`); as fewer instances than were asked for (`short`)
    shortage: Literal["error", "ghost", "vanish", "short"] = "error"
    # how an error of a bulkInsert comes: alone; behind the summary VM_MIN_COUNT_NOT_REACHED
    # (`first`); or only with the insertions of its group, while it says the summary (`parts`)
    summary: Literal["", "first", "parts"] = ""
    details: bool = True  # the code of that error ends with `_WITH_DETAILS`
    status: bool = True  # errors of operations carry an HTTP status as well
    # limits by "region METRIC", and by "METRIC" for those of the project
    quotas: Mapping[str, float] = {}
    queue: float = 0.0  # how long a resize request waits, though there is room
    queue_ends: str = ""  # code of the error by which each fails
    default_network: bool = True  # whether the project has one
    # organisation policies by constraint, and what their rule says: `enforce`, `denyAll`, or
    # names of machines that alone may
    policies: Mapping[str, str] = {}
    policies_api: bool = True  # whether the project has the API that tells them enabled
    # status and text that are answered instead, if any
    policies_answer: tuple[int, str] | None = None
    retired: bool = False  # whether there are accelerators that Google has taken away
    reservations: tuple[Reserved, ...] = ()
    obtainable: Mapping[str, float] = {}  # how likely spot machines are to be had, by region
    page: int = 500  # how many things a page has at most
    # cluster, block, sub-block and host of each machine of a launch; all are in one sub-block, if
    # none are said
    locations: tuple[tuple[str, str, str, str], ...] = ()
    physical_topology: bool = True  # whether these are told one by one, and not only as a path


class Fault(values.Fault, frozen=True, kw_only=True):
    """What goes wrong with a call."""

    # the call is taken, and the error comes with the operation that it began
    operation: bool = False
    made: int = 0  # so many instances are made all the same, and stay
