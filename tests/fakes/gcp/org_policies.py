"""Organisation policies, as orgpolicy.googleapis.com tells those in effect for a project."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.fakes.gcp.catalog import PROJECT

if TYPE_CHECKING:
    from tests.fakes.gcp.cloud import Cloud

BASE = "/orgpolicy/"
ASKED = re.compile(rf"{BASE}v2/projects/([^/]+)/policies/([^/:]+):getEffectivePolicy")
LISTS = ("compute.vmExternalIpAccess",)
SWITCHES = (  # `compute.managed.disableGuestAttributesAccess` is not there: 404
    "compute.requireOsLogin",
    "compute.managed.requireOsLogin",
    "compute.disableGuestAttributesAccess",
    "compute.managed.vmExternalIpAccess",
)


def answer(cloud: Cloud, verb: str, path: str) -> tuple[int, str]:
    """Return the status and the text that answer a question."""
    status, answer = _answer(cloud, verb, path)
    return cloud.settings.policies_answer or (status, json.dumps(answer))


def _answer(cloud: Cloud, verb: str, path: str) -> tuple[int, dict[str, Any]]:
    """Answer a question for a policy; anything else is a gap."""
    match = ASKED.fullmatch(path)
    if verb != "GET" or match is None:
        cloud.gaps.append(f"{verb} {path}")
        return 501, _error(501, "UNIMPLEMENTED", f"There is no {verb} {path}.")
    project, constraint = match.groups()
    if project != PROJECT:
        return 403, _error(403, "PERMISSION_DENIED", f"Permission denied on {project}.")
    if not cloud.settings.policies_api:
        message = f"Organization Policy API has not been used in project {project} before"
        return 403, _error(403, "PERMISSION_DENIED", message)
    if constraint not in (*LISTS, *SWITCHES):
        return 404, _error(404, "NOT_FOUND", f"There is no constraint {constraint}.")
    name = f"projects/{project}/policies/{constraint}"
    return 200, {"name": name, "spec": {"rules": [_rule(cloud, constraint)]}}


def _rule(cloud: Cloud, constraint: str) -> dict[str, Any]:
    policy = cloud.settings.policies.get(constraint)
    if constraint in SWITCHES:
        if policy not in (None, "enforce"):
            raise ValueError(f"{constraint} is enforced or not; it has no {policy}")
        return {"enforce": policy == "enforce"}
    if policy is None:
        return {"allowAll": True}
    return {"denyAll": True} if policy == "denyAll" else {"values": {"allowedValues": [policy]}}


def _error(status: int, word: str, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": word}}
