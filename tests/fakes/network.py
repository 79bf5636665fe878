"""The network of the hosts: a router in a namespace of its own, and who may reach whom."""

import ipaddress
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster.core.model.value import Value

AMONG = ipaddress.IPv4Network("198.19.0.0/16")  # RFC 2544: for measuring networks, no stranger's
PREFIX = 22  # of the public addresses of one cloud
ROOMS = 64  # clouds at once on this machine
MTU = 9001  # bytes, as within a VPC
ALONE = 32  # bits of a network with one address
UNTIL_ALONE = 'cat; rm -rf -- "$0"'
PATIENCE = 30.0  # seconds


class Place(Value, frozen=True, kw_only=True):
    """Where a host is in the network."""

    number: int  # of the host; its device in the router is `hNUMBER`
    pid: int  # of the process that holds its namespace
    private: str  # its own address
    prefix: int  # bits of its subnet
    gateway: str  # the first address of the subnet


class Rules(Value, frozen=True, kw_only=True):
    """Who may reach whom."""

    # public address and private address of each host that has both
    public: tuple[tuple[str, str], ...]
    # for each group of rules what it lets in or not, as iptables says it
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    # device, private address and groups of each host
    members: tuple[tuple[str, str, tuple[str, ...]], ...]


class Network:
    """A router, and the link from here to it; its name tells whose addresses are whose.

    Should this process be killed, the router removes the cloud's folder before it goes.
    """

    def __init__(self, folder: Path) -> None:
        self._router = spawn(["unshare", "--net", "sh", "-c", UNTIL_ALONE, str(folder)])
        self.pid = self._router.pid
        wait_for_namespace(self.pid)
        self._room = self._take_room()
        self.addresses = list(AMONG.subnets(new_prefix=PREFIX))[self._room]
        self.caller, self._there = str(self.addresses[1]), str(self.addresses[2])
        self._gateways: set[str] = set()
        self._begin()

    def close(self) -> None:
        end([self._router])

    def _take_room(self) -> int:
        for room in range(ROOMS):
            link = ["ip", "link", "add", "dev", f"aws{room}", "type", "veth"]
            if call([*link, "peer", "name", "up", "netns", str(self.pid)]).returncode == 0:
                return room
        raise RuntimeError(f"No network is free: {ROOMS} test clouds are there.")

    def _begin(self) -> None:
        device = f"dev aws{self._room}"
        batch(
            f"addr add {self.caller}/32 peer {self._there} {device}\n"
            f"link set {device} mtu {MTU} up\n"
            f"route add {self.addresses} via {self._there} {device} src {self.caller}\n"
        )
        self._set({"ip_forward": 1, "conf/all/rp_filter": 0, "conf/all/proxy_arp": 1})
        batch(
            "link set dev lo up\n"
            f"addr add {self._there}/32 peer {self.caller} dev up\n"
            f"link set dev up mtu {MTU} up\n"
            "route add blackhole default\n",  # who is not there does not answer, as in the cloud
            self.pid,
        )

    def _set(self, values: Mapping[str, int]) -> None:
        """Set what the router's kernel does with IPv4."""
        lines = "".join(f"echo {v} > /proc/sys/net/ipv4/{k}\n" for k, v in values.items())
        _need(call(["nsenter", f"--net=/proc/{self.pid}/ns/net", "sh", "-e"], lines))

    def attach(self, places: Sequence[Place], shapes: Sequence[str]) -> None:
        lines = []
        for gateway in sorted({p.gateway for p in places} - self._gateways):
            lines.append(f"addr add {gateway}/32 dev lo")
            self._gateways.add(gateway)
        for place in places:
            device = f"h{place.number}"
            peer = f"peer name eth0 mtu {MTU} netns {place.pid}"
            lines += [
                f"link add {device} mtu {MTU} type veth {peer}",
                f"link set dev {device} up",
                # A host that had this address may be gone, and its link not quite yet.
                f"route replace {place.private}/32 dev {device}",
            ]
        batch("\n".join(lines) + "\n", self.pid)
        self._set({f"neigh/h{place.number}/proxy_delay": 0 for place in places})
        self.shape("".join(shapes))

    def shape(self, lines: str) -> None:
        """Send tc a batch of commands about what hosts receive."""
        inside = ["nsenter", f"--net=/proc/{self.pid}/ns/net", "tc", "-batch", "-"]
        _need(call(inside, lines))

    def obey(self, rules: Rules) -> None:
        """Let pass what may."""
        inside = ["nsenter", f"--net=/proc/{self.pid}/ns/net", "iptables-restore"]
        _need(call(inside, _tables(rules)))


def links(place: Place, mtu: int) -> str:
    """Return the commands of ip inside a host; one that is alone in its network needs a route."""
    way = f"route add {place.gateway} dev eth0\n" if place.prefix == ALONE else ""
    return (
        "link set dev lo up\n"
        f"addr add {place.private}/{place.prefix} dev eth0\n"
        f"link set dev eth0 mtu {mtu} up\n"
        f"{way}"
        f"route add default via {place.gateway}\n"
    )


def _tables(rules: Rules) -> str:
    nat = [f"-A PREROUTING -d {public} -j DNAT --to {private}" for public, private in rules.public]
    nat += [
        f"-A POSTROUTING -s {private} -o up -j SNAT --to {public}"
        for public, private in rules.public
    ]
    chains = [f":{group} - [0:0]" for group, _ in rules.groups]
    lines = ["-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"]
    lines += ["-A FORWARD -o up -j ACCEPT"]
    lines += [
        f"-A FORWARD -o {device} -j {group}"
        for device, _, groups in rules.members
        for group in groups
    ]
    lines += [f"-A {group} {text}" for group, texts in rules.groups for text in texts]
    return "\n".join(
        ["*nat", *nat, "COMMIT", "*filter", ":FORWARD DROP [0:0]", *chains, *lines, "COMMIT", ""]
    )


def spawn(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start what lives until its standard input is closed, at the latest when this process ends."""
    return subprocess.Popen(
        ["env", "--default-signal", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Kill processes and wait until they are gone, with all in their namespaces."""
    children = list(processes)
    for process in children:
        process.kill()
    for process in children:
        process.wait()
        if process.stdin:
            process.stdin.close()


def wait_for_namespace(pid: int) -> None:
    """Wait until a process has a network of its own."""
    namespace = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}/ns/net").readlink() == namespace:
        if time.monotonic() > deadline:
            raise RuntimeError("unshare made no network namespace.")
        time.sleep(0.001)


def batch(lines: str, pid: int = 0) -> None:
    """Send ip a batch of commands, here or where a process is."""
    prefix = ["nsenter", f"--net=/proc/{pid}/ns/net"] if pid else []
    _need(call([*prefix, "ip", "-batch", "-"], lines))


def call(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False)


def _need(completed: subprocess.CompletedProcess[str]) -> None:
    if completed.returncode != 0:
        raise RuntimeError(f"{completed.args}: {completed.stderr.strip()}")
