"""Operations: what a call began, and what came of it."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.fakes.gcp import discovery
from tests.fakes.gcp.catalog import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.gcp.values import Settings

NEVER = float("inf")
HTTP = {"QUOTA_EXCEEDED": 403, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": 400}
NUMBERS = itertools.count(1)


@dataclass
class Operation:
    """An operation; it is done at a time, or after some looks, or when what it waits for is."""

    name: str
    scope: str  # such as `zones/us-central1-a`, or `global`
    kind: str
    target: str
    request: str
    due: float
    looks: int
    finish: Callable[[Operation], None] | None = None
    until: Callable[[], bool] | None = None
    target_id: str = ""
    user: str = "me@example.com"
    message: str = ""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    done: bool = False
    errors: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    status: bool = True

    def tick(self, now: float) -> None:
        """Be done, if it is time."""
        if self.done or self.due > now or (self.until and not self.until()):
            return
        self.done = True
        if self.finish and not self.errors:
            self.finish(self)

    def fail(self, code: str, message: str, details: list[dict[str, Any]] | None = None) -> None:
        """Have an error."""
        self.errors.append(
            {"code": code, "message": message, **({"errorDetails": details} if details else {})}
        )

    def shown(self) -> dict[str, Any]:
        """Return it as it is answered."""
        where, _, place = self.scope.partition("/")
        shown: dict[str, Any] = {
            "kind": "compute#operation",
            "id": str(int(self.name.rpartition("-")[2])),
            "name": self.name,
            "operationType": self.kind,
            "status": "DONE" if self.done else "RUNNING",
            "progress": 100 if self.done else 0,
            "targetLink": f"https://www.googleapis.com{discovery.BASE}{self.target}",
            "insertTime": self.began.isoformat(),
            "user": self.user,
            **({"targetId": self.target_id} if self.target_id else {}),
            **({"statusMessage": self.message} if self.message else {}),
            **({"clientOperationId": self.request} if self.request else {}),
            **({where.rstrip("s"): place} if place else {}),
            **self.metadata,
        }
        if self.done and self.errors:
            shown["error"] = {"errors": self.errors}
            if self.status:
                shown["httpErrorStatusCode"] = HTTP.get(self.errors[0]["code"], 503)
                shown["httpErrorMessage"] = "SERVICE UNAVAILABLE"
        return shown


class Operations:
    """All operations of a cloud."""

    def __init__(self) -> None:
        self._all: dict[str, Operation] = {}
        self._by_request: dict[str, tuple[object, Operation]] = {}

    def begin(
        self, kind: str, scope: str, target: str, request: str, settings: Settings
    ) -> Operation:
        """Begin one."""
        number = next(NUMBERS)
        one = Operation(
            name=f"operation-{time.time_ns()}-{number:08}",
            scope=scope,
            kind=kind,
            target=f"projects/{PROJECT}/{target.removeprefix(f'projects/{PROJECT}/')}",
            request=request,
            due=time.monotonic() + settings.operation,
            looks=settings.looks,
        )
        self._all[one.name] = one
        return one

    def remember(self, request: str, asked: object, one: Operation) -> None:
        """Know a request again."""
        if request:
            self._by_request[request] = (asked, one)

    def before(self, request: str) -> tuple[object, Operation] | None:
        """Return what the same request began before."""
        return self._by_request.get(request)

    def get(self, name: str) -> Operation | None:
        """Look at one."""
        one = self._all.get(name)
        if one and one.looks:
            one.looks -= 1
            now = time.monotonic()
            one.due = one.due if one.looks else min(one.due, now)
            one.tick(now)
        return one

    def of(self, scope: str) -> list[Operation]:
        """Return those of a zone, of a region, or of neither."""
        return [one for one in self._all.values() if one.scope == scope]

    def tick(self, now: float) -> None:
        """Let those be done that are due."""
        for one in list(self._all.values()):
            one.tick(now)
