"""What a host says about itself: links, tools, cores, variables, and no secret."""

import os
import platform
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cluster.agent import facts as agent_facts
from cluster.agent.hardware import interfaces as agent_interfaces
from cluster.core.model.hosts import Facts

SECRET = "wJalrXUtnFEMI"  # noqa: S105 - a made-up one


def network(root: Path, interfaces: dict[str, dict[str, str]]) -> Path:
    """Make a /sys/class/net; a file named `device/...` makes it one of hardware."""
    for name, files in interfaces.items():
        (root / name).mkdir()
        for file, text in files.items():
            (root / name / file).parent.mkdir(exist_ok=True)
            (root / name / file).write_text(text)
    return root


HARD = {"device/vendor": "0x15b3\n", "speed": "10000\n"}


AN_INTERFACE_IS_AS_FAST_AS_ITS_HARDWARE = {
    "hardware": ({"it": HARD}, [10_000]),
    "hardware that does not say": ({"it": HARD | {"speed": "-1\n"}}, []),
    "no hardware: a veth says 10 Gbit/s": ({"it": {"speed": "10000\n"}}, []),
    "bond": (
        {"it": {"bonding/slaves": "a b\n", "speed": "20000\n"}, "a": HARD, "b": HARD},
        [1e4, 1e4],
    ),
    "bond with a member that does not say": (
        {"it": {"bonding/slaves": "a b\n"}, "a": HARD, "b": {"speed": "10000\n"}},
        [],
    ),
    "bond of which one is active": (
        {
            "it": {"bonding/slaves": "a b\n", "bonding/active_slave": "b\n"},
            "a": HARD,
            "b": HARD | {"speed": "1000\n"},
        },
        [1_000],
    ),
    "VLAN": ({"it": {"lower_a": ""}, "a": HARD}, [10_000]),
    "bridge": ({"it": {"lower_a": "", "bridge/x": ""}, "a": HARD}, []),
}


@pytest.mark.parametrize(
    ("interfaces", "megabits"),
    AN_INTERFACE_IS_AS_FAST_AS_ITS_HARDWARE.values(),
    ids=AN_INTERFACE_IS_AS_FAST_AS_ITS_HARDWARE,
)
def test_an_interface_is_as_fast_as_its_hardware(
    tmp_path: Path, interfaces: dict[str, dict[str, str]], megabits: list[float]
) -> None:
    folder = network(tmp_path, interfaces) / "it"

    assert agent_interfaces.link_speeds(folder) == [speed * 1e6 / 8 for speed in megabits]


def test_the_slot_is_what_is_in_use(tmp_path: Path) -> None:
    words = {"current_link_speed": "8.0 GT/s PCIe\n", "current_link_width": "16\n"}
    network(tmp_path, {"device": words, "other": {"current_link_width": "0\n"}})

    assert agent_interfaces._slot(tmp_path / "device") == "8.0 GT/s PCIe x16"
    assert agent_interfaces._slot(tmp_path / "other") == ""


def test_the_facts_of_this_host() -> None:
    facts = agent_facts.host_facts()

    assert facts.host == platform.node()
    assert facts.cores == os.cpu_count()
    assert 1 <= facts.usable_cores <= len(os.sched_getaffinity(0))
    assert facts.memory == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts.python == platform.python_version()
    assert facts.kernel.split() == [os.uname().sysname, os.uname().release, os.uname().machine]
    assert facts.user == pwd.getpwuid(os.geteuid()).pw_name
    assert facts.libraries["msgspec"] == msgspec.__version__
    assert facts.libraries["numpy"] == np.__version__
    assert facts.system


def test_facts_tell_the_tools_beside_our_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say their version, as far as its first line; one that fails is not there."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    for name, flag, status in (("mpirun", "--version", 0), ("tmux", "-V", 1)):
        (tmp_path / name).write_text(
            f'#!/bin/sh\n[ "$*" = "{flag}" ] && echo "{name} 9.9" && echo more\nexit {status}\n'
        )
        (tmp_path / name).chmod(0o700)
    facts = agent_facts.host_facts()

    assert facts.mpi == "mpirun 9.9"
    assert facts.tmux is None


def test_facts_tell_that_a_tool_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = agent_facts.host_facts()

    assert (facts.mpi, facts.tmux) == (None, None)


def test_facts_tell_the_programs_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says no version is there all the same, unlike one that is not."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, line in (("shy", "exit 1"), ("open", "echo open 1.2; echo more")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o700)
    programs = agent_facts.host_facts("shy", "open", "nosuchprogram").programs

    assert programs == {"shy": str(tmp_path / "shy"), "open": "open 1.2"}
    assert agent_facts.host_facts().programs == {}


@pytest.mark.parametrize(
    ("limit", "usable"), [(None, 4), (8.0, 4), (4.0, 4), (3.9, 3), (1.5, 1), (0.2, 1)]
)
def test_usable_cores_are_whole_and_at_least_one(
    limit: float | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5, 7})
    monkeypatch.setattr(agent_facts, "cgroup_cpus", lambda: limit)
    facts = agent_facts.host_facts()

    assert facts.usable_cores == usable
    assert facts.cgroup_cpus == limit


def test_facts_record_what_matters_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_OMPI_MCA_KEY", "FIREBASE_KEY"):
        monkeypatch.setenv(name, SECRET)
    variables = {
        "OMPI_MCA_btl": "tcp,self",
        "PRTE_MCA_plm": "ssh",
        "PMIX_MCA_gds": "hash",
        "UCX_TLS": "tcp",
        "NCCL_DEBUG": "INFO",
        "FI_PROVIDER": "efa",
        "MPI4PY_RC_THREADS": "0",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LD_LIBRARY_PATH": "/lib",
        "TMPDIR": "/tmp",  # noqa: S108 - only recorded
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    facts = agent_facts.host_facts()

    assert SECRET not in msgspec.json.encode(facts).decode()
    assert facts.variables.items() >= variables.items()
    assert not {"HOME", "PATH", "AWS_SECRET_ACCESS_KEY"} & set(facts.variables)


def test_facts_do_not_need_a_user_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number that nobody has."""
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)

    assert agent_facts.host_facts().user == "54321"


def test_facts_are_one_line_of_json() -> None:
    result = subprocess.run(
        [sys.executable, "-P", "-m", "cluster.agent", "facts", ".", "sh"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert result.stdout.count("\n") == 1
    facts = msgspec.json.decode(result.stdout, type=Facts)
    assert facts.host == platform.node()
    assert set(facts.programs) == {"sh"}


SEVERAL = """
set -e
ip link add d0 type veth peer d1
ip address add 10.9.0.1/24 dev d0
ip address add 10.9.0.2/24 dev d0
ip address add 10.8.0.2/16 dev d0 label d0:other
ip link set lo up
exec "$1" -c '
from cluster.agent.hardware.interfaces import NETWORK, list_interfaces
print(sorted((i.name, i.address, i.prefix) for i in list_interfaces()))'
"""


def test_an_interface_may_have_several_addresses() -> None:
    """All are told: a host may be reached at any of them, also at one with a label of its own."""
    if os.geteuid() != 0:
        pytest.skip("a network to make needs root")
    words = ["unshare", "--net", "sh", "-c", SEVERAL, "sh", sys.executable]
    result = subprocess.run(words, check=True, capture_output=True, text=True)

    assert result.stdout == (
        "[('d0', '10.8.0.2', 16), ('d0', '10.9.0.1', 24), ('d0', '10.9.0.2', 24)]\n"
    )


def test_the_mtu_is_read_also_where_sys_shows_another_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {name: agent_interfaces.NETWORK / name / "mtu" for _, name in socket.if_nameindex()}
    monkeypatch.setattr(agent_interfaces, "NETWORK", tmp_path)
    interfaces = list(agent_interfaces.list_interfaces())

    assert interfaces
    assert [i.mtu for i in interfaces] == [int(files[i.name].read_text()) for i in interfaces]
