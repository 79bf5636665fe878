"""Failures of calls to a cloud, classified by what can be done about them, and retries."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Kind = Literal[
    "capacity",  # the zone has no room: try another zone, or later
    "quota",  # a limit of the account is reached
    "denied",  # the account lacks the permission
    "throttled",  # too many calls: the same call will succeed later
    "lost",  # it is not known whether the call took effect: repeating it shows that
    "internal",  # the cloud itself failed: a new call for the same thing may succeed
    "unsupported",  # this combination is not available here
    "missing",  # the resource does not exist, or is not known everywhere yet
    "in use",  # another resource still needs it: it can be deleted after that one
    "exists",  # a resource of that name already exists
    "other",
]
UNLISTED: frozenset[Kind] = frozenset({"throttled", "lost", "missing"})
PASSING: frozenset[Kind] = frozenset({"throttled", "lost"})
PATIENCE = 60.0  # seconds for which a failing call is repeated
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds between two attempts

T = TypeVar("T")


class Failure(Exception):
    """A cloud refused a call, or did not answer it.

    Args:
        kind: of failure: what can be done about it.
        operation: that was called.
        code: the cloud's error code.
        message: the cloud's text.
        request: the id of the call, for the cloud's support.

    """

    def __init__(
        self, kind: Kind, *, operation: str, code: str, message: str, request: str = ""
    ) -> None:
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
    """Repeat a call until it succeeds; the call must be idempotent.

    Pauses double, with random jitter so that callers do not collide again (M. Brooker,
    "Exponential backoff and jitter", AWS architecture blog, 2015).

    Args:
        within: seconds after which the last failure is raised; `PATIENCE`, if not given.
        longest: most seconds between two attempts.

    Raises:
        Failure: of another kind, or the call did not succeed in time.

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
    """Ignore failures of some kinds."""
    try:
        yield
    except Failure as failure:
        if failure.kind not in kinds:
            raise
