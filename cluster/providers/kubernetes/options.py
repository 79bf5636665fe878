"""The options of the provider `kubernetes`."""

from typing import Literal

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

TIME = 4 * 3600.0  # seconds after which the Job ends, without --ttl
MULTUS = "multus:"


class KubernetesOptions(Value, frozen=True, kw_only=True):
    """The options of the provider `kubernetes`.

    Args:
        image: of the pods, with Python 3.11, tmux and sshd; --image is the same.
        namespace: of the pods; that of kubectl's context, if empty.
        context: of kubectl's settings; the current one, if empty.
        gpus: of each pod.
        gpu: name of the resource that a GPU is.
        rdma: resource of a network card and number of them, such as `rdma/hca_shared:8`.
        network: `pod`, `host` (the interfaces of the node) or `multus:NAME` for one more network.
        queue: a LocalQueue of Kueue, which then starts the pods.
        nodes: labels that the nodes must have, such as `pool=h100`; `all`: a pod on each of them.
        share: a cluster, on the nodes of whose pods these are.
        tolerate: keys of taints of nodes to use all the same, such as `nvidia.com/gpu`.
        cpu: processors of each pod, such as `8`.
        memory: of each pod, such as `32Gi`.
        user: numeric id of the user in the pods; that of the image, if 0.
        security: level of Pod Security that the pods keep.
        wait: seconds for the pods to run, where no queue starts them.
        bin: folder of the image with a `python3` that has cluster; then nothing is installed.
        source: of the packages: `index`, `controller` or `auto`, as with the provider `ssh`.
        mpi: prefix of a prepared MPI in the image.
        python: Python of the image whose packages the ranks use, too.
    """

    image: str = ""
    namespace: str = ""
    context: str = ""
    gpus: int = 0
    gpu: str = "nvidia.com/gpu"
    rdma: str = ""
    network: str = "pod"
    queue: str = ""
    nodes: str = ""
    share: str = ""
    tolerate: str = ""
    cpu: str = ""
    memory: str = ""
    user: int = 0
    security: Literal["restricted", "baseline"] = "restricted"
    wait: float = 600.0
    bin: str = ""
    source: Literal["auto", "index", "controller"] = "auto"
    mpi: str = ""
    python: str = ""

    @property
    def on_all(self) -> bool:
        return "all" in self.nodes.split(",")

    @property
    def selector(self) -> dict[str, str]:
        """Labels that nodes must have (SpecError: they are no labels)."""
        pairs = [word.partition("=") for word in self.nodes.split(",") if word not in ("", "all")]
        if not all(key and equals for key, equals, _ in pairs):
            raise SpecError(
                f"--option nodes={self.nodes} is not KEY=VALUE[,KEY=VALUE...].",
                remedy="Look at the labels: kubectl get nodes --show-labels",
            )
        return {key: value for key, _, value in pairs}

    @property
    def resources(self) -> dict[str, str]:
        """What each pod requests, by Kubernetes' names (SpecError: `rdma` has no number)."""
        name, _, count = self.rdma.rpartition(":")
        if self.rdma and not (name and count.isdecimal()):
            raise SpecError(
                f"--option rdma={self.rdma} is not RESOURCE:NUMBER.",
                remedy="Such as rdma/hca_shared:8; the nodes' own: kubectl describe nodes",
            )
        amounts = {"cpu": self.cpu, "memory": self.memory, name: count}
        amounts[self.gpu] = str(self.gpus or "")
        return {resource: amount for resource, amount in amounts.items() if amount}


def options_of(spec: ClusterSpec) -> KubernetesOptions:
    """Return the options of a spec, typed (SpecError: they contradict one another)."""
    options = decoders.convert(spec.options, KubernetesOptions, strict=False)
    if options.image and spec.image not in (None, options.image):
        raise SpecError("--image and --option image differ.", remedy="Leave one out.")
    if not (options.image or spec.image):
        raise SpecError(
            "The provider 'kubernetes' needs the image of its pods.",
            means="Any with Python 3.11, tmux and sshd; docs/how-to/kubernetes.md has one.",
            remedy="--option image=REGISTRY/IMAGE:TAG",
        )
    if options.network not in ("pod", "host") and not options.network.startswith(MULTUS):
        raise SpecError(
            f"--option network={options.network} is not pod, host or multus:NAME.",
            remedy="Networks of Multus: kubectl get network-attachment-definitions",
        )
    return options


def time_limit(spec: ClusterSpec) -> int:
    """Return the seconds after which the control plane ends the Job."""
    return int(spec.ttl or TIME)
