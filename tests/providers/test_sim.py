"""Simulated hosts are named and grouped as real ones."""

import pytest

import cluster
from cluster import Group


@pytest.mark.usefixtures("home")
def test_simulated_hosts_have_the_names_of_their_groups() -> None:
    groups = {"ps": Group(hosts=1), "worker": Group(hosts=3)}
    c = cluster.launch("mine", provider="sim", groups=groups, options={"fabric": "leafspine:2x2"})

    assert c.hosts["worker"].names == tuple(f"{n}.worker.mine" for n in (1, 2, 3))
