"""What is decided before an object is kept: defaults, rules of its kind, PodSecurity, quota."""

import base64
import copy
import uuid
from typing import Any

from tests.fakes.kubernetes.errors import Refused
from tests.fakes.kubernetes.quantities import add, number, requests_of, write
from tests.fakes.kubernetes.store import (
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    SECRETS,
    Kind,
    Object,
    Store,
    containers_of,
)

LEVEL = "pod-security.kubernetes.io/enforce"
INDEX = "batch.kubernetes.io/job-completion-index"
QUEUE = "kueue.x-k8s.io/queue-name"
TRACKED = "batch.kubernetes.io/job-tracking"


def admit(store: Store, kind: Kind, item: Object, *, kueue: bool) -> list[str]:
    """Fill in the defaults of a new object; return warnings (Refused)."""
    if kind == JOBS:
        return _job(store, item, kueue=kueue)
    if kind == PODS:
        _pod(store, item)
    if kind == SECRETS:
        texts = item.pop("stringData", {})
        item["data"] = {
            key: base64.b64encode(text.encode()).decode() for key, text in texts.items()
        }
    return []


def _invalid(kind: str, name: str, field: str, why: str) -> Refused:
    return Refused(422, f'{kind} "{name}" is invalid: {field}: Invalid value: {why}')


def _job(store: Store, item: Object, *, kueue: bool) -> list[str]:
    name, spec = item["metadata"]["name"], item["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and "completions" not in spec:
        raise Refused(
            422,
            f'Job.batch "{name}" is invalid: spec.completions: Required value: when completion '
            "mode is Indexed",
        )
    longest = len(f"{name}-{spec.get('completions', 1) - 1}")
    if indexed and longest > 63:
        raise _invalid("Job.batch", name, "metadata.name", "must be no more than 63 characters")
    if spec["template"]["spec"].get("restartPolicy") not in ("Never", "OnFailure"):
        raise Refused(
            422,
            f'Job.batch "{name}" is invalid: spec.template.spec.restartPolicy: Required value: '
            'valid values: "OnFailure", "Never"',
        )
    if "backoffLimitPerIndex" in spec and not indexed:
        raise _invalid("Job.batch", name, "spec.backoffLimitPerIndex", "requires Indexed")
    _failure_policy(name, spec)
    uid = str(uuid.uuid4())
    labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
    labels |= {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
    item["metadata"]["uid"] = uid
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = (template.get("labels") or {}) | labels
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    spec.setdefault("suspend", False)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    if kueue and QUEUE in (item["metadata"].get("labels") or {}):
        spec["suspend"] = True  # as Kueue's webhook does
    item["status"] = {}
    pod = pod_of(item, 0)
    _defaults(pod)
    level = _level(store, item["metadata"]["namespace"])
    why = violations(pod, level)
    return [f'would violate PodSecurity "{level}:latest": {why}'] if why else []


def _failure_policy(name: str, spec: dict[str, Any]) -> None:
    """Refuse rules on exit codes that could never apply."""
    pod, field = spec["template"]["spec"], "spec.podFailurePolicy"
    if "podFailurePolicy" in spec and pod["restartPolicy"] != "Never":
        raise _invalid("Job.batch", name, field, "only supported restartPolicy is Never")
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        codes = rule["onExitCodes"]
        names = [container["name"] for container in containers_of(pod)]
        if codes.get("containerName", names[0]) not in names:
            raise _invalid("Job.batch", name, field, "must be one of the container names")
        if codes["operator"] == "In" and (0 in codes["values"] or not codes["values"]):
            raise _invalid("Job.batch", name, field, "must not be 0 for the In operator")
        if codes["values"] != sorted(set(codes["values"])):
            raise _invalid("Job.batch", name, field, "must be ordered, without duplicates")


def pod_of(job: Object, index: int) -> Object:
    """Make a pod of a Job, as its controller does."""
    meta, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] |= {
        "namespace": meta["namespace"],
        "generateName": f"{meta['name']}-{index}-",
        "finalizers": [TRACKED],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    pod["metadata"]["labels"] |= {INDEX: str(index)}
    pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
    pod["spec"]["hostname"] = f"{meta['name']}-{index}"
    for container in containers_of(pod["spec"]):
        container.setdefault("env", []).append(
            {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
        )
    return pod


def _defaults(pod: Object) -> None:
    spec = pod["spec"]
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    for container in containers_of(spec):
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("resources", {})
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = limits | (resources.get("requests") or {})


def _pod(store: Store, item: Object) -> None:
    _defaults(item)
    namespace = item["metadata"]["namespace"]
    name = item["metadata"].get("name", item["metadata"].get("generateName"))
    level = _level(store, namespace)
    if why := violations(item, level):
        raise Refused(
            403, f'pods "{name}" is forbidden: violates PodSecurity "{level}:latest": {why}'
        )
    item["status"] = {"phase": "Pending"}
    _check_quota(store, item, name)


def _level(store: Store, namespace: str) -> str:
    labels = store.get(NAMESPACES, "", namespace)["metadata"].get("labels") or {}
    return str(labels.get(LEVEL, "privileged"))


def violations(pod: Object, level: str) -> str:
    """Say what a pod has that a level of PodSecurity forbids; empty if nothing."""
    if level == "privileged":
        return ""
    reasons = ["host namespaces (hostNetwork=true)"] if pod["spec"].get("hostNetwork") else []
    for container in containers_of(pod["spec"]):
        name = f'container "{container["name"]}"'
        security = container.get("securityContext") or {}
        shared = (pod["spec"].get("securityContext") or {}) | security
        added = set((security.get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"}
        if level == "baseline":
            added -= {"CHOWN", "SETUID", "KILL"}
        if added:
            words = ", ".join(f'"{capability}"' for capability in sorted(added))
            reasons.append(
                f"non-default capabilities ({name} must not include {words} in "
                "securityContext.capabilities.add)"
            )
        if level == "restricted":
            reasons += _missing(name, security, shared)
    return ", ".join(reasons)


def _missing(name: str, security: dict[str, Any], shared: dict[str, Any]) -> list[str]:
    """Say what a container does not set that the level `restricted` demands."""
    demands = (
        (
            security.get("allowPrivilegeEscalation") is False,
            (
                f"allowPrivilegeEscalation != false ({name} must set "
                "securityContext.allowPrivilegeEscalation=false)"
            ),
        ),
        (
            "ALL" in ((security.get("capabilities") or {}).get("drop") or ()),
            (
                f"unrestricted capabilities ({name} must set "
                'securityContext.capabilities.drop=["ALL"])'
            ),
        ),
        (
            shared.get("runAsNonRoot"),
            f"runAsNonRoot != true (pod or {name} must set securityContext.runAsNonRoot=true)",
        ),
        (
            shared.get("seccompProfile", {}).get("type") == "RuntimeDefault",
            (
                f"seccompProfile (pod or {name} must set securityContext.seccompProfile.type to "
                '"RuntimeDefault" or "Localhost")'
            ),
        ),
    )
    return [words for is_met, words in demands if not is_met]


def _check_quota(store: Store, pod: Object, name: str) -> None:
    namespace = pod["metadata"]["namespace"]
    amounts = counted(pod)
    for quota in store.list(QUOTAS, namespace):
        hard = quota["spec"]["hard"]
        used = used_of(store, namespace)
        missing = [
            key for key in hard if key.startswith(("requests.cpu", "requests.memory", "cpu"))
        ]
        if lacking := [key for key in missing if key not in amounts]:
            raise Refused(
                403,
                f'pods "{name}" is forbidden: failed quota: {quota["metadata"]["name"]}: must '
                f"specify {', '.join(lacking)} for: {pod['spec']['containers'][0]['name']}",
            )
        excess = [
            key
            for key, most in hard.items()
            if amounts.get(key, 0) + used.get(key, 0) > number(most) and amounts.get(key, 0)
        ]
        if excess:
            words = [
                ",".join(f"{key}={write(source.get(key, 0))}" for key in excess)
                for source in (amounts, used, {key: number(most) for key, most in hard.items()})
            ]
            raise Refused(
                403,
                f'pods "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, '
                f"requested: {words[0]}, used: {words[1]}, limited: {words[2]}",
            )


def counted(pod: Object) -> dict[str, float]:
    """Return what a pod counts against a quota."""
    requests = requests_of(pod)
    counts: dict[str, float] = {"pods": 1.0, "count/pods": 1.0}
    counts |= {f"requests.{name}": amount for name, amount in requests.items()}
    counts |= {name: amount for name, amount in requests.items() if name in ("cpu", "memory")}
    return counts


def used_of(store: Store, namespace: str) -> dict[str, float]:
    """Return what the pods of a namespace count that have not ended."""
    used: dict[str, float] = {}
    for pod in store.list(PODS, namespace):
        if pod["status"].get("phase") not in ("Failed", "Succeeded"):
            used = add(used, counted(pod))
    return used
