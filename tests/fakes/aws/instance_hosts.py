"""What the hosts behind Amazon's instances are told, and whom their security groups let in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from tests.fakes import userdata
from tests.fakes.hosts import HostSettings
from tests.fakes.network import Rules


def host_settings(instance: Any) -> HostSettings:
    """Tell what host stands behind an instance."""
    pair = instance.ec2_backend.key_pairs.get(instance.key_name)
    nic = instance.nics[0]
    subnet = ip_network(nic.subnet.cidr_block)
    return HostSettings(
        id=instance.id,
        address=str(nic.private_ip_address),
        prefix=subnet.prefixlen,
        gateway=str(subnet[1]),
        keys=(pair.public_key,) if pair else (),
        orders=userdata.orders(str(instance.user_data or "")),
    )


def rules(
    instances: Mapping[str, Any], devices: Mapping[str, str], connected: Callable[[Any], bool]
) -> Rules:
    """Say who may reach whom, of the instances that have a device."""
    members = [(instances[id_], device) for id_, device in devices.items() if id_ in instances]
    return _rules(members, frozenset(i.id for i, _ in members if connected(i)))


def _rules(members: Sequence[tuple[Any, str]], connected: frozenset[str]) -> Rules:
    """Say in the words of iptables what the security groups of hosts say."""
    groups: dict[str, Any] = {}
    within: dict[str, list[str]] = {}
    for instance, _ in members:
        for group in instance.nics[0].group_set:
            groups[group.id] = group
            within.setdefault(group.id, []).append(f"{instance.private_ip}/32")
    return Rules(
        public=tuple(
            (i.public_ip, i.private_ip) for i, _ in members if i.public_ip and i.id in connected
        ),
        groups=tuple(
            (id_, tuple(w for rule in group.ingress_rules for w in _words(rule, within)))
            for id_, group in groups.items()
        ),
        members=tuple(
            (device, i.private_ip, tuple(g.id for g in i.nics[0].group_set))
            for i, device in members
        ),
    )


def _words(rule: Any, within: dict[str, list[str]]) -> Iterator[str]:
    source = rule.ip_range.get("CidrIp")
    sources = [source] if source else within.get(rule.source_group.get("GroupId", ""), [])
    options = ""
    if rule.ip_protocol not in ("-1", None):
        options = f" -p {rule.ip_protocol}"
    if rule.ip_protocol in ("tcp", "udp"):
        options += f" --dport {rule.from_port}:{rule.to_port}"
    for address in sources:
        yield f"-s {address}{options} -j ACCEPT"
