"""What Amazon's error codes mean, and what to do about each kind.

Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.errors import Capacity, ClusterError, Denied, ProvisionError, Quota, Timeout

if TYPE_CHECKING:
    from cluster.providers._cloud.api_errors import Failure, Kind

CODES: dict[Kind, tuple[str, ...]] = {
    "capacity": (
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientFreeAddressesInSubnet",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
    ),
    "throttled": (
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "EC2ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "PriorRequestNotComplete",
    ),
    "denied": (
        "UnauthorizedOperation",
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "AuthorizationError",
        "Blocked",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "NotAuthorized",
        "OptInRequired",
        "PendingVerification",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ),
    "unsupported": ("Unsupported", "UnsupportedOperation", "UnsupportedHostConfiguration"),
    "lost": (
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "ServiceUnavailable",
        "Unavailable",
    ),
    "in use": ("DependencyViolation", "VolumeInUse", "IncorrectState", "IncorrectInstanceState"),
    "missing": ("ParameterNotFound", "InvalidPlacementGroup.Unknown", "Gateway.NotAttached"),
    "exists": ("Resource.AlreadyAssociated", "RouteAlreadyExists"),
    "quota": ("MaxSpotInstanceCountExceeded",),
}
ENDINGS: tuple[tuple[str, Kind], ...] = (
    (".NotFound", "missing"),
    (".InUse", "in use"),
    (".Duplicate", "exists"),
    ("LimitExceeded", "quota"),  # all but RequestLimitExceeded, which is above
)
PASSING_STATUSES = (500, 502, 503, 504)  # of a server that fails, or of a proxy before it
KINDS: dict[str, Kind] = {code: kind for kind, codes in CODES.items() for code in codes}
TOLD: dict[Kind, tuple[type[ProvisionError], str, str]] = {
    "capacity": (
        Capacity,
        "There are not enough machines of this type there now",
        "Try another zone: --option zones=a,b, another --instance, fewer --hosts, or later.",
    ),
    "quota": (
        Quota,
        "The account's own limit is reached, which is the same in every zone of the region",
        "Ask for more (https://console.aws.amazon.com/servicequotas), or end what runs: cluster ls",
    ),
    "throttled": (
        Timeout,
        "There are too many calls; other programs of this account call it, too",
        "Wait a minute, and type the same again.",
    ),
    "lost": (
        Timeout,
        "The network or Amazon's service is down",
        "Type the same again; what exists: cluster ls, cluster gc",
    ),
    "unsupported": (
        ProvisionError,
        "It cannot be had like that there",
        "See what would be made: --plan; choose another --zone or --instance.",
    ),
}
OTHERWISE = (ProvisionError, "That is its own word for it", "See what would be made: --plan")
CLOCK = ("RequestExpired", "RequestTimeTooSkewed")
SESSION = ("ExpiredToken", "ExpiredTokenException")


def kind_of(code: str, status: int = 0) -> Kind:
    """Tell what kind of failure a code is.

    Args:
        code: such as `InsufficientInstanceCapacity`; what stands between us and Amazon has others.
        status: the HTTP status that came with it, if any.

    Returns:
        The kind; `other` if nothing is known of it.

    """
    if code in KINDS:
        return KINDS[code]
    unknown: Kind = "lost" if status in PASSING_STATUSES else "other"
    return next((kind for ending, kind in ENDINGS if code.endswith(ending)), unknown)


def to_cluster_error(failure: Failure, *, left: str = "Nothing is left.") -> ClusterError:
    """Say what a failure means, and what to type.

    Args:
        failure: to tell of.
        left: what exists after it.

    Returns:
        The error for the user.

    """
    request = f", request {failure.request}" if failure.request else ""
    code = f"({failure.code}{request})"
    said = f"Amazon refused {failure.operation}: {failure.message.rstrip('.')}."
    if failure.kind == "denied":
        return _denied(failure, said, f"{code}. {left}")
    if failure.kind == "lost":
        said = f"Amazon did not answer {failure.operation}: {failure.message.rstrip('.')}."
    error, means, remedy = TOLD.get(failure.kind, OTHERWISE)
    return error(said, means=f"{means} {code}. {left}", remedy=remedy)


def _denied(failure: Failure, said: str, source: str) -> Denied:
    if failure.code in CLOCK:
        return Denied(
            said,
            means=f"This machine's clock is wrong{source}",
            remedy="Set it: sudo timedatectl set-ntp true",
        )
    if failure.code in SESSION:
        return Denied(
            said, means=f"The credentials have expired{source}", remedy="Log in: aws sso login"
        )
    return Denied(
        said,
        means=f"Your credentials do not permit it{source}",
        remedy="docs/aws-policy.json has all that is needed; who you are: "
        "aws sts get-caller-identity",
    )
