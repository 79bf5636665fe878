"""A laboratory: hosts made of Linux namespaces on this machine, joined by links of a known rate.

Each host is one process tree: `unshare`, and below it, as process 1 of the host, its sshd. Its
network, mounts, process ids and host name exist as long as those processes do, so nothing else
has to be found and taken away after a crash: the command line of `unshare` names the cluster. The
switch is one more such process, whose network namespace holds the bridge.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from cluster.core import journal
from cluster.core.errors import ProvisionError, SpecError, Timeout, tail
from cluster.core.model.billing import Plan, Resource
from cluster.core.model.hosts import Access, Link, Machine
from cluster.core.model.spec import ClusterSpec, EnvironmentOptions
from cluster.core.model.value import Tell, Value, nothing
from cluster.core.units import format_rate, parse_rate
from cluster.labfiles import INIT, SSHD_CONFIG, VXLAN, Upper, links, private, shape, text_of
from cluster.providers import ONLY_CLOUDS, Provider, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Verb = Literal["slow", "cut", "heal", "kill"]

REFUSED = {
    **ONLY_CLOUDS,
    "placement": "its hosts are all on this machine",
    "instance": "its hosts are what this machine is",
    "zone": "its hosts are all on this machine",
}
TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "pivot_root": "util-linux",
    "mount": "mount",
    "ssh-keygen": "openssh-client",
}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
SSHD = "/usr/sbin/sshd"
ROOMS = 64  # labs at once: one network of 1024 addresses for each
UNDERLAY, OVERLAY = "198.18.0.0/16", "198.19.0.0/16"  # RFC 2544: for measuring networks
PREFIX = 22  # of each room's network
FIRST = 2  # our own address is 1
SPARE = 3  # of a network's addresses: its own, its broadcast's, ours
READY_WITHIN = 60.0  # seconds for all hosts to be up
GONE_WITHIN = 30.0  # seconds for killed processes to leave
POLL = 0.005  # seconds
SHORTEST = 4  # words of the command line of a host: init, cluster, number, and an empty end

START = r"""
init=$0 name=$1
shift
exec 3<&0
for number; do
  env --default-signal unshare --net --mount --pid --uts --ipc --fork --kill-child \
    sh "$init" "$name" "$number" <&3 3<&- &
  echo "$number $!"
done
"""


class LabOptions(EnvironmentOptions, frozen=True, kw_only=True):
    """The options of the provider `lab`.

    Args:
        rate: of every link, each way, such as `1gbit`; as fast as this machine can, if empty.
        mtu: of every link, in bytes.
        overlay: `vxlan` puts the cluster's traffic through an encapsulating overlay network.
        root: the folder of a root file system for the hosts; this machine's own `/`, with homes,
            /tmp, /opt, /srv, /var/tmp and the checkout emptied, if not given.
        user: whom to log in as; made on every host if it is not there.

    """

    rate: str = ""
    mtu: int = 1500
    overlay: Literal["", "vxlan"] = ""
    root: str = "/"
    user: str = "root"


class Lab(Provider):
    """Hosts of namespaces on this machine; nothing costs money."""

    Options: ClassVar[type[Value]] = LabOptions

    def plan(self, spec: ClusterSpec) -> Plan:
        """Refuse what namespaces cannot give, and a machine that cannot make them."""
        refuse(spec, REFUSED)
        options = msgspec.convert(spec.options, LabOptions, strict=False)
        _check_options(spec, options)
        _check_machine()
        rate = f" of {options.rate}" if options.rate else ""
        overlay = f", {options.overlay} over it" if options.overlay else ""
        links = f"links{rate}, MTU {options.mtu}{overlay}"
        return Plan(lines=(f"{spec.hosts} hosts of namespaces on this machine, {links}",))

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, tell: Tell = nothing
    ) -> tuple[Machine, ...]:
        """Make the processes, then the links between them, then let the hosts come up."""
        options = msgspec.convert(spec.options, LabOptions, strict=False)
        place = Place(name=spec.name, folder=journal.folder / "lab")
        try:
            _write_files(place, spec.hosts, options)
            machines = _bring_up(place, spec.hosts, options)
        except (OSError, subprocess.SubprocessError) as error:
            self.destroy(spec.name)
            raise ProvisionError(
                f"The lab {spec.name} could not be made: {_why(error)}", means="Nothing is left."
            ) from error
        except BaseException:
            self.destroy(spec.name)
            raise
        return machines

    def find(self, name: str) -> tuple[Resource, ...]:
        """Look at every process of this machine; the folder is left last."""
        ours = _processes(name)
        found = [Resource(kind=p.kind, id=f"process {p.pid}") for p in ours]
        folders = {p.folder for p in ours} | {journal.of(name).folder / "lab"}
        found += [
            Resource(kind="folder", id=str(path)) for path in sorted(folders) if path.exists()
        ]
        return tuple(found)

    def names(self) -> tuple[str, ...]:
        """Tell which labs have processes."""
        return tuple(sorted({process.name for process in _processes()}))

    def destroy(self, name: str) -> None:
        """Kill the hosts' first processes, wait until they are gone, and remove their files."""
        ours = _processes(name)
        _kill_all(ours)
        for folder in {p.folder for p in ours} | {journal.of(name).folder / "lab"}:
            shutil.rmtree(folder, ignore_errors=not folder.exists())

    def console(self, machine: Machine) -> str:
        """Give what a host's first process said before it stopped."""
        _, _, name = machine.name.split(".")
        return text_of(journal.of(name).folder / "lab" / "hosts" / _number(machine) / "log")


class Place(Value, frozen=True, kw_only=True):
    """Where a lab's files are.

    Args:
        name: of the cluster.
        folder: of the lab.

    """

    name: str
    folder: Path

    def host(self, number: int | str) -> Path:
        """Give the folder of a host."""
        return self.folder / "hosts" / str(number)


class Process(Value, frozen=True, kw_only=True):
    """The process that holds a host or the switch.

    Args:
        pid: of `unshare`; its child is the first process of the host.
        folder: of the lab.
        number: of the host, or `switch`.

    """

    pid: int
    folder: Path
    number: str

    @property
    def name(self) -> str:
        """Of the cluster."""
        return self.folder.parent.name

    @property
    def kind(self) -> str:
        """What a person calls it."""
        return "switch" if self.number == "switch" else f"host {self.number}"


def alter(machine: Machine, verb: Verb, rate: str = "") -> Machine:
    """Change the link of one host, or end the host, while the cluster runs.

    Args:
        machine: the host.
        verb: `slow` (its link gets another rate), `cut` (nothing passes any more), `heal` (as it
            was made) or `kill` (all its processes end at once).
        rate: for `slow`, such as `100mbit`; a tenth of what it was made with, if empty.

    Returns:
        The machine with its link as it is now.

    Raises:
        SpecError: it has no such host any more, or the rate is wrong.

    """
    number, name = _number(machine), machine.name.split(".")[2]
    running = {process.number: process for process in _processes(name)}
    if number not in running or "switch" not in running:
        raise SpecError(
            f"{machine.name} does not run any more.", remedy=f"Make it anew: cluster down {name}"
        )
    host, switch = running[number], running["switch"]
    made = msgspec.json.decode(text_of(host.folder / "options.json"), type=LabOptions)
    if verb == "kill":
        _kill_all([host])
    elif verb == "cut":
        _inside(switch.pid, "ip", f"link set dev h{number} down\n")
    else:
        made = _slower(made, rate) if verb == "slow" else made
        _inside(switch.pid, "ip", f"link set dev h{number} up\n")
        _inside(switch.pid, "tc", shape(f"h{number}", _line(made), made.mtu))
        _inside(host.pid, "tc", shape("eth0", _line(made), made.mtu))
    return msgspec.structs.replace(machine, link=_link(made))


def _slower(options: LabOptions, rate: str) -> LabOptions:
    if not rate and not options.rate:
        raise SpecError(
            "Its links have no rate of which a tenth could be taken.",
            remedy="Say how slow: --rate 100mbit",
        )
    slow = parse_rate(rate) if rate else parse_rate(options.rate) / 10
    return msgspec.structs.replace(options, rate=format_rate(slow))


def _check_options(spec: ClusterSpec, options: LabOptions) -> None:
    most = _network(0, UNDERLAY).num_addresses - SPARE
    if spec.hosts > most:
        raise SpecError(f"--hosts is {spec.hosts}; a lab has at most {most}.")
    if options.rate:
        parse_rate(options.rate)
    if not 576 <= options.mtu <= 65535:  # noqa: PLR2004 - what IPv4 promises; what fits its field
        raise SpecError(f"The option mtu is {options.mtu}; it must be between 576 and 65535.")
    if not (Path(options.root) / SSHD[1:]).exists():
        remedy = "Type: sudo apt-get install openssh-server"
        chroot = f"Type: sudo chroot {shlex.quote(options.root)} apt-get install openssh-server"
        raise SpecError(
            f"There is no {SSHD} in {options.root}; each host of a lab runs its own.",
            remedy=remedy if options.root == "/" else chroot,
        )


def _check_machine() -> None:
    if sys.platform != "linux":
        raise SpecError("A lab is made of Linux namespaces; this is not Linux.")
    if os.geteuid() != 0:
        raise SpecError(
            "Only root may make the hosts of a lab.",
            means="They are network, mount and process namespaces of this machine.",
            remedy=f"Type: sudo {shlex.join(sys.argv)}",
        )
    missing = sorted({package for tool, package in TOOLS.items() if _which(tool) is None})
    if missing:
        raise SpecError(
            f"A lab needs {' and '.join(missing)}, which this machine does not have.",
            remedy=f"Type: sudo apt-get install {' '.join(missing)}",
        )
    if "\toverlay\n" not in text_of(Path("/proc/filesystems")):
        raise SpecError("This kernel has no overlay file system.", remedy="Type: modprobe overlay")


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{SBIN}")


def _write_files(place: Place, hosts: int, options: LabOptions) -> None:
    """Write everything that the hosts read while they come up."""
    place.folder.mkdir(mode=0o700)
    (place.folder / "options.json").write_bytes(msgspec.json.encode(options))
    (place.folder / "root").write_text(str(Path(options.root).resolve()))
    (place.folder / "init").write_text(INIT)
    keys = [place.folder / "key"]
    for number in range(hosts):
        host = place.host(number)
        for part in ("upper", "work", "root"):
            (host / part).mkdir(parents=True)
        keys.append(_upper(place, number, options).folder("/etc/ssh") / "cluster_host_key")
    making = [
        subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
        for key in keys
    ]
    if any(process.wait() for process in making):
        raise ProvisionError("ssh-keygen could not make the keys of the lab.")
    hidden = private() if options.root == "/" else []
    for number in range(hosts):
        upper = _upper(place, number, options)
        for path in hidden:
            upper.empty(path)
        upper.write("/etc/ssh/cluster_config", SSHD_CONFIG)
        upper.write("/etc/ssh/cluster_authorized_keys", text_of(place.folder / "key.pub"))
        upper.write("/etc/hostname", f"{place.name}-{number}\n")
        upper.let_in(options.user)


def _upper(place: Place, number: int, options: LabOptions) -> Upper:
    return Upper(place.host(number) / "upper", Path(options.root))


def _line(options: LabOptions) -> float | None:
    return parse_rate(options.rate) if options.rate else None


def _bring_up(place: Place, hosts: int, options: LabOptions) -> tuple[Machine, ...]:
    """Start the processes of all hosts, join them, and wait until all are up."""
    numbers = [str(number) for number in range(hosts)]
    with (place.folder / "log").open("wb") as log:
        starting = subprocess.Popen(
            ["sh", "-c", START, str(place.folder / "init"), place.name, *numbers, "switch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=_environment(),
        )
    with starting:
        heard = _words(starting)
        everybody = [*numbers, "switch"]  # each says "made", and its process id is said for it
        words = _hear(heard, place, [*everybody, *everybody])
        pids = {number: int(word) for number, word in words if word.isdigit()}
        room = _join(pids, options)
        machines = tuple(_machine(place, number, room, options) for number in range(hosts))
        _write_network(place, machines, options)
        (place.folder / "linked").touch()
        if starting.stdin:
            starting.stdin.close()
        list(_hear(heard, place, numbers))
    return machines


def _words(starting: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    """Give what the hosts say as they come up: each line is a number and a word."""
    stream, rest = starting.stdout, b""
    deadline = time.monotonic() + READY_WITHIN
    while stream and select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (chunk := os.read(stream.fileno(), 1 << 16)):
            return  # all of them are gone
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number, _, word = line.decode().partition(" ")
            yield number, word


def _hear(
    heard: Iterator[tuple[str, str]], place: Place, numbers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Give a word for each of some hosts, in any order; the same host may come again."""
    missing = list(numbers)
    while missing:
        number, word = next(heard, ("", ""))
        if not number:
            raise Timeout(
                f"Of the lab {place.name}, {', '.join(sorted(set(missing)))} did not come up.",
                means=tail(text_of(place.folder / "log")),
            )
        if word == "failed":
            raise ProvisionError(
                f"Host {number} of the lab {place.name} did not come up.",
                means=tail(text_of(place.host(number) / "log")),
            )
        missing.remove(number)
        yield number, word


def _join(pids: dict[str, int], options: LabOptions) -> int:
    """Make the bridge, a link from each host to it, and one from here; give the network's room."""
    switch = pids.pop("switch")
    room = _take_room(switch)
    # Nothing but the bridge is in that namespace: no firewall of this machine sees its packets.
    lines = [
        "link add dev bridge0 type bridge mcast_snooping 0",
        "link set dev bridge0 up",
        f"link set dev up mtu {options.mtu} master bridge0 up",
    ]
    for number, pid in pids.items():
        veth = f"mtu {options.mtu} type veth peer name eth0 mtu {options.mtu} netns {pid}"
        lines += [f"link add dev h{number} {veth}", f"link set dev h{number} master bridge0 up"]
    _inside(switch, "ip", "\n".join(lines) + "\n")
    _inside(
        switch, "tc", "".join(shape(f"h{number}", _line(options), options.mtu) for number in pids)
    )
    network = _network(room, UNDERLAY)
    here = f"addr add {network[1]}/{network.prefixlen} dev lab{room}\n"
    _inside(os.getpid(), "ip", f"{here}link set dev lab{room} mtu {options.mtu} up\n")
    return room


def _take_room(switch: int) -> int:
    """Make the link from here to the switch; its name is the room, so nobody else can take it."""
    why = ""
    for room in range(ROOMS):
        if Path(f"/sys/class/net/lab{room}").exists():
            continue
        link = ["link", "add", "dev", f"lab{room}", "type", "veth", "peer", "name", "up"]
        done = _call(["ip", *link, "netns", str(switch)])
        if done.returncode == 0:
            return room
        why = done.stderr.strip()
    raise ProvisionError(
        f"No network is free for another lab; {ROOMS} may be up at once.",
        means=why,
        remedy="See what is up: cluster ls; what was forgotten: cluster gc",
    )


def _network(room: int, among: str) -> ipaddress.IPv4Network:
    return list(ipaddress.IPv4Network(among).subnets(new_prefix=PREFIX))[room]


def _machine(place: Place, number: int, room: int, options: LabOptions) -> Machine:
    outer = str(_network(room, UNDERLAY)[number + FIRST])
    inner = str(_network(room, OVERLAY)[number + FIRST]) if options.overlay else outer
    return Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name=f"{number}.mpi.{place.name}",
        id=f"{place.name}-{number}",
        address=inner,
        shell="ssh",
        folder=f".cluster-{place.name}",
        bin=f".cluster-{place.name}/env/bin",
        access=Access(
            host=outer,
            user=options.user,
            port=22,
            key=str(place.folder / "key"),
            known_hosts=str(place.folder / "known_hosts"),
        ),
        link=_link(options),
    )


def _link(options: LabOptions) -> Link | None:
    if not options.rate:
        return None
    return Link(
        rate=parse_rate(options.rate),
        mtu=options.mtu,
        encapsulation=VXLAN if options.overlay else 0,
        source="lab: tbf on both ends",
    )


def _write_network(place: Place, machines: Sequence[Machine], options: LabOptions) -> None:
    """Write what each host is told of the network, and what we know of each host."""
    hosts = "".join(f"{machine.address} {machine.id}\n" for machine in machines)
    known = ""
    for number, machine in enumerate(machines):
        folder = place.host(number)
        upper = _upper(place, number, options)
        upper.write("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{hosts}")
        outer = machine.access.host if machine.access else machine.address
        (folder / "links").write_text(links(outer, machine.address, PREFIX, options.mtu))
        (folder / "shape").write_text(shape("eth0", _line(options), options.mtu))
        key = text_of(folder / "upper/etc/ssh/cluster_host_key.pub")
        known += f"{outer} {key}\n"
    (place.folder / "known_hosts").write_text("".join(known))


def _processes(name: str = "") -> list[Process]:
    """Find the processes of a lab, or of all, whoever started them.

    Labs of another state folder are left to it, unless nothing there knows of them any more.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if (
                words[0] != "unshare"
                or len(words) < SHORTEST
                or not words[-4].endswith("/lab/init")
            ):
                continue
            if path.stat().st_uid == os.geteuid():
                found.append(
                    Process(pid=int(path.name), folder=Path(words[-4]).parent, number=words[-2])
                )
    return [p for p in found if name in ("", p.name) and _is_ours(p.folder.parent)]


def _is_ours(folder: Path) -> bool:
    return folder.parent == journal.root() or not (folder / "journal.jsonl").exists()


def _kill_all(processes: Iterable[Process]) -> None:
    """Kill hosts, and wait until their first processes are gone: the others go before them."""
    pids = [pid for process in processes for pid in (*_children(process.pid), process.pid)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_WITHIN
    while left := [pid for pid in pids if not _gone(pid)]:
        if time.monotonic() > deadline:
            raise ProvisionError(f"{len(left)} processes of the lab cannot be ended: {left}")
        time.sleep(POLL)


def _children(pid: int) -> list[int]:
    numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [number for number in numbers if _stat(number)[1:2] == [str(pid)]]


def _gone(pid: int) -> bool:
    fields = _stat(pid)
    return not fields or fields[0] == "Z"


def _stat(pid: int) -> list[str]:
    """Give a process's state, parent and so on; nothing if it is gone."""
    return text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()


def _inside(pid: int, tool: str, batch: str) -> None:
    """Give a tool of iproute2 a batch of commands in the network namespace of a process."""
    done = _call(["nsenter", f"--net=/proc/{pid}/ns/net", tool, "-batch", "-"], batch)
    if done.returncode != 0:
        raise ProvisionError(f"{tool} refused what makes the lab's network: {done.stderr.strip()}")


def _call(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, input=text, capture_output=True, text=True, check=False, env=_environment()
    )


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SBIN}"}


def _number(machine: Machine) -> str:
    return machine.name.partition(".")[0]


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
