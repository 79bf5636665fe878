"""Real hosts behind instances: made when they are launched, gone when they end."""

import itertools
import shutil
import subprocess
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state.files import text_of
from cluster.core.text.units import parse_rate
from cluster.providers.lab import LabProvider
from cluster.providers.lab.rootfs import Upper, private, shape
from tests.fakes import hostfiles, network
from tests.fakes.network import Network, Place, Rules
from tests.fakes.userdata import Orders

ROOT = Path("/")


def missing() -> str:
    """Tell why there can be no hosts here; nothing, if there can."""
    try:
        LabProvider().plan(ClusterSpec(name="fake", provider="lab"))
    except SpecError as error:
        return str(error)
    absent = [tool for tool in ("iptables-restore", "setpriv", "setsid") if not shutil.which(tool)]
    return f"{', '.join(absent)} missing: apt-get install iptables util-linux" if absent else ""


class HostSettings(Value, frozen=True, kw_only=True):
    """A host that is to come up."""

    id: str  # of the instance that it stands behind
    address: str  # its own
    prefix: int  # bits of its subnet
    gateway: str  # the first address of the subnet
    mtu: int = network.MTU  # bytes of a packet
    user: str = hostfiles.USER  # who may log in
    keys: tuple[str, ...] = ()  # public keys of that user
    orders: Orders = Orders()  # what it is told to be
    login: float = 0.0  # seconds from its sshd's start until it knows that user


class Owner(Protocol):
    """The cloud that hosts belong to."""

    settings: Any  # boot, minute and rate of its hosts
    gaps: list[str]
    lock: threading.RLock

    def rules(self, devices: Mapping[str, str]) -> Rules:
        """Tell who may reach whom, of instances that have a device each."""


@dataclass
class Host:
    """A host, from the order to make it until it is gone."""

    settings: HostSettings
    number: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    ready: bool = False  # it comes up, or has
    ended: bool = False  # nobody wants it any more

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def has_died(self) -> bool:
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

    def __init__(self, cloud: Owner) -> None:
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
        self._worker.submit(lambda: None).result()
        for host in self._hosts.values():
            host.ended = True
        network.end(host.process for host in self._hosts.values() if host.process)
        self._hosts.clear()
        shutil.rmtree(self._folder / "hosts", ignore_errors=True)

    def close(self) -> None:
        self.clear()
        self._worker.shutdown()
        self._network.close()
        shutil.rmtree(self._folder)

    def find(self, instance_id: str) -> Host | None:
        return self._hosts.get(instance_id)

    def console(self, instance_id: str) -> str:
        return text_of(self._folder / "hosts" / instance_id / "console")

    def host_key(self, instance_id: str) -> str:
        """Return the public key of a host that is up; empty, if it is not."""
        if "END SSH HOST KEY KEYS" not in self.console(instance_id):
            return ""
        folder = self._folder / "hosts" / instance_id / "upper/etc/ssh"
        return text_of(folder / "ssh_host_ed25519_key.pub")

    def boot(self, settings: Sequence[HostSettings]) -> None:
        new_hosts = [
            Host(
                settings=host_settings,
                number=next(self._numbers),
                folder=self._folder / "hosts" / host_settings.id,
            )
            for host_settings in settings
        ]
        self._hosts |= {host.settings.id: host for host in new_hosts}
        self._later(lambda: self._boot(new_hosts))

    def forget(self, instance_id: str) -> None:
        """Let nobody have the disk of a host that was ended: its name may come again."""
        host = self._hosts.pop(instance_id, None)
        if host is not None:
            self._later(lambda: _put_aside(host))

    def slow(self, instance_id: str, rate: str) -> None:
        """Let a host receive no more than a rate, whatever else it can."""
        host = self._hosts[instance_id]
        self._network.shape(shape(f"h{host.number}", parse_rate(rate), network.MTU))

    def obey(self) -> None:
        """Let the rules of this moment hold."""
        self._later(self._obey)

    def _later(self, action: Callable[[], None]) -> None:
        def work() -> None:
            try:
                action()
            except Exception:  # noqa: BLE001 - a test must see it, not a thread
                self._cloud.gaps.append(f"hosts: {traceback.format_exc()}")

        self._worker.submit(work)

    def _boot(self, hosts: Sequence[Host]) -> None:
        settings = self._cloud.settings
        hidden = private()
        for host in hosts:
            _prepare(host, hidden, settings.minute)
            host.process = network.spawn(_argv(self._folder, host))
        places = [_place(host) for host in hosts]
        rate = parse_rate(settings.rate) if settings.rate else None
        for host, place in zip(hosts, places, strict=True):
            network.wait_for_namespace(place.pid)
            (host.folder / "links").write_text(network.links(place, host.settings.mtu))
            (host.folder / "shape").write_text(shape("eth0", rate, network.MTU))
            (host.folder / "boot").write_text(str(settings.boot))
            (host.folder / "login").write_text(f"{host.settings.login:g}")
        self._network.attach(
            places, [shape(f"h{place.number}", rate, network.MTU) for place in places]
        )
        self._obey()
        for host in hosts:
            host.go()

    def _obey(self) -> None:
        hosts = [host for host in self._hosts.values() if host.running]
        with self._cloud.lock:
            rules = self._cloud.rules({host.settings.id: f"h{host.number}" for host in hosts})
        self._network.obey(rules)


def _argv(folder: Path, host: Host) -> list[str]:
    spaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
    return ["unshare", *spaces, "sh", str(folder / "boot"), host.settings.id]


def _prepare(host: Host, hidden: list[str], minute: float) -> None:
    """Write everything that a host reads while it comes up; once in its life."""
    if host.folder.exists():
        return
    for part in ("upper", "work", "root"):
        (host.folder / part).mkdir(parents=True)
    settings = host.settings
    name = settings.orders.hostname or f"ip-{settings.address.replace('.', '-')}"
    upper = Upper(host.folder / "upper", ROOT)
    for path in hidden:
        upper.empty(path)
    hostfiles.programs(upper, minute)
    hostfiles.fill(upper, settings, name)
    (host.folder / "hostname").write_text(name)


def _put_aside(host: Host) -> None:
    if host.folder.exists():
        host.folder.rename(host.folder.with_name(f"{host.folder.name}.{host.number}"))


def _place(host: Host) -> Place:
    assert host.process
    return Place(
        number=host.number,
        pid=host.process.pid,
        private=host.settings.address,
        prefix=host.settings.prefix,
        gateway=host.settings.gateway,
    )
