"""Real hosts behind instances: made when they are launched, gone when they end."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.errors import SpecError
from cluster.labfiles import Upper, private, shape, text_of
from cluster.model import ClusterSpec
from cluster.providers.lab import Lab
from cluster.units import parse_rate
from tests.fakes.aws import hostfiles, network, userdata
from tests.fakes.aws.network import Network, Place, Rules

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence

    from tests.fakes.aws.cloud import Cloud
    from tests.fakes.aws.region import Life

ROOT = Path("/")


def missing() -> str:
    """Tell why there can be no hosts here; nothing, if there can."""
    try:
        Lab().plan(ClusterSpec(name="fake", provider="lab"))
    except SpecError as error:
        return str(error)
    absent = [tool for tool in ("iptables-restore", "setpriv", "setsid") if not shutil.which(tool)]
    return f"{', '.join(absent)} missing: apt-get install iptables util-linux" if absent else ""


@dataclass
class Host:
    """A host, from the order to make it until it is gone."""

    instance: Any
    number: int
    folder: Path
    keys: tuple[str, ...]  # that log in
    process: subprocess.Popen[bytes] | None = None
    ready: bool = False  # it comes up, or has
    ended: bool = False  # nobody wants it any more

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def gone(self) -> bool:
        """Whether it has ended by itself."""
        return not self.ended and self.process is not None and self.process.poll() is not None

    def end(self) -> None:
        """Pull the plug; of a host that is just being made, whoever makes it does."""
        self.ended = True
        if self.ready and self.process is not None:
            network.end([self.process])

    def go(self) -> None:
        """Let it come up."""
        self.ready = True
        if self.ended:
            self.end()
        elif self.process and self.process.stdin:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()


class Hosts:
    """All hosts of a cloud, and their network; a thread of its own makes them."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._numbers = itertools.count()
        self._folder = Path(tempfile.mkdtemp(prefix="test-cloud-"))
        self._network = Network(self._folder)
        self._hosts: dict[str, Host] = {}
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hosts")
        (self._folder / "root").write_text(str(ROOT))
        (self._folder / "boot").write_text(hostfiles.BOOT)

    @property
    def caller(self) -> str:
        return self._network.caller

    @property
    def addresses(self) -> Iterator[str]:
        """The public addresses that hosts can have; the first ones are ours."""
        return (str(address) for address in list(self._network.addresses)[4:-1])

    def clear(self) -> None:
        """End all hosts."""
        self._worker.submit(lambda: None).result()
        for host in self._hosts.values():
            host.ended = True
        network.end(host.process for host in self._hosts.values() if host.process)
        self._hosts.clear()
        shutil.rmtree(self._folder / "hosts", ignore_errors=True)

    def close(self) -> None:
        """Leave nothing."""
        self.clear()
        self._worker.shutdown()
        self._network.close()
        shutil.rmtree(self._folder)

    def of(self, instance_id: str) -> Host | None:
        return self._hosts.get(instance_id)

    def console(self, instance_id: str) -> str:
        return text_of(self._folder / "hosts" / instance_id / "console")

    def boot(self, lives: Sequence[Life]) -> None:
        """Let hosts come up, new ones and such as were stopped."""
        for life in lives:
            instance = life.instance
            pair = instance.ec2_backend.key_pairs.get(instance.key_name)
            self._hosts[instance.id] = Host(
                instance=instance,
                number=next(self._numbers),
                folder=self._folder / "hosts" / instance.id,
                keys=(pair.public_key,) if pair else (),
            )
        made = [self._hosts[life.instance.id] for life in lives]
        self._later(lambda: self._boot(made))

    def obey(self) -> None:
        """Let the security groups of this moment hold, before anything else is answered."""
        self._later(self._obey)

    def peer(self) -> None:
        """Let private addresses be reached from here."""
        self._network.peer([h.instance.private_ip for h in self._hosts.values() if h.running])

    def _later(self, what: Callable[[], None]) -> None:
        def work() -> None:
            try:
                what()
            except Exception:  # noqa: BLE001 - a test must see it, not a thread
                self._cloud.gaps.append(f"hosts: {traceback.format_exc()}")

        self._worker.submit(work)

    def _boot(self, hosts: Sequence[Host]) -> None:
        settings = self._cloud.settings
        hidden = private()
        for host in hosts:
            _prepare(host, hidden, settings.minute)
            host.process = network.started(_argv(self._folder, host))
        places = [_place(host) for host in hosts]
        rate = parse_rate(settings.rate) if settings.rate else None
        for host, place in zip(hosts, places, strict=True):
            network.wait_for_namespace(place.pid)
            (host.folder / "links").write_text(network.links(place))
            (host.folder / "shape").write_text(shape("eth0", rate, network.MTU))
            (host.folder / "boot").write_text(str(settings.boot))
        self._network.attach(
            places, [shape(f"h{place.number}", rate, network.MTU) for place in places]
        )
        self._obey()
        for host in hosts:
            host.go()

    def _obey(self) -> None:
        hosts = [host for host in self._hosts.values() if host.running]
        with self._cloud.lock:
            connected = frozenset(h.instance.id for h in hosts if self._connected(h.instance))
            rules = _rules([(h.instance, f"h{h.number}") for h in hosts], connected)
        self._network.obey(rules)

    def _connected(self, instance: Any) -> bool:
        region = self._cloud.region(instance.ec2_backend.region_name)
        return region.connected(instance.nics[0].subnet)


def _argv(folder: Path, host: Host) -> list[str]:
    spaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
    return ["unshare", *spaces, "sh", str(folder / "boot"), host.instance.id]


def _prepare(host: Host, hidden: list[str], minute: float) -> None:
    """Write everything that a host reads while it comes up; once in its life."""
    if host.folder.exists():
        return
    for part in ("upper", "work", "root"):
        (host.folder / part).mkdir(parents=True)
    orders = userdata.orders(str(host.instance.user_data or ""))
    address = str(host.instance.private_ip)
    name = orders.hostname or f"ip-{address.replace('.', '-')}"
    upper = Upper(host.folder / "upper", ROOT)
    for path in hidden:
        upper.empty(path)
    hostfiles.programs(upper, minute)
    hostfiles.fill(upper, orders, host.keys, address, name)
    (host.folder / "hostname").write_text(name)


def _place(host: Host) -> Place:
    assert host.process
    nic = host.instance.nics[0]
    subnet = ip_network(nic.subnet.cidr_block)
    return Place(
        number=host.number,
        pid=host.process.pid,
        private=str(nic.private_ip_address),
        prefix=subnet.prefixlen,
        gateway=str(subnet[1]),
    )


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
    what = ""
    if rule.ip_protocol not in ("-1", None):
        what = f" -p {rule.ip_protocol}"
    if rule.ip_protocol in ("tcp", "udp"):
        what += f" --dport {rule.from_port}:{rule.to_port}"
    for address in sources:
        yield f"-s {address}{what}"
