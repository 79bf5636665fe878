"""The agent on a host: begins and ends processes for tests, by the orders on its standard input.

When its input ends, it ends all processes that it began, and itself.
"""

from __future__ import annotations

import os
import signal
import sys

import msgspec

from cluster.measure.pairs.messages import BeginTest, Listening, Order, Ready, TestOutcome
from cluster.measure.pairs.transfer import TransferError, exit_quietly, receive, send


def main() -> None:
    """Execute orders until the input ends."""
    children: dict[int, int] = {}
    _write(Ready())
    try:
        for line in sys.stdin:
            order = msgspec.json.decode(line, type=Order)
            if isinstance(order, BeginTest):
                children[order.test] = _begin(order)
            else:
                _end(children.pop(order.test, 0))
            _reap(children)
    finally:
        for pid in children.values():
            _end(pid)


def _write(answer: Ready | Listening | TestOutcome) -> None:
    """Write a line in one call: it is so short that lines of several processes do not mix."""
    os.write(1, msgspec.json.encode(answer) + b"\n")


def _end(pid: int) -> None:
    """Kill a child that was not reaped: until then its number belongs to no other process."""
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _reap(children: dict[int, int]) -> None:
    """Forget the children that have ended."""
    for test, pid in [*children.items()]:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            del children[test]


def _begin(order: BeginTest) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.alarm(int(order.limit) + 5)  # also if the agent is killed
        _write(_outcome(order))
    finally:
        exit_quietly()
    return 0


def _outcome(order: BeginTest) -> TestOutcome:
    try:
        if order.role == "receive":
            value = receive(
                order.address,
                order.metric,
                order.seconds,
                order.limit,
                lambda port: _write(Listening(test=order.test, port=port)),
            )
        else:
            value = send(order.address, order.port, order.metric, order.seconds, order.limit)
    except TransferError as error:
        return TestOutcome(test=order.test, reason=str(error))
    except OSError as error:
        return TestOutcome(test=order.test, reason=f"{error.strerror or error}")
    return TestOutcome(test=order.test, value=value)


if __name__ == "__main__":
    main()
