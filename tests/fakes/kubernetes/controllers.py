"""The control plane: owners and garbage, Jobs, Kueue, and the scheduler; a step of each in turn."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.fakes.kubernetes.admission import INDEX, QUEUE, TRACKED, admit, pod_of
from tests.fakes.kubernetes.errors import Gap, Refused
from tests.fakes.kubernetes.quantities import add, number, requests_of
from tests.fakes.kubernetes.store import (
    EVENTS,
    JOBS,
    KINDS,
    NODES,
    PODS,
    QUEUES,
    WORKLOADS,
    Kind,
    Object,
    Store,
    age,
    matches_labels,
    now,
)

FOREGROUND = "foregroundDeletion"
ENDED = ("Failed", "Succeeded")


def delete(store: Store, kind: Kind, item: Object, propagation: str) -> None:
    """Begin the deletion of an object, as a client asks for it; a pod's node has to confirm it."""
    meta = item["metadata"]
    if kind == PODS and item["spec"].get("nodeName"):
        meta["deletionGracePeriodSeconds"] = item["spec"]["terminationGracePeriodSeconds"]
        if "deletionTimestamp" not in meta:
            _mark(store, kind, item, meta.get("finalizers") or [])
        return
    if propagation == "Foreground" and kind == JOBS:
        finalizers = list(meta.get("finalizers") or [])
        if FOREGROUND not in finalizers:
            _mark(store, kind, item, [*finalizers, FOREGROUND])
    else:
        store.remove(kind, item)


def _mark(store: Store, kind: Kind, item: Object, finalizers: list[str]) -> None:
    key = (kind, item["metadata"].get("namespace", ""), item["metadata"]["name"])
    with store.lock:
        entry = store.objects[key]
        entry["metadata"].setdefault("deletionTimestamp", now())
        entry["metadata"]["finalizers"] = finalizers
        grace = item["metadata"].get("deletionGracePeriodSeconds")
        if grace is not None:
            entry["metadata"]["deletionGracePeriodSeconds"] = grace
        store._put(key, entry)


def say(store: Store, item: Object, reason: str, message: str, *, kind: str = "Warning") -> None:
    """Write an event about an object, or count it once more."""
    meta = item["metadata"]
    for event in store.list(EVENTS, meta["namespace"]):
        subject = event["involvedObject"]
        if (subject["uid"], event["reason"], event["message"]) == (meta["uid"], reason, message):
            event["count"] += 1
            event["lastTimestamp"] = now()
            store.update(EVENTS, event)
            return
    store.create(
        EVENTS,
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": item["apiVersion"],
                "kind": item["kind"],
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": "fake"},
        },
    )


class ControlPlane:
    """Everything that acts on objects but the kubelets."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.kueue = False
        self.admits: Callable[[Object], bool] = lambda _: True  # whether Kueue starts a Job now

    def step(self) -> None:
        """Let each controller look once at all objects."""
        self._collect_garbage()
        for pod in self.store.list(PODS):  # also of Jobs that are gone
            try:
                self._untrack(pod)
            except Refused as error:
                if error.code not in (404, 409):
                    raise
        for job in self.store.list(JOBS):
            try:
                self._job(job)
            except Refused as error:
                if error.code not in (404, 409):
                    raise
        self._schedule()

    def _collect_garbage(self) -> None:
        with self.store.lock:
            items = [(kind, item) for kind in KINDS for item in self.store.list(kind)]
            uids = {item["metadata"]["uid"]: item for _, item in items}
            for kind, item in items:
                owners = item["metadata"].get("ownerReferences") or []
                dying = [
                    FOREGROUND in (uids[o["uid"]]["metadata"].get("finalizers") or ())
                    for o in owners
                    if o["uid"] in uids
                ]
                if owners and all(dying) and "deletionTimestamp" not in item["metadata"]:
                    delete(self.store, kind, item, "Background")
            for kind, item in items:
                if FOREGROUND in (item["metadata"].get("finalizers") or ()):
                    self._finish_foreground(kind, item, items)

    def _finish_foreground(
        self, kind: Kind, item: Object, items: list[tuple[Kind, Object]]
    ) -> None:
        uid = item["metadata"]["uid"]
        for other, dependent in items:
            meta = dependent["metadata"]
            holds = any(
                owner["uid"] == uid and owner.get("blockOwnerDeletion")
                for owner in meta.get("ownerReferences") or ()
            )
            if holds and (other, meta.get("namespace", ""), meta["name"]) in self.store.objects:
                return
        fresh = self.store.get(
            kind, item["metadata"].get("namespace", ""), item["metadata"]["name"]
        )
        fresh["metadata"]["finalizers"].remove(FOREGROUND)
        self.store.update(kind, fresh)

    def _job(self, job: Object) -> None:
        meta, spec, status = job["metadata"], job["spec"], job["status"]
        pods = [pod for pod in self.store.list(PODS, meta["namespace"]) if owned(pod, job)]
        if "deletionTimestamp" in meta:
            return
        conditions = status.setdefault("conditions", [])
        end = next((c for c in conditions if c["type"] in ("Failed", "Complete")), None)
        if end:
            self._after_end(job, pods, end)
            return
        if self.kueue and QUEUE in (meta.get("labels") or {}):
            self._queue(job)
        if spec["suspend"]:
            for pod in pods:
                delete(self.store, PODS, pod, "Background")
            _set(conditions, "Suspended", "JobSuspended", "Job suspended")
            status.pop("startTime", None)
        else:
            self._advance(job, pods)
        self.store.update(JOBS, job)

    def _advance(self, job: Object, pods: list[Object]) -> None:
        spec, status = job["spec"], job["status"]
        conditions = status["conditions"]
        if "startTime" not in status:
            status["startTime"] = now()
            conditions[:] = [c for c in conditions if c["type"] != "Suspended"]
        if age(status["startTime"]) > spec.get("activeDeadlineSeconds", 1e9):
            why = "Job was active longer than specified deadline"
            _set(conditions, "Failed", "DeadlineExceeded", why)
            say(self.store, job, "DeadlineExceeded", why)
        else:
            self._create_missing(job, pods)
        failed = [pod for pod in pods if _is_failed(pod)]
        if why := next(filter(None, (_why_hopeless(spec, pod) for pod in failed)), ""):
            _set(conditions, "Failed", "PodFailurePolicy", why)
        succeeded = {index_of(pod) for pod in pods if pod["status"].get("phase") == "Succeeded"}
        if len(succeeded) == spec["completions"]:
            _set(conditions, "Complete", "CompletionsReached", "")
        active = [pod for pod in pods if pod["status"].get("phase") not in ENDED]
        indexed = "backoffLimitPerIndex" in spec
        if not indexed and len(failed) > spec["backoffLimit"]:
            why = "Job has reached the specified backoff limit"
            _set(conditions, "Failed", "BackoffLimitExceeded", why)
        indexes = set(filter(None, status.get("failedIndexes", "").split(",")))
        indexes |= {index_of(pod) for pod in failed} if indexed else set()
        if len(indexes) == spec["completions"]:
            _set(conditions, "Failed", "FailedIndexes", "Job has failed indexes")
        status["active"], status["failed"] = len(active), len(indexes or failed)
        status["ready"] = len([pod for pod in active if pod["status"]["phase"] == "Running"])
        if indexes:
            status["failedIndexes"] = ",".join(sorted(indexes))

    def _untrack(self, pod: Object) -> None:
        is_over = pod["status"].get("phase") in ENDED or pod["metadata"].get("deletionTimestamp")
        if is_over and TRACKED in (pod["metadata"].get("finalizers") or ()):
            pod["metadata"]["finalizers"].remove(TRACKED)
            self.store.update(PODS, pod)

    def _after_end(self, job: Object, pods: list[Object], end: dict[str, Any]) -> None:
        for pod in pods:
            if pod["status"].get("phase") not in ENDED:
                delete(self.store, PODS, pod, "Background")
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is not None and age(end["lastTransitionTime"]) > seconds:
            delete(self.store, JOBS, job, "Foreground")

    def _create_missing(self, job: Object, pods: list[Object]) -> None:
        if job["spec"].get("completionMode") != "Indexed":
            raise Gap("Jobs that are not Indexed")
        indices = {index_of(pod) for pod in pods} | {
            *job["status"].get("failedIndexes", "").split(",")
        }
        for index in range(job["spec"]["completions"]):
            if str(index) in indices:
                continue
            pod = pod_of(job, index)
            try:
                admit(self.store, PODS, pod, kueue=False)
                pod_object = self.store.create(PODS, pod)
            except Refused as error:
                if "deleting" in str(error):
                    return
                say(self.store, job, "FailedCreate", f"Error creating: {error}")
                return
            say(
                self.store,
                job,
                "SuccessfulCreate",
                f"Created pod: {pod_object['metadata']['name']}",
                kind="Normal",
            )

    def _queue(self, job: Object) -> None:
        """Kueue: a Workload for the Job, which is admitted or waits."""
        meta = job["metadata"]
        name = f"job-{meta['name']}-{meta['uid'][:5]}"
        queue = meta["labels"][QUEUE]
        key = (WORKLOADS, meta["namespace"], name)
        if key not in self.store.objects:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"]}
            self.store.create(
                WORKLOADS,
                {
                    "apiVersion": WORKLOADS.api,
                    "kind": "Workload",
                    "metadata": {
                        "name": name,
                        "namespace": meta["namespace"],
                        "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
                        "ownerReferences": [
                            owner
                            | {"uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}
                        ],
                    },
                    "spec": {"queueName": queue, "active": True, "podSets": []},
                    "status": {},
                },
            )
        workload = self.store.get(*key)
        exists = (QUEUES, meta["namespace"], queue) in self.store.objects
        condition = {"type": "QuotaReserved", "lastTransitionTime": now()}
        if exists and self.admits(job):
            job["spec"]["suspend"] = False
            condition |= {"status": "True", "reason": "QuotaReserved", "message": "reserved"}
        else:
            why = (
                "couldn't assign flavors to pod set main: insufficient unused quota for "
                "nvidia.com/gpu in flavor default, 8 more needed"
                if exists
                else f"LocalQueue {queue} doesn't exist"
            )
            reason = "Pending" if exists else "Inadmissible"
            condition |= {"status": "False", "reason": reason, "message": why}
        old = workload["status"].get("conditions") or [{}]
        if any(old[0].get(field) != condition[field] for field in ("status", "message")):
            workload["status"] = {"conditions": [condition]}
            self.store.update(WORKLOADS, workload)

    def _schedule(self) -> None:
        nodes = self.store.list(NODES)
        pods = self.store.list(PODS)
        for pod in pods:
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            if pod["status"].get("phase") != "Pending":
                continue
            reasons = {node["metadata"]["name"]: _why_unfit(pod, node, pods) for node in nodes}
            fitting = [name for name, why in reasons.items() if not why]
            try:
                if fitting:
                    pod["spec"]["nodeName"] = fitting[0]
                    condition = {"type": "PodScheduled", "status": "True"}
                    pod["status"]["conditions"] = [condition | {"lastTransitionTime": now()}]
                    self.store.update(PODS, pod)
                else:
                    self._cannot(pod, Counter(filter(None, reasons.values())), len(nodes))
            except Refused as error:
                if error.code not in (404, 409):
                    raise

    def _cannot(self, pod: Object, reasons: Counter[str], nodes: int) -> None:
        counts = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        message = (
            f"0/{nodes} nodes are available: {counts}. preemption: 0/{nodes} nodes are available: "
            f"{nodes} Preemption is not helpful for scheduling."
        )
        if not nodes:
            message = "no nodes available to schedule pods"
        old = pod["status"].get("conditions") or [{}]
        if old[0].get("message") == message:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"]["conditions"] = [
            condition | {"message": message, "lastTransitionTime": now()}
        ]
        self.store.update(PODS, pod)
        say(self.store, pod, "FailedScheduling", message)


def owned(item: Object, owner: Object) -> bool:
    references = item["metadata"].get("ownerReferences") or ()
    return any(o["uid"] == owner["metadata"]["uid"] for o in references)


def _is_failed(pod: Object) -> bool:
    """Tell whether a pod counts as failed: also one that is deleted while it runs."""
    phase = pod["status"].get("phase")
    return phase == "Failed" or ("deletionTimestamp" in pod["metadata"] and phase != "Succeeded")


def _why_hopeless(spec: dict[str, Any], pod: Object) -> str:
    """Say by which rule the failure of a pod ends its Job; empty if by none."""
    for place, rule in enumerate(spec.get("podFailurePolicy", {}).get("rules", ())):
        if rule["action"] != "FailJob" or rule["onExitCodes"]["operator"] != "In":
            raise Gap(f"the rule {rule}")
        for status in pod["status"].get("initContainerStatuses", ()):
            code = status["state"].get("terminated", {}).get("exitCode")
            codes = rule["onExitCodes"]
            if status["name"] == codes["containerName"] and code in codes["values"]:
                key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                return (
                    f"Container {status['name']} for pod {key} failed with exit code {code} "
                    f"matching FailJob rule at index {place}"
                )
    return ""


def index_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"][INDEX])


def _set(conditions: list[dict[str, Any]], kind: str, reason: str, message: str) -> None:
    if any(condition["type"] == kind for condition in conditions):
        return
    conditions.append(
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": now(),
            "lastTransitionTime": now(),
        }
    )


def _why_unfit(pod: Object, node: Object, pods: list[Object]) -> str:
    """Say, in the scheduler's words, why a pod cannot run on a node; empty if it can."""
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    hard = [t for t in node["spec"].get("taints") or () if t["effect"] != "PreferNoSchedule"]
    for taint in hard:
        if not any(_tolerates(t, taint) for t in spec.get("tolerations") or ()):
            if taint["key"] == "node.kubernetes.io/unschedulable":
                return "node(s) were unschedulable"
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if (spec.get("nodeSelector") or {}).items() - labels.items():
        return "node(s) didn't match Pod's node affinity/selector"
    node_pods = [
        other
        for other in pods
        if other["spec"].get("nodeName") == node["metadata"]["name"]
        and other["status"].get("phase") not in ENDED
    ]
    return _affinity_mismatch(spec, node_pods) or _insufficient(pod, node, node_pods)


def _affinity_mismatch(spec: dict[str, Any], node_pods: list[Object]) -> str:
    if set(spec.get("affinity") or {}) - {"podAntiAffinity", "podAffinity"}:
        raise Gap(f"affinity {spec['affinity']}")
    for kind, words in (("podAntiAffinity", "anti-affinity"), ("podAffinity", "affinity")):
        terms = (spec.get("affinity") or {}).get(kind, {})
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            if term["topologyKey"] != "kubernetes.io/hostname":
                raise Gap(f"{words} by {term['topologyKey']}")
            selector = ",".join(f"{k}={v}" for k, v in term["labelSelector"]["matchLabels"].items())
            if any(matches_labels(other, selector) for other in node_pods) is (words != "affinity"):
                return f"node(s) didn't match pod {words} rules"
    return ""


def _insufficient(pod: Object, node: Object, node_pods: list[Object]) -> str:
    free = {name: number(amount) for name, amount in node["status"]["allocatable"].items()}
    for other in node_pods:
        free = add(free, {name: -amount for name, amount in requests_of(other).items()})
    for name, amount in requests_of(pod).items():
        if amount > free.get(name, 0):
            return f"Insufficient {name}"
    return ""


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value")) == (taint["key"], taint.get("value"))
