"""Layers that a provider names, against groups that latency shows."""

import pytest

from cluster.core.model.network.placement import NetworkLayer, ProviderTopology
from cluster.fleet.proximity import agreement, closest_layer, disagreements, with_agreement
from cluster.providers._cloud.provider import network_layers


def layer(*groups: int | None, name: str = "leaf", switch: bool = True) -> NetworkLayer:
    return NetworkLayer(name=name, groups=groups, switch=switch)


def test_agreement_is_the_share_of_pairs_that_both_treat_alike() -> None:
    groups = (0, 0, 1, 1)
    assert agreement(groups, layer(5, 5, 3, 3)) == 1.0
    assert agreement(groups, layer(0, 0, 0, 0)) == pytest.approx(2 / 6)
    assert agreement(groups, layer(0, 1, 2, 3)) == pytest.approx(4 / 6)
    assert agreement((), layer(0, 0, 1, 1)) is None


def test_hosts_of_which_nothing_is_known_are_not_compared() -> None:
    groups = (0, 0, 1, 1)
    assert agreement(groups, layer(0, None, 1, 1)) == 1.0
    assert agreement(groups, layer(0, None, None, None)) is None
    assert list(disagreements(groups, layer(0, 1, None, None))) == [(0, 1)]
    assert list(disagreements(groups, layer(0, 0, 0, 1))) == [(0, 2), (1, 2), (2, 3)]


def test_the_closest_layer_is_the_nearest_to_the_hosts_of_equals() -> None:
    groups = (0, 0, 1, 1)
    far = layer(0, 0, 0, 0, name="block")
    near, twin = layer(0, 0, 1, 1), layer(4, 4, 7, 7, name="twice")
    assert closest_layer(groups, (near, twin, far)) == (near, 1.0)
    assert closest_layer((), (near, far)) == (None, None)
    assert closest_layer(groups, ()) == (None, None)


def test_a_layer_above_is_compared_with_groups_of_groups() -> None:
    latency = ((0, 0, 1, 1, 2, 2), (0, 0, 0, 0, 1, 1))
    assert with_agreement(layer(0, 0, 0, 0, 1, 1), latency).agreement == 1.0
    assert with_agreement(layer(0, 0, 1, 1, 2, 2), latency).agreement == 1.0
    assert with_agreement(layer(0, 0), ()).agreement is None


def test_check_takes_the_nearest_switches_that_most_hosts_share() -> None:
    alone = layer(0, 1, 2, 3)
    leaves, all_of_them = layer(0, 0, 1, 1), layer(0, 0, 0, 0)
    machines = layer(0, 0, 1, 1, name="physical host", switch=False)

    def switch_groups(*layers: NetworkLayer) -> tuple[int, ...]:
        return ProviderTopology(layers=layers).switch_groups

    assert switch_groups(alone, leaves, all_of_them) == (0, 0, 1, 1)
    assert switch_groups(machines, all_of_them) == (0, 0, 0, 0)
    assert switch_groups(layer(0, 0, 1, None), all_of_them) == (0, 0, 1, 5)
    assert switch_groups(alone) == ()
    assert switch_groups() == ()


def test_a_node_counts_with_all_above_it() -> None:
    """Blocks of two clusters may have the same id."""
    paths = [("c1", "b1", "h1"), ("c1", "b1", "h2"), ("c2", "b1", "h1"), ()]
    host, block, top = network_layers(("cluster", "block", "host"), paths, machines=1)
    assert (host.groups, host.switch) == ((0, 1, 2, None), False)
    assert (block.groups, block.switch) == ((0, 0, 1, None), True)
    assert (top.groups, top.sizes) == ((0, 0, 1, None), (2, 1))


def test_layers_that_nobody_names_are_left_out() -> None:
    layers = network_layers(("cluster", "block"), [("", "b1"), ("", "b2")])
    assert [layer.name for layer in layers] == ["block"]
    assert network_layers(("cluster",), [(), ()]) == ()
