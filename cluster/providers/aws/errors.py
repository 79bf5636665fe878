"""What Amazon's error codes mean, and what the user can do about each kind.

Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

import re

from cluster.core.errors import ClusterError, Denied, ProvisionError, Quota
from cluster.providers._cloud.api_errors import Advice, Failure, Kind, explained, usual_advice

CODES: dict[Kind, str] = {
    "capacity": """
        InsufficientInstanceCapacity InsufficientHostCapacity
        InsufficientReservedInstanceCapacity InsufficientCapacity
        InsufficientFreeAddressesInSubnet ReservationCapacityExceeded SpotMaxPriceTooLow
    """,
    "throttled": """
        RequestLimitExceeded Throttling ThrottlingException ThrottledException
        TooManyRequestsException EC2ThrottledException RequestThrottled
        RequestThrottledException PriorRequestNotComplete
    """,
    "denied": """
        UnauthorizedOperation AccessDenied AccessDeniedException AuthFailure
        AuthFailure.ServiceLinkedRoleCreationNotPermitted AuthorizationError Blocked
        ExpiredToken ExpiredTokenException InvalidClientTokenId NotAuthorized OptInRequired
        PendingVerification RequestExpired RequestTimeTooSkewed SignatureDoesNotMatch
        UnrecognizedClientException
    """,
    "unsupported": "Unsupported UnsupportedOperation UnsupportedHostConfiguration",
    "lost": """
        InternalError InternalFailure InternalServerError ServiceUnavailable Unavailable
    """,
    "in use": "DependencyViolation VolumeInUse IncorrectState IncorrectInstanceState",
    "missing": "ParameterNotFound InvalidPlacementGroup.Unknown Gateway.NotAttached",
    "exists": "Resource.AlreadyAssociated RouteAlreadyExists",
    "quota": "MaxSpotInstanceCountExceeded",
}
ENDINGS: tuple[tuple[str, Kind], ...] = (
    (".NotFound", "missing"),
    (".InUse", "in use"),
    (".Duplicate", "exists"),
    ("LimitExceeded", "quota"),  # all but RequestLimitExceeded, which is above
)
PASSING_STATUSES = (500, 502, 503, 504)  # a failing server, or a proxy in front of it
KINDS: dict[str, Kind] = {code: kind for kind, codes in CODES.items() for code in codes.split()}
ERRORS: dict[Kind, Advice] = {
    **usual_advice("Amazon", "account", "https://sts.amazonaws.com"),
    "quota": (
        Quota,
        "The account's own limit is reached, which is the same in every zone of the region",
        "Ask for more (https://console.aws.amazon.com/servicequotas), or end what runs: cluster ls",
    ),
}
CODES_PAGE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"
OTHERWISE = (
    ProvisionError,
    "cluster has no advice for this error of Amazon's",
    f"Look the code up: {CODES_PAGE}; what exists: cluster ls, cluster more gc",
)
PROTECTED = re.compile(r"'disableApi(Termination|Stop)'")
INSTANCE_ID = re.compile(r"\bi-[0-9a-f]+\b")
# IAM user guide, "Troubleshoot access denied error messages"
DENYING = re.compile(
    r"(?:explicit deny in an? |because no )(service control policy|resource control policy)"
    r"|explicit deny in an? ([\w -]*?(?:policy|boundary))"
)
WRONG_STATES = ("IncorrectInstanceState", "IncorrectState", "IncorrectSpotRequestState")
OTHER_STATE = (
    "Its state does not permit this now: it is changing, or it has ended",
    (
        "See the states: cluster ls; wait until none changes, and type the same again. What is "
        "terminated does not come back: cluster down NAME"
    ),
)
STAYS_IN_ZONE = (
    "There is no room in its zone now, and a stopped instance cannot move to another one",
    (
        "Type the same again later; or launch new ones elsewhere, without what is on these disks: "
        "cluster down NAME, then cluster up NAME with --option zones=a,b"
    ),
)
NO_SWITCH = (
    "Amazon does not stop and start such instances, for example those of one-time spot requests",
    "Take them down instead: cluster down NAME",
)
PLAN = "See its state and what is free: cluster up NAME --plan; then fewer --hosts, or another one"
RESERVATIONS = {  # EC2 API reference, "Error codes": what a launch into one is refused with
    "ReservationCapacityExceeded": "It has fewer free instances than when the plan was made",
    "InvalidCapacityReservationState": "It is not active any more",
    "InvalidCapacityReservationId.NotFound": "It does not exist any more",
}
PROFILE = "export AWS_PROFILE=NAME"
LOG_IN = "Log in: aws sso login (with --profile NAME, if you use one)"
KEY = "Look at your key: aws configure; who it says you are: aws sts get-caller-identity"
SPOT_ROLE = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
SIGN_UP = "https://portal.aws.amazon.com/billing/signup"
SUPPORT = "https://console.aws.amazon.com/support"
CLOCK = "This machine's clock is wrong", "Set it: sudo timedatectl set-ntp true"
EXPIRED = "The credentials have expired", LOG_IN
STRANGE_KEY = "Amazon does not know this key, or the region is not enabled for its account", KEY
NO_CREDENTIALS = "NoCredentialsError"  # of boto3, which then sent no call
LOGINS: dict[str, tuple[str, str]] = {  # by code or boto3's class: what it means, what to type
    # EC2's code for a session token that has expired, too (aws/aws-sdk-go, pull request 253)
    "RequestExpired": (
        f"The credentials have expired, or {CLOCK[0][0].lower()}{CLOCK[0][1:]}",
        f"{LOG_IN}; or {CLOCK[1][0].lower()}{CLOCK[1][1:]}",
    ),
    "RequestTimeTooSkewed": CLOCK,
    "ExpiredToken": EXPIRED,
    "ExpiredTokenException": EXPIRED,
    "UnauthorizedSSOTokenError": ("The login has expired", LOG_IN),
    "SSOTokenLoadError": ("Nobody has logged in on this machine yet", LOG_IN),
    "SSOError": ("The login is not valid", LOG_IN),
    "TokenRetrievalError": ("The login has expired, or nobody has logged in yet", LOG_IN),
    "LoginRefreshRequired": ("The login has expired", "Log in: aws login"),
    "LoginTokenLoadError": ("Nobody has logged in on this machine yet", "Log in: aws login"),
    "NoCredentialsError": (
        "There are no credentials of Amazon on this machine",
        f"Give a key: aws configure; or log in: aws configure sso; or choose a profile: {PROFILE}",
    ),
    "PartialCredentialsError": (
        "Only one half of a key is there",
        "Set both: export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...",
    ),
    "ProfileNotFound": (
        "AWS_PROFILE names a profile that is not in the configuration",
        f"See which there are: aws configure list-profiles; choose one: {PROFILE}",
    ),
    "InvalidConfigError": (
        "The profile is not complete",
        "Look at it: aws configure list; it is in ~/.aws/config",
    ),
    "CredentialRetrievalError": (
        "What the profile names as the source of its credentials gave none",
        "Try it alone: aws sts get-caller-identity; its source is in ~/.aws/config",
    ),
    "AuthFailure": STRANGE_KEY,
    "InvalidClientTokenId": STRANGE_KEY,
    "UnrecognizedClientException": STRANGE_KEY,
    "SignatureDoesNotMatch": ("The secret access key does not match the access key ID", KEY),
    "PendingVerification": (
        "Amazon is still verifying the account for this region, which may take hours",
        f"Wait for its e-mail, or ask: {SUPPORT}",
    ),
    "OptInRequired": (
        "The account is not signed up for this service, or not for this region",
        f"Finish it: {SIGN_UP}; enable the region: aws account enable-region --region-name REGION",
    ),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": (
        "The account has never had a spot instance, and you may not make the role that those need",
        f"An administrator types once: {SPOT_ROLE}",
    ),
    "Blocked": ("Amazon has blocked the account", f"Ask why: {SUPPORT}"),
}
MAY_NOT = (
    "Your credentials do not permit it",
    "docs/aws-policy.json has all that is needed; who you are: aws sts get-caller-identity",
)


def kind_of(code: str, status: int = 0) -> Kind:
    """Return the kind of failure of an error code; proxies may answer with codes of their own."""
    if code in KINDS:
        return KINDS[code]
    unknown: Kind = "lost" if status in PASSING_STATUSES else "other"
    return next((kind for ending, kind in ENDINGS if code.endswith(ending)), unknown)


def to_cluster_error(failure: Failure, *, remains: str = "Nothing is left.") -> ClusterError:
    if failure.code == NO_CREDENTIALS:
        means, remedy = LOGINS[failure.code]
        source = f"Amazon was not asked ({failure.code}). {remains}"
        return Denied(f"{means}.", means=source, remedy=remedy)
    error, means, remedy = ERRORS.get(failure.kind, OTHERWISE)
    if failure.kind == "denied":
        error = Denied
        means, remedy = _denied_by_policy(failure) or LOGINS.get(failure.code, MAY_NOT)
    means, remedy = _of_instance(failure) or (means, remedy)
    return explained(failure, "Amazon", (error, means, remedy), remains)


def _of_instance(failure: Failure) -> tuple[str, str] | None:
    if protected := PROTECTED.search(failure.message):
        named = INSTANCE_ID.search(failure.message)
        id_ = named[0] if named else "ID"
        action = "termination" if protected[1] == "Termination" else "stop"
        return (
            f"Somebody protects it against {action}; it runs on, and costs money",
            (
                f"Switch that off: aws ec2 modify-instance-attribute --instance-id {id_} "
                f"--no-disable-api-{action}; then type the same again"
            ),
        )
    if failure.code in RESERVATIONS:
        return RESERVATIONS[failure.code], PLAN
    if failure.code in WRONG_STATES:
        return OTHER_STATE
    if failure.kind == "capacity" and failure.operation == "StartInstances":
        return STAYS_IN_ZONE
    if failure.kind == "unsupported" and failure.operation in ("StartInstances", "StopInstances"):
        return NO_SWITCH
    return None


def _denied_by_policy(failure: Failure) -> tuple[str, str] | None:
    """Return what a policy means that no permission of the caller's own outweighs."""
    match = DENYING.search(failure.message)
    if match is None:
        return None
    policy = match[1] or match[2]
    origin = "of your organisation" if match[1] else "that somebody set for you"
    owner = "of your organisation" if match[1] else "of your permissions"
    encoded = "Encoded authorization failure message" in failure.message
    decode = "; which one: aws sts decode-authorization-message --encoded-message MESSAGE"
    return (
        f"A {policy} {origin} denies it; no permission of your own outweighs that",
        (
            f"Ask the administrator {owner} to permit {failure.operation}, or choose a --zone or "
            f"an --instance that it permits{decode if encoded else ''}"
        ),
    )
