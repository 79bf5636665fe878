"""Refusals, in Google's words and with its HTTP status."""

from typing import Any

STATUS = {
    "authError": 401,
    "badRequest": 400,
    "invalid": 400,
    "resourceInUseByAnotherResource": 400,
    "resourceNotReady": 400,
    "quotaExceeded": 403,
    "forbidden": 403,
    "rateLimitExceeded": 403,
    "notFound": 404,
    "alreadyExists": 409,
    "conditionNotMet": 412,
    "backendError": 503,
    "internalError": 500,
    "notImplemented": 501,
}


class RefusedError(Exception):
    """A call is refused.

    Args:
        reason: Google's word for it.
        message: Google's text.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def missing(path: str) -> RefusedError:
    """Return what is raised where there is nothing."""
    return RefusedError("notFound", f"The resource '{path}' was not found")


def invalid(field: str, value: object, why: str) -> RefusedError:
    """Return what is raised for a value that cannot be."""
    return RefusedError("invalid", f"Invalid value for field 'resource.{field}': '{value}'. {why}")


def refusal(status: int, reason: str, message: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {
        "error": {
            "code": status,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }
    }
