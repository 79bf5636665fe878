"""What Amazon's error codes mean, and what the user can do about each kind.

Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

import re

from cluster.core.errors import ClusterError, Denied, ProvisionError, Quota
from cluster.providers._cloud.api_errors import (
    Advice,
    Failure,
    Kind,
    explain,
    read_codes,
    usual_advice,
)

ENDINGS: tuple[tuple[str, Kind], ...] = (
    (".NotFound", "missing"),
    (".InUse", "in use"),
    (".Duplicate", "exists"),
    ("LimitExceeded", "quota"),  # all but RequestLimitExceeded, which is above
)
PASSING_STATUSES = (500, 502, 503, 504)  # a failing server, or a proxy in front of it
KINDS, LOGINS = read_codes(__file__)
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
NO_CREDENTIALS = "NoCredentialsError"  # of boto3, which then sent no call
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
    return explain(failure, "Amazon", (error, means, remedy), remains)


def _of_instance(failure: Failure) -> tuple[str, str] | None:
    if protection := PROTECTED.search(failure.message):
        match = INSTANCE_ID.search(failure.message)
        id_ = match[0] if match else "ID"
        action = "termination" if protection[1] == "Termination" else "stop"
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
    is_encoded = "Encoded authorization failure message" in failure.message
    decode = "; which one: aws sts decode-authorization-message --encoded-message MESSAGE"
    return (
        f"A {policy} {origin} denies it; no permission of your own outweighs that",
        (
            f"Ask the administrator {owner} to permit {failure.operation}, or choose a --zone or "
            f"an --instance that it permits{decode if is_encoded else ''}"
        ),
    )
