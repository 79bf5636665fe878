"""What `cluster doctor --provider kubernetes` prints: read only, and fit to be sent to others."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cluster.core.model.checks import DoctorCheck
from cluster.providers.kubernetes.api import Api, choose, run
from cluster.providers.kubernetes.plan import KUEUE, VERBS, parse_quantity

if TYPE_CHECKING:
    from cluster.providers.kubernetes.options import KubernetesOptions

OLDEST = (1, 29)  # backoffLimitPerIndex is on
LEVEL = "pod-security.kubernetes.io/enforce"


def examine(options: KubernetesOptions) -> Iterator[DoctorCheck]:
    """Look at kubectl, the API server, our role, the nodes and queues (ClusterError)."""
    client = json.loads(run(("kubectl", "version", "--client", "--output=json"))[0])
    version = client["clientVersion"]["gitVersion"]
    yield DoctorCheck(what="kubectl", ok=True, found=f"{version}, {shutil.which('kubectl')}")
    api = Api(choose(options.namespace, options.context))
    server = json.loads(api.ask("get", "--raw", "/version"))
    number = tuple(int("".join(filter(str.isdecimal, server[k]))) for k in ("major", "minor"))
    yield DoctorCheck(
        what="API server",
        ok=number >= OLDEST,
        found=f"{server['gitVersion']}, context {api.namespace.context or 'of this pod'}",
        remedy="Kubernetes 1.29 or later keeps the other pods when one is lost",
    )
    missing = api.denied(VERBS)
    yield DoctorCheck(
        what=f"role in {api.namespace.name}",
        ok=not missing,
        found=f"you may not: {', '.join(missing)}" if missing else "all that a launch needs",
        remedy="Ask for a Role with these verbs: docs/how-to/kubernetes.md",
    )
    namespace = api.list_if_allowed("/api/v1/namespaces") or ()
    levels = [
        n.metadata.labels.get(LEVEL, "") for n in namespace if n.metadata.name == api.namespace.name
    ]
    if levels and levels[0]:
        yield DoctorCheck(what="Pod Security", ok=True, found=levels[0])
    nodes = api.list_if_allowed("/api/v1/nodes")
    yield _optional(
        "nodes",
        "" if nodes is None else f"{len(nodes)}, {_gpus(api, options.gpu)}",
        "the order of hosts, why pods wait, check --cordon",
        "Ask for a ClusterRole: nodes, verbs list and (for --cordon) patch",
    )
    queues = api.list_if_allowed(f"{KUEUE}/{api.namespace.name}/localqueues") or ()
    names = ", ".join(each.metadata.name for each in queues)
    yield _optional("queues of Kueue", names, "--option queue=NAME", "kubectl get localqueues")


def _gpus(api: Api, resource: str) -> str:
    """Say how many nodes are ready, and how many GPUs each of them has."""
    ready = [n for n in api.nodes() if (c := n.status.condition("Ready")) and c.status == "True"]
    counts = Counter(int(parse_quantity(n.status.allocatable.get(resource, 0))) for n in ready)
    each = ", ".join(f"{count} with {gpus} {resource}" for gpus, count in sorted(counts.items()))
    return f"{len(ready)} ready: {each}" if ready else "none ready"


def _optional(what: str, value: str, needed_for: str, remedy: str) -> DoctorCheck:
    return DoctorCheck(
        what=what,
        ok=True,
        found=value or "not found",
        remedy="" if value else remedy,
        needed_for=needed_for,
        missing=not value,
    )
