"""What machines cost, and how it is shown."""

from cluster.core.errors import SpecError
from cluster.core.model.resources import Price
from cluster.core.model.spec import LONGEST_TTL, SHORTEST_TTL, ClusterSpec
from cluster.core.units import format_seconds

MINUTE, HOUR = 60.0, 3600.0  # seconds


def dollars(price: Price, hosts: int, seconds: float) -> float:
    """Compute what hosts cost for some time."""
    return price.hourly * hosts * seconds / HOUR


def lifetime(spec: ClusterSpec, price: Price | None, usual: float) -> float:
    """Return after how many seconds --ttl and --max-cost end machines, else `usual` (SpecError)."""
    if spec.max_cost is None:
        return spec.ttl or usual
    if price is None:
        raise SpecError(
            f"--max-cost is ${spec.max_cost:g}, and the price of these machines is not known.",
            means="Nobody could say when they have cost that much; nothing was created.",
            remedy="Set a time instead: --ttl 2h",
        )
    most = spec.max_cost / dollars(price, spec.hosts, MINUTE) // 1 * MINUTE
    if most < SHORTEST_TTL:
        raise SpecError(
            f"--max-cost is ${spec.max_cost:g}, which pays for less than a minute of "
            f"{spec.hosts} x ${price.hourly:.4g} an hour.",
            remedy="Choose fewer or cheaper machines, or more: --max-cost 20",
        )
    return min(most, spec.ttl or LONGEST_TTL)


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
