"""What the API server says of Jobs, pods, nodes and quotas, and what that means in our words."""

import re
from collections.abc import Sequence

import msgspec

from cluster.core.model.network.placement import NetworkLayer, ProviderTopology

INDEX = "batch.kubernetes.io/job-completion-index"
ENDED = ("Failed", "Succeeded")  # phases of a pod
# A container in these states would wait for ever.
HOPELESS = ("InvalidImageName", "CreateContainerConfigError", "ErrImageNeverPull")
NO_IMAGE = re.compile(r"not found|denied|nauthorized|no match for platform|does not exist")
COUNTED = re.compile(r"(\d+) ((?:[^,.{]|\{[^}]*\}|\.(?! ))+)")
SCHEDULER = (  # a pattern of the scheduler's words on some nodes, and ours
    (r"Insufficient (.+)", "have too little {} free"),
    (
        r"node\(s\) had untolerated taint \{(.+?)(?:: .*)?\}",
        "are reserved by the taint {} (--option tolerate={})",
    ),
    (r"node\(s\) didn't match Pod's node affinity.*", "lack the labels of --option nodes"),
    (r"node\(s\) didn't match pod anti-affinity.*", "have a pod of this cluster already"),
    (r"node\(s\) were unschedulable", "are cordoned"),
)

GCP, AWS = "cloud.google.com/gce-topology", "topology.k8s.aws/network-node-layer"
OCI, COREWEAVE = "oci.oraclecloud.com/rdma", "backend.coreweave.cloud"
TOPOGRAPH = "network.topology.nvidia.com"
PHYSICAL = f"{GCP}-host"  # no switch
LABELS = {  # of nodes, the layers nearest to them first, and their names
    PHYSICAL: "physical host",
    "nvidia.com/gpu.clique": "NVLink clique",
    "ds.coreweave.com/nvlink.domain": "NVLink domain",
    f"{TOPOGRAPH}/accelerator": "NVLink domain",
    f"{GCP}-subblock": "sub-block",
    f"{GCP}-block": "block",
    **{f"{AWS}-{layer}": f"network node {layer}" for layer in (3, 2, 1)},
    f"{OCI}.local_block_id": "local block",
    f"{OCI}.network_block_id": "network block",
    f"{OCI}.hpc_island_id": "HPC island",
    f"{COREWEAVE}/leafgroup": "leaf group",
    f"{COREWEAVE}/superpod": "superpod",
    f"{COREWEAVE}/fabric": "fabric",
    **{f"{TOPOGRAPH}/{layer}": f"{layer} switch" for layer in ("leaf", "spine", "core")},
}


class ObjectPart(msgspec.Struct, frozen=True, rename="camel"):
    """Part of an object; fields that we do not read are left out."""


class Metadata(ObjectPart, frozen=True):
    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    resource_version: str = ""


class ObjectCondition(ObjectPart, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class ContainerState(ObjectPart, frozen=True):
    """Why a container does not run yet, or any more."""

    reason: str = ""
    message: str = ""


class ContainerStatus(ObjectPart, frozen=True):
    state: dict[str, ContainerState] = {}  # by `waiting`, `running` or `terminated`


class Resources(ObjectPart, frozen=True):
    requests: dict[str, str | int] = {}


class Container(ObjectPart, frozen=True):
    resources: Resources = Resources()


class Taint(ObjectPart, frozen=True):
    key: str
    effect: str = ""


class Spec(ObjectPart, frozen=True):
    """Of a Job, a pod, a node or a quota."""

    suspend: bool = False
    active_deadline_seconds: int = 0
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    hard: dict[str, str | int] = {}


class NodeImage(ObjectPart, frozen=True):
    names: tuple[str, ...] = ()


class Status(ObjectPart, frozen=True):
    """Of a Job, a pod, a node, a quota or a Workload."""

    conditions: tuple[ObjectCondition, ...] = ()
    start_time: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    container_statuses: tuple[ContainerStatus, ...] = ()
    allocatable: dict[str, str | int] = {}
    used: dict[str, str | int] = {}
    images: tuple[NodeImage, ...] = ()  # at most 50 on each node

    def has_image(self, image: str) -> bool:
        names = (name for image_names in self.images for name in image_names.names)
        return any(f"/{name}".endswith(f"/{image}") for name in names)

    def condition(self, kind: str) -> ObjectCondition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


class Object(ObjectPart, frozen=True):
    """An object of any kind; events have a reason and a message."""

    metadata: Metadata
    spec: Spec = Spec()
    status: Status = Status()
    reason: str = ""
    message: str = ""


class ObjectList(ObjectPart, frozen=True):
    items: tuple[Object, ...] = ()


def index_of(pod: Object) -> int:
    """Return the number of a pod in its Job, from 0."""
    return int((pod.metadata.annotations | pod.metadata.labels).get(INDEX, "0"))


def runs(pod: Object) -> bool:
    return pod.status.phase == "Running" and not pod.metadata.deletion_timestamp


def why_over(item: Object) -> str:
    """Say why a Job or a pod is over, such as `DeadlineExceeded: ...`; empty while it is not."""
    status = item.status
    ends = [c for c in map(status.condition, ("Failed", "Complete")) if c and c.status == "True"]
    if ends:
        return f"{ends[0].reason}: {ends[0].message}"
    why = status.condition("DisruptionTarget")  # a preemption, a drain, a taint of the node
    if status.phase in ENDED:
        end = state_of(item, "terminated")
        text = end.reason if end.reason not in ("", "Error", "Completed") else "its container ended"
        reason = status.reason or (why.reason if why else text)
        message = status.message or (why.message if why else end.message)
        return f"{reason}: {message}" if message else reason
    if item.metadata.deletion_timestamp:
        return f"{why.reason}: {why.message}" if why else "it is being deleted"
    return ""


def why_lost(pod: Object) -> str:
    """Say why a pod that ran is of no use any more; empty while it is.

    Pods of ours have no probes: one that runs and is not ready has a node that went silent.
    """
    ready = pod.status.condition("Ready")
    silent = runs(pod) and ready is not None and ready.status == "False"
    return why_over(pod) or (f"its node {pod.spec.node_name} does not answer" if silent else "")


def state_of(pod: Object, kind: str) -> ContainerState:
    states = (status.state for status in pod.status.container_statuses)
    return next((state[kind] for state in states if kind in state), ContainerState())


def is_hopeless(pod: Object) -> bool:
    """Tell whether a pod would wait for ever."""
    waiting = state_of(pod, "waiting")
    without_image = "ImagePull" in waiting.reason and NO_IMAGE.search(waiting.message)
    return waiting.reason in HOPELESS or bool(without_image)


def wait_reason(pod: Object) -> str:
    """Say why a pod does not run yet; empty if it does."""
    if runs(pod):
        return ""
    if (waiting := state_of(pod, "waiting")).reason:
        return f"{waiting.reason}: {waiting.message}".removesuffix(": ")
    condition = pod.status.condition("PodScheduled")
    if condition and condition.reason == "Unschedulable":
        return f"no node for it: {scheduler_words(condition.message)}"
    return f"starts on {pod.spec.node_name}" if pod.spec.node_name else "waits for a node"


def scheduler_words(message: str) -> str:
    """Say in our words what the scheduler says of the nodes."""
    head, colon, rest = message.partition(" nodes are available: ")
    if not colon:
        return message
    reasons = COUNTED.findall(rest.partition(" preemption:")[0].rstrip("."))
    words = [f"{count} {_our_words(reason.strip())}" for count, reason in reasons]
    return f"of {head.rpartition('/')[2]} nodes, {', '.join(words)}"


def _our_words(reason: str) -> str:
    for pattern, words in SCHEDULER:
        if match := re.fullmatch(pattern, reason):
            return words.format(*match.groups() * 2)
    return reason


def read_topology(nodes: Sequence[Object]) -> ProviderTopology:
    """Read which nodes share a part of the network; `nodes` are those of the hosts, in order."""
    layers = []
    for label, name in LABELS.items():
        values = [node.metadata.labels.get(label) for node in nodes]
        if any(values):
            groups = tuple(values.index(value) if value else None for value in values)
            layers.append(NetworkLayer(name=name, groups=groups, switch=label != PHYSICAL))
    reason = "" if layers else "the nodes have no labels of a topology"
    return ProviderTopology(layers=tuple(layers), reason=reason)


def place_of(node: Object) -> tuple[str, ...]:
    """Return what sorts nodes so that neighbours are near, the farthest layer first."""
    labels = node.metadata.labels
    return (*(labels.get(label, "") for label in reversed(LABELS)), node.metadata.name)
