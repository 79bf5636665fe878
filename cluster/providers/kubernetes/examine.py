"""The way to the pods, looked at and never changed: `cluster doctor --provider kubernetes`."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from cluster.core import decoders
from cluster.core.errors import ClusterError
from cluster.core.model.spec import ClusterSpec
from cluster.providers import DoctorCheck, optional_check
from cluster.providers.kubernetes import plan
from cluster.providers.kubernetes.api import Api, choose, run
from cluster.providers.kubernetes.objects import new_mark, write_job
from cluster.providers.kubernetes.options import KubernetesOptions
from cluster.providers.kubernetes.states import read_topology

OLDEST = (1, 29)  # of the API server: `backoffLimitPerIndex`
MORE_VERBS = (  # that a launch does not need: verb, group, resource, and what it is for
    ("list", "", "nodes", "the order of hosts, which nodes have room"),
    ("list", "", "resourcequotas", "what quotas allow"),
    ("list", "", "events", "why pods are refused"),
    ("patch", "", "nodes", "cluster check --cordon"),
)


class ApiVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.git_version)[:2]))


class ClientVersion(msgspec.Struct, frozen=True, rename="camel"):
    client_version: ApiVersion


def examine(options: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Look at each step of the way, up to one without which the next cannot be (ClusterError)."""
    settings = decoders.convert(options, KubernetesOptions, strict=False)
    client = decoders.decode(
        run(("kubectl", "version", "--client", "--output=json"))[0], ClientVersion
    ).client_version
    program = f"{client.git_version}, {shutil.which('kubectl')}"
    yield DoctorCheck(what="kubectl", ok=True, found=program)
    api = Api(choose(settings.namespace, settings.context))
    yield DoctorCheck(what="namespace and context", ok=True, found=api.namespace.place)
    server = decoders.decode(api.ask("get", "--raw", "/version"), ApiVersion)
    yield (check := _server(server, client))
    if not check.ok:
        return
    yield _check("verbs", "all that a launch needs", lambda: plan.check_verbs(api))
    denials = api.denied_verbs([verb[:3] for verb in MORE_VERBS])
    for verb, _, resource, purpose in MORE_VERBS:
        if (words := f"{verb} {resource}") in denials:
            yield optional_check(words, "", purpose, f"Look: kubectl auth can-i {words}")
    yield from _nodes(api, settings)
    if settings.queue:
        yield _check("queue", settings.queue, lambda: plan.check_queue(api, settings.queue))
    else:
        queues = api.list_if_allowed(f"{plan.KUEUE}/{api.namespace.name}/localqueues") or ()
        names = ", ".join(queue.metadata.name for queue in queues)
        yield optional_check(
            "queues of Kueue", names, "--option queue=NAME", "kubectl get localqueues"
        )
    yield from (_bad("quota", note) for note in plan.quota_notes(api, 1, settings))
    remedy = "cluster doctor --provider kubernetes --option image=REGISTRY/IMAGE:TAG"
    if settings.image:
        answer = "the API server takes it (dry run)"
        yield _check("a Job", answer, lambda: _try_job(api, options))
        remedy = (
            "If it cannot be pulled, one pod says why: cluster up probe --provider kubernetes "
            f"--hosts 1 --ttl 10min --option image={settings.image}"
        )
    yield optional_check("image", _describe_image(api, settings.image), "a launch", remedy)


def _check(subject: str, answer: str, look: Callable[[], None]) -> DoctorCheck:
    try:
        look()
    except ClusterError as error:
        remedy = f"{error.means} {error.remedy}".strip()
        return DoctorCheck(what=subject, ok=False, found=error.what, remedy=remedy)
    return DoctorCheck(what=subject, ok=True, found=answer)


def _bad(subject: str, note: str) -> DoctorCheck:
    return DoctorCheck(what=subject, ok=False, found=note, remedy="cluster up NAME --plan")


def _server(server: ApiVersion, client: ApiVersion) -> DoctorCheck:
    skew = max(abs(a - b) for a, b in zip(server.number, client.number, strict=True))
    note = f"; kubectl is {skew} minor versions apart, 1 is supported" if skew > 1 else ""
    return DoctorCheck(
        what="API server",
        ok=server.number >= OLDEST,
        found=server.git_version + note,
        remedy="Kubernetes 1.29 or later keeps the other pods when one is lost",
    )


def _nodes(api: Api, options: KubernetesOptions) -> Iterator[DoctorCheck]:
    """Say how many nodes are ready, what each has, and whether one has room for a pod."""
    nodes = api.list_if_allowed("/api/v1/nodes")
    if nodes is None:
        return
    ready = [n for n in nodes if (c := n.status.condition("Ready")) and c.status == "True"]
    kinds = Counter(
        tuple((r, plan.parse_quantity(a)) for r, a in n.status.allocatable.items() if "/" in r)
        for n in ready  # a slash: GPUs, network cards, all that a plug-in of the node counts
    )
    amounts = "".join(
        f", {count} with {' and '.join(f'{amount:g} {name}' for name, amount in kind) or 'none'}"
        for kind, count in sorted(kinds.items())
    )
    topology = read_topology(nodes)
    layers = ", ".join(layer.name for layer in topology.layers) or topology.reason
    yield DoctorCheck(
        what="nodes",
        ok=bool(ready),
        found=f"{len(nodes)}, {len(ready)} ready{amounts}; layers of the network: {layers}",
        remedy="Look: kubectl get nodes",
    )
    yield from (_bad("room", note) for note in plan.node_notes(api, 1, options))


def _try_job(api: Api, options: Mapping[str, str]) -> None:
    """Ask whether the API server would take a Job of one pod (ClusterError)."""
    spec = ClusterSpec(name="doctor", provider="kubernetes", hosts=1, options={**options})
    api.create(write_job(spec, new_mark(spec.name)), dry=True)


def _describe_image(api: Api, image: str) -> str:
    """Say which nodes have pulled an image; empty if none is known to, which proves nothing."""
    nodes = api.list_if_allowed("/api/v1/nodes") if image else ()
    holders = [node for node in nodes or () if node.status.has_image(image)]
    return f"{len(holders)} of {len(nodes or ())} nodes have pulled it" if holders else ""
