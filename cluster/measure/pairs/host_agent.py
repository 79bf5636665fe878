"""The agent on a host: begins and ends processes for tests, until its standard input ends.

Each side of a test over one TCP connection is a process of its own.
"""

import math
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec

from cluster.agent.hardware.counters import queue_bytes, queue_shares, read_counters, trouble
from cluster.core.model.network.fleet import HOLE, SILENT
from cluster.measure.pairs import messages
from cluster.measure.pairs.messages import BeginTest

ALLREDUCE = "cluster.measure.pairs.allreduce"
SCHEDULED = Path("/proc/self/schedstat")  # ns that it ran, ns that it waited in a queue, and slices
NANO = 1e9
TCP_INFO = 192  # bytes of struct tcp_info, up to Linux 4.10's limits (linux/tcp.h)
QUEUED = 2.0  # times the shortest round trip: from there on, a queue fills, and buffers are enough
HELLO = b"cluster!"  # 8 bytes: if they arrive and nothing else does, large packets are lost
CHUNK = 1 << 20  # bytes
WARM_UP = 0.2  # share of the time that is not counted
ARRIVED = 128  # where struct tcp_info has the bytes that arrived (linux/tcp.h)
ENOUGH = 2  # reads that make a rate
# At an end of the time that is counted, so much silence says nothing of the link's rate: TCP waits
QUIET, TIMEOUT = 0.6, 0.25  # share of that time, and seconds (a timeout of TCP is 0.2 s)
GAP = 0.01  # share of the time: of a mark that took longer, it is not known when it was true


def main() -> None:
    children: dict[int, int] = {}
    _write(messages.Ready())
    try:
        for line in sys.stdin:
            order = msgspec.json.decode(line, type=messages.Order)
            if isinstance(order, messages.BeginTest):
                children[order.test] = _begin(order)
            else:
                _end(children.pop(order.test, 0))
            for test, pid in [*children.items()]:  # those that have ended
                if os.waitpid(pid, os.WNOHANG) != (0, 0):
                    del children[test]
    finally:
        for pid in children.values():
            _end(pid)


def _write(answer: messages.Ready | messages.Listening | messages.TestOutcome) -> None:
    """Write a line in one call: it is so short that lines of several processes do not mix."""
    os.write(1, msgspec.json.encode(answer) + b"\n")


def _end(pid: int) -> None:
    """Kill a child that was not reaped, and what it started: until then its number is its own."""
    if pid:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _begin(order: messages.BeginTest) -> int:
    pid = os.fork()
    with suppress(PermissionError):  # both do it, as either may be first
        os.setpgid(pid, 0)
    if pid:
        return pid
    try:
        signal.alarm(int(order.limit) + 5)  # also if the agent is killed
        _write(_outcome(order))
    finally:
        os._exit(0)  # it flushes and closes nothing of its parent's


def _outcome(order: messages.BeginTest) -> messages.TestOutcome:
    conditions = Conditions()
    value, reason, is_untried = None, "", False
    try:
        if order.role == "allreduce":
            value = _allreduce(order)
        elif order.role == "receive":
            listening = partial(messages.Listening, test=order.test)
            value = receive(order, conditions, lambda port: _write(listening(port=port)))
        else:
            value = send(order, conditions)
    except TransferError as error:
        reason, is_untried = str(error), isinstance(error, UntriedError)
    except OSError as error:
        reason = f"{error.strerror or error}"
    conditions.end()
    return messages.TestOutcome(
        test=order.test,
        value=value,
        reason=reason,
        untried=is_untried,
        busy=conditions.busy if is_untried or not reason else 0.0,
        counters=conditions.counters,
    )


def _allreduce(order: messages.BeginTest) -> float:
    """Run the program of two ranks, and give its result in bytes per second."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise TransferError("there is no mpirun on this host")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    hosts = ["-np", "2", "--host", f"{order.own_address}:1,{order.address}:1", "--bind-to", "none"]
    program = [sys.executable, "-P", "-m", ALLREDUCE, str(order.size), str(order.seconds)]
    try:
        result = subprocess.run(
            [mpirun, *root, *hosts, *program],
            capture_output=True,
            text=True,
            check=False,
            timeout=order.limit,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **dict(order.variables)},
        )
    except subprocess.TimeoutExpired as error:
        raise TransferError("the allreduce did not end within the limit") from error
    results = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode or not results:
        errors = [line for line in result.stderr.splitlines() if line.strip(" -=*")]
        reason = errors[-1].strip() if errors else f"exit status {result.returncode}"
        raise TransferError(f"the allreduce failed: {reason}")
    return msgspec.json.decode(results[-1], type=dict[str, float])["rate"]


class Conditions:
    """What one side of a test met, from the beginning of its transfer to the end.

    A side that waits for its link sleeps. One that is short of processor time runs or waits for a
    processor nearly all the time, and its rate says nothing about the link.
    """

    def __init__(self) -> None:
        self.busy = 0.0  # the share of the time in which it ran or waited for a processor
        self.counters: dict[str, float] = {}  # what went up, by `agent.hardware.counters.trouble`
        self.begin()

    def begin(self) -> None:
        self._before, self._began = _demand_seconds(), time.perf_counter()
        self._counters, self._queues = read_counters(), queue_bytes()

    def end(self, link: socket.socket | None = None) -> None:
        """End it, with what the kernel says of a connection; it ends once."""
        if self.counters:
            return
        after, took = _demand_seconds(), time.perf_counter() - self._began
        if self._before is not None and after is not None and took > 0:
            self.busy = min(1.0, (after - self._before) / took)
        losses = connection_trouble(link) if link else {}
        shares = losses | queue_shares(self._queues, queue_bytes())
        self.counters = shares | trouble(self._counters, read_counters())


def connection_trouble(link: socket.socket) -> dict[str, float]:
    """Return shares: of segments that were sent again, of time that buffers limited the sender."""
    data = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO)
    if len(data) < TCP_INFO:
        return {}
    (trip,) = struct.unpack_from("I", data, 68)
    (again,) = struct.unpack_from("I", data, 100)
    shortest, segments = struct.unpack_from("I4xI", data, 148)
    busy, by_receiver, by_sender = struct.unpack_from("3Q", data, 168)
    is_queued = trip > QUEUED * max(shortest, 1)
    shares = {
        "tcp.retransmitted": again / max(segments, 1),
        "tcp.receive_buffer": 0 if is_queued else by_receiver / max(busy, 1),
        "tcp.send_buffer": 0 if is_queued else by_sender / max(busy, 1),
    }
    return {name: round(value, 4) for name, value in shares.items() if value > 0}


def _demand_seconds() -> float | None:
    """Return the seconds in which this process ran or waited for a processor."""
    try:
        run_time, wait_time = SCHEDULED.read_text().split()[:2]
        return (int(run_time) + int(wait_time)) / NANO
    except (OSError, ValueError):
        return None


class TransferError(Exception):
    """Why a test has no value."""


class UntriedError(TransferError):
    """Why there is no rate; it says nothing of the link if a process was short of time."""


def receive(
    order: BeginTest, conditions: Conditions, report_port: Callable[[int], None]
) -> float | None:
    """Wait for the sender's connection, and receive from it (TransferError: nothing arrived).

    `bandwidth`, in bytes per second, is measured here; for `latency`, messages are sent back, and
    the result is None. After `order.limit` seconds, it is stopped.
    """
    with socket.create_server((order.address, 0)) as server:
        server.settimeout(order.limit)
        report_port(server.getsockname()[1])
        try:
            link, _ = server.accept()
        except TimeoutError as error:
            raise TransferError("no connection came within the limit") from error
    with _transfer(link, order.limit, conditions):
        _receive_exactly(link, len(HELLO))
        conditions.begin()
        if order.metric == "latency":
            while data := link.recv(len(HELLO)):
                link.sendall(data)
            return None
        return _receive_rate(link, order.seconds)


def send(order: BeginTest, conditions: Conditions) -> float | None:
    """Connect to the receiver, and send to it (TransferError: it does not answer).

    `latency` is measured here: the seconds of half a round trip; else the result is None.
    """
    address, seconds = order.address, order.seconds
    try:
        link = socket.create_connection((address, order.port), order.limit)
    except TimeoutError as error:
        raise TransferError(f"{address} cannot be reached: no answer within the limit") from error
    except OSError as error:
        raise TransferError(f"{address} cannot be reached: {error.strerror}") from error
    with _transfer(link, order.limit, conditions):
        link.sendall(HELLO)
        conditions.begin()
        if order.metric == "latency":
            best = float("inf")
            start = time.perf_counter()
            while (now := time.perf_counter()) - start < seconds:
                link.sendall(HELLO)
                _receive_exactly(link, len(HELLO))
                after = time.perf_counter()
                if now - start >= WARM_UP * seconds:
                    best = min(best, after - now)
            if best == float("inf"):
                raise TransferError("no message came back in time")
            return best / 2
        _send_for(link, seconds)
    return None


@contextmanager
def _transfer(link: socket.socket, limit: float, conditions: Conditions) -> Iterator[None]:
    """Prepare a connection for a test; a failure in the block is a TransferError."""
    with link:
        link.settimeout(limit)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            yield
        except TimeoutError as error:
            raise TransferError(SILENT) from error
        except OSError as error:
            raise TransferError(f"the connection broke: {error.strerror}") from error
        finally:
            conditions.end(link)


def _receive_exactly(link: socket.socket, size: int) -> None:
    remaining = size
    while remaining:
        data = link.recv(remaining)
        if not data:
            raise TransferError("the other end closed the connection")
        remaining -= len(data)


def _send_for(link: socket.socket, seconds: float) -> None:
    data = memoryview(bytes(CHUNK))
    end = time.perf_counter() + seconds
    try:
        while time.perf_counter() < end:
            link.send(data)
    except ConnectionError:
        if time.perf_counter() < end:  # afterwards, the receiver has closed: it read long enough
            raise
    with suppress(OSError):
        link.shutdown(socket.SHUT_WR)


def _receive_rate(
    link: socket.socket, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Receive for some time, and give the rate after the warm-up, in bytes per second.

    What arrived counts, as the kernel saw it: a host that was short of processor time reads from
    its buffers faster than its link is. The clock is read before and after the kernel answers, as
    this process may lose the processor in between (UntriedError: too often to measure). It is read
    while nothing comes, too: with losses, what waited for a lost segment arrives all at once.
    What is in buffers then is thrown away: on a slow link, it would take as long as the test. If
    the host was too busy to read twice in that time, it is the rate of all but the first read.
    """
    limit = link.gettimeout() or math.inf
    link.settimeout(GAP * seconds)
    data, total = bytearray(CHUNK), 0
    marks: list[tuple[float, int]] = []  # when, and how much had arrived by then
    last = clock()  # when something came
    while not _is_long_enough(marks, seconds):
        start = clock()
        try:
            size = link.recv_into(data)
        except TimeoutError as error:
            if start - last > limit:
                raise TransferError(SILENT if total else HOLE) from error
        else:
            if not size:
                break
            total += size
            last = start
        if total and (mark := _mark(link, total, clock))[0] < GAP * seconds:
            marks.append(mark[1:])
    else:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if not total:
        raise TransferError(HOLE)
    return _rate(marks, seconds)


def _mark(link: socket.socket, total: int, clock: Callable[[], float]) -> tuple[float, float, int]:
    """Return how many seconds the kernel took to answer, since when, and the bytes that arrived."""
    start = clock()
    info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ARRIVED + 8)
    took = clock() - start
    has_bytes = len(info) == ARRIVED + 8  # since Linux 4.1: those that arrived, read or not
    kernel_total = int(struct.unpack_from("Q", info, ARRIVED)[0]) if has_bytes else 0
    return took, start, kernel_total or total


def _is_long_enough(marks: Sequence[tuple[float, int]], seconds: float) -> bool:
    """Tell whether marks are enough for a rate; the last is one at which something came."""
    if len(marks) <= ENOUGH:
        return False
    return marks[-1][0] - marks[0][0] > seconds and marks[-1][1] > marks[-2][1]


def _rate(marks: Sequence[tuple[float, int]], seconds: float) -> float:
    """Return bytes per second from a fifth of the time to its end, or of all but the first read.

    Packets come in bursts, so the time is from one to another, unless it was silent for most of it.
    """
    whole = (1 - WARM_UP) * seconds
    warm = marks[0][0] + WARM_UP * seconds if marks else 0.0
    window = [mark for mark in marks if warm <= mark[0] <= warm + whole]
    arrivals = [mark for last, mark in pairwise(window) if mark[1] > last[1]]
    span = arrivals[-1][0] - arrivals[0][0] if arrivals else 0.0
    is_flowing = whole - span < min(QUIET * whole, TIMEOUT)
    for (begin, before), (end, after) in (
        (m[0], m[-1]) for m in (arrivals if is_flowing else (), window, marks) if m
    ):
        if end > begin and after > before:
            return (after - before) / (end - begin)
    raise UntriedError("too little arrived to measure")


if __name__ == "__main__":
    main()
