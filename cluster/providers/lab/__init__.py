"""A lab: hosts that are Linux namespaces of this machine, connected by links of a known rate.

Each host is one process tree: `unshare`, and below it, as process 1 of the host, its sshd. The
host's network, mounts, process ids and host name end with these processes, so nothing else has to
be found and deleted after a crash: the command line of `unshare` names the cluster. The switch is
one more such process; its network namespace has a bridge per leaf switch and one for the spine.
"""

import os
import secrets
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from cluster import providers
from cluster.core import decoders, idle_watch
from cluster.core.errors import ProvisionError, SpecError, Timeout, on_failure, tail
from cluster.core.model.hosts import Access, Machine
from cluster.core.model.network.placement import NetworkLayer, ProviderTopology
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state import journal
from cluster.core.state.files import load_script, text_of
from cluster.core.text.units import parse_rate
from cluster.providers.lab import network
from cluster.providers.lab.options import (
    READY_WITHIN,
    SBIN,
    LabFolder,
    LabOptions,
    leaf_of,
    upper_of,
)
from cluster.providers.lab.processes import START, kill_all, processes_of
from cluster.providers.lab.rootfs import IDLE, INIT, SLURM, SSHD_CONFIG, private

REFUSED_OPTIONS = {
    **{option: why for option, why in providers.CLOUD_OPTIONS.items() if option != "idle"},
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
SSHD = "/usr/sbin/sshd"


class LabProvider(
    providers.Provider,
    providers.Searchable,
    providers.PreparesHosts,
    providers.HasConsoles,
    providers.KnowsTopology,
    providers.HintsReplacement,
    providers.MountsFiles,
):
    """Hosts that are namespaces of this machine; nothing costs money."""

    Options: ClassVar[type[Value]] = LabOptions

    def plan(self, spec: ClusterSpec) -> Plan:
        providers.refuse(spec, REFUSED_OPTIONS)
        options = decoders.convert(spec.options, LabOptions, strict=False)
        _check_options(spec, options)
        _check_machine()
        rate = f" of {options.rate}" if options.rate else ""
        leaves = f" on {options.leaves} leaf switches" if options.leaves else ""
        overlay = f", {options.overlay} over it" if options.overlay else ""
        links = f"links{rate}, MTU {options.mtu}{overlay}"
        description = f"{spec.hosts} hosts of namespaces on this machine{leaves}, {links}"
        lines = (description, *providers.idle_lines(spec))
        return Plan(lines=lines, link=network.link_of(options))

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        options = decoders.convert(spec.options, LabOptions, strict=False)
        files = LabFolder(name=spec.name, folder=journal.folder / "lab")
        with on_failure(lambda: self.destroy(spec.name)):
            try:
                _write_files(files, spec, options)
                return _bring_up(files, spec, options)
            except (OSError, subprocess.SubprocessError) as error:
                raise ProvisionError(
                    f"The lab {spec.name} could not be made: {_reason(error)}",
                    means="Nothing is left.",
                ) from error

    def topology(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
        leaves = decoders.convert(spec.options, LabOptions, strict=False).leaves
        if not leaves:
            return ProviderTopology(reason="a lab without --option leaves=N has one switch")
        groups = tuple(leaf_of(number, len(machines), leaves) for number in range(len(machines)))
        return ProviderTopology(layers=(NetworkLayer(name="leaf switch", groups=groups),))

    def replacement_hint(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        options = "".join(f" --option {shlex.quote(f'{k}={v}')}" for k, v in spec.options.items())
        command = f"cluster up {spec.name} --provider lab --hosts {spec.hosts}{options}"
        return f"Make the lab again: cluster down {spec.name}; {command}"

    def find(self, name: str) -> tuple[Resource, ...]:
        processes = processes_of(name)
        resources = [Resource(kind=p.kind, id=f"process {p.pid}") for p in processes]
        folders = {p.folder for p in processes} | {journal.for_cluster(name).folder / "lab"}
        resources += [Resource(kind="folder", id=str(p)) for p in sorted(folders) if p.exists()]
        return tuple(resources)

    def search_scope(self, name: str) -> str:
        return "processes of labs on this machine"

    def names(self) -> tuple[str, ...]:
        return tuple(sorted({process.name for process in processes_of()}))

    def destroy(self, name: str) -> None:
        processes = processes_of(name)
        kill_all(processes)
        for folder in {p.folder for p in processes} | {journal.for_cluster(name).folder / "lab"}:
            shutil.rmtree(folder, ignore_errors=not folder.exists())

    def console(self, machine: Machine) -> str:
        _, _, name = machine.name.split(".")
        return text_of(
            journal.for_cluster(name).folder
            / "lab"
            / "hosts"
            / network.host_number(machine)
            / "log"
        )


def _check_options(spec: ClusterSpec, options: LabOptions) -> None:
    limit = network.network_of_room(0, network.UNDERLAY).num_addresses - network.SPARE
    if spec.hosts > limit:
        raise SpecError(f"--hosts is {spec.hosts}; a lab has at most {limit}.")
    for rate in filter(None, (options.rate, options.uplink)):
        parse_rate(rate)
    if not 0 <= options.leaves <= spec.hosts:
        raise SpecError(
            f"The option leaves is {options.leaves}; {spec.hosts} hosts have at most as many."
        )
    if options.uplink and not options.leaves:
        raise SpecError(
            "The option uplink needs leaf switches.", remedy="Say how many: --option leaves=2"
        )
    if not 576 <= options.mtu <= 65535:  # noqa: PLR2004 - IPv4: every host accepts 576; a 16-bit field
        raise SpecError(f"The option mtu is {options.mtu}; it must be between 576 and 65535.")
    if options.slurm:
        check_programs(options.root)
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
    path = f"{os.environ.get('PATH', '')}:{SBIN}"
    missing = sorted({need for tool, need in TOOLS.items() if not shutil.which(tool, path=path)})
    if missing:
        raise SpecError(
            f"A lab needs {' and '.join(missing)}, which this machine does not have.",
            remedy=f"Type: sudo apt-get install {' '.join(missing)}",
        )
    if "\toverlay\n" not in text_of(Path("/proc/filesystems")):
        raise SpecError("This kernel has no overlay file system.", remedy="Type: modprobe overlay")


def _write_files(files: LabFolder, spec: ClusterSpec, options: LabOptions) -> None:
    files.folder.mkdir(mode=0o700)
    (files.folder / "options.json").write_bytes(msgspec.json.encode(options))
    (files.folder / "root").write_text(str(Path(options.root).resolve()))
    (files.folder / "init").write_text(INIT)
    hosts, keys = spec.hosts, [files.folder / "key"]
    for number in range(hosts):
        host = files.host(number)
        for part in ("upper", "work", "root"):
            (host / part).mkdir(parents=True)
        keys.append(upper_of(files, number, options).folder("/etc/ssh") / "cluster_host_key")
    processes = [
        subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
        for key in keys
    ]
    if any(process.wait() for process in processes):
        raise ProvisionError("ssh-keygen could not make the keys of the lab.")
    folders = private() if options.root == "/" else []
    munge_key = secrets.token_hex(64)
    for number in range(hosts):
        upper = upper_of(files, number, options)
        for path in folders:
            upper.empty(path)
        upper.write("/etc/ssh/cluster_config", SSHD_CONFIG)
        upper.write("/etc/ssh/cluster_authorized_keys", text_of(files.folder / "key.pub"))
        upper.write("/etc/hostname", f"{files.name}-{number}\n")
        upper.let_in(options.user)
        if spec.idle is not None:
            words = idle_watch.words(spec.idle, f".cluster-{spec.name}", "kill 1")
            upper.write(IDLE, f"#!/bin/sh\nexec python3 {IDLE}.py {words}\n", 0o755)
            upper.write(f"{IDLE}.py", Path(idle_watch.__file__).read_text())
        if options.slurm:  # its configuration needs the hosts' addresses, and follows
            upper.write(KEY, munge_key, mode=0o400)
            upper.write(SLURM, SCRIPT, mode=0o755)


def _bring_up(files: LabFolder, spec: ClusterSpec, options: LabOptions) -> tuple[Machine, ...]:
    numbers = [str(number) for number in range(spec.hosts)]
    with (files.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", START, str(files.folder / "init"), files.name, *numbers, "switch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=network.tool_environment(),
        )
    with process:
        output = _words(process)
        parts = [*numbers, "switch"]  # each prints "made"; `START` prints its process id
        words = _hear(output, files, [*parts, *parts])
        pids = {number: int(word) for number, word in words if word.isdigit()}
        room = network.join(pids, options)
        machines = tuple(_machine(files, spec, n, room, options) for n in range(spec.hosts))
        network.write_network(files, machines, options)
        if options.slurm:
            text = CONF.format(
                controller=machines[0].id,
                address=machines[0].address,
                nodes=",".join(machine.id for machine in machines),
                cores=len(os.sched_getaffinity(0)),
                partition=PARTITION,
            )
            for number in range(len(machines)):
                upper_of(files, number, options).write(SETTINGS, text)
        (files.folder / "linked").touch()
        if process.stdin:
            process.stdin.close()
        list(_hear(output, files, numbers))
    return machines


def _words(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    """Read what the hosts print while they start: on each line the host's number and a word."""
    stream, rest = process.stdout, b""
    deadline = time.monotonic() + READY_WITHIN
    while stream and select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (chunk := os.read(stream.fileno(), 1 << 16)):
            return  # all hosts have closed the pipe
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number, _, word = line.decode().partition(" ")
            yield number, word


def _hear(
    output: Iterator[tuple[str, str]], files: LabFolder, numbers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Wait for one word from each listed host, in any order; a host may be listed twice."""
    missing = list(numbers)
    while missing:
        number, word = next(output, ("", ""))
        if not number:
            raise Timeout(
                f"Of the lab {files.name}, {', '.join(sorted(set(missing)))} did not come up.",
                means=tail(text_of(files.folder / "log")),
            )
        if word == "failed":
            raise ProvisionError(
                f"Host {number} of the lab {files.name} did not come up.",
                means=tail(text_of(files.host(number) / "log")),
            )
        missing.remove(number)
        yield number, word


def _machine(
    files: LabFolder, spec: ClusterSpec, number: int, room: int, options: LabOptions
) -> Machine:
    outer = str(network.network_of_room(room, network.UNDERLAY)[number + network.FIRST])
    inner = (
        str(network.network_of_room(room, network.OVERLAY)[number + network.FIRST])
        if options.overlay
        else outer
    )
    return Machine(  # noqa: S604 - "shell" names a plug-in
        name=spec.machine_name(number),
        id=f"{files.name}-{number}",
        address=inner,
        shell="ssh",
        folder=f".cluster-{files.name}",
        bin=f".cluster-{files.name}/env/bin",
        access=Access(
            host=outer,
            user=options.user,
            port=22,
            key=str(files.folder / "key"),
            known_hosts=str(files.folder / "known_hosts"),
        ),
        link=network.link_of(options),
    )


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


# What must be there, and its Debian package.
PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
KEY = "/etc/cluster-munge.key"
SETTINGS = "/etc/slurm/slurm.conf"
PARTITION = "lab"

CONF = load_script(__file__, "slurm.conf")

# $1 is the number of the host. Each daemon goes into the background once it works.
SCRIPT = f"""\
#!/bin/sh
set -eu
mkdir -p /run/munge /var/spool/cluster-slurmctld /var/spool/cluster-slurmd
munged --key-file={KEY} --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \\
  --log-file=/var/log/cluster-munged.log --seed-file=/run/munge/seed
[ "$1" != 0 ] || slurmctld
slurmd -N "$(hostname)"
"""


def check_programs(root: str) -> None:
    """Refuse a root file system that lacks a program of Slurm (SpecError)."""
    folders = ("usr/sbin", "usr/bin")
    missing = sorted(
        package
        for program, package in PROGRAMS.items()
        if not any((Path(root) / folder / program).exists() for folder in folders)
    )
    if missing:
        words = f"apt-get install --no-install-recommends {' '.join(missing)}"
        chroot = "" if root == "/" else f"chroot {shlex.quote(root)} "
        raise SpecError(
            f"A lab with Slurm needs {' and '.join(missing)}, missing in {root}.",
            remedy=f"Type: sudo {chroot}{words}",
        )
