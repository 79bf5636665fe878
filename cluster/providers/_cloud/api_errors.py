"""Failures of calls to a cloud, classified by what can be done about them, and retries."""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from cluster.core.errors import Capacity, ProvisionError, SpecError, Timeout
from cluster.core.model.value import Value

Kind = Literal[
    "capacity",  # the zone has no room: try another zone, or later
    "quota",  # a limit of the account is reached
    "denied",  # the account lacks the permission
    "throttled",  # too many calls: the same call will succeed later
    "lost",  # it is not known whether the call took effect: repeating it shows that
    "foreign",  # something other than the cloud answered: what the call did is not known either
    "internal",  # the cloud itself failed: a new call for the same thing may succeed
    "unsupported",  # this combination is not available here
    "missing",  # the resource does not exist, or is not known everywhere yet
    "in use",  # another resource still needs it: it can be deleted after that one
    "exists",  # a resource of that name already exists
    "other",
]
Kinds = frozenset[Kind]
PASSING: Kinds = frozenset({"throttled", "lost", "foreign"})
UNLISTED: Kinds = PASSING | {"missing"}
PATIENCE = 60.0  # seconds for which a failing call is repeated
PAGE_PATIENCE = 10.0  # seconds for which one is repeated that a proxy or portal answers
PAGE_LENGTH = 100  # most characters of its page in a message
NO_ROOM = (
    "Wait, and type the same again; or another --instance, fewer --hosts, or zones that were not "
    "tried: --option zones=a,b"
)
OTHERS_ANSWER = (
    "A proxy, a firewall or the login page of a network answered, so it is not known what exists"
)
NO_TEXT = re.compile(r"<(script|style|title)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds between two attempts

T = TypeVar("T")
Advice = tuple[type[ProvisionError], str, str]  # the error, what it means, and what to type


class Failure(Exception):
    """A cloud refused a call, or did not answer it; `code` and `message` are the cloud's.

    The id of the `request` is for its support.
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


@contextmanager
def refuse_missing(error: SpecError) -> Iterator[None]:
    """Raise the error if a call says that what the user named does not exist."""
    try:
        yield
    except Failure as failure:
        if failure.kind != "missing":
            raise
        raise error from failure


class LoginAdvice(Value, frozen=True, kw_only=True):
    codes: str  # separated by blanks
    means: str
    remedy: str


class ErrorCodes(Value, frozen=True, kw_only=True):
    """The error codes of a cloud, as the file `errors.toml` beside a module lists them."""

    kinds: dict[Kind, str]  # codes, separated by blanks
    logins: tuple[LoginAdvice, ...]


def read_codes(module: str) -> tuple[dict[str, Kind], dict[str, tuple[str, str]]]:
    """Return the kind of each code; of those of a login, what they mean and what to type."""
    text = Path(module).with_name("errors.toml").read_text(encoding="utf-8")
    content = msgspec.toml.decode(text, type=ErrorCodes)
    kinds = {code: kind for kind, codes in content.kinds.items() for code in codes.split()}
    logins = {c: (item.means, item.remedy) for item in content.logins for c in item.codes.split()}
    return kinds, logins


def usual_advice(cloud: str, account: str, address: str) -> dict[Kind, Advice]:
    """Return what the kinds of failure mean that every cloud has, and what to do about each."""
    return {
        "capacity": (
            Capacity,
            "There are not enough machines of this type there now; it is not your quota",
            NO_ROOM,
        ),
        "throttled": (
            Timeout,
            f"There are too many calls; other programs of this {account} call it, too",
            "Wait a minute, and type the same again.",
        ),
        "lost": (
            Timeout,
            f"The network or {cloud}'s service is down",
            "Type the same again; what exists: cluster ls, cluster more gc",
        ),
        "foreign": (
            Timeout,
            OTHERS_ANSWER,
            f"See what answers, and log in there or go around it: curl -iL {address}",
        ),
        "unsupported": (
            ProvisionError,
            f"{cloud} does not offer this combination there",
            "Choose another --zone or --instance.",
        ),
    }


def explain(failure: Failure, cloud: str, advice: Advice, remains: str) -> ProvisionError:
    """Return the error for the user of a failure; `remains` says what exists after it."""
    error, means, remedy = advice
    verb = "did not answer" if failure.kind in ("lost", "foreign") else "refused"
    prefix = f"{cloud} {verb} {failure.operation}: " if failure.operation else ""  # a machine ended
    request = f", request {failure.request}" if failure.request else ""
    return error(
        f"{prefix}{failure.message.rstrip('.')}.",
        means=f"{means} ({failure.code}{request}). {remains}",
        remedy=remedy,
    )


class NotTheCloudError(Exception):
    """An answer, with a status of HTTP, lacks what each of the cloud's own answers has."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body

    def failure(self, operation: str) -> Failure:
        words = NO_TEXT.sub(" ", self.body[:10_000].decode(errors="replace")).split()
        text = "".join(c for c in " ".join(words) if c.isprintable())[:PAGE_LENGTH]
        page = f"the page '{text}'" if text else "an empty page"
        return Failure(
            "foreign",
            operation=operation,
            code=f"HTTP status {self.status}",
            message=f"{page} came instead",
        )


def retry(call: Callable[[], T], *, kinds: Kinds = PASSING) -> T:
    """Repeat a call, which must be idempotent, until it succeeds (Failure: see `pause_after`)."""
    start, failures = time.monotonic(), 0
    while True:
        try:
            return call()
        except Failure as failure:
            pause_after(failure, failures := failures + 1, start, kinds)


def pause_after(failure: Failure, failures: int, start: float, kinds: Kinds = PASSING) -> None:
    """Wait before a call is repeated after so many `failures` since its `start` (monotonic time).

    Pauses double, with random jitter so that callers do not collide again (M. Brooker,
    "Exponential backoff and jitter", AWS architecture blog, 2015). Failure: of another kind, or the
    last one after `PATIENCE` seconds.
    """
    pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
    limit = min(PATIENCE, PAGE_PATIENCE) if failure.kind == "foreign" else PATIENCE
    if failure.kind not in kinds or time.monotonic() + pause > start + limit:
        raise failure
    time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - nothing secret


@contextmanager
def ignoring(*kinds: Kind) -> Iterator[None]:
    try:
        yield
    except Failure as failure:
        if failure.kind not in kinds:
            raise
