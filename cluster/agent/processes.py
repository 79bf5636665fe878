"""The processors that a rank's process may use, and its TCP connections.

The rank itself reads both, once, after its last value: only there are they right, also in a
container or in a network namespace.
"""

import os
import platform
import sys
import time
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from cluster.agent.hardware import read_text
from cluster.agent.hardware.counters import interface_counters
from cluster.core.model.hosts import Connection, ProcessorTimes, RankProcess

PROCESSORS = Path("/sys/devices/system/cpu")
SELF = Path("/proc/self")
STAT = Path("/proc/stat")
BOOT = Path("/proc/sys/kernel/random/boot_id")
HERE, THERE, STATE, INODE = 1, 2, 3, 9  # columns of /proc/net/tcp (proc(5))
SENT = ".tx_bytes"
ESTABLISHED = "01"  # include/net/tcp_states.h
WORD = 4  # bytes: addresses are words in the processor's order (net/ipv4/tcp_ipv4.c)


def processor_times() -> ProcessorTimes:
    """Read how the processors of this host spent their time since it started (proc(5))."""
    words = read_text(STAT).partition("\n")[0].split()[1:]
    times = [int(word) / os.sysconf("SC_CLK_TCK") for word in words]
    return ProcessorTimes(
        took=time.monotonic(),
        processors=os.cpu_count() or 1,
        used=sum(times[:3]),  # user, nice, system; interrupts may be those of our messages
        own=sum(os.times()[:4]),
        stolen=sum(times[7:8]),
    )


def times_since(start: ProcessorTimes) -> ProcessorTimes:
    """Return how the processors of this host spent their time since then."""
    now = processor_times()
    return ProcessorTimes(
        took=now.took - start.took,
        processors=now.processors,
        used=now.used - start.used,
        own=now.own - start.own,
        stolen=now.stolen - start.stolen,
    )


def sent_bytes() -> dict[str, int]:
    """Read how many bytes each interface has sent that this process can see."""
    return {n.removesuffix(SENT): v for n, v in interface_counters() if n.endswith(SENT)}


def process_info(
    rank: int, start: ProcessorTimes, before: ProcessorTimes, counts: Mapping[str, int]
) -> RankProcess:
    """Describe this process; `start` and `counts` are of when it began to measure."""
    return RankProcess(
        rank=rank,
        host=platform.node(),
        boot=read_text(BOOT),
        processors=tuple(sorted(os.sched_getaffinity(0))),
        connections=connections(),
        sent=tuple((name, value - counts.get(name, value)) for name, value in sent_bytes().items()),
        times=times_since(start),
        before=before,
    )


def usable_cores(root: Path = PROCESSORS) -> tuple[tuple[int, ...], ...]:
    """Return the processors of each core that a process started here may use.

    Several with hyper-threading; empty if the kernel does not report which share a core.
    """
    processors = os.sched_getaffinity(0)
    siblings = {read_text(root / f"cpu{n}/topology/thread_siblings_list") for n in processors}
    if "" in siblings:
        return ()
    return tuple(sorted(tuple(sorted(processors & parse_cpu_list(text))) for text in siblings))


def parse_cpu_list(text: str) -> frozenset[int]:
    """Read a list of processors as the kernel writes it, such as `0-2,8`; empty if it is."""
    ends = (part.partition("-") for part in text.split(",") if part)
    return frozenset(n for a, dash, b in ends for n in range(int(a), int(b if dash else a) + 1))


def connections(folder: Path = SELF) -> tuple[Connection, ...]:
    """Find the TCP connections from a process to other hosts."""
    # the inodes of the sockets that a process has open
    inodes = set()
    for path in (folder / "fd").glob("*"):
        try:
            target = str(path.readlink())
        except OSError:  # closed since it was listed, such as the descriptor of the listing itself
            continue
        if target.startswith("socket:["):
            inodes.add(target.removeprefix("socket:[").rstrip("]"))
    rows = (
        line.split()
        for table in ("tcp", "tcp6")
        for line in read_text(folder / "net" / table).splitlines()[1:]
    )
    ends = (
        Connection(here=_endpoint(row[HERE]), there=_endpoint(row[THERE]))
        for row in rows
        if len(row) > INODE and row[STATE] == ESTABLISHED and row[INODE] in inodes
    )
    return tuple(sorted((c for c in ends if not _is_local(c)), key=lambda c: (c.there, c.here)))


def _endpoint(text: str) -> str:
    """Read an endpoint of a connection as the kernel writes it: hexadecimal address and port."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    words = (raw[start : start + WORD] for start in range(0, len(raw), WORD))
    data = b"".join(int.from_bytes(word).to_bytes(WORD, sys.byteorder) for word in words)
    if len(data) == WORD:
        return f"{IPv4Address(data)}:{int(port, 16)}"
    six = IPv6Address(data)
    return f"{six.ipv4_mapped or f'[{six}]'}:{int(port, 16)}"


def _is_local(connection: Connection) -> bool:
    """Tell whether both ends of a connection are on this host."""
    host, peer = (end.rpartition(":")[0] for end in (connection.here, connection.there))
    return host == peer or peer.startswith("127.")
