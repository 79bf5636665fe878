"""The network of a lab: bridges, links and addresses, and changes of a link while it is up."""

import ipaddress
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cluster.core import decoders
from cluster.core.errors import ProvisionError, SpecError
from cluster.core.model.hosts import Link, Machine
from cluster.core.state.files import text_of
from cluster.core.text.units import parse_rate
from cluster.providers.lab.options import SBIN, LabFolder, LabOptions, leaf_of, upper_of
from cluster.providers.lab.processes import HostProcess, kill_all, processes_of
from cluster.providers.lab.rootfs import VXLAN, links, shape

ROOMS = 64  # labs at once: one network of 1024 addresses for each
UNDERLAY, OVERLAY = "198.18.0.0/16", "198.19.0.0/16"  # RFC 2544: for network benchmarks
PREFIX = 22  # bits, of each lab's network
SPINE = "bridge0"  # the switch of all hosts, or of all leaf switches
FIRST = 2  # of the hosts' addresses; this machine has address 1
SPARE = 3  # addresses that no host can have: network, broadcast and this machine
Verb = Literal["slow", "cut", "heal", "kill"]
Direction = Literal["tx", "rx", "both"]
NOWHERE = "02:00:00:00:00:01"  # a locally administered MAC address that no host has


def line_rate(options: LabOptions) -> float | None:
    """Return the rate of every link in bytes per second; none if it is not limited."""
    return parse_rate(options.rate) if options.rate else None


def join(pids: dict[str, int], options: LabOptions) -> int:
    """Create the bridge, with links to each host and this machine; return the network's number."""
    switch, mtu = pids.pop("switch"), options.mtu
    room = _take_room(switch)
    # The namespace contains only bridges, so no firewall of this machine filters their packets.
    lines = [
        f"link add dev {SPINE} type bridge mcast_snooping 0",
        f"link set dev {SPINE} up",
        f"link set dev up mtu {mtu} master {SPINE} up",
    ]
    for leaf in range(options.leaves):
        lines += [
            f"link add dev leaf{leaf} type bridge mcast_snooping 0",
            f"link set dev leaf{leaf} up",
            f"link add dev up{leaf} mtu {mtu} type veth peer name down{leaf} mtu {mtu}",
            f"link set dev up{leaf} master leaf{leaf} up",
            f"link set dev down{leaf} master {SPINE} up",
        ]
    for number, pid in pids.items():
        bridge = f"leaf{leaf_of(int(number), len(pids), options.leaves)}"
        veth = f"mtu {mtu} type veth peer name eth0 mtu {mtu} netns {pid}"
        lines.append(f"link add dev h{number} {veth}")
        lines.append(f"link set dev h{number} master {bridge if options.leaves else SPINE} up")
    inside(switch, "ip", "\n".join(lines) + "\n")
    ports = "".join(shape(f"h{number}", line_rate(options), mtu) for number in pids)
    uplinks = "".join(
        shape_uplink(leaf, parse_rate(options.uplink) if options.uplink else None, mtu)
        for leaf in range(options.leaves)
    )
    inside(switch, "tc", ports + uplinks)
    network = network_of_room(room, UNDERLAY)
    address_line = f"addr add {network[1]}/{network.prefixlen} dev lab{room}\n"
    inside(os.getpid(), "ip", f"{address_line}link set dev lab{room} mtu {mtu} up\n")
    return room


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


def alter(
    machine: Machine, verb: Verb, rate: str = "", direction: Direction = "both"
) -> float | None:
    """Change the link of one host, or end the host, while the cluster runs; return the link's rate.

    `kill` takes its power: the link carries no packets, and all processes are killed. `slow` gives
    the link a rate such as `100mbit`, or a tenth of its own, for what the host sends (`tx`) or
    receives (`rx`). It is a fault: the machine keeps the link that it was made with, which limits
    what it should reach. The rate is in bytes per second; None if it is unlimited or down.
    SpecError: the host does not run any more, or the rate is not valid.
    """
    number, switch, host = host_number(machine), *_running(machine.name.split(".")[2], machine)
    options = _created_options(host)
    if verb in ("cut", "kill"):
        inside(switch.pid, "ip", f"link set dev h{number} down\n")
        if verb == "kill":  # after the link, as a host that loses its power closes no connection
            kill_all([host])
        return None
    whole = line_rate(options)
    now = _slow(whole, rate) if verb == "slow" else whole
    sends, receives = (now if direction in (way, "both") else whole for way in ("tx", "rx"))
    inside(switch.pid, "ip", f"link set dev h{number} up\n")
    inside(host.pid, "ip", "neigh flush dev eth0 nud permanent\n")
    inside(switch.pid, "tc", shape(f"h{number}", receives, options.mtu))
    inside(host.pid, "tc", shape("eth0", sends, options.mtu))
    return now


def alter_uplink(name: str, leaf: int, verb: Verb, rate: str = "") -> float | None:
    """Change the uplink of a leaf switch as `alter` does, and return its rate.

    SpecError: there is no such leaf, the verb is for hosts only, or the rate is not valid.
    """
    (switch,) = _running(name)
    options = _created_options(switch)
    if leaf not in range(options.leaves):
        raise SpecError(
            f"The lab {name} has {options.leaves} leaf switches, and none has number {leaf}.",
            remedy="Make some: cluster up NAME --provider lab --hosts 16 --option leaves=4",
        )
    if verb == "kill":
        raise SpecError("A leaf switch can be slowed, cut off or healed.")
    inside(switch.pid, "ip", f"link set dev up{leaf} {'down' if verb == 'cut' else 'up'}\n")
    if verb == "cut":
        return None
    whole = parse_rate(options.uplink) if options.uplink else None
    now = _slow(whole, rate) if verb == "slow" else whole
    inside(switch.pid, "tc", shape_uplink(leaf, now, options.mtu))
    return now


def alter_pair(first: Machine, second: Machine, verb: Verb) -> None:
    """Cut or heal the way between two hosts (SpecError: one is down, or the verb is for one)."""
    if verb not in ("cut", "heal"):
        raise SpecError("A pair of hosts can be cut off from one another, or healed.")
    for machine, other in ((first, second), (second, first)):
        _, host = _running(machine.name.split(".")[2], machine)
        address = other.access.host if other.access else other.address
        change = f"replace {address} lladdr {NOWHERE} nud permanent" if verb == "cut" else ""
        inside(host.pid, "ip", f"neigh {change or f'del {address}'} dev eth0\n")


def _running(name: str, *machines: Machine) -> tuple[HostProcess, ...]:
    running = {process.number: process for process in processes_of(name)}
    numbers = ("switch", *map(host_number, machines))
    for number, label in zip(numbers, (name, *(machine.name for machine in machines)), strict=True):
        if number not in running:
            raise SpecError(
                f"{label} does not run any more.", remedy=f"Create it again: cluster down {name}"
            )
    return tuple(running[number] for number in numbers)


def _created_options(process: HostProcess) -> LabOptions:
    text = text_of(process.folder / "options.json")
    return decoders.decode(text, LabOptions)


def _slow(whole: float | None, rate: str) -> float:
    """Return rate of a slow link in bytes per second: the one named, or a tenth of the whole."""
    if rate:
        return parse_rate(rate)
    if whole is None:
        raise SpecError(
            "Its links have no rate of which a tenth could be taken.",
            remedy="Say how slow: --rate 100mbit",
        )
    return whole / 10
