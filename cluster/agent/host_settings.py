"""The settings of a host that affect measurements, read from /proc and /sys."""

import re
from pathlib import Path

from cluster.agent.kernel_files import read_text
from cluster.agent.processes import parse_cpu_list
from cluster.core.model.hosts import Tuning

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


def read_tuning(folder: Path, root: Path = Path("/")) -> Tuning:
    """Read the settings of this host; empty where the kernel does not report them."""
    return Tuning(
        governor=_governors(root),
        threads=_threads(root),
        numa=_nodes(root),
        huge_pages=_first(CHOSEN, read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        sysctls={name: value for name in SYSCTLS if (value := _sysctl(root, name))},
        board=_joined(root, "sys_vendor", "product_name"),
        firmware=_joined(root, "bios_vendor", "bios_version"),
        microcode=_first(MICROCODE, read_text(root / "proc/cpuinfo")),
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
        point = Path(_unescaped(words[4]))
        if place.is_relative_to(point) and len(point.parts) >= deepest:  # a later one hides it
            device, deepest = f"{kind[0]} on {_unescaped(kind[1])}", len(point.parts)
    return device


def _unescaped(path: str) -> str:
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), path)


def _governors(root: Path) -> str:
    governors = {
        read_text(path) for path in (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")
    }
    return " | ".join(sorted(governors - {""}))


def _threads(root: Path) -> int:
    """Count the hardware threads of the first core: 2 where simultaneous threads are on."""
    siblings = read_text(root / CPUS / "cpu0/topology/thread_siblings_list")
    return len(parse_cpu_list(siblings)) if siblings else 0


def _nodes(root: Path) -> dict[str, str]:
    lists = sorted(
        (root / "sys/devices/system/node").glob("node[0-9]*/cpulist"),
        key=lambda path: int(path.parent.name.removeprefix("node")),
    )
    return {path.parent.name: read_text(path) for path in lists}


def _sysctl(root: Path, name: str) -> str:
    return " ".join(read_text(root / "proc/sys" / name.replace(".", "/")).split())


def _joined(root: Path, *names: str) -> str:
    return " ".join(filter(None, (read_text(root / "sys/class/dmi/id" / name) for name in names)))


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
