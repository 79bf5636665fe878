"""Calls in daemon threads: one, or one for each host with a result or an error."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, wait
from functools import partial
from typing import NoReturn, TypeVar

from cluster.core.errors import (
    STATES,
    ClusterError,
    HostErrors,
    ShellError,
    Timeout,
    Unreachable,
    on_failure,
    raise_all,
)
from cluster.remote.shell import Shell

MOST_AT_ONCE = 256  # threads
BETWEEN_ATTEMPTS = 1.0  # seconds
# Once some hosts have answered, the others may take `SLOWER` times as long, but at least `AT_LEAST`
# seconds: two lost packets delay a connection by 3 s.
SLOWER, AT_LEAST = 10.0, 4.0  # times; seconds
GRACE = 3.0  # seconds for running calls to end once one has failed
BETWEEN_CLOSINGS = 0.2  # seconds

T = TypeVar("T")


def start(call: Callable[[], T]) -> Future[T]:
    """Call a function in a thread that neither Ctrl-C nor the end of the process waits for."""
    future: Future[T] = Future()
    threading.Thread(target=_complete, args=(future, call), daemon=True).start()
    return future


def _complete(future: Future[T], call: Callable[[], T]) -> None:
    try:
        result = call()
    # Every exception, as ThreadPoolExecutor does: none is dropped, as the waiting thread raises it,
    # and a thread that ended at SystemExit without a result would be waited for without end.
    except BaseException as error:  # noqa: BLE001
        future.set_exception(error)
    else:
        future.set_result(result)


def on_each(hosts: Mapping[str, Shell], do: Callable[[str, Shell], T]) -> dict[str, T]:
    """Call a function for every host in parallel, and return the results.

    One host's ClusterError is raised as it is, several as HostErrors. KeyboardInterrupt closes the
    shells, which ends their commands.
    """
    return results(try_each(hosts, do))


def try_each(
    hosts: Mapping[str, Shell], do: Callable[[str, Shell], T]
) -> dict[str, T | ClusterError]:
    """Call a function as `on_each` does; each host has its result, or an error that names it."""
    with _calls(hosts, do) as futures:
        wait(futures.values())
    errors = _failures(futures)
    if len(hosts) > 1:
        errors = {name: name_host(error, name) for name, error in errors.items()}
    return {name: errors[name] if name in errors else f.result() for name, f in futures.items()}


def name_host(error: ClusterError, name: str) -> ClusterError:
    if error.host != name:
        error.what, error.host = f"{name}: {error.what}", name
        error.args = (error.what,)
    return error


def results(outcomes: Mapping[str, T | ClusterError]) -> dict[str, T]:
    """Return the results of all hosts, or raise the error of one, or HostErrors of several."""
    errors = [error for error in outcomes.values() if isinstance(error, ClusterError)]
    if errors:
        raise_all(errors, f"of {len(outcomes)} hosts failed")
    return {name: value for name, value in outcomes.items() if not isinstance(value, ClusterError)}


def unanswering(hosts: Mapping[str, Shell], seconds: float) -> dict[str, Unreachable]:
    """Find the hosts that do not run `true` in time.

    All hosts have the same deadline. Once some have answered, the others get `SLOWER` times as long
    as the slowest of these took, at least `AT_LEAST` seconds, but never more than the deadline.
    KeyboardInterrupt closes the shells.
    """
    with _calls(hosts, lambda _, shell: shell.run(["true"])) as futures:
        start, limit, late = time.monotonic(), seconds, set(futures.values())
        while late and (remaining := start + limit - time.monotonic()) > 0:
            result, late = wait(late, remaining, FIRST_COMPLETED)
            if any(future.exception() is None for future in result):
                duration = time.monotonic() - start
                limit = min(seconds, max(AT_LEAST, SLOWER * duration))
    dead = {
        name: Unreachable(
            f"{name} does not answer within {limit:.2g} s.", state="connecting", host=name
        )
        for name, future in futures.items()
        if future in late
    }
    for name, error in _failures({n: f for n, f in futures.items() if n not in dead}).items():
        dead[name] = (
            error
            if isinstance(error, Unreachable)
            else Unreachable(error.what, means=error.means, remedy=error.remedy, host=error.host)
        )
    for name in dead:
        hosts[name].close()  # its thread may still try to connect
    return dead


def connect_all(
    hosts: Mapping[str, Shell],
    seconds: float,
    on_state: Callable[[str, str], None] = lambda _name, _state: None,
    *,
    transient: Collection[str] = (),
    between: Callable[[], None] = lambda: None,
) -> None:
    """Connect to every host in parallel, and retry errors that may pass.

    Timeout: a host is not reachable in time, with its last state. Unreachable: an error that will
    not pass. HostErrors: several; it names the slowest. KeyboardInterrupt closes the shells.
    """
    start = time.monotonic()
    attempts = _Attempts(on_state, transient)
    with _calls(hosts, attempts.connect) as futures:
        try:
            result, late = _first_failure(futures.values(), seconds, between)
        finally:
            attempts.over.set()
        if late and any(future.exception() for future in result):  # collect their errors, too
            wait(late, max(0.0, min(GRACE, start + seconds - time.monotonic())))
    errors = _failures(futures)
    for name, future in futures.items():
        if not future.done():
            errors[name] = attempts.late(name, hosts[name], time.monotonic() - start)
    states = {name: shell.state for name, shell in hosts.items()}
    for name in errors:
        hosts[name].close()  # its thread may still try to connect
    if len(errors) > 1:  # a group of errors names the host that was furthest from being connected
        places = {state: place for place, state in enumerate(STATES)}
        slowest = min(errors, key=lambda name: places.get(states[name], 0))
        last = attempts.last.get(slowest)
        raise HostErrors(
            f"{len(errors)} of {len(states)} hosts failed; "
            f"the slowest is {slowest}: {last.state if last else states[slowest]}",
            list(errors.values()),
        )
    for error in errors.values():
        raise error


def _first_failure(
    futures: Collection[Future[T]], seconds: float, between: Callable[[], None]
) -> tuple[set[Future[T]], set[Future[T]]]:
    """Wait until all calls have ended, one failed, or time is over; return who has, and who not."""
    deadline = time.monotonic() + seconds
    while True:
        remaining = max(0.0, deadline - time.monotonic())
        result, late = wait(futures, min(remaining, BETWEEN_ATTEMPTS), FIRST_EXCEPTION)
        if not late or not remaining or any(future.exception() for future in result):
            return result, late
        between()


class _Attempts:
    def __init__(self, on_state: Callable[[str, str], None], transient: Collection[str]) -> None:
        self.over = threading.Event()
        self._on_state = on_state
        self._transient = transient
        self.last: dict[str, Unreachable] = {}

    def connect(self, name: str, shell: Shell) -> None:
        while True:
            try:
                shell.connect()
            except Unreachable as error:
                if not error.transient and error.state not in self._transient:
                    raise
                self._note(name, error)
            else:
                self._on_state(name, "ready")
                return
            if self.over.wait(BETWEEN_ATTEMPTS):
                raise self._timeout(name)

    def late(self, name: str, shell: Shell, seconds: float) -> ClusterError:
        if name in self.last:
            return self._timeout(name)
        state, access = shell.state, shell.machine and shell.machine.access
        address = access.host if access else "ADDRESS"
        return Timeout(
            f"{name} is not reachable after {seconds:.3g} s; its state: {state or 'begun'}.",
            means=STATES.get(state, ""),
            remedy=f"Try it by hand: ssh -v {address}",
            host=name,
        )

    def _note(self, name: str, error: Unreachable) -> None:
        before = self.last.get(name)
        self.last[name] = error
        if before is None or before.state != error.state:
            self._on_state(name, error.state)

    def _timeout(self, name: str) -> Timeout:
        error = self.last[name]
        timeout = Timeout(
            f"{name} is not reachable: {error.what}",
            means=error.means,
            remedy=error.remedy,
            host=name,
        )
        timeout.__cause__ = error
        return timeout


@contextlib.contextmanager
def _calls(
    hosts: Mapping[str, Shell], do: Callable[[str, Shell], T]
) -> Iterator[dict[str, Future[T]]]:
    """Start calls in daemon threads: neither Ctrl-C nor the end of the process waits for them.

    If the block fails, or an interrupt comes while they are started, the shells are closed, which
    ends the running calls, and waited for a moment.
    """
    futures: dict[str, Future[T]] = {name: Future() for name in hosts}
    waiting = queue.SimpleQueue[str]()
    for name in hosts:
        waiting.put(name)

    stop = threading.Event()

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                name = waiting.get_nowait()
                call = _not_begun if stop.is_set() else partial(do, name, hosts[name])
                _complete(futures[name], call)

    def abandon() -> None:
        stop.set()
        deadline, late = time.monotonic() + GRACE, set(futures.values())
        while late and time.monotonic() < deadline:
            for shell in hosts.values():
                shell.close()  # also what a thread began since the last time
            late = wait(late, BETWEEN_CLOSINGS).not_done

    with on_failure(abandon):
        for _ in range(min(MOST_AT_ONCE, len(hosts))):
            threading.Thread(target=work, daemon=True).start()
        yield futures


def _not_begun() -> NoReturn:
    raise ShellError("It was interrupted before it began.")


def _failures(futures: Mapping[str, Future[T]]) -> dict[str, ClusterError]:
    errors = {name: future.exception() for name, future in futures.items() if future.done()}
    for error in errors.values():
        if error is not None and not isinstance(error, ClusterError):
            raise error  # a bug: its traceback shows more than a group
    return {name: error for name, error in errors.items() if isinstance(error, ClusterError)}
