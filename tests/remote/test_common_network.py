"""Which addresses ranks use."""

import pytest

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Facts, Interface, Machine
from cluster.remote.network import find_common_network, listed_before
from tests.plain_values import plain_facts
from tests.snapshots import Snapshot


def host(number: int, address: str, *interfaces: str, reached: str = "") -> tuple[Machine, Facts]:
    machine = Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name=f"{number}.mpi.x", id="", address=address, shell="ssh", folder="", bin=""
    )
    links = tuple(interface(text) for text in interfaces)
    return machine, plain_facts(f"h{number}", interfaces=links, reached=reached, boot=str(number))


def interface(text: str) -> Interface:
    name, _, rest = text.partition("=")
    address, _, prefix = rest.partition("/")
    return Interface(name=name, address=address, prefix=int(prefix), mtu=1500)


def pick(*hosts: tuple[Machine, Facts]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    machines, facts = zip(*hosts, strict=True)
    network = find_common_network(machines, facts)
    return network.addresses, network.networks


def test_the_address_that_was_given() -> None:
    """Also where other networks are in common too."""
    assert pick(
        host(0, "10.0.0.5", "a=192.168.1.5/24", "b=10.0.0.5/16", reached="192.168.1.5"),
        host(1, "10.0.9.6", "a=192.168.1.6/24", "b=10.0.9.6/16", reached="192.168.1.6"),
    ) == (("10.0.0.5", "10.0.9.6"), ("10.0.0.0/16",))


def test_the_second_address_of_an_interface_may_be_the_one_that_answers() -> None:
    """The first one may be dead: whoever tries it waits for two minutes."""
    links = ("eth0=10.0.0.5/24", "eth0=10.0.0.105/24"), ("eth0=10.0.0.6/24", "eth0=10.0.0.106/24")
    assert pick(
        host(0, "10.0.0.105", *links[0], reached="10.0.0.105"),
        host(1, "10.0.0.106", *links[1], reached="10.0.0.106"),
    ) == (("10.0.0.105", "10.0.0.106"), ("10.0.0.0/24",))


def test_a_name_leads_to_the_address_at_which_we_reached_it() -> None:
    assert pick(
        host(0, "alias0", "a=192.168.1.5/24", "b=10.0.0.5/16", reached="192.168.1.5"),
        host(1, "alias1", "a=192.168.1.6/24", "b=10.0.9.6/16", reached="192.168.1.6"),
    ) == (("192.168.1.5", "192.168.1.6"), ("192.168.1.0/24",))


def test_a_bridge_that_all_hosts_have_is_never_used() -> None:
    """The address of docker0 is the same everywhere: whoever tries it waits for ever."""
    bridge = "docker0=172.17.0.1/16"
    assert pick(
        host(0, "h0", bridge, "eth0=10.0.0.5/24", reached="172.17.0.1"),
        host(1, "h1", bridge, "eth0=10.0.0.6/24", reached="172.17.0.1"),
    ) == (("10.0.0.5", "10.0.0.6"), ("10.0.0.0/24",))


def test_hosts_of_several_networks_name_each() -> None:
    assert pick(host(0, "10.0.0.5", "a=10.0.0.5/24"), host(1, "10.0.1.5", "a=10.0.1.5/24")) == (
        ("10.0.0.5", "10.0.1.5"),
        ("10.0.0.0/24", "10.0.1.0/24"),
    )


def test_hosts_that_know_only_their_own_address_are_in_the_smallest_network_around_them() -> None:
    """As a cloud whose routers know the way to every machine gives them out: /32 each."""
    assert pick(
        host(0, "10.128.0.2", "a=10.128.0.2/32", "docker0=172.17.0.1/16"),
        host(1, "10.128.0.5", "a=10.128.0.5/32", "docker0=172.17.0.1/16"),
    ) == (("10.128.0.2", "10.128.0.5"), ("10.128.0.0/29",))


def test_nothing_in_common_is_said_with_what_each_has() -> None:
    with pytest.raises(SpecError, match=r"h0: 10\.0\.0\.5/24 \(a\); h1: none"):
        pick(host(0, "h0", "a=10.0.0.5/24"), host(1, "h1"))


def test_one_machine_by_two_names(snapshot: Snapshot) -> None:
    first = host(0, "h0", "a=10.0.0.5/24")
    machine, _ = host(1, "h1")

    with snapshot.raises(SpecError):
        pick(first, (machine, first[1]))


def test_open_mpi_tries_the_addresses_of_an_interface_in_their_order() -> None:
    links = ("eth1=10.1.0.5/24", "eth0=10.0.0.5/24", "eth0=10.0.0.105/24", "eth0=10.0.0.106/24")
    _, facts = host(0, "10.0.0.105", *links)
    assert listed_before("10.0.0.105", facts) == (interface("eth0=10.0.0.5/24"),)
    assert listed_before("10.0.0.5", facts) == listed_before("192.168.0.1", facts) == ()
