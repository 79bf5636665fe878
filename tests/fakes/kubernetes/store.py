"""The objects of the cluster, their versions, and what happened to them."""

import copy
import re
import threading
import uuid
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.fakes.kubernetes.errors import Gap, Refused, not_found

Object = dict[str, Any]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
MOST_NAME, MOST_LABEL = 253, 63


class Kind(NamedTuple):
    """A resource of the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    verbs: tuple[str, ...] = ("create", "delete", "get", "list", "patch")

    @property
    def api(self) -> str:
        """As `apiVersion` has it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As messages have it, such as `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Kind("", "v1", "pods", "Pod")
SERVICES = Kind("", "v1", "services", "Service")
SECRETS = Kind("", "v1", "secrets", "Secret")
EVENTS = Kind("", "v1", "events", "Event")
QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota")
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
JOBS = Kind("batch", "v1", "jobs", "Job")
QUEUES = Kind("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue")
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")
REVIEWS = Kind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
    verbs=("create",),
)
KINDS = (
    *(PODS, SERVICES, SECRETS, EVENTS, QUOTAS, NODES, NAMESPACES),
    *(JOBS, QUEUES, WORKLOADS, REVIEWS),
)


def now() -> str:
    """Write the time as Kubernetes does: to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(text: str) -> float:
    """Return the seconds since a time."""
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()


class Store:
    """All objects; each change under its lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.objects: dict[tuple[Kind, str, str], Object] = {}
        self.version = 1000  # of the newest change

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return an object (404)."""
        with self.lock:
            if item := self.objects.get((kind, namespace, name)):
                return copy.deepcopy(item)
        raise not_found(kind.resource, name)

    def list(self, kind: Kind, namespace: str = "") -> list[Object]:
        with self.lock:
            return [
                copy.deepcopy(item)
                for (k, ns, _), item in sorted(self.objects.items(), key=lambda pair: pair[0][1:])
                if k == kind and namespace in ("", ns)
            ]

    def create(self, kind: Kind, item: Object, *, dry: bool = False) -> Object:
        meta = item["metadata"]
        with self.lock:
            if generated := meta.get("generateName"):
                meta.setdefault("name", f"{generated}{uuid.uuid4().hex[:5]}")
            check_names(kind, item)
            key = (kind, meta.get("namespace", ""), meta["name"])
            if key in self.objects:
                raise Refused(
                    409, f'{kind.resource} "{meta["name"]}" already exists', "AlreadyExists"
                )
            meta.setdefault("uid", str(uuid.uuid4()))  # admission chooses that of a Job
            meta |= {"creationTimestamp": now(), "generation": 1}
            if not dry:
                self._put(key, item)
            return copy.deepcopy(item)

    def update(self, kind: Kind, item: Object) -> Object:
        """Replace an object (409: it has changed since); without finalizers it may be gone now."""
        meta = item["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        with self.lock:
            old = self.get(*key)
            version = meta.get("resourceVersion", old["metadata"]["resourceVersion"])
            if version != old["metadata"]["resourceVersion"]:
                raise Refused(
                    409,
                    f'Operation cannot be fulfilled on {kind.resource} "{meta["name"]}": the '
                    "object has been modified; please apply your changes to the latest version",
                )
            for field in ("uid", "creationTimestamp", "deletionTimestamp"):
                if field in old["metadata"]:
                    meta[field] = old["metadata"][field]
            check_names(kind, item)
            if item == old:
                return copy.deepcopy(item)
            confirmed = not meta.get("deletionGracePeriodSeconds")  # else by the node, by `remove`
            if "deletionTimestamp" in meta and not meta.get("finalizers") and confirmed:
                self._delete(key)
            else:
                self._put(key, item)
            return copy.deepcopy(item)

    def remove(self, kind: Kind, item: Object) -> None:
        """Take an object out at once, unless finalizers hold it; then it is only marked."""
        meta = item["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        with self.lock:
            if key not in self.objects:
                return
            entry = self.objects[key]
            if entry["metadata"].get("finalizers"):
                entry["metadata"].pop("deletionGracePeriodSeconds", None)
                if "deletionTimestamp" not in entry["metadata"]:
                    entry["metadata"]["deletionTimestamp"] = now()
                    self._put(key, entry)
                return
            self._delete(key)

    def _delete(self, key: tuple[Kind, str, str]) -> None:
        self.version += 1
        del self.objects[key]

    def _put(self, key: tuple[Kind, str, str], item: Object) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = copy.deepcopy(item)


def containers_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a pod, in the order in which they start."""
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def check_names(kind: Kind, item: Object) -> None:
    """Refuse names and labels of another form (422)."""
    meta = item["metadata"]
    if len(meta["name"]) > MOST_NAME or not NAME.fullmatch(meta["name"]):
        raise Refused(
            422,
            f'{kind.kind} "{meta["name"]}" is invalid: metadata.name: Invalid value: '
            f'"{meta["name"]}": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.'",
        )
    for key, value in (meta.get("labels") or {}).items():
        if len(value) > MOST_LABEL or not LABEL.fullmatch(value):
            raise Refused(
                422,
                f'{kind.kind} "{meta["name"]}" is invalid: metadata.labels: Invalid value: '
                f'"{value}": a valid label must be an empty string or consist of alphanumeric '
                f"characters ({key})",
            )


def matches_labels(item: Object, selector: str) -> bool:
    """Tell whether an object has the labels of a selector such as `a=b,c`."""
    labels = item["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        if not re.fullmatch(r"[-\w./]+(=[-\w.]*)?", part):
            raise Gap(f"the label selector {selector!r}")
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def matches_fields(item: Object, selector: str) -> bool:
    """Tell whether an object has the value of a field selector."""
    path, _, value = selector.partition("=")
    if path not in ("", "involvedObject.name"):
        raise Gap(f"the field selector {selector!r}")
    field: Any = item
    for word in filter(None, path.split(".")):
        field = field.get(word, {})
    return not path or bool(field == value)


def merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
