"""The share of the fleet's median that each host reaches, for `cluster watch`."""

import pytest

from cluster.core.model.network.fleet import PairTest
from cluster.fleet.pair_measurements import host_shares

SLOW = 0
PAIRS = {
    # As rounds of pairs give them: hosts have one to three partners.
    "three hosts": ((0, 1), (1, 2), (2, 0)),
    "five hosts, three rounds": ((0, 1), (2, 3), (1, 4), (0, 2), (3, 4), (0, 3)),
    "six hosts, two rounds": ((0, 1), (2, 3), (4, 5), (0, 2), (1, 4), (3, 5)),
}


@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize(("better", "value"), [("higher", 0.8), ("lower", 1.25)])
def test_a_partner_of_a_slow_host_is_not_slow(
    pairs: tuple[tuple[int, int], ...], better: str, value: float
) -> None:
    tests = [
        PairTest(round=0, source=a, target=b, value=value if SLOW in (a, b) else 1.0)
        for pair in pairs
        for a, b in (pair, pair[::-1])
    ]

    shares = host_shares(tests, better=better)

    assert shares == {host: value if host == SLOW else 1.0 for host in sorted({*sum(pairs, ())})}


def test_of_two_hosts_nothing_says_which() -> None:
    tests = [PairTest(round=0, source=a, target=1 - a, value=1.0) for a in (0, 1)]

    assert host_shares(tests, better="higher") == {}
