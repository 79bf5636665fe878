"""Refusals, in the words and with the HTTP status of Amazon, and how each protocol writes them."""

import json
from html import escape

from moto.core.exceptions import ServiceException

STATUS = {  # all others are 400
    "AuthFailure": 401,
    "AccessDenied": 403,
    "UnauthorizedOperation": 403,
    "DryRunOperation": 412,
    "FileSystemNotFound": 404,
    "MountTargetNotFound": 404,
    "InsufficientInstanceCapacity": 500,
    "InternalError": 500,
    "InsufficientCapacity": 500,
    "EmulatorGap": 501,
    "RequestLimitExceeded": 503,
    "ServiceUnavailable": 503,
    "Unavailable": 503,
}


def refused(code: str, message: str) -> ServiceException:
    """Return what is raised to refuse a call."""
    return ServiceException(code, message)


def refusal(protocol: str, code: str, message: str) -> tuple[str, str]:
    """Return the media type and the body of an error."""
    if protocol == "json":
        return "application/x-amz-json-1.1", json.dumps({"__type": code, "message": message})
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    if protocol == "query":
        body = f"<ErrorResponse>{error}<RequestId>test-cloud</RequestId></ErrorResponse>"
    else:
        body = f"<Response><Errors>{error}</Errors><RequestID>test-cloud</RequestID></Response>"
    return "text/xml", body
