"""Operations: what a call began, and what came of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.fakes.gcp import discovery
from tests.fakes.gcp.catalog import PROJECT
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
        if self.done or self.due > now or (self.until and not self.until()):
            return
        self.done = True
        if self.finish and not self.errors:
            self.finish(self)

    def fail(self, code: str, message: str, details: list[dict[str, Any]] | None = None) -> None:
        self.errors.append(
            {"code": code, "message": message, **({"errorDetails": details} if details else {})}
        )

    def render(self) -> dict[str, Any]:
        """Return it as it is answered."""
        level, _, place = self.scope.partition("/")
        answer: dict[str, Any] = {
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
            **({level.rstrip("s"): place} if place else {}),
            **self.metadata,
        }
        if self.done and self.errors:
            answer["error"] = {"errors": self.errors}
            if self.status:
                answer["httpErrorStatusCode"] = HTTP.get(self.errors[0]["code"], 503)
                answer["httpErrorMessage"] = "SERVICE UNAVAILABLE"
        return answer


class Operations:
    """All operations of a cloud."""

    def __init__(self) -> None:
        self._all: dict[str, Operation] = {}
        self._by_request: dict[str, tuple[object, Operation]] = {}

    def begin(
        self, kind: str, scope: str, target: str, request: str, settings: Settings
    ) -> Operation:
        number = next(NUMBERS)
        operation = Operation(
            name=f"operation-{time.time_ns()}-{number:08}",
            scope=scope,
            kind=kind,
            target=f"projects/{PROJECT}/{target.removeprefix(f'projects/{PROJECT}/')}",
            request=request,
            due=time.monotonic() + settings.operation,
            looks=settings.looks,
        )
        self._all[operation.name] = operation
        return operation

    def remember(self, request: str, body: object, operation: Operation) -> None:
        """Know a request again."""
        if request:
            self._by_request[request] = (body, operation)

    def before(self, request: str) -> tuple[object, Operation] | None:
        """Return what the same request began before."""
        return self._by_request.get(request)

    def get(self, name: str) -> Operation | None:
        operation = self._all.get(name)
        if operation and operation.looks:
            operation.looks -= 1
            now = time.monotonic()
            operation.due = operation.due if operation.looks else min(operation.due, now)
            operation.tick(now)
        return operation

    def select(self, scope: str) -> list[Operation]:
        """Return those of a zone, of a region, or of neither."""
        return [operation for operation in self._all.values() if operation.scope == scope]

    def tick(self, now: float) -> None:
        for operation in list(self._all.values()):
            operation.tick(now)
