"""What a provider plans, creates and charges for: resources, prices, receipts."""

from cluster.core.model.hosts import Link
from cluster.core.model.value import Value


class Price(Value, frozen=True, kw_only=True):
    """What one host costs while it exists."""

    hourly: float  # US dollars for an hour of one host; storage, addresses and traffic come on top
    at: str  # the day of the price, such as `2026-11-01`
    source: str  # where it was read


class Receipt(Value, frozen=True, kw_only=True):
    """The cost of machines, from the call that created them until their deletion, or until now."""

    hosts: int  # how many
    seconds: float  # how long they existed; a cloud starts to bill a little later
    price: Price | None = None  # of one host, if it is known
    dollars: float | None = None  # for all hosts, if the price is known; 0 if there is none
    final: bool = False  # the machines are deleted, so the cost does not grow
    # how many had ended before they were deleted, at an unknown time: the cost is the most that
    # they can have cost
    ended: int = 0
    proven: int = 0  # before the first job
    replaced: int = 0  # of them, in place of bad ones


class Plan(Value, frozen=True, kw_only=True):
    """What a provider would do."""

    lines: tuple[str, ...]  # for a person to read
    costs: bool = False  # whether it costs money while it runs
    exists: bool = False  # it was launched before, so nothing is created
    price: Price | None = None  # of one host, where that is known; on average over groups
    prices: dict[str, Price | None] = {}  # of one host of each group
    ttl: float | None = None  # seconds after which the machines end by themselves, if they do
    gpus: int | None = None  # of each machine, where that is known before it exists
    link: Link | None = None  # of a machine, where it is known what that carries
    warnings: tuple[str, ...] = ()  # of the lines, those that a program's user has to see as well


class RemoteCluster(Value, frozen=True, kw_only=True):
    """A cluster that exists at a provider, launched from any machine."""

    name: str  # of the cluster
    region: str  # of the provider
    host: str = ""  # the machine that launched it
    addresses: tuple[str, ...] = ()  # of its machines, by which others reach them
    states: tuple[str, ...] = ()  # of its machines, as the provider calls them
    since: float = 0.0  # when it was launched, in seconds since the epoch; 0 if it is not known
    expires: float = 0.0  # when it ends by itself, in seconds since the epoch
    price: Price | None = None  # of one machine, where that is known


class Resource(Value, frozen=True, kw_only=True):
    """A resource that cluster created at a provider."""

    kind: str  # such as `machine`
    id: str  # the provider's name for it
