"""What machines cost, and how it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.units import format_seconds

if TYPE_CHECKING:
    from cluster.core.model.resources import Price

HOUR = 3600.0  # seconds


def dollars(price: Price, hosts: int, seconds: float) -> float:
    """Compute what hosts cost for some time."""
    return price.hourly * hosts * seconds / HOUR


def price_line(price: Price | None, hosts: int, ttl: float) -> str:
    """Say what hosts will cost at most, if they end by themselves after `ttl` seconds."""
    if price is None:
        return "price: unknown"
    hourly, most = dollars(price, hosts, HOUR), dollars(price, hosts, ttl)
    return (
        f"price: {hosts} x ${price.hourly:.4g} = ${hourly:.4g} an hour, at most ${most:.2f} in "
        f"{format_seconds(ttl)} ({price.source}, {price.at}; disks, addresses and traffic not "
        "counted)"
    )
