"""How a host is set up: what /proc and /sys say, on made-up file systems and on this one."""

from pathlib import Path

import msgspec
import pytest

from cluster.agent import facts as agent_facts
from cluster.agent.facts import read_tuning, storage
from cluster.analysis.statistics.factors import differing_factors
from cluster.core.model.hosts import Tuning
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.version import revision
from tests.conftest import write_files

MOUNTS = r"""22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,discard
30 22 0:25 / /tmp rw shared:9 - tmpfs tmpfs rw
44 22 0:44 / /home rw,nosuid - nfs4 files:/export/home rw,vers=4.2
45 44 0:45 / /home/ann/my\040disk rw - xfs /dev/sdb1 rw
46 30 0:46 / /tmp rw - overlay overlay rw
"""


def test_a_host_says_how_it_is_set_up(tmp_path: Path) -> None:
    """Frequency, threads, memory nodes, settings and firmware are read from the kernel."""
    cpu = "sys__devices__system__cpu__"
    root = write_files(
        tmp_path,
        **{
            f"{cpu}cpu0__cpufreq__scaling_governor": "powersave\n",
            f"{cpu}cpu1__cpufreq__scaling_governor": "performance\n",
            f"{cpu}cpu0__topology__thread_siblings_list": "0,16\n",
            "sys__devices__system__node__node0__cpulist": "0-7,16-23\n",
            "sys__devices__system__node__node10__cpulist": "\n",
            "sys__devices__system__node__node2__cpulist": "8-15,24-31\n",
            "sys__kernel__mm__transparent_hugepage__enabled": "always [madvise] never\n",
            "sys__class__dmi__id__sys_vendor": "Amazon EC2\n",
            "sys__class__dmi__id__product_name": "c5n.18xlarge\n",
            "sys__class__dmi__id__bios_version": "1.0\n",
            "proc__cpuinfo": "processor : 0\nmicrocode\t: 0x5003604\n"
            "flags\t\t: fpu vme hypervisor lahf_lm\nprocessor : 1\n",
            "proc__sys__net__ipv4__tcp_rmem": "4096\t131072\t6291456\n",
            "proc__sys__kernel__hostname": "secret\n",
            "proc__self__mountinfo": MOUNTS,
        },
    )

    assert read_tuning(Path("/home/ann"), root) == Tuning(
        governor="performance | powersave",
        threads=2,
        numa={"node0": "0-7,16-23", "node2": "8-15,24-31", "node10": ""},
        huge_pages="madvise",
        sysctls={"net.ipv4.tcp_rmem": "4096 131072 6291456"},
        board="Amazon EC2 c5n.18xlarge",
        firmware="1.0",
        microcode="0x5003604",
        storage="nfs4 on files:/export/home",
        virtual=True,
    )


@pytest.mark.parametrize(
    ("siblings", "threads"), [("0", 1), ("0-1", 2), ("0,4", 2), ("0-1,8-9", 4), ("", 0)]
)
def test_threads_of_a_core(tmp_path: Path, siblings: str, threads: int) -> None:
    """The kernel writes them as a list of ranges."""
    name = "sys__devices__system__cpu__cpu0__topology__thread_siblings_list"

    assert threads == read_tuning(Path("/"), write_files(tmp_path, **{name: siblings})).threads


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/var/lib/not/there", "ext4 on /dev/nvme0n1p1"),
        ("/home/ann/my disk/runs", "xfs on /dev/sdb1"),
        ("/home/ann/my", "nfs4 on files:/export/home"),
        ("/tmp/x", "overlay on overlay"),  # noqa: S108 - what was mounted last covers the rest
    ],
)
def test_what_a_folder_is_stored_on(tmp_path: Path, folder: str, expected: str) -> None:
    """The deepest file system that holds it, and the last of those mounted there."""
    assert expected == storage(Path(folder), write_files(tmp_path, proc__self__mountinfo=MOUNTS))


def test_a_host_that_says_nothing(tmp_path: Path) -> None:
    """What is not known is empty, and no failure."""
    assert Tuning() == read_tuning(Path("/"), tmp_path)
    assert not storage(Path("/"), write_files(tmp_path, proc__self__mountinfo="1 2\n- x\n"))


def test_the_facts_of_this_host_have_it(tmp_path: Path) -> None:
    """What benchmarks record says how this machine is set up, and on what its folder is."""
    facts = agent_facts.host_facts(folder=tmp_path)

    assert facts.tuning == read_tuning(tmp_path)
    assert " on " in facts.tuning.storage
    assert facts.tuning.sysctls["net.ipv4.tcp_rmem"].count(" ") == 2


def test_a_setting_and_the_sources_are_factors() -> None:
    """A comparison names the sysctl that differs, and sources that are of another revision."""

    def record(algorithm: str, sources: str) -> Record:
        facts = agent_facts.host_facts()
        sysctls = {"net.ipv4.tcp_congestion_control": algorithm}
        report = msgspec.structs.replace(facts, tuning=Tuning(sysctls=sysctls))
        return Record(
            id="r",
            benchmark="p2p",
            status="done",
            at=0.0,
            spec=ClusterSpec(name="a"),
            environment=(report,),
            revision=sources,
        )

    result = differing_factors([record("cubic", "a")], [record("bbr", "b")])

    assert [(factor.name, factor.base, factor.other) for factor in result] == [
        ("host.tuning.sysctls.net.ipv4.tcp_congestion_control", "cubic", "bbr"),
        ("revision", "a", "b"),
    ]


def test_the_revision_is_that_of_all_sources() -> None:
    """Eight characters, the same each time, and not only of Python's files."""
    assert len(revision()) == 8
    assert revision() == revision()
