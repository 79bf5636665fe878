"""What kubectl and the API server refuse, as errors that say what to type."""

import re

from cluster.core.errors import Denied, ProvisionError, Quota, SpecError


class NotFound(ProvisionError):
    """There is no such object."""


class Passing(ProvisionError):
    """The API server does not answer now; the same call may work later."""


# A pattern of the message, the kind of error, what it means, and what to type.
REFUSALS: tuple[tuple[str, type[ProvisionError | SpecError], str, str], ...] = (
    ("exceeded quota", Quota, "The namespace's quota has no room for these pods.",
     "Look: kubectl describe quota; ask for fewer --hosts, or for another namespace."),
    ("failed quota", SpecError, "The namespace's quota demands that each pod says what it needs.",
     "Say it: --option cpu=4 --option memory=16Gi"),
    ('PodSecurity "', SpecError, "The namespace does not allow such pods.",
     "Use another: --option namespace=NAME; network=host needs one that is privileged."),
    ("being terminated", SpecError, "The namespace is being deleted.",
     "Use another: --option namespace=NAME"),
    ("unknown field", SpecError, "The API server is older than Kubernetes 1.29.",
     "Look: kubectl version"),
    ('namespaces "', SpecError, "There is no such namespace.",
     "List them: kubectl get namespaces; then: --option namespace=NAME"),
    ("is forbidden", Denied, "Your role does not allow it.",
     "Ask the administrators of the cluster for the verbs that `cluster up --plan` names."),
    ("Unauthorized|provide credentials|getting credentials", Denied,
     "The login of kubectl is not valid, or has expired.",
     "Log in again as your provider says; then: kubectl auth whoami"),
    ("current-context must exist|cannot locate context", SpecError,
     "kubectl does not know which cluster to use.",
     "List them: kubectl config get-contexts; then: --option context=NAME"),
    ("dialing backend|containerLogs|tls: internal error", Passing,  # as on a node that is new
     "The kubelet of a node does not answer the API server.", "Look: kubectl get nodes"),
    (r"\(NotFound\)", NotFound, "", "List what is there: kubectl get jobs"),
    ("could not find the requested", NotFound, "", "Look: kubectl api-resources"),
)  # fmt: skip
NO_ANSWER = re.compile(
    r"Unable to connect|\((?:ServiceUnavailable|TooManyRequests|InternalError|Timeout)\)"
    r"|connection refused|etcdserver|currently unable|handshake timeout|EOF"
)


def refusal(errors: str) -> ProvisionError | SpecError:
    """Make the error for a kubectl that failed."""
    lines = [line for line in errors.strip().splitlines() if not line.startswith("Warning: ")]
    last = lines[-1] if lines else "it printed no reason"
    for pattern, kind, means, remedy in REFUSALS:
        if re.search(pattern, errors):
            return kind(f"kubectl says: {last}", means=means, remedy=remedy)
    if NO_ANSWER.search(errors):
        return Passing(
            f"The API server does not answer: {last}",
            means="It is down, restarts or is out of reach; pods that run go on.",
            remedy="Try it: kubectl get --raw /readyz",
        )
    return ProvisionError(f"kubectl failed: {last}", remedy="Try it by hand: kubectl get jobs")
