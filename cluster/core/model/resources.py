"""What a provider plans, creates and charges for: resources, prices, receipts."""

from __future__ import annotations

from cluster.core.model.value import Value


class Price(Value, frozen=True, kw_only=True):
    """What one host costs while it exists.

    Args:
        hourly: US dollars for an hour of one host; storage, addresses and traffic come on top.
        at: the day of the price, such as `2026-11-01`.
        source: where it was read.

    """

    hourly: float
    at: str
    source: str


class Receipt(Value, frozen=True, kw_only=True):
    """The cost of machines, from the call that created them until their deletion, or until now.

    Args:
        hosts: how many.
        seconds: how long they existed; a cloud starts to bill a little later.
        price: of one host, if it is known.
        dollars: for all hosts, if the price is known.
        final: the machines are deleted, so the cost does not grow.
        ended: how many had ended before they were deleted, nobody knows when: the cost is the
            most that they can have cost.

    """

    hosts: int
    seconds: float
    price: Price | None = None
    dollars: float | None = None
    final: bool = False
    ended: int = 0


class Plan(Value, frozen=True, kw_only=True):
    """What a provider would do.

    Args:
        lines: for a person to read.
        costs: whether it costs money while it runs.
        price: of one host, where that is known.
        ttl: seconds after which the machines end by themselves, if they do.
        gpus: of each machine, where that is known before it exists.
        warnings: of the lines, those that a program's user has to see as well.

    """

    lines: tuple[str, ...]
    costs: bool = False
    price: Price | None = None
    ttl: float | None = None
    gpus: int | None = None
    warnings: tuple[str, ...] = ()


class RemoteCluster(Value, frozen=True, kw_only=True):
    """A cluster that exists at a provider, launched from any machine.

    Args:
        name: of the cluster.
        region: of the provider.
        host: the machine that launched it.
        addresses: of its machines, by which others reach them.
        states: of its machines, as the provider calls them.
        since: when it was launched, in seconds since the epoch; 0 if it is not known.
        expires: when it ends by itself, in seconds since the epoch.
        price: of one machine, where that is known.

    """

    name: str
    region: str
    host: str = ""
    addresses: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    since: float = 0.0
    expires: float = 0.0
    price: Price | None = None


class Resource(Value, frozen=True, kw_only=True):
    """A resource that cluster created at a provider.

    Args:
        kind: such as `machine`.
        id: the provider's name for it.

    """

    kind: str
    id: str
