"""What Google's words for a failure mean, and what to do about each kind.

A word comes with an HTTP status (cloud.google.com/compute/docs/reference/rest), or later, with the
operation that a call began, with or without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import Capacity, ClusterError, Denied, ProvisionError, Quota, Timeout
from cluster.providers._cloud.api_errors import Failure

if TYPE_CHECKING:
    from cluster.providers._cloud.api_errors import Kind
    from cluster.providers.gcp.responses import GcpOperation

WORDS: dict[Kind, tuple[str, ...]] = {
    "quota": ("quotaExceeded", "QUOTA_EXCEEDED", "LIMIT_EXCEEDED"),
    "throttled": (
        "rateLimitExceeded",
        "userRateLimitExceeded",
        "RATE_LIMIT_EXCEEDED",
        "concurrentLimitExceeded",
        "OPERATION_RATE_LIMIT_EXCEEDED",
    ),
    "in use": (
        "resourceInUseByAnotherResource",
        "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
        "resourceNotReady",
        "RESOURCE_NOT_READY",
    ),
    "exists": ("alreadyExists", "RESOURCE_ALREADY_EXISTS"),
    "missing": ("notFound", "RESOURCE_NOT_FOUND"),
    "denied": (
        "forbidden",
        "authError",
        "PERMISSIONS_ERROR",
        "accessNotConfigured",
        "billingNotEnabled",
    ),
    "unsupported": ("UNSUPPORTED_OPERATION", "RESOURCE_NOT_AVAILABLE"),
    "internal": ("INTERNAL_ERROR",),  # of an operation, which the same call would only show again
}
KINDS: dict[str, Kind] = {word: kind for kind, words in WORDS.items() for word in words}
SUMMARY = "VM_MIN_COUNT_NOT_REACHED"  # of a bulkInsert: one of its machines says why
PRECEDENCE: tuple[Kind, ...] = ("quota", "denied", "unsupported", "capacity")
NO_ROOM = ("ZONE_RESOURCE_POOL_EXHAUSTED", "RESOURCE_POOL_EXHAUSTED", "STOCKOUT")  # how it begins
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
TOLD: dict[Kind, tuple[type[ProvisionError], str, str]] = {
    "capacity": (
        Capacity,
        "There are not enough machines of this type there now; it is not your quota",
        "Try another zone: --option zones=a,b, another --instance, fewer --hosts, or later.",
    ),
    "quota": (
        Quota,
        "The project's own limit is reached; another zone of the region has the same",
        "Ask for more: https://console.cloud.google.com/iam-admin/quotas; what runs: cluster ls",
    ),
    "throttled": (
        Timeout,
        "There are too many calls; other programs of this project call it, too",
        "Wait a minute, and type the same again.",
    ),
    "lost": (
        Timeout,
        "The network or Google's service is down",
        "Type the same again; what exists: cluster ls, cluster gc",
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
    "unsupported": (
        ProvisionError,
        "Google does not offer this combination there",
        "See what would be created: --plan; choose another --zone or --instance.",
    ),
}
LOG_IN = "Log in: gcloud auth application-default login"
BILLING = "https://console.cloud.google.com/billing/projects"
DISABLED = (
    "The Compute Engine API is not enabled in this project",
    "Enable it, and wait a minute: gcloud services enable compute.googleapis.com --project PROJECT",
)
NO_BILLING = "The project has no account that pays", f"Give it one: {BILLING}"
LOGINS: dict[str, tuple[str, str]] = {  # by word, or by google-auth's class
    "DefaultCredentialsError": ("There are no credentials of Google on this machine", LOG_IN),
    "RefreshError": ("The login has expired, or was revoked", LOG_IN),
    "ReauthFailError": ("The login has to be confirmed again", LOG_IN),
    "authError": ("Google does not accept the login any more", LOG_IN),
    "accessNotConfigured": DISABLED,
    "SERVICE_DISABLED": DISABLED,
    "billingNotEnabled": NO_BILLING,
    "BILLING_DISABLED": NO_BILLING,
}
OTHERWISE = (
    ProvisionError,
    "This error is Google's; cluster knows no more of it",
    "See what would be created: --plan",
)


def kind_of(word: str, status: int = 0) -> Kind:
    """Tell what kind of failure a word is.

    Args:
        word: such as `ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS`.
        status: the HTTP status that came with it, if any.

    Returns:
        The kind; `other` if nothing is known of it.

    """
    if word.startswith((*NO_ROOM, SUMMARY)):
        return "capacity"
    return KINDS.get(word) or STATUSES.get(status, "other")


def weight(word: str) -> int:
    """Tell which of several errors of one call says why: the one of the least weight.

    A quota is the same in the next zone; a summary says only that something else went wrong.

    Args:
        word: of the error.

    Returns:
        Its place in the order.

    """
    if word.startswith(SUMMARY):
        return len(PRECEDENCE) + 1
    kind = kind_of(word)
    return PRECEDENCE.index(kind) if kind in PRECEDENCE else len(PRECEDENCE)


def call_name(collection: str, verb: str) -> str:
    """Give Google's own name of a call, by which its documents and its permissions know it.

    Args:
        collection: in the client's spelling, such as `resource_policies`.
        verb: in the same, such as `bulk_insert`.

    Returns:
        Such as `resourcePolicies.bulkInsert`.

    """

    def camel(name: str) -> str:
        first, *others = name.split("_")
        return first + "".join(other.capitalize() for other in others)

    return f"{camel(collection)}.{camel(verb.removesuffix('_unary'))}"


def check_operations(what: str, *operations: GcpOperation) -> None:
    """Read all errors of operations, which may come without any HTTP status.

    Args:
        what: was called.
        operations: that are done: the one that was begun, and what that began in its turn.

    Raises:
        Failure: it went wrong.

    """
    errors = sorted(
        (error for one in operations for error in one.error.errors),
        key=lambda error: weight(error.code),
    )
    if errors:
        first = errors[0]
        said = "; ".join(dict.fromkeys(error.message.rstrip(".") for error in errors))
        raise Failure(kind_of(first.code), operation=what, code=first.code, message=said)


def to_cluster_error(failure: Failure, *, left: str = "Nothing is left.") -> ClusterError:
    """Say what a failure means, and what to type.

    Args:
        failure: to tell of.
        left: what exists after it.

    Returns:
        The error for the user.

    """
    did = "did not answer" if failure.kind == "lost" else "refused"
    error, means, remedy = TOLD.get(failure.kind, OTHERWISE)
    if failure.kind == "denied":
        means, remedy = LOGINS.get(failure.code, (means, remedy))
    return error(
        f"Google {did} {failure.operation}: {failure.message.rstrip('.')}.",
        means=f"{means} ({failure.code}). {left}",
        remedy=remedy,
    )
