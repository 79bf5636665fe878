"""The limits that the control groups of this process set."""

from __future__ import annotations

from pathlib import Path

from cluster.agent.kernel_files import read_text


def cgroup_cpus(root: Path = Path("/")) -> float | None:
    """Find how many processors the control groups above this process allow.

    Returns:
        The smallest quota / period of all levels (both versions of control groups); None if there
        is no limit.

    """
    limits = []
    for folder in _cgroups(root, "cpu"):
        quota, _, period = read_text(folder / "cpu.max").partition(" ")
        quota = quota or read_text(folder / "cpu.cfs_quota_us")
        period = period or read_text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():  # "max" and "-1" mean no limit
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def cgroup_memory(root: Path = Path("/")) -> int | None:
    """Find how much memory the control groups above this process allow."""
    limits = []
    for folder in _cgroups(root, "memory"):
        text = read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes")
        if text.isdigit() and int(text) < 1 << 60:  # version 1 writes "no limit" as a huge number
            limits.append(int(text))
    return min(limits, default=None)


def _cgroups(root: Path, controller: str) -> list[Path]:
    """Return the folders of this process's group and of all groups above it, for one controller."""
    folders: list[Path] = []
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = Path(path.lstrip("/"))
        # In a container, the path may be the host's while the mount shows only this group.
        folders += [mount / part for part in (inner, *inner.parents)]
    return folders
