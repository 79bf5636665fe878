"""The Job that owns the pods of a cluster: one call creates all, and deleting it deletes all."""

import platform
import re
import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from cluster.core.kubectl import CONTAINER
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state.files import load_script
from cluster.providers.kubernetes.options import MULTUS, KubernetesOptions, options_of, time_limit
from cluster.providers.kubernetes.states import Object

LAUNCH = "cluster-ruler-launch"  # label with the token of a launch, on all that is ours
NAME, HOST = "cluster-ruler-name", "cluster-ruler-host"  # annotations of the Job
QUEUE, NETWORKS = "kueue.x-k8s.io/queue-name", "k8s.v1.cni.cncf.io/networks"
HOME = "/cluster"  # a volume of the pod: the root file system may be read-only
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - 64 MB unless it is a volume
KEPT = 600  # seconds for which a Job that ended can be looked at
# The first process of a pod: it reaps what others leave, and ends at once when it should.
HOLDER = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
LOOK = load_script(__file__, "look_at_image.sh")
LACKS = "lacks: "
NEEDED = "Python 3.11 or newer"
PYTHONS = " ".join(("python3", *(f"python3.{minor}" for minor in range(14, 10, -1))))
RESTRICTED = {  # what the level `restricted` of Pod Security demands
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NO_EVICTION = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
Json = dict[str, Any]


class JobMark(Value, frozen=True, kw_only=True):
    """What our objects say of their launch."""

    token: str
    name: str  # of the cluster
    host: str  # that launched it

    @property
    def job(self) -> str:
        slug = re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return f"cluster-{slug}-{self.token[:8]}"


def new_mark(name: str) -> JobMark:
    return JobMark(token=secrets.token_hex(8), name=name, host=platform.node())


def mark_of(job: Object) -> JobMark | None:
    labels, notes = job.metadata.labels, job.metadata.annotations
    if LAUNCH not in labels or NAME not in notes:
        return None
    return JobMark(token=labels[LAUNCH], name=notes[NAME], host=notes.get(HOST, ""))


def write_job(spec: ClusterSpec, mark: JobMark, share: str = "") -> str:
    """Write the Job; `share` is the token of a launch whose nodes its pods share."""
    options = options_of(spec)
    labels = {LAUNCH: mark.token}
    queue = {QUEUE: options.queue} if options.queue else {}
    network = options.network.removeprefix(MULTUS)
    networks = {NETWORKS: network} if network != options.network else {}
    security: Json = dict(RESTRICTED) if options.security == "restricted" else {}
    if options.rdma:
        security["capabilities"] = security.get("capabilities", {}) | {"add": ["IPC_LOCK"]}
    container: Json = {
        "name": CONTAINER,
        "image": options.image or spec.image or "",
        "command": ["sh", "-c", HOLDER],
        "env": [{"name": "HOME", "value": HOME}],
        "securityContext": security,
        "volumeMounts": [
            {"name": "home", "mountPath": HOME},
            {"name": "memory", "mountPath": SHARED_MEMORY},
        ],
    }
    if resources := options.resources:
        container["resources"] = {"limits": resources, "requests": resources}
    affinity = {"podAntiAffinity": _nodes_with(mark.token)}
    if share:
        affinity["podAffinity"] = _nodes_with(share)
    pod: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [
            {"name": "home", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
        "affinity": affinity,
        "securityContext": {"runAsUser": user, "fsGroup": user} if (user := options.user) else {},
    }
    if options.network == "host":
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if selector := options.selector:
        pod["nodeSelector"] = selector
    if options.tolerate:
        keys = options.tolerate.split(",")
        pod["tolerations"] = [{"key": key, "operator": "Exists"} for key in keys]
    job: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": mark.job,
            "labels": labels | queue,
            "annotations": {NAME: mark.name, HOST: mark.host},
        },
        "spec": {
            "suspend": bool(options.queue),  # Kueue resumes it
            "completions": spec.hosts,
            "parallelism": spec.hosts,
            "completionMode": "Indexed",
            # A pod that is lost ends no other: the values on those are kept.
            "backoffLimitPerIndex": 0,
            "activeDeadlineSeconds": time_limit(spec),
            "ttlSecondsAfterFinished": KEPT,
            "template": {
                "metadata": {"labels": labels, "annotations": NO_EVICTION | networks},
                "spec": pod,
            },
        },
    }
    return msgspec.json.encode(job).decode()


def needs(options: KubernetesOptions, hosts: int) -> tuple[str, str, str, str]:
    """Return what an image needs, as words of `LOOK`."""
    programs = "tmux tar find" + (" sshd ssh ssh-keygen" if hosts > 1 else "")
    if options.bin:  # nothing is installed
        return programs, (python := f"{options.bin}/python3"), "sys", f"{python} ({NEEDED})"
    need = f"{options.python} ({NEEDED})" if options.python else NEEDED
    return programs, options.python or PYTHONS, "venv", need


def _nodes_with(token: str) -> Json:
    term = {
        "labelSelector": {"matchLabels": {LAUNCH: token}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def write_reviews(verbs: Iterable[tuple[str, str, str]], namespace: str) -> str:
    """Write the questions whether we may do something: verb, group and resource of each."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    items = []
    for verb, group, resource in verbs:
        name, _, sub = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": name, "subresource": sub}
        if name != "nodes":  # they are in no namespace
            attributes["namespace"] = namespace
        items.append(review | {"spec": {"resourceAttributes": attributes}})
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}).decode()
