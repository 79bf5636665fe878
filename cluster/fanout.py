"""The same thing on every host at once: every host's own result, and every failure."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from cluster.errors import ClusterError, Timeout, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cluster.shells import Shell

MOST_AT_ONCE = 64  # threads
BETWEEN_ATTEMPTS = 1.0  # seconds

T = TypeVar("T")


def on_each(hosts: Mapping[str, Shell], do: Callable[[str, Shell], T]) -> dict[str, T]:
    """Do something on every host at once.

    Args:
        hosts: shells by the names of their machines.
        do: what; it gets the name and the shell.

    Returns:
        What each gave, in the order of the hosts.

    Raises:
        ClusterError: one host failed.
        ExceptionGroup: several did; each has its own error in it.

    """
    return results(try_each(hosts, do))


def try_each(
    hosts: Mapping[str, Shell], do: Callable[[str, Shell], T]
) -> dict[str, T | ClusterError]:
    """Do something on every host at once; what one gives, the failure of others does not take.

    Args:
        hosts: shells by the names of their machines.
        do: what; it gets the name and the shell.

    Returns:
        What each gave, or the error that names it, in the order of the hosts.

    """

    def attempt(name: str, shell: Shell) -> T | ClusterError:
        try:
            return do(name, shell)
        except ClusterError as error:
            return _named(error, name) if len(hosts) > 1 else error

    with ThreadPoolExecutor(max_workers=max(1, min(MOST_AT_ONCE, len(hosts)))) as pool:
        begun = {name: pool.submit(attempt, name, shell) for name, shell in hosts.items()}
        try:
            return {name: future.result() for name, future in begun.items()}
        except KeyboardInterrupt:
            for shell in hosts.values():  # else the command's end would be waited for
                shell.close()
            raise


def _named(error: ClusterError, name: str) -> ClusterError:
    if name not in error.what:
        error.what = f"{name}: {error.what}"
        error.args = (error.what,)
    return error


def results(ended: Mapping[str, T | ClusterError]) -> dict[str, T]:
    """Give what every host gave.

    Args:
        ended: what each gave, or its error.

    Returns:
        The same, if there is no error.

    Raises:
        ClusterError: one host failed.
        ExceptionGroup: several did; each has its own error in it.

    """
    errors = [error for error in ended.values() if isinstance(error, ClusterError)]
    if len(errors) > 1:
        raise ExceptionGroup(f"{len(errors)} of {len(ended)} hosts failed", errors)
    if errors:
        raise errors[0]
    return {name: value for name, value in ended.items() if not isinstance(value, ClusterError)}


def connect_all(
    hosts: Mapping[str, Shell],
    seconds: float,
    tell: Callable[[str, str], None] = lambda _name, _state: None,
) -> None:
    """Connect to every host at once, and go on trying while waiting may help.

    Args:
        hosts: shells by the names of their machines.
        seconds: for all of them together.
        tell: called with a host and the state that it got to, whenever that changes.

    Raises:
        Timeout: one is not reachable in time; the message has its last state.
        Unreachable: one will never be, so the others are not waited for.
        ExceptionGroup: several of these.

    """
    deadline = time.monotonic() + seconds
    hopeless = threading.Event()

    def connect(name: str, shell: Shell) -> None:
        state = ""
        while True:
            try:
                shell.connect()
            except Unreachable as error:
                if not error.passing:
                    hopeless.set()
                    raise
                if error.state != state:
                    state = error.state
                    tell(name, state)
                _wait_or_give_up(name, error, deadline, hopeless)
            else:
                tell(name, "ready")
                return

    on_each(hosts, connect)


def _wait_or_give_up(
    name: str, error: Unreachable, deadline: float, hopeless: threading.Event
) -> None:
    if time.monotonic() + BETWEEN_ATTEMPTS > deadline or hopeless.wait(BETWEEN_ATTEMPTS):
        raise Timeout(
            f"{name} is not reachable: {error.what}", means=error.means, remedy=error.remedy
        ) from error
