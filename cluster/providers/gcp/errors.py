"""What Google's error codes mean, and what the user can do about each kind.

A code comes with the HTTP status of a call (cloud.google.com/compute/docs/reference/rest), or later
in the operation that the call started, with or without a status.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.core.errors import ClusterError, Denied, ProvisionError, Quota
from cluster.providers._cloud.api_errors import (
    Advice,
    Failure,
    Kind,
    explain,
    read_codes,
    usual_advice,
)

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Operation

KINDS, LOGINS = read_codes(__file__)
SUMMARY = "VM_MIN_COUNT_NOT_REACHED"  # of a bulkInsert; the error of one machine has the reason
PRECEDENCE: tuple[Kind, ...] = ("quota", "denied", "unsupported", "capacity")
EXHAUSTED = (  # prefixes; the last is of bulkInsert, with status 503
    *("ZONE_RESOURCE_POOL_EXHAUSTED", "RESOURCE_POOL_EXHAUSTED", "STOCKOUT"),
    "insufficientCapacity",
)
STATUSES: dict[int, Kind] = {
    401: "denied",
    403: "denied",
    404: "missing",
    409: "exists",
    429: "throttled",
    500: "lost",
    502: "lost",
    503: "lost",
    504: "lost",
}
ERRORS: dict[Kind, Advice] = {
    **usual_advice("Google", "project", "https://compute.googleapis.com"),
    "quota": (
        Quota,
        "The project's own limit is reached; another zone of the region has the same",
        "Ask for more: https://console.cloud.google.com/iam-admin/quotas; what runs: cluster ls",
    ),
    "denied": (
        Denied,
        "Your credentials do not permit it",
        "Who you are: gcloud auth list; log in: gcloud auth application-default login",
    ),
    "internal": (
        ProvisionError,
        "Google's own service failed again and again",
        "Wait a minute, and type the same again; see https://status.cloud.google.com",
    ),
}
NO_CREDENTIALS = ("DefaultCredentialsError",)
OTHERWISE = (
    ProvisionError,
    "cluster has no advice for this error of Google's",
    (
        "Look it up: https://cloud.google.com/compute/docs/troubleshooting; "
        "what exists: cluster ls, cluster more gc"
    ),
)
CONSTRAINT = re.compile(r"\bconstraints/([\w.]+\w)")  # of an organisation policy
PROTECTED = "protected against deletion"
RESERVED = "reservationAffinity"  # the field that a launch into a reservation is refused for


def kind_of(word: str, status: int = 0) -> Kind:
    """Return the kind of failure of a code or an HTTP status; `other` if neither is known."""
    if word.startswith((*EXHAUSTED, SUMMARY)):
        return "capacity"
    return KINDS.get(word) or STATUSES.get(status, "other")


def weight(word: str) -> int:
    """Rank the errors of one call: the one with the lowest rank is the cause.

    A quota comes first, because it is the same in the next zone; a summary comes last, because it
    only says that something else failed.
    """
    if word.startswith(SUMMARY):
        return len(PRECEDENCE) + 1
    kind = kind_of(word)
    return PRECEDENCE.index(kind) if kind in PRECEDENCE else len(PRECEDENCE)


def call_name(collection: str, verb: str) -> str:
    """Return Google's name of a call, such as `resourcePolicies.bulkInsert`, from the client's."""

    def camel(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(other.capitalize() for other in rest)

    return f"{camel(collection)}.{camel(verb.removesuffix('_unary'))}"


def singular(collection: str) -> str:
    """Return what calls name one of a collection: `resource_policy` of `resource_policies`."""
    return re.sub("ie$", "y", collection.removesuffix("s"))


def check_operations(label: str, *operations: Operation) -> None:
    """Raise the Failure of operations that are done, if any: the first by `weight`."""
    errors = sorted((e for o in operations for e in o.error.errors), key=lambda e: weight(e.code))
    if errors:
        first = errors[0]
        message = "; ".join(dict.fromkeys(error.message.rstrip(".") for error in errors))
        raise Failure(kind_of(first.code), operation=label, code=first.code, message=message)


def to_cluster_error(failure: Failure, *, remains: str = "Nothing is left.") -> ClusterError:
    if failure.code in NO_CREDENTIALS:
        means, remedy = LOGINS["DefaultCredentialsError"]
        return Denied(f"{means}.", means=f"Google was not asked. {remains}", remedy=remedy)
    error, means, remedy = ERRORS.get(failure.kind, OTHERWISE)
    if failure.kind == "denied":
        means, remedy = LOGINS.get(failure.code, (means, remedy))
    if constraint := CONSTRAINT.search(failure.message):
        error, means = Denied, "An organisation policy forbids it"
        remedy = (
            "Ask its administrator for an exception, or launch what it permits. See it: "
            f"gcloud org-policies describe {constraint[1]} --project PROJECT --effective"
        )
    elif RESERVED in failure.message:
        means = "The reservation is not what it was when the plan was made"
        remedy = "See its state and what is free: cluster up NAME --plan; or name another one"
    elif PROTECTED in failure.message:
        error, means = ProvisionError, "Somebody protects it; it runs on, and costs money"
        remedy = (
            "Switch that off: gcloud compute instances update NAME --zone ZONE "
            "--no-deletion-protection; then type the same again"
        )
    return explain(failure, "Google", (error, means, remedy), remains)
