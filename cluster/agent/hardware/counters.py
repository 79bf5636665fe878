"""Counters of this host: what its links carry, and trouble of a link, a slot or a processor.

No root is needed.
"""

import os
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from cluster.agent.hardware import cgroup_folders, read_text
from cluster.agent.hardware.gpus import ask_gpus
from cluster.agent.hardware.interfaces import list_interfaces
from cluster.core.model.hosts import FIGURES, GpuUsage, HostUsage, TaskUsage

NET = (  # the columns of /proc/net/dev
    *("rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "rx_fifo", "rx_frame", "", ""),
    *("tx_bytes", "tx_packets", "tx_errors", "tx_dropped", "tx_fifo", "collisions", "carrier", ""),
)
CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")  # of /proc/stat
SENT = frozenset({"rx_bytes", "rx_packets", "tx_bytes", "tx_packets"})  # say nothing of trouble
TROUBLE = re.compile(
    r"err|drop|discard|retr|out_of_seq|cnp|ecn_|downed|timeout|xmit_wait|recovery|overrun|nak"
)
"""The counters of RDMA ports (Linux: ABI/stable/sysfs-class-infiniband, mlx5, EFA) that matter."""
AER = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
IDLE = ("idle", "iowait")  # of CPU
QUEUES = struct.pack("=IHHII20x", 36, 38, 0x301, 0, 0)  # RTM_GETQDISC, all (linux/rtnetlink.h)
ROOT, STATISTICS, SENT_BYTES = 0xFFFFFFFF, 7, 1  # TC_H_ROOT, TCA_STATS2, TCA_STATS_BASIC
EVERY, LEAST = 10.0, 1.0  # seconds between two readings beside a task, and at its end
MOST_READINGS = 10_000  # of which medians are: those of the last day
MOST = 32  # counters of one interval: those of a message that is written at once


def read_counters(root: Path = Path("/")) -> dict[str, int]:
    """Read the counters that there are: packets and errors, ticks, and times in nanoseconds."""
    return {
        **dict(interface_counters(root)),
        **dict(_rdma_ports(root)),
        **dict(_slots(root)),
        **dict(_processors(root)),
        "time": time.monotonic_ns(),
    }


def trouble(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """Return what went up between two readings: shares of the time as `cpu.`, other counts."""
    gains = {name: after[name] - before.get(name, after[name]) for name in after}
    ticks = sum(gains.get(f"ticks.{name}", 0) for name in CPU)
    shares = {
        "cpu.steal": gains.get("ticks.steal", 0) / max(ticks, 1),
        "cpu.throttled": min(1.0, gains.get("throttled", 0) / max(gains["time"], 1)),
    }
    counts = {
        name: float(gain)
        for name, gain in gains.items()
        if "." in name and not name.startswith("ticks.") and name.rpartition(".")[2] not in SENT
    }
    increases = {name: round(value, 4) for name, value in (shares | counts).items() if value > 0}
    return dict(sorted(increases.items(), key=lambda item: -item[1])[:MOST])


def queue_bytes() -> dict[str, int]:
    """Read what each transmit queue of the links with several has sent, such as `eth0:2`.

    Each of them has a queueing discipline of its own, whose parent has the number of the queue.
    """
    totals: dict[str, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
            link.send(QUEUES)
            while True:
                data = link.recv(1 << 16)
                while len(data) >= struct.calcsize("=IH"):
                    size, kind = struct.unpack_from("=IH", data)
                    if kind != 36:  # noqa: PLR2004 - RTM_NEWQDISC: the end, or an error
                        return totals
                    index, _, parent = struct.unpack_from("=iII", data, 20)
                    counts = _attributes(_attributes(data[36:size]).get(STATISTICS, b""))
                    if parent != ROOT and SENT_BYTES in counts:
                        name = f"{socket.if_indextoname(index)}:{parent & 0xFFFF}"
                        (totals[name],) = struct.unpack_from("=Q", counts[SENT_BYTES])
                    data = data[size:]
    except OSError:
        return {}


def _attributes(data: bytes) -> dict[int, bytes]:
    attributes = {}
    while len(data) >= struct.calcsize("=HH"):
        size, kind = struct.unpack_from("=HH", data)
        attributes[kind & 0x3FFF] = data[4:size]
        data = data[(max(size, 4) + 3) & ~3 :]
    return attributes


def queue_shares(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """Return the queue that sent most of what a link did between two readings, and its share."""
    gains = {name: value - before.get(name, value) for name, value in after.items()}
    totals: Counter[str] = Counter()
    for name, gain in gains.items():
        totals[name.partition(":")[0]] += gain
    shares = {n: gain / max(1, totals[n.partition(":")[0]]) for n, gain in gains.items()}
    return {f"queue.{name}": round(share, 4) for name, share in shares.items() if share > 1 / 2}


def interface_counters(root: Path = Path("/")) -> Iterator[tuple[str, int]]:
    for line in read_text(root / "proc/net/dev").splitlines()[2:]:
        name, _, values = line.partition(":")
        if name.strip() != "lo":
            for column, value in zip(NET, values.split(), strict=False):
                if column:
                    yield f"{name.strip()}.{column}", int(value)


def _rdma_ports(root: Path) -> Iterator[tuple[str, int]]:
    for path in (root / "sys/class/infiniband").glob("*/ports/*/*counters/*"):
        if TROUBLE.search(path.name) and (text := read_text(path)).isdigit():
            device, port = path.parts[-5], path.parts[-3]
            yield f"{device}:{port}.{path.name}", int(text)


def _slots(root: Path) -> Iterator[tuple[str, int]]:
    """Read the errors that PCIe reports of network devices (Linux: sysfs-bus-pci-devices-aer)."""
    for folder in (root / "sys/class/net", root / "sys/class/infiniband"):
        for path in (path for name in AER for path in folder.glob(f"*/device/{name}")):
            total = re.search(r"^TOTAL_ERR_\w+ (\d+)", read_text(path), re.MULTILINE)
            if total:
                yield f"{path.parts[-3]}.{path.name}", int(total[1])


def _processors(root: Path) -> Iterator[tuple[str, int]]:
    words = read_text(root / "proc/stat").partition("\n")[0].split()[1:]
    for name, value in zip(CPU, words, strict=False):
        yield f"ticks.{name}", int(value)
    times = [
        int(value) * (1000 if name == "throttled_usec" else 1)
        for folder in cgroup_folders("cpu", root)
        for name, _, value in (
            line.partition(" ") for line in read_text(folder / "cpu.stat").splitlines()
        )
        if name in ("throttled_usec", "throttled_time")  # of version 2, and 1, which is in ns
    ]
    if times:
        yield "throttled", max(times)
    heat = read_text(root / "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count")
    if heat.isdigit():
        yield "processor.thermal_throttles", int(heat)


def usage_between(
    before: Mapping[str, int], after: Mapping[str, int], names: Collection[str] = ()
) -> HostUsage:
    """Return this host's usage between two readings, by the interfaces with names, or by all."""
    duration = (after["time"] - before["time"]) / 1e9
    gains = {name: after[name] - before.get(name, after[name]) for name in after}
    ticks = {name: gains.get(f"ticks.{name}", 0) for name in CPU}
    tx, rx = (
        sum(
            gain
            for name, gain in gains.items()
            if name.endswith(f".{way}_bytes") and (not names or name.split(".")[0] in names)
        )
        / duration
        for way in ("tx", "rx")
    )
    sizes = dict(re.findall(r"^(\w+):\s+(\d+)", read_text(Path("/proc/meminfo")), re.MULTILINE))
    total, available = (int(sizes.get(name, 0)) for name in ("MemTotal", "MemAvailable"))
    return HostUsage(
        at=round(time.time(), 3),
        seconds=round(duration, 3),
        processor=round(1 - sum(ticks[name] for name in IDLE) / max(sum(ticks.values()), 1), 4),
        memory=round(1 - available / total, 4) if total else 0.0,
        sent=round(tx),
        received=round(rx),
        trouble=trouble(before, after),
    )


def watch(seconds: float, count: int, addresses: tuple[str, ...]) -> Iterator[HostUsage]:
    """Yield `count` usages, or for ever if that is 0, by the interfaces with addresses, or all."""
    names = {i.name for i in list_interfaces() if i.address in addresses}
    before, cost, number = read_counters(), _read_cost(), 0
    gpus, moment = _gpus(), time.monotonic()
    while not count or number < count:
        time.sleep(seconds)
        if gpus and time.monotonic() - moment >= EVERY:  # each question starts a program
            gpus, moment = _gpus(), time.monotonic()
        after, new_cost, number = read_counters(), _read_cost(), number + 1
        usage = usage_between(before, after, names)
        yield replace(usage, gpus=gpus, cost=round((new_cost - cost) / usage.seconds, 5))
        before, cost = after, new_cost


def _gpus() -> tuple[GpuUsage, ...]:
    return tuple(GpuUsage(busy=g.busy, memory=g.memory, power=g.power) for g in ask_gpus())


def _read_cost() -> float:
    """Return the seconds of processors that this process and its programs took."""
    return sum(os.times()[:4])


class UsageMeter:
    """Reads the counters at times, while something else runs."""

    def __init__(self) -> None:
        self._before = read_counters()
        self._readings: dict[str, list[float]] = {name: [] for name in FIGURES}
        self._peaks = dict.fromkeys(FIGURES, 0.0)

    def read(self, every: float = EVERY) -> None:
        """Read them if the last reading was that many seconds ago."""
        if time.monotonic_ns() - self._before["time"] < every * 1e9:
            return
        after = read_counters()
        usage = usage_between(self._before, after)
        self._before = after
        for name, readings in self._readings.items():
            readings.append(getattr(usage, name))
            self._peaks[name] = max(self._peaks[name], readings[-1])
            del readings[: len(readings) - MOST_READINGS]

    def usage(self) -> TaskUsage | None:
        """Return the median and the peak of each figure; none of less than a second."""
        from statistics import median  # noqa: PLC0415 - slow, and needed once

        self.read(LEAST)
        if not self._readings[FIGURES[0]]:
            return None
        medians = {name: median(values) for name, values in self._readings.items()}
        return TaskUsage(median=medians, peak=self._peaks)
