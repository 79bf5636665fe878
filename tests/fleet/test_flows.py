"""Max-min fair flows, against known values and their definition."""

import numpy as np
import pytest

from cluster.fleet.simulation import NO_LINK, max_min_rates


def test_the_textbook_example() -> None:
    """Links of 1, 2 and 1: flow 0 takes all of them, the others one each."""
    paths = np.array([[0, 1, 2], [0, -1, -1], [1, -1, -1], [2, -1, -1], [2, -1, -1]])
    rates = max_min_rates(paths, np.array([1.0, 2.0, 1.0]))

    assert rates == pytest.approx([1 / 3, 2 / 3, 5 / 3, 1 / 3, 1 / 3])


def test_a_cut_link_carries_nothing_and_no_link_bounds_nothing() -> None:
    rates = max_min_rates(np.array([[0, 1], [1, NO_LINK], [NO_LINK, NO_LINK]]), np.array([0.0, 4]))

    assert rates.tolist() == [0.0, 4.0, np.inf]


def test_no_flows() -> None:
    assert max_min_rates(np.zeros((0, 3), dtype=np.int64), np.ones(2)).size == 0


@pytest.mark.parametrize("seed", range(40))
def test_no_link_is_over_its_capacity_and_each_flow_has_a_full_one(seed: int) -> None:
    """B2: on a full link of each flow, no other flow is faster: that is max-min fairness."""
    chance = np.random.default_rng(seed)
    links, flows = int(chance.integers(2, 60)), int(chance.integers(1, 512))
    paths = np.stack(
        [chance.permutation(links)[: min(4, links)] for _ in range(flows)]
    )  # no link twice
    paths[chance.random(paths.shape) < 0.3] = NO_LINK
    paths[:, 0] = np.abs(paths[:, 0])
    capacities = chance.uniform(0.5, 10, links)
    rates = max_min_rates(paths, capacities)
    row, hop = np.nonzero(paths >= 0)
    carried = np.bincount(paths[row, hop], weights=rates[row], minlength=links)
    fastest = np.zeros(links)
    np.maximum.at(fastest, paths[row, hop], rates[row])

    assert (carried <= capacities * (1 + 1e-6)).all()
    for flow, way in enumerate(paths):
        full = [
            link
            for link in way[way >= 0]
            if carried[link] >= capacities[link] * (1 - 1e-6)
            and fastest[link] <= rates[flow] * (1 + 1e-6)
        ]
        assert full, flow
