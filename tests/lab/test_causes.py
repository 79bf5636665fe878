"""Causes that are planted on a host of a lab: the check names the host, and what slows it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import pytest

import cluster
from cluster.orchestration.cluster import Cluster
from tests.conftest import command
from tests.lab.conftest import must

pytestmark = [pytest.mark.usefixtures("own_labs", "home"), pytest.mark.serial]
ODD = 3
ROUNDS = ("--rounds=10", "--alone=2")
# Each pair alone, and nothing again: however long a test with losses takes, that ends.
PAIRS = (f"--pairs={','.join(f'{a}-{b}' for a, b in combinations(range(5), 2))}",)
# Far below what the noise of a busy machine hides: a tenth of the segments costs 8% of the rate.
RULE = "INPUT -p tcp ! --dport 22 -m statistic --mode random --probability 0.3 -j DROP"
# What a lossy host sends may be low as well, and then the others look noisy: some checks are
# UNDECIDED, and more where the machine is busy.
WITHIN = 400.0  # seconds of checks, one after another until one decides


def check(words: tuple[str, ...], *starved: int) -> dict[str, Any]:
    """Check, again while it is UNDECIDED, or others than the starved had little processor time."""
    deadline = time.monotonic() + WITHIN
    while True:
        verdict: dict[str, Any] = json.loads(
            command("check", "planted", "--json", *words, status=None).stdout
        )
        busy = [o for o in verdict["observations"] if o["reason"]["code"] == "busy"]
        rest = [o for o in busy if o["place"]["host"] not in starved]
        if not rest and (busy or verdict["verdict"] != "UNDECIDED"):
            return verdict
        if time.monotonic() > deadline:
            return verdict


# The kernel of a lab steals from no host: its file of ticks is one that says so.
STEAL = """
mkdir /run/kernel; mount -t proc proc /run/kernel; cp /proc/stat /run/stat
cat > /run/steal.py << END
import os, time
file = os.open("/run/stat", os.O_WRONLY)
while True:
    first, _, rest = open("/run/kernel/stat").read().partition("\\n")
    ticks = first.split()
    ticks[8] = str(int(ticks[8]) + sum(map(int, ticks[1:8])))  # as much as it does not steal
    os.pwrite(file, (" ".join(ticks) + "\\n" + rest).encode(), 0)
    time.sleep(0.01)
END
setsid python3 /run/steal.py > /run/steal.log 2>&1 &
sleep 0.5; mount --bind /run/stat /proc/stat
"""
# Nor is a virtual link a cable: its folder is one with hardware.
CABLE = """
mount -t tmpfs none /sys/class/net
mkdir -p /sys/class/net/eth0/device
ln -s /sys/devices/virtual/net/eth0/statistics /sys/class/net/eth0/statistics
echo {} > /sys/class/net/eth0/duplex
"""


@contextmanager
def stolen(lab: Cluster) -> Iterator[None]:
    must(lab, ODD, STEAL)
    with slow(lab):
        yield


@contextmanager
def lossy(lab: Cluster) -> Iterator[None]:
    must(lab, ODD, f"iptables -A {RULE}")
    yield
    must(lab, ODD, f"iptables -D {RULE}")


@contextmanager
def slow(lab: Cluster) -> Iterator[None]:
    command("lab", lab.name, "slow", str(ODD), "--rate", "100mbit")
    yield
    command("lab", lab.name, "heal", str(ODD))


@pytest.mark.parametrize(
    ("plant", "words", "cause"),
    [
        (lossy, PAIRS, "tcp.retransmitted"),
        (slow, ROUNDS, "rate"),
        (stolen, ROUNDS, "cpu.steal"),
    ],
    ids=["lossy-tcp.retransmitted", "slow-rate", "stolen-cpu.steal"],
)
def test_the_cause_is_named(
    plant: Callable[[Cluster], Any], words: tuple[str, ...], cause: str
) -> None:
    lab = cluster.launch("planted", provider="lab", hosts=5, options={"rate": "400mbit"})
    with plant(lab):
        verdict = check(words)

    findings = [f for f in verdict["blamed"] if ODD in (f["place"]["host"], f["place"].get("peer"))]
    assert findings, verdict
    assert findings == verdict["blamed"]
    # Other virtual machines may take time of this one meanwhile: that is a cause, too.
    real = {"cpu.steal"} - {cause}
    counters = [[c["counter"] for c in f["counters"] if c["counter"] not in real] for f in findings]
    assert {name for names in counters for name in names[:1]} == {cause}


def test_half_duplex_is_named_as_the_cause() -> None:
    lab = cluster.launch("planted", provider="lab", hosts=5, options={"rate": "400mbit"})
    for host in range(5):
        must(lab, host, CABLE.format("half" if host == ODD else "full"))
    with slow(lab):
        verdict = check(ROUNDS)

    assert {f["place"]["host"] for f in verdict["blamed"]} == {ODD}
    assert {cause["setting"] for f in verdict["blamed"] for cause in f["causes"]} == {
        "duplex of eth0"
    }


def test_a_small_buffer_is_named_as_the_cause() -> None:
    """A window of 2.3 kB is slow, or takes so many steps that the processor is the limit.

    The buffer shrinks after a check has read it.
    """
    lab = cluster.launch("planted", provider="lab", hosts=5, options={"rate": "600mbit"})
    command("check", "planted", "--rounds=1", "--alone=0", status=None)
    must(lab, ODD, "sysctl -w net.ipv4.tcp_rmem='2304 2304 2304'")
    verdict = check(ROUNDS, ODD)

    parts = [*verdict["blamed"], *verdict["observations"]]
    assert {part["place"]["host"] for part in parts} == {ODD}
    assert {cause["setting"].rpartition(".")[2] for part in parts for cause in part["causes"]} == {
        "tcp_rmem"
    }
