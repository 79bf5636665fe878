"""How long machines may live for what they may cost."""

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.resources import Price
from cluster.core.model.spec import ClusterSpec
from cluster.core.text.units import dollars, lifetime
from tests.snapshots import Snapshot

PRICE = Price(hourly=3.06, at="2026-11-01", source="a list")
USUAL = 7200.0


@pytest.mark.parametrize(
    ("max_cost", "ttl", "seconds"),
    [
        (None, None, USUAL),
        (None, 3600.0, 3600.0),
        (24.48, None, 7200.0),  # 4 hosts, two hours
        (24.47, None, 7140.0),  # whole minutes, as the hosts' timers: never more than that cost
        (24.48, 3600.0, 3600.0),
        (6.12, 3600.0, 1800.0),
        (1e9, None, 30 * 24 * 3600.0),
    ],
)
def test_machines_end_before_they_cost_more(
    max_cost: float | None, ttl: float | None, seconds: float
) -> None:
    spec = ClusterSpec(name="mine", hosts=4, max_cost=max_cost, ttl=ttl)

    assert lifetime(spec, PRICE, USUAL) == pytest.approx(seconds)
    assert max_cost is None or dollars(PRICE, 4, lifetime(spec, PRICE, USUAL)) <= max_cost + 1e-9


@pytest.mark.parametrize(
    ("price", "max_cost"), [(None, 20.0), (PRICE, 0.2), (PRICE, 0.0), (PRICE, -1.0)]
)
def test_a_cost_without_a_price_or_for_less_than_a_minute_is_refused(
    price: Price | None, max_cost: float, snapshot: Snapshot
) -> None:
    with snapshot.raises(SpecError):
        lifetime(ClusterSpec(name="mine", hosts=4, max_cost=max_cost), price, USUAL)
