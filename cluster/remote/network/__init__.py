"""The network of hosts: which one they have in common; ssh between them, ports, other fabrics."""

from collections import Counter
from ipaddress import IPv4Address, IPv4Network

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Facts, Interface, Machine
from cluster.core.model.value import Value

SINGLE = 32  # prefix length of an interface whose network is only its own address


class CommonNetwork(Value, frozen=True, kw_only=True):
    addresses: tuple[str, ...]
    networks: tuple[str, ...]  # of the addresses, such as `10.0.0.0/24`; MPI may use no others


def find_common_network(machines: tuple[Machine, ...], facts: tuple[Facts, ...]) -> CommonNetwork:
    """Find the addresses by which several hosts reach one another (SpecError: there are none).

    The addresses that the provider or the user gave come first, then those that our connections
    reached, then those in a network that all hosts share. An address that two hosts have, such as
    that of docker0, is never used; two names for one machine are refused.
    """
    _refuse_same_machine(machines, facts)
    counts = Counter(i.address for fact in facts for i in fact.interfaces)
    tables = [{i.address: i for i in f.interfaces if counts[i.address] == 1} for f in facts]
    by_network = [{i.network: i for i in reversed(interfaces.values())} for interfaces in tables]
    for targets in ([machine.address for machine in machines], [f.reached for f in facts]):
        if all(address in interfaces for address, interfaces in zip(targets, tables, strict=True)):
            return _network([interfaces[a] for a, interfaces in zip(targets, tables, strict=True)])
    networks = Counter(network for interfaces in by_network for network in reversed(interfaces))
    for network, count in networks.most_common():
        if count == len(facts):
            return _network([interfaces[network] for interfaces in by_network])
    raise SpecError(
        "The hosts have no network in common: "
        + "; ".join(f"{fact.host}: {_describe_interfaces(fact)}" for fact in facts),
        means="Ranks on different hosts could not reach one another.",
        remedy="Name them by addresses of a network of their own: --option hosts=10.0.0.5,10.0.0.6",
    )


def listed_before(address: str, fact: Facts) -> tuple[Interface, ...]:
    """Return the addresses of the same interface that the system lists before one.

    Open MPI is given which interface to use, not which address, and tries them in this order.
    """
    interface = next((i for i in fact.interfaces if i.address == address), None)
    before = fact.interfaces[: fact.interfaces.index(interface)] if interface else ()
    return tuple(other for other in before if interface and other.name == interface.name)


def _refuse_same_machine(machines: tuple[Machine, ...], facts: tuple[Facts, ...]) -> None:
    """Refuse two names for the same machine: it would count as two hosts."""
    names: dict[object, str] = {}
    for machine, fact in zip(machines, facts, strict=True):
        identity = fact.boot, fact.host, fact.interfaces
        if fact.boot and identity in names:
            raise SpecError(
                f"{names[identity]} and {machine.name} are one machine: {fact.host}.",
                remedy="Name it once, and put more ranks on it: --ranks-per-host 2",
            )
        names[identity] = machine.name


def _network(interfaces: list[Interface]) -> CommonNetwork:
    addresses = tuple(interface.address for interface in interfaces)
    if all(interface.prefix == SINGLE for interface in interfaces):
        # the smallest network that holds all: a router forwards the packets of a /32 address
        numbers = [int(IPv4Address(address)) for address in addresses]
        prefix = SINGLE - (min(numbers) ^ max(numbers)).bit_length()
        network = IPv4Network((min(numbers), prefix), strict=False)
        return CommonNetwork(addresses=addresses, networks=(str(network),))
    return CommonNetwork(
        addresses=addresses,
        networks=tuple(dict.fromkeys(interface.network for interface in interfaces)),
    )


def _describe_interfaces(fact: Facts) -> str:
    return ", ".join(f"{i.address}/{i.prefix} ({i.name})" for i in fact.interfaces) or "none"
