"""What a cloud may answer instead of what was asked, told apart by what helps against it."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Kind = Literal[
    "capacity",  # the zone has no room: another zone or time may have
    "quota",  # the account's limit is reached
    "denied",  # the account may not
    "throttled",  # too many calls: the same one will work later
    "lost",  # nobody knows whether it was done: the same call again tells
    "internal",  # the cloud failed by itself: the same thing, asked for anew, may be done
    "unsupported",  # it cannot be had like that here
    "missing",  # no such thing, or not known yet
    "in use",  # something else still needs it: it can go once that is gone
    "exists",  # there is one of that name already
    "other",
]
UNLISTED: frozenset[Kind] = frozenset({"throttled", "lost", "missing"})
PASSING: frozenset[Kind] = frozenset({"throttled", "lost"})
PATIENCE = 60.0  # seconds for a call to get through
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds between two attempts

T = TypeVar("T")


class Failure(Exception):
    """A cloud refused a call, or did not answer it.

    Args:
        kind: what helps against it.
        operation: that was called.
        code: the cloud's own word for it.
        message: the cloud's own text.
        request: the id by which the cloud's support finds the call.

    """

    def __init__(
        self, kind: Kind, *, operation: str, code: str, message: str, request: str = ""
    ) -> None:
        """Keep the parts apart."""
        super().__init__(f"{operation}: {code}: {message}")
        self.kind = kind
        self.operation = operation
        self.code = code
        self.message = message
        self.request = request


def retry(
    call: Callable[[], T],
    *,
    kinds: frozenset[Kind] = PASSING,
    within: float | None = None,
    longest: float = LONGEST_PAUSE,
) -> T:
    """Call until it gets through; the call must be one that does no harm when it comes twice.

    Pauses double, and differ at random so that several callers do not meet again (M. Brooker,
    "Exponential backoff and jitter", AWS architecture blog, 2015).

    Args:
        call: what to do.
        kinds: of failures that pass.
        within: seconds after which the last failure is raised; `PATIENCE`, if not given.
        longest: seconds between two attempts, at most.

    Returns:
        What it gave.

    Raises:
        Failure: of another kind, or it did not pass in time.

    """
    deadline = time.monotonic() + (PATIENCE if within is None else within)
    pause = FIRST_PAUSE
    while True:
        try:
            return call()
        except Failure as failure:
            if failure.kind not in kinds or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - nothing secret
        pause = min(2 * pause, longest)


@contextmanager
def ignoring(*kinds: Kind) -> Iterator[None]:
    """Pass over failures of some kinds.

    Args:
        kinds: which.

    """
    try:
        yield
    except Failure as failure:
        if failure.kind not in kinds:
            raise
