"""The agent on a host: begins and ends processes for tests, until its standard input ends."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import msgspec

from cluster.measure.pairs import messages
from cluster.measure.pairs.transfer import Conditions, TransferError, exit_quietly, receive, send

ALLREDUCE = "cluster.measure.pairs.allreduce"


def main() -> None:
    """Execute orders until the input ends."""
    children: dict[int, int] = {}
    _write(messages.Ready())
    try:
        for line in sys.stdin:
            order = msgspec.json.decode(line, type=messages.Order)
            if isinstance(order, messages.BeginTest):
                children[order.test] = _begin(order)
            else:
                _end(children.pop(order.test, 0))
            _reap(children)
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


def _reap(children: dict[int, int]) -> None:
    for test, pid in [*children.items()]:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            del children[test]


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
        exit_quietly()
    return 0


def _outcome(order: messages.BeginTest) -> messages.TestOutcome:
    conditions = Conditions()
    value, reason = None, ""
    try:
        if order.role == "allreduce":
            value = _allreduce(order)
        elif order.role == "receive":
            value = receive(
                order.address,
                order.metric,
                order.seconds,
                order.limit,
                lambda port: _write(messages.Listening(test=order.test, port=port)),
                conditions,
            )
        else:
            limits = (order.seconds, order.limit)
            value = send(order.address, order.port, order.metric, *limits, conditions)
    except TransferError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.strerror or error}"
    conditions.end()
    busy = 0.0 if reason else conditions.busy
    counters = conditions.counters
    return messages.TestOutcome(
        test=order.test, value=value, reason=reason, busy=busy, counters=counters
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
    return msgspec.json.decode(results[-1], type=messages.AllreduceOutcome).rate


if __name__ == "__main__":
    main()
