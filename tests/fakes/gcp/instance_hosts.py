"""What the hosts behind Google's instances are told, and whom the firewall rules let in."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

import msgspec

from tests.fakes import userdata
from tests.fakes.gaps import GapError
from tests.fakes.gcp.catalog import SUBNETS, region_of
from tests.fakes.hosts import HostSettings
from tests.fakes.network import Rules

MTU = 1460  # bytes, as networks have it if nobody says otherwise
KNOWN = {
    "block-project-ssh-keys",
    "enable-guest-attributes",
    "enable-oslogin",
    "serial-port-enable",
    "serial-port-logging-enable",
    "ssh-keys",
    "startup-script",
    "user-data",
}
NOBODY = "nobody-at-all"


def metadata(instance: Mapping[str, Any]) -> dict[str, str]:
    """Return what an instance is told."""
    items = {item["key"]: item["value"] for item in instance.get("metadata", {}).get("items", [])}
    if extras := set(items) - KNOWN:
        raise GapError(f"metadata {', '.join(sorted(extras))}")
    return items


def host_settings(instance: Mapping[str, Any], login: float) -> HostSettings:
    """Tell what host stands behind an instance."""
    items = metadata(instance)
    nic = instance["networkInterfaces"][0]
    subnet = ip_network(SUBNETS[region_of(instance["zone"].rpartition("/")[2])])
    user, keys = _logins(items)
    orders = userdata.orders_of(items.get("user-data", ""))
    script = items.get("startup-script", "")
    orders = msgspec.structs.replace(orders, late=orders.late + script)
    return HostSettings(
        id=instance["name"],
        address=nic["networkIP"],
        prefix=32,
        gateway=str(subnet[1]),
        mtu=MTU,
        user=user,
        keys=keys,
        orders=orders,
        login=login,
    )


def _logins(items: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Do what the guest agent does: each line names a user and a key."""
    lines = [line for line in items.get("ssh-keys", "").splitlines() if line.strip()]
    if items.get("enable-oslogin", "").upper() == "TRUE" or not lines:
        return NOBODY, ()
    users = {line.partition(":")[0] for line in lines}
    if len(users) > 1:
        raise GapError(f"ssh-keys for several users: {users}")
    return users.pop(), tuple(line.partition(":")[2] for line in lines)


def rules(
    instances: Sequence[Mapping[str, Any]],
    walls: Sequence[Mapping[str, Any]],
    devices: Mapping[str, str],
) -> Rules:
    """Say in the words of iptables what the firewall rules say of each instance."""
    hosts = [instance for instance in instances if instance["name"] in devices]
    return Rules(
        public=tuple(
            (config["natIP"], instance["networkInterfaces"][0]["networkIP"])
            for instance in hosts
            for config in instance["networkInterfaces"][0].get("accessConfigs", [])
        ),
        groups=tuple(
            (f"r-{devices[instance['name']]}", tuple(_words(instance, walls, hosts)))
            for instance in hosts
        ),
        members=tuple(
            (
                devices[instance["name"]],
                instance["networkInterfaces"][0]["networkIP"],
                (f"r-{devices[instance['name']]}",),
            )
            for instance in hosts
        ),
    )


def _words(
    instance: Mapping[str, Any],
    walls: Sequence[Mapping[str, Any]],
    all_of_them: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield the rules for an instance, the one that counts most first."""
    network = instance["networkInterfaces"][0]["network"]
    tags = set(_tags(instance))
    for wall in sorted(walls, key=lambda w: (w.get("priority", 1000), "allowed" in w)):
        targets = wall.get("targetTags")
        if wall["network"] != network or (targets and not tags & set(targets)):
            continue
        verdict = "ACCEPT" if "allowed" in wall else "DROP"
        for source in _sources(wall, all_of_them):
            for entry in wall.get("allowed") or wall.get("denied", []):
                yield from (f"-s {source}{how} -j {verdict}" for how in _protocols(entry))


def _tags(instance: Mapping[str, Any]) -> list[str]:
    tags: list[str] = instance.get("tags", {}).get("items", [])
    return tags


def _sources(wall: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from wall.get("sourceRanges", [])
    for instance in instances:
        if set(_tags(instance)) & set(wall.get("sourceTags", [])):
            yield f"{instance['networkInterfaces'][0]['networkIP']}/32"


def _protocols(entry: Mapping[str, Any]) -> Iterator[str]:
    protocol = entry["IPProtocol"]
    if protocol == "all":
        yield ""
        return
    for ports in entry.get("ports", [""]):
        yield f" -p {protocol}" + (f" --dport {ports.replace('-', ':')}" if ports else "")
