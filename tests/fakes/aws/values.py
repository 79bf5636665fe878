"""What a test says to the test cloud, and what it reads from it."""

from collections.abc import Mapping

from cluster.core.model.value import Value
from tests.fakes.values import Call, Fault, Thing

__all__ = ["Call", "Fault", "Reserved", "Settings", "Thing"]


class Reserved(Value, frozen=True, kw_only=True):
    """A capacity reservation of the account; `end` is in seconds from now."""

    id: str
    instance: str
    zone: str = "us-east-1a"
    state: str = "active"
    total: int = 4
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    block: bool = False
    start: float = -3600.0
    end: float | None = None


class Settings(Value, frozen=True, kw_only=True):
    """How the cloud behaves; times are in seconds."""

    pending: float = 0.0  # how long an instance is `pending`
    # how long nobody but RunInstances knows of an instance, and nobody but AllocateAddress of an
    # Elastic IP
    visible: float = 0.0
    incomplete: float = 0.0  # how long after that an instance has no addresses yet
    ending: float = 0.0  # how long an instance is `shutting-down` or `stopping`
    dies: float | None = None  # an instance ends by itself so long after its launch; never, if none
    boot: float = 0.0  # how long a host takes to come up, besides what it really takes
    minute: float = 60.0  # how long a minute of a host's `shutdown -P +1` takes
    rate: str = ""  # of every host's link, such as `10gbit`; as fast as this machine can, if empty
    vcpus: int = 100_000  # how many virtual processors of each kind may run at once in a region
    # how many instances there are, by "zone" or "zone type"; enough, if not said
    capacity: Mapping[str, int] = {}
    # how many instances a launch gives at most, whatever it asked for; as asked, if none
    gives: int | None = None
    default_vpc: tuple[str, ...] | None = None  # the regions that have one; all, if none
    elastic_ips: int = 5  # how many Elastic IPs an account may have in a region
    page: int = 1000  # how many instances a page of DescribeInstances has at most
    # the network nodes above each instance of a launch, from the top; all have the same ones, if
    # none are said
    nodes: tuple[tuple[str, ...], ...] = ()
    reservations: tuple[Reserved, ...] = ()
    scores: Mapping[str, int] = {}  # Spot placement scores, by zone
    file_systems: Mapping[str, tuple[str, ...]] = {}  # of EFS, by id: zones with a mount target
