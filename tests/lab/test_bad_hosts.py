"""Hosts that are not as they should be: each is named, and the others are not held up."""

import errno
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import ClusterError, SpecError, Unreachable
from cluster.core.model.hosts import Completed
from cluster.core.state import journal
from cluster.orchestration.cluster import Cluster
from cluster.remote.ssh import connection
from tests.conftest import COMMAND, answer, command
from tests.lab.conftest import first_process, must

pytestmark = pytest.mark.usefixtures("own_labs")
HUP = "; kill -HUP 1"  # sshd begins anew, in the same process
MASK_TMUX = "rm /usr/bin/tmux"
STATES = {
    "1": "refused",
    "2": "host key",
    "3": "authentication",
    "4": "timed out",
    "5": "timed out",
    "6": "banner",
}
OLD_PYTHON = """
for python in $(ls /usr/bin/python3* /usr/local/bin/python3* 2> /dev/null); do rm "$python"; done
printf '%s\\n' '#!/bin/sh' 'echo Python 3.6.8' '[ "$1" = --version ]' > /usr/bin/python3
chmod 755 /usr/bin/python3
"""


def full(c: Cluster, number: int, size: str) -> None:
    """Let one host have little room for our folder."""
    folder = c.machines[number].folder
    must(c, number, f"mkdir -p {folder} && mount -t tmpfs -o size={size} tmpfs {folder}")


def ends_of(c: Cluster) -> dict[str, str | Exception]:
    """Run a command on all hosts; gives what each printed, or why it could not."""
    return {
        name: end.stdout if isinstance(end, Completed) else end
        for name, end in c.hosts.try_run(["hostname"]).items()
    }


@pytest.mark.timed
def test_each_host_is_out_of_reach_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, each with its reason; those that come back are as good as before."""
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 3.0)
    c = cluster.launch("ways", provider="lab", hosts=8)
    must(c, 1, "sed -i 's/^Port .*/Port 2222/' /etc/ssh/cluster_config" + HUP)
    must(c, 2, "ssh-keygen -q -t ed25519 -N '' -f /k && mv /k /etc/ssh/cluster_host_key" + HUP)
    must(c, 3, "echo > /etc/ssh/cluster_authorized_keys")
    command("lab", "ways", "cut", "4")
    command("lab", "ways", "kill", "5")
    os.kill(first_process(c, 6), signal.SIGSTOP)
    c.close()
    start = time.monotonic()
    ends = ends_of(c)

    assert time.monotonic() - start < 20
    assert {n: ends.pop(f"{n}.mpi.ways") for n in (0, 7)} == {0: "ways-0\n", 7: "ways-7\n"}
    errors = {name: end for name, end in ends.items() if isinstance(end, Unreachable)}
    assert {name[0]: end.state for name, end in errors.items()} == STATES
    assert "ssh-keygen -R" in str(ends["2.mpi.ways"])
    assert "ssh -v root@" in str(ends["3.mpi.ways"])
    assert all(name in str(end) for name, end in errors.items())

    command("lab", "ways", "heal", "4")
    os.kill(first_process(c, 6), signal.SIGCONT)
    ends = ends_of(c)
    assert (ends["4.mpi.ways"], ends["6.mpi.ways"]) == ("ways-4\n", "ways-6\n")
    assert "; 0 left" in command("down", "ways").stdout


@pytest.mark.timed
def test_one_of_eight_that_is_dead_is_named_and_takes_nothing_of_the_others() -> None:
    command("up", "eight", "--provider", "lab", "--hosts", "8")
    command("lab", "eight", "kill", "3")
    start = time.monotonic()
    result = command("run", "eight", "--json", "--", "hostname", status=1)

    assert time.monotonic() - start < 30
    rows = json.loads(result.stdout)
    assert [row["stdout"] for row in rows if not row["error"]] == [
        f"eight-{number}\n" for number in (0, 1, 2, 4, 5, 6, 7)
    ]
    assert [row["host"] for row in rows if row["error"]] == ["3.mpi.eight"]
    assert result.stderr.startswith("Error: 3.mpi.eight: ")
    assert [f"{n}.mpi.eight" for n in range(8) if f"{n}.mpi" in result.stderr] == ["3.mpi.eight"]
    assert "eight-3" in command("ls", "eight").stdout
    command("lab", "eight", "heal", "3", status=2)


def test_one_of_eight_where_a_command_fails() -> None:
    """The exit status is that of the first that failed; no host is held up."""
    command("up", "eight", "--provider", "lab", "--hosts", "8")
    result = command(
        "run", "eight", "--", "sh", "-c", "[ $(hostname) != eight-5 ] || exit 3", status=3
    )

    assert result.stderr.startswith("5.mpi.eight: ")
    rows = answer_of("run", "eight", "--json", "--", "sh", "-c", "hostname; [ ! -e /x ]")
    assert [row["status"] for row in rows] == [0] * 8


def answer_of(*words: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(command(*words).stdout)
    return rows


def test_a_dead_address_that_open_mpi_would_try_first_is_named() -> None:
    """It would wait for over two minutes, and again for each connection.

    The kernel lists the dead one first; nobody has the link-layer address that packets to it get.
    """
    c = cluster.launch("two", provider="lab", hosts=2)
    address = c.machines[1].address
    dead = f"{address.rpartition('.')[0]}.201"
    add = f"""
        p=$(ip -o -4 address show dev eth0 | sed 's,.*inet [^/]*/,,; s, .*,,')
        net=$(ip route | sed -n 's, dev eth0.*,,p')
        ip address del {address}/$p dev eth0
        ip address add {dead}/$p dev eth0
        ip address add {address}/$p dev eth0
        ip route replace $net dev eth0 proto kernel scope link src {address}
    """
    must(c, 1, add)
    bench = ("bench", "p2p", "two", "--provider=lab", "--metrics=latency", "--sizes=8")
    command(*bench)  # it answers

    must(c, 0, f"ip neigh replace {dead} lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
    error = command(*bench, status=1).stderr
    assert re.findall(r"\S*\d+\.\S+\w", error.splitlines()[0]) == [
        "0.mpi.two",
        dead,
        "1.mpi.two",
        address,
    ]
    typed = [line.removeprefix("sudo ") for line in error.splitlines() if line.startswith("sudo ")]
    must(c, 1, "\n".join(["set -e", *typed]))
    command(*bench)


def test_hosts_on_which_nothing_can_be_installed_are_named_each_with_its_remedy() -> None:
    """A disk that is full, a Python that is too old, no tmux; the other host becomes ready."""
    c = cluster.launch("sick", provider="lab", hosts=4)
    must(c, 1, MASK_TMUX)
    must(c, 2, OLD_PYTHON)
    full(c, 3, "1m")
    words = ("bench", "p2p", "sick", "--provider=lab", "--hosts=4", "--sizes=8")
    message = command(*words, "--metrics=latency", status=1).stderr

    assert re.findall(r"(\d)\.mpi\.sick: .*'(\w+)'", message) == [("1", "programs"), ("3", "push")]
    assert re.search(r"2\.mpi\.sick .*\n.*3\.6\.8", message)
    assert "sudo apt-get install tmux" in message
    assert "sudo apt-get install python3.11" in message
    assert "Open MPI" in must(c, 0, f"{c.machines[0].bin}/mpirun --version")
    logs = [Path(line.split(": ")[1]) for line in message.splitlines() if "All of it: " in line]
    assert ["tmux" in log.read_text() for log in logs] == [True]

    must(c, 3, f"umount {c.machines[3].folder}")
    must(c, 2, "rm /usr/bin/python3")
    message = command(*words, "--metrics=latency", status=1).stderr
    assert "2.mpi.sick" in message


def test_a_disk_that_is_full_takes_no_file_half(tmp_path: Path) -> None:
    """The other host has it whole; once there is room, the same command does it."""
    c = cluster.launch("tight", provider="lab", hosts=2)
    full(c, 1, "1m")
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    place = f"{c.machines[0].folder}/file"
    put = ("put", "tight", str(tmp_path / "file"), place)
    message = command(*put, status=1).stderr

    assert f"1.mpi.tight: {place} " in message
    assert os.strerror(errno.ENOSPC) in message
    assert must(c, 0, f"wc -c < {place}") == "3000000\n"
    assert must(c, 1, f"ls -A {c.machines[1].folder}") == ""
    must(c, 1, f"mount -o remount,size=9m {c.machines[1].folder}")
    command(*put)
    assert must(c, 1, f"wc -c < {place}") == "3000000\n"


def test_two_launches_of_one_name_at_once() -> None:
    """One gets it, and the other is told so and harms nothing."""
    launches = [
        subprocess.Popen(
            [COMMAND, "up", "same", "--provider", "lab", "--hosts", str(hosts)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for hosts in (2, 3)
    ]
    outputs = [process.communicate(timeout=60) for process in launches]
    codes = [process.returncode for process in launches]

    assert sorted(codes) == [0, 2]
    message = outputs[codes.index(2)][1]
    at_once = "is launching the cluster 'same' right now" in message
    one_after_the_other = "cluster down same" in message
    assert at_once or one_after_the_other
    assert len(command("run", "same", "--", "hostname").stdout.splitlines()) in (2, 3)
    assert answer("more", "gc") == []


def test_a_second_launch_of_a_name_finds_the_same_hosts_or_is_refused() -> None:
    """The same spec finds the same hosts; another one never takes them down."""
    first = cluster.launch("again", provider="lab", hosts=2)
    must(first, 0, "touch /mark")

    assert must(cluster.launch("again", provider="lab", hosts=2), 0, "ls /mark") == "/mark\n"
    with pytest.raises(SpecError, match=r'options=\{"rate": "1gbit"\}'):
        cluster.launch("again", provider="lab", hosts=2, options={"rate": "1gbit"})
    assert must(first, 0, "ls /mark") == "/mark\n"


@pytest.mark.parametrize("name", ["a b", "../x", "", "ö", "a.b", "a\nb", "a;b", "x" * 31])
def test_odd_names_are_refused(name: str) -> None:
    result = command("up", "--provider", "lab", "--", name, status=2)

    assert repr(name)[1:-1] in result.stderr or not name
    assert journal.names() == ()


def test_the_oddest_name_that_is_good() -> None:
    name = "9_-Z" + "a" * 26
    command("up", name, "--provider", "lab", "--option", "rate=1gbit", "--option", "overlay=vxlan")

    lines = command("run", name, "--", "hostname").stdout.splitlines()
    assert sorted(lines) == [f"{n}.mpi.{name}: {name}-{n}" for n in (0, 1)]
    command("lab", name, "slow", "1")


def test_a_host_that_never_comes_up_is_named_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its sshd refuses its settings; what it said about that is shown."""
    monkeypatch.setattr("cluster.providers.lab.SSHD_CONFIG", "Port nowhere\n")
    with pytest.raises(ClusterError, match=r"Host \d of the lab never") as failed:
        cluster.launch("never", provider="lab")

    assert "cluster_config line 1: Badly formatted port number" in str(failed.value)
    assert journal.names() == ()


def hung(name: str) -> list[str]:
    """Return the hosts that a check calls HUNG, with values between the others."""
    verdict = answer("check", name, "--rounds", "2", "--alone", "0")
    assert verdict["verdict"] == "FAULTY"
    assert verdict["tests"] >= 2
    return [row["part"] for row in verdict["blamed"] if row["kind"] == "HUNG"]


def test_a_host_behind_a_firewall_is_hung_and_the_others_are_checked() -> None:
    """It drops everything, and was never examined; or it answers us, and drops what others send."""
    command("up", "walled", "--provider", "lab", "--hosts", "4")
    command("lab", "walled", "cut", "2")
    assert hung("walled") == ["host:2"]

    command("lab", "walled", "heal", "2")
    for other in (0, 1, 3):
        command("lab", "walled", "cut", f"{other}-2")
    assert hung("walled") == ["host:2"]

    for other in (1, 3):
        command("lab", "walled", "cut", f"0-{other}")
    message = command("check", "walled", status=1).stderr
    assert message.count("0.mpi.walled") > 1
