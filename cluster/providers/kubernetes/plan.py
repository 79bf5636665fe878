"""What a launch would get: verbs, nodes with room, quota, queue."""

import re
from collections.abc import Iterator, Mapping

from cluster.core.errors import Denied, SpecError
from cluster.providers.kubernetes.api import Api
from cluster.providers.kubernetes.options import KubernetesOptions
from cluster.providers.kubernetes.states import ENDED, Object

VERBS = (  # that a cluster needs in its namespace; versions of kubectl differ in that of `exec`
    *((verb, "batch", "jobs") for verb in ("create", "get", "list", "delete")),
    *((verb, "", "pods") for verb in ("get", "list")),
    *((verb, "", "pods/exec") for verb in ("get", "create")),
)
KUEUE = "/apis/kueue.x-k8s.io/v1beta1/namespaces"
DECIMAL, BINARY = ("", "k", "M", "G", "T", "P"), ("", "Ki", "Mi", "Gi", "Ti", "Pi")
SUFFIXES = {"m": 1e-3} | {unit: 1e3**power for power, unit in enumerate(DECIMAL)}
SUFFIXES |= {unit: 1024.0**power for power, unit in enumerate(BINARY)}
QUANTITY = re.compile(r"([0-9.]+(?:[eE][0-9]+)?)([A-Za-z]{0,2})")
SHOWN = 4  # nodes without room, in a line


def check_verbs(api: Api) -> None:
    """Refuse a role that lacks a verb (Denied)."""
    if missing := api.denied_verbs(VERBS):
        raise Denied(
            f"In the namespace {api.namespace.name}, you may not: {', '.join(missing)}.",
            means="Nothing was created.",
            remedy="Ask for a Role with these verbs, or use another: --option namespace=NAME",
        )


def check_queue(api: Api, queue: str) -> None:
    """Refuse a queue that does not exist (SpecError)."""
    queues = api.list_if_allowed(f"{KUEUE}/{api.namespace.name}/localqueues")
    names = [local_queue.metadata.name for local_queue in queues or ()]
    if queues is not None and queue not in names:
        raise SpecError(
            f"There is no queue {queue!r} in {api.namespace.name}.",
            remedy=f"There are: {', '.join(names) or 'none'}; look: kubectl get localqueues",
        )


def queue_state(api: Api, job: Object) -> str:
    path = f"{KUEUE}/{api.namespace.name}/workloads?labelSelector=kueue.x-k8s.io/job-uid%3D"
    for workload in api.list_if_allowed(path + job.metadata.uid) or ():
        condition = workload.status.condition("QuotaReserved")
        if condition and condition.status != "True":
            return f"waits in the queue: {condition.message}"
    return "waits in the queue"


def count_nodes(api: Api, options: KubernetesOptions) -> int:
    """Count the nodes that have room for a pod, or would if others left (SpecError: none)."""
    reasons = [_why_unfit(node, {}, options) for node in api.nodes()]
    if all(reasons):
        text = "".join(f"; one {reason}" for reason in sorted({*reasons}))
        raise SpecError(
            f"None of {len(reasons)} nodes can have a pod{text}.",
            remedy="Look: kubectl get nodes --show-labels",
        )
    return reasons.count("")


def node_notes(api: Api, hosts: int, options: KubernetesOptions) -> Iterator[str]:
    """Say how many nodes have room, and what the others lack, if they are too few."""
    nodes = api.list_if_allowed("/api/v1/nodes")
    if nodes is None:
        return
    # what the pods on each node request of each resource
    used: dict[tuple[str, str], float] = {}
    for pod in api.list_if_allowed("/api/v1/pods") or ():
        for container in pod.spec.containers if pod.status.phase not in ENDED else ():
            for name, amount in container.resources.requests.items():
                key = pod.spec.node_name, name
                used[key] = used.get(key, 0.0) + parse_quantity(amount)
    reasons = {node.metadata.name: _why_unfit(node, used, options) for node in nodes}
    unsuitable = [f"{name} {reason}" for name, reason in reasons.items() if reason]
    fitting = len(nodes) - len(unsuitable)
    if fitting < hosts:
        rest = f"; and {len(unsuitable) - SHOWN} more" if len(unsuitable) > SHOWN else ""
        yield (
            f"{hosts} pods would wait: {fitting} of {len(nodes)} nodes have room; "
            f"{'; '.join(unsuitable[:SHOWN])}{rest}"
        )


def _why_unfit(
    node: Object, used: Mapping[tuple[str, str], float], options: KubernetesOptions
) -> str:
    """Say why a node has no room for a pod; empty if it has."""
    ready = node.status.condition("Ready")
    if ready is None or ready.status != "True":
        return "is not ready"
    if node.spec.unschedulable:
        return "is cordoned"
    keys = (taint.key for taint in node.spec.taints if taint.effect != "PreferNoSchedule")
    for key in set(keys) - set(options.tolerate.split(",")):
        return f"is reserved by the taint {key} (--option tolerate={key})"
    for key, value in options.selector.items() - node.metadata.labels.items():
        return f"lacks the label {key}={value}"
    for name, amount in options.resources.items():
        total = parse_quantity(node.status.allocatable.get(name, 0))
        free = total - used.get((node.metadata.name, name), 0.0)
        if free < parse_quantity(amount):
            return f"has {free:g} of {total:g} {name} free"
    return ""


def quota_notes(api: Api, hosts: int, options: KubernetesOptions) -> Iterator[str]:
    needs = {"pods": 1.0, "count/pods": 1.0}
    for name, amount in options.resources.items():
        needs |= dict.fromkeys((name, f"requests.{name}"), parse_quantity(amount))
    for quota in api.list_if_allowed(api.core("resourcequotas")) or ():
        for name, limit in quota.spec.hard.items():
            usage, need = parse_quantity(quota.status.used.get(name, 0)), hosts * needs.get(name, 0)
            if need and usage + need > parse_quantity(limit):
                yield (
                    f"the quota {quota.metadata.name} allows {limit} {name}: {usage:g} are in use, "
                    f"and {hosts} pods need {need:g}"
                )


def parse_quantity(text: str | int) -> float:
    """Read an amount, such as `500m` or `32Gi` (SpecError)."""
    match = QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in SUFFIXES:
        raise SpecError(f"{text!r} is no amount.", remedy="Such as 8, 500m or 32Gi.")
    return float(match[1]) * SUFFIXES[match[2]]
