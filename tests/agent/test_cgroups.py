"""How many cores and how much memory a job may use, on made-up file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.agent.facts import cgroup_cpus, cgroup_memory

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        (V2, {"jobs/mine/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"jobs/mine/cpu.max": "max 100000\n"}, None),
        (V2, {"jobs/mine/cpu.max": "max 100000\n", "jobs/cpu.max": "400000 100000\n"}, 4.0),
        (V2, {"jobs/mine/cpu.max": "800000 100000\n", "jobs/cpu.max": "200000 100000\n"}, 2.0),
        (V2, {"jobs/mine/cpu.max": "200000 100000\n", "jobs/cpu.max": "800000 100000\n"}, 2.0),
        (V2, {"jobs/mine/cpu.max": "25000 50000\n"}, 0.5),
        (V2, {"jobs/other/cpu.max": "100000 100000\n"}, None),
        (V2, {"cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", {"cpu.max": "300000 100000\n"}, 3.0),
        (V2, {}, None),
        ("", {}, None),
        (
            V1,
            {"cpu/jobs/mine/cpu.cfs_quota_us": "50000", "cpu/jobs/mine/cpu.cfs_period_us": "20000"},
            2.5,
        ),
        (
            V1,
            {"cpu/jobs/mine/cpu.cfs_quota_us": "-1", "cpu/jobs/mine/cpu.cfs_period_us": "100000"},
            None,
        ),
        (
            V1,
            {
                "cpu/jobs/mine/cpu.cfs_quota_us": "-1",
                "cpu/jobs/mine/cpu.cfs_period_us": "100000",
                "cpu/jobs/cpu.cfs_quota_us": "700000",
                "cpu/jobs/cpu.cfs_period_us": "100000",
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
            },
            7.0,
        ),
        (V1, {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1.0),
        (
            V1,
            {
                "cpuset/cpu.cfs_quota_us": "100000",
                "cpuset/cpu.cfs_period_us": "100000",
                "memory/jobs/mine/cpu.cfs_quota_us": "100000",
                "memory/jobs/mine/cpu.cfs_period_us": "100000",
            },
            None,
        ),
        (
            V1 + "0::/init\n",
            {"cpu/jobs/cpu.cfs_quota_us": "600000", "cpu/jobs/cpu.cfs_period_us": "100000"},
            6.0,
        ),
        (
            "9:memory:/other\n" + V1,
            {"cpu/other/cpu.cfs_quota_us": "100000", "cpu/other/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("0::/a:b\n", {"a:b/cpu.max": "100000 100000\n"}, 1.0),
    ],
    ids=[
        "v2",
        "v2 no limit",
        "v2 limit above",
        "v2 lower limit above",
        "v2 lower limit below",
        "v2 less than one",
        "v2 somebody else's",
        "v2 in a container, path of the host",
        "v2 in a container, path of its own",
        "v2 nothing to read",
        "no groups",
        "v1",
        "v1 no limit",
        "v1 limit above",
        "v1 in a container, path of the host",
        "v1 other controllers",
        "v1 and v2 together",
        "v1 the path of another controller",
        "a colon in a path",
    ],
)
def test_cgroup_cpus(
    tmp_path: Path, groups: str, files: dict[str, str], cpus: float | None
) -> None:
    assert cgroup_cpus(tree(tmp_path, groups, files)) == cpus


@pytest.mark.parametrize(
    ("groups", "files", "memory"),
    [
        (V2, {"jobs/mine/memory.max": "1073741824\n"}, 1_073_741_824),
        (V2, {"jobs/mine/memory.max": "max\n"}, None),
        (V2, {"jobs/mine/memory.max": "max\n", "jobs/memory.max": "4096\n"}, 4096),
        (V2, {"jobs/mine/memory.max": "8192\n", "jobs/memory.max": "4096\n"}, 4096),
        (V2, {"jobs/mine/memory.max": "4096\n", "jobs/memory.max": "8192\n"}, 4096),
        (V2, {"memory.max": "4096\n"}, 4096),
        (V2, {}, None),
        (V1, {"memory/jobs/mine/memory.limit_in_bytes": "4096\n"}, 4096),
        (V1, {"memory/jobs/mine/memory.limit_in_bytes": NO_LIMIT_V1}, None),
        (
            V1,
            {
                "memory/jobs/mine/memory.limit_in_bytes": NO_LIMIT_V1,
                "memory/jobs/memory.limit_in_bytes": "8192\n",
                "memory/memory.limit_in_bytes": NO_LIMIT_V1,
            },
            8192,
        ),
        (V1, {"memory/memory.limit_in_bytes": "4096\n"}, 4096),
        (V1, {"cpu/jobs/mine/memory.limit_in_bytes": "4096\n"}, None),
    ],
    ids=[
        "v2",
        "v2 no limit",
        "v2 limit above",
        "v2 lower limit above",
        "v2 lower limit below",
        "v2 in a container, path of the host",
        "v2 nothing to read",
        "v1",
        "v1 no limit",
        "v1 limit above",
        "v1 in a container, path of the host",
        "v1 other controllers",
    ],
)
def test_cgroup_memory(
    tmp_path: Path, groups: str, files: dict[str, str], memory: int | None
) -> None:
    assert cgroup_memory(tree(tmp_path, groups, files)) == memory


def test_no_proc_at_all(tmp_path: Path) -> None:
    assert cgroup_cpus(tmp_path) is None
    assert cgroup_memory(tmp_path) is None
