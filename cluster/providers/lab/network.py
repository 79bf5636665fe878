"""The network of a lab: bridges, links, addresses."""

import ipaddress
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cluster.core.errors import ProvisionError
from cluster.core.model.hosts import Link, Machine
from cluster.core.units import parse_rate
from cluster.providers.lab.options import SBIN, LabFolder, LabOptions, leaf_of, upper_of
from cluster.providers.lab.rootfs import VXLAN, links, shape, text_of

ROOMS = 64  # labs at once: one network of 1024 addresses for each
UNDERLAY, OVERLAY = "198.18.0.0/16", "198.19.0.0/16"  # RFC 2544: for network benchmarks
PREFIX = 22  # bits, of each lab's network
SPINE = "bridge0"  # the switch of all hosts, or of all leaf switches
FIRST = 2  # of the hosts' addresses; this machine has address 1
SPARE = 3  # addresses that no host can have: network, broadcast and this machine


def line_rate(options: LabOptions) -> float | None:
    """Return the rate of every link in bytes per second; none if it is not limited."""
    return parse_rate(options.rate) if options.rate else None


def join(pids: dict[str, int], options: LabOptions) -> int:
    """Create the bridge, with links to each host and this machine; return the network's number."""
    switch = pids.pop("switch")
    room = _take_room(switch)
    # The namespace contains only bridges, so no firewall of this machine filters their packets.
    lines = [
        f"link add dev {SPINE} type bridge mcast_snooping 0",
        f"link set dev {SPINE} up",
        f"link set dev up mtu {options.mtu} master {SPINE} up",
        *(line for leaf in range(options.leaves) for line in _leaf(leaf, options.mtu)),
    ]
    for number, pid in pids.items():
        bridge = f"leaf{leaf_of(int(number), len(pids), options.leaves)}"
        veth = f"mtu {options.mtu} type veth peer name eth0 mtu {options.mtu} netns {pid}"
        lines.append(f"link add dev h{number} {veth}")
        lines.append(f"link set dev h{number} master {bridge if options.leaves else SPINE} up")
    inside(switch, "ip", "\n".join(lines) + "\n")
    ports = "".join(shape(f"h{number}", line_rate(options), options.mtu) for number in pids)
    uplinks = "".join(
        shape_uplink(leaf, parse_rate(options.uplink) if options.uplink else None, options.mtu)
        for leaf in range(options.leaves)
    )
    inside(switch, "tc", ports + uplinks)
    network = network_of_room(room, UNDERLAY)
    address_line = f"addr add {network[1]}/{network.prefixlen} dev lab{room}\n"
    inside(os.getpid(), "ip", f"{address_line}link set dev lab{room} mtu {options.mtu} up\n")
    return room


def _leaf(leaf: int, mtu: int) -> list[str]:
    return [
        f"link add dev leaf{leaf} type bridge mcast_snooping 0",
        f"link set dev leaf{leaf} up",
        f"link add dev up{leaf} mtu {mtu} type veth peer name down{leaf} mtu {mtu}",
        f"link set dev up{leaf} master leaf{leaf} up",
        f"link set dev down{leaf} master {SPINE} up",
    ]


def shape_uplink(leaf: int, line: float | None, mtu: int) -> str:
    """Return the commands of `tc` that set the rate of a leaf's uplink, in bytes per second."""
    return shape(f"up{leaf}", line, mtu) + shape(f"down{leaf}", line, mtu)


def _take_room(switch: int) -> int:
    """Create the link from this machine to the switch; its name reserves the network's number."""
    reason = ""
    for room in range(ROOMS):
        if Path(f"/sys/class/net/lab{room}").exists():
            continue
        link = ["link", "add", "dev", f"lab{room}", "type", "veth", "peer", "name", "up"]
        result = _call(["ip", *link, "netns", str(switch)])
        if result.returncode == 0:
            return room
        reason = result.stderr.strip()
    raise ProvisionError(
        f"No network is free for another lab; {ROOMS} may be up at once.",
        means=reason,
        remedy="See what is up: cluster ls; what was forgotten: cluster more gc",
    )


def network_of_room(room: int, whole: str) -> ipaddress.IPv4Network:
    """Return the lab network of a number: a subnet of `UNDERLAY` or `OVERLAY`."""
    return list(ipaddress.IPv4Network(whole).subnets(new_prefix=PREFIX))[room]


def link_of(options: LabOptions) -> Link | None:
    if not options.rate:
        return None
    return Link(
        rate=parse_rate(options.rate),
        mtu=options.mtu,
        encapsulation=VXLAN if options.overlay else 0,
        source="lab: tbf on both ends",
    )


def write_network(files: LabFolder, machines: Sequence[Machine], options: LabOptions) -> None:
    hosts = "".join(f"{machine.address} {machine.id}\n" for machine in machines)
    known_hosts = ""
    for number, machine in enumerate(machines):
        folder = files.host(number)
        upper = upper_of(files, number, options)
        upper.write("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{hosts}")
        outer = machine.access.host if machine.access else machine.address
        (folder / "links").write_text(links(outer, machine.address, PREFIX, options.mtu))
        (folder / "shape").write_text(shape("eth0", line_rate(options), options.mtu))
        key = text_of(folder / "upper/etc/ssh/cluster_host_key.pub")
        known_hosts += f"{outer} {key}\n"
    (files.folder / "known_hosts").write_text("".join(known_hosts))


def inside(pid: int, tool: str, batch: str) -> None:
    """Run a batch of commands of an iproute2 tool in the network namespace of a process."""
    result = _call(["nsenter", f"--net=/proc/{pid}/ns/net", tool, "-batch", "-"], batch)
    if result.returncode != 0:
        raise ProvisionError(
            f"{tool} refused what makes the lab's network: {result.stderr.strip()}"
        )


def _call(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, input=text, capture_output=True, text=True, check=False, env=tool_environment()
    )


def tool_environment() -> dict[str, str]:
    """Return this process's environment, with the folders of ip, tc and mount added to PATH."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SBIN}"}


def host_number(machine: Machine) -> str:
    return machine.name.partition(".")[0]
