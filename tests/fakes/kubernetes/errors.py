"""What the API server refuses, in its own words."""

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    422: "Invalid",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS[code]

    def status(self) -> dict[str, Any]:
        """Write the object that says so."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


class Gap(Exception):
    """The fake does not know this; the test fails."""


def not_found(resource: str, name: str) -> Refused:
    """Say that there is no such object."""
    return Refused(404, f'{resource} "{name}" not found')
