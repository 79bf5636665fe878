"""How many cores and how much memory a job may use, on made-up file systems."""

from pathlib import Path

import pytest

from cluster.agent.facts import cgroup_cpus, cgroup_memory

V1 = "9:memory:/jobs/mine\n5:cpu,cpuacct:/jobs/mine\n2:cpuset:/\n1:name=systemd:/jobs/mine\n"
V2 = "0::/jobs/mine\n"
NO_LIMIT_V1 = "9223372036854771712\n"


def tree(root: Path, groups: str, files: dict[str, str]) -> Path:
    """Lay out a file system; the files are named from /sys/fs/cgroup on."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def nested(file: str, own: str, parent: str) -> dict[str, str]:
    """Name a file of v2 in the group of the job and in the one above it."""
    return {f"jobs/mine/{file}": f"{own}\n", f"jobs/{file}": f"{parent}\n"}


def quota(folder: str, microseconds: str, period: str = "100000") -> dict[str, str]:
    """Name the files of v1 that limit the cores of a group."""
    return {f"{folder}/cpu.cfs_quota_us": microseconds, f"{folder}/cpu.cfs_period_us": period}


CGROUP_CPUS = {
    "v2": (V2, {"jobs/mine/cpu.max": "150000 100000\n"}, 1.5),
    "v2 no limit": (V2, {"jobs/mine/cpu.max": "max 100000\n"}, None),
    "v2 limit above": (V2, nested("cpu.max", "max 100000", "400000 100000"), 4.0),
    "v2 lower limit above": (V2, nested("cpu.max", "800000 100000", "200000 100000"), 2.0),
    "v2 lower limit below": (V2, nested("cpu.max", "200000 100000", "800000 100000"), 2.0),
    "v2 less than one": (V2, {"jobs/mine/cpu.max": "25000 50000\n"}, 0.5),
    "v2 somebody else's": (V2, {"jobs/other/cpu.max": "100000 100000\n"}, None),
    "v2 in a container, path of the host": (V2, {"cpu.max": "300000 100000\n"}, 3.0),
    "v2 in a container, path of its own": ("0::/\n", {"cpu.max": "300000 100000\n"}, 3.0),
    "v2 nothing to read": (V2, {}, None),
    "no groups": ("", {}, None),
    "v1": (V1, quota("cpu/jobs/mine", "50000", "20000"), 2.5),
    "v1 no limit": (V1, quota("cpu/jobs/mine", "-1"), None),
    "v1 limit above": (
        V1,
        quota("cpu/jobs/mine", "-1") | quota("cpu/jobs", "700000") | quota("cpu", "-1"),
        7.0,
    ),
    "v1 in a container, path of the host": (V1, quota("cpu", "100000"), 1.0),
    "v1 other controllers": (
        V1,
        quota("cpuset", "100000") | quota("memory/jobs/mine", "100000"),
        None,
    ),
    "v1 and v2 together": (V1 + "0::/init\n", quota("cpu/jobs", "600000"), 6.0),
    "v1 the path of another controller": (
        "9:memory:/other\n" + V1,
        quota("cpu/other", "100000"),
        None,
    ),
    "a colon in a path": ("0::/a:b\n", {"a:b/cpu.max": "100000 100000\n"}, 1.0),
}


@pytest.mark.parametrize(("groups", "files", "cpus"), CGROUP_CPUS.values(), ids=CGROUP_CPUS)
def test_cgroup_cpus(
    tmp_path: Path, groups: str, files: dict[str, str], cpus: float | None
) -> None:
    assert cgroup_cpus(tree(tmp_path, groups, files)) == cpus


CGROUP_MEMORY = {
    "v2": (V2, {"jobs/mine/memory.max": "1073741824\n"}, 1_073_741_824),
    "v2 no limit": (V2, {"jobs/mine/memory.max": "max\n"}, None),
    "v2 limit above": (V2, nested("memory.max", "max", "4096"), 4096),
    "v2 lower limit above": (V2, nested("memory.max", "8192", "4096"), 4096),
    "v2 lower limit below": (V2, nested("memory.max", "4096", "8192"), 4096),
    "v2 in a container, path of the host": (V2, {"memory.max": "4096\n"}, 4096),
    "v2 nothing to read": (V2, {}, None),
    "v1": (V1, {"memory/jobs/mine/memory.limit_in_bytes": "4096\n"}, 4096),
    "v1 no limit": (V1, {"memory/jobs/mine/memory.limit_in_bytes": NO_LIMIT_V1}, None),
    "v1 limit above": (
        V1,
        {
            "memory/jobs/mine/memory.limit_in_bytes": NO_LIMIT_V1,
            "memory/jobs/memory.limit_in_bytes": "8192\n",
            "memory/memory.limit_in_bytes": NO_LIMIT_V1,
        },
        8192,
    ),
    "v1 in a container, path of the host": (V1, {"memory/memory.limit_in_bytes": "4096\n"}, 4096),
    "v1 other controllers": (V1, {"cpu/jobs/mine/memory.limit_in_bytes": "4096\n"}, None),
}


@pytest.mark.parametrize(("groups", "files", "memory"), CGROUP_MEMORY.values(), ids=CGROUP_MEMORY)
def test_cgroup_memory(
    tmp_path: Path, groups: str, files: dict[str, str], memory: int | None
) -> None:
    assert cgroup_memory(tree(tmp_path, groups, files)) == memory


def test_no_proc_at_all(tmp_path: Path) -> None:
    assert cgroup_cpus(tmp_path) is None
    assert cgroup_memory(tmp_path) is None
