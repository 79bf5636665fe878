"""Counters of a host: what went up between two readings of made-up file systems."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.agent.hardware import counters
from cluster.agent.hardware.counters import EVERY, MOST, UsageMeter, read_counters, trouble

NET = """Inter-|   Receive                      |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo
    lo: 9 9 {0} {0} 0 0 0 0 9 9 0 0 0 0 0 0
eth0.7: {0}000 {0} {0} 2 0 0 0 5 8{0} 7{0} 0 {0}1 0 {0} 3 0
"""
IB = "sys/class/infiniband/mlx5_0/ports/1/"
EFA = "sys/class/infiniband/efa_0/ports/1/hw_counters/"
AER = "sys/class/net/eth0/device/aer_dev_correctable"
V1, V2 = "sys/fs/cgroup/cpu/jobs/cpu.stat", "sys/fs/cgroup/jobs/cpu.stat"
WORK = """
import json, os, sys, time
from cluster.agent.hardware.counters import read_counters, trouble

open(sys.argv[1], "w").write(str(os.getpid()))
shares, end = {}, time.monotonic() + 60
while shares.get("cpu.throttled", 0) <= 0.3 and time.monotonic() < end:
    before, window = read_counters(), time.monotonic() + 0.5
    while time.monotonic() < window:
        pass
    shares = trouble(before, read_counters())
print(json.dumps(shares))
"""
GROUP1, GROUP2 = "4:cpu,cpuacct:/jobs\n0::/\n", "0::/jobs/one\n"


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("before", "after", "rose"),
    [
        ({}, {"proc/net/dev": NET.format(5)}, {}),  # what was not read before is not new
        (
            {"proc/net/dev": NET.format(0)},
            {"proc/net/dev": NET.format(5)},
            {"eth0.7.rx_errors": 5, "eth0.7.tx_dropped": 50, "eth0.7.collisions": 5},
        ),
        (
            {f"{IB}counters/symbol_error": "1", f"{IB}hw_counters/out_of_sequence": "7"},
            {f"{IB}counters/symbol_error": "4", f"{IB}hw_counters/out_of_sequence": "7"},
            {"mlx5_0:1.symbol_error": 3},
        ),
        (
            {f"{IB}counters/port_rcv_data": "1", f"{EFA}rx_drops": "0", f"{EFA}lifespan": "10"},
            {f"{IB}counters/port_rcv_data": "9", f"{EFA}rx_drops": "6", f"{EFA}lifespan": "12"},
            {"efa_0:1.rx_drops": 6},
        ),
        (
            {AER: "RxErr 1\nTOTAL_ERR_COR 2\n"},
            {AER: "RxErr 5\nTOTAL_ERR_COR 6\n"},
            {"eth0.aer_dev_correctable": 4},
        ),
        (
            {"proc/stat": "cpu  100 0 50 800 0 0 0 50 0 0\ncpu0 1\n"},
            {"proc/stat": "cpu  150 0 50 820 0 0 0 80 0 0\ncpu0 1\n"},
            {"cpu.steal": 0.3},
        ),
        (
            {"proc/self/cgroup": GROUP1, V1: "nr_throttled 1\nthrottled_time 0\n"},
            {V1: "nr_throttled 3\nthrottled_time 500000000\n"},
            {"cpu.throttled": 0.5},
        ),
        (
            {"proc/self/cgroup": GROUP2, V2: "usage_usec 4\nthrottled_usec 0\n"},
            {V2: "usage_usec 9\nthrottled_usec 9000000\n"},
            {"cpu.throttled": 1.0},
        ),
    ],
)
def test_what_went_up(
    tmp_path: Path, before: dict[str, str], after: dict[str, str], rose: dict[str, float]
) -> None:
    first = read_counters(lay_out(tmp_path, before))
    second = read_counters(lay_out(tmp_path, after))

    assert trouble(first, second | {"time": first["time"] + 10**9}) == rose


def test_a_message_keeps_what_went_up_most() -> None:
    counters = {f"eth{n}.rx_errors": n for n in range(99)} | {"time": 2}
    rose = trouble(dict.fromkeys(counters, 0), counters)

    assert (len(rose), next(iter(rose))) == (MOST, "eth98.rx_errors")


def test_this_host_has_counters() -> None:
    assert {"time", "ticks.steal"} <= read_counters().keys()


SEND = """
ip link add va numtxqueues 2 type veth peer name vb
tc qdisc add dev va root handle 1: mq
ip link set va up && ip link set vb up && ip addr add 10.9.9.1/24 dev va && exec "$@"
"""
SENT = """
import json, socket, time
from cluster.agent.hardware.counters import queue_bytes, queue_shares

before = queue_bytes()
end = time.monotonic() + 60
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
    while not (shares := queue_shares(before, queue_bytes())) and time.monotonic() < end:
        link.sendto(bytes(1000), ("10.9.9.2", 9))
print(json.dumps([sorted(before), shares]))
"""


def test_the_queue_of_a_flow_is_read_without_root() -> None:
    words = ["unshare", "-n", "sh", "-c", SEND, "send", sys.executable, "-c", SENT]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    if not result.stdout:
        pytest.skip(f"no network namespace can be made here: {result.stderr}")
    queues, shares = json.loads(result.stdout)

    assert queues == ["va:1", "va:2"]
    assert len(shares) == 1
    assert all(share > 0.5 for share in shares.values())


def test_a_process_that_is_throttled_reads_it() -> None:
    """A process may use a fiftieth of a processor, less than a busy machine leaves it."""
    group = Path("/sys/fs/cgroup/cpu/throttled-by-a-test")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("there are no control groups of version 1 that may be made here")
    try:
        (group / "cpu.cfs_quota_us").write_text("2000")
        words = [sys.executable, "-c", WORK, str(group / "cgroup.procs")]
        result = subprocess.run(words, capture_output=True, text=True, check=True)
    finally:
        group.rmdir()

    assert 0.3 < json.loads(result.stdout)["cpu.throttled"] <= 1


def test_a_meter_has_the_median_and_the_peak_of_what_it_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ten seconds each: 20%, 80% and 30% of the processors are busy; what is too early waits."""
    readings = [{"time": 0, "ticks.user": 0, "ticks.idle": 0, "eth0.tx_bytes": 0}]
    for busy, traffic in ((20, 1000), (80, 9000), (30, 2000)):
        last = readings[-1]
        gained = {"time": int(EVERY * 1e9), "ticks.user": busy, "ticks.idle": 100 - busy}
        gained["eth0.tx_bytes"] = traffic
        readings.append({name: last[name] + gain for name, gain in gained.items()})
    clock = iter(readings)
    now = 0
    monkeypatch.setattr(counters, "read_counters", lambda: next(clock))
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    meter = UsageMeter()
    for _ in range(3):
        meter.read()
        now += int(EVERY * 1e9)
        meter.read()
    usage = meter.usage()

    assert usage
    assert (usage.median["processor"], usage.peak["processor"]) == (0.3, 0.8)
    assert (usage.median["sent"], usage.peak["sent"]) == (200, 900)
    assert usage.median["received"] == usage.peak["received"] == 0


def test_what_is_over_at_once_has_no_usage() -> None:
    assert UsageMeter().usage() is None
