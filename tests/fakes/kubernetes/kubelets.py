"""The kubelets: pods that were given to a node are pulled, started, watched and ended there."""

import base64
import copy
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.fakes.kubernetes.controllers import say
from tests.fakes.kubernetes.errors import Gap, Refused
from tests.fakes.kubernetes.pods import FolderPods
from tests.fakes.kubernetes.store import (
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Object,
    Store,
    containers_of,
    matches_labels,
    now,
)

IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(@sha256:[0-9a-f]{64})?")
NODES_AT_ONCE = 8
MOST_MESSAGE = 4096  # bytes of a container's last message


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, store: Store, runtime: FolderPods) -> None:
        self.store = store
        self.runtime = runtime
        self.images = runtime.images
        self.dead: set[str] = set()  # nodes whose kubelet does nothing any more
        self._naming = threading.Lock()
        self._side_by_side = ThreadPoolExecutor(NODES_AT_ONCE)

    def step(self) -> None:
        """Look at each pod once; nodes do it side by side."""
        placed = [pod for pod in self.store.list(PODS) if pod["spec"].get("nodeName")]
        alive = [pod for pod in placed if pod["spec"]["nodeName"] not in self.dead]
        list(self._side_by_side.map(self._try_look, alive))

    def _try_look(self, pod: Object) -> None:
        try:
            self._look(pod, self.store.get(NODES, "", pod["spec"]["nodeName"]))
        except Refused as error:
            if error.code not in (404, 409):
                raise

    def _look(self, pod: Object, node: Object) -> None:
        phase = pod["status"]["phase"]
        if "deletionTimestamp" in pod["metadata"]:
            if phase == "Running":
                self.runtime.stop(pod)
                pod["status"]["phase"] = "Failed"
                self.store.update(PODS, pod)
            elif phase == "Pending":
                self.runtime.stop(pod)  # what runs before its containers
                pod["status"]["phase"] = "Failed"
                self.store.update(PODS, pod)
            elif not pod["metadata"].get("finalizers"):
                self.store.remove(PODS, pod)
            return
        if phase == "Pending" and "initContainerStatuses" in pod["status"]:
            self._initialize(pod)
        elif phase == "Pending":
            self._start(pod, node)
        elif phase == "Running" and (status := self.runtime.exit_status(pod)) is not None:
            self.runtime.stop(pod)
            state = {"exitCode": status, "reason": "Error" if status else "Completed"}
            pod["status"]["phase"] = "Failed" if status else "Succeeded"
            self._containers(pod, {"terminated": state}, ready=False)
            self.store.update(PODS, pod)

    def _start(self, pod: Object, node: Object) -> None:
        waiting = self._obstacle(pod)
        if waiting:
            state = {"waiting": dict(zip(("reason", "message"), waiting, strict=True))}
            old = (pod["status"].get("containerStatuses") or [{}])[0].get("state")
            if old != state:
                self._containers(pod, state, ready=False)
                self.store.update(PODS, pod)
                say(self.store, pod, "Failed", waiting[1])
            return
        container = pod["spec"]["containers"][0]
        self._keep_image(container["image"], node)
        if (first := container["command"][0]) in self.images[container["image"]].lacks:
            message = (
                "failed to create containerd task: failed to create shim task: OCI runtime create "
                "failed: runc create failed: unable to start container process: error during "
                f'container init: exec: "{first}": executable file not found in $PATH'
            )
            pod["status"]["phase"] = "Failed"
            end = {"exitCode": 128, "reason": "StartError", "message": message}
            self._containers(pod, {"terminated": end}, ready=False)
            self.store.update(PODS, pod)
            return
        self.runtime.start(self._with_variables(pod, node), node)
        pod["status"]["startTime"] = now()
        pod["status"]["podIP"] = self.runtime.address(pod, node)
        pod["status"]["podIPs"] = [{"ip": pod["status"]["podIP"]}]
        pod["status"]["hostIP"] = "192.0.2.1"
        if pod["spec"].get("initContainers"):
            self._containers(pod, {"running": {"startedAt": now()}}, ready=False, init=True)
            self.store.update(PODS, pod)
        else:
            self._run(pod)
        self._resolve_names()

    def _run(self, pod: Object) -> None:
        pod["status"]["phase"] = "Running"
        pod["status"].setdefault("conditions", []).append({"type": "Ready", "status": "True"})
        self._containers(pod, {"running": {"startedAt": now()}}, ready=True)
        self.store.update(PODS, pod)

    def _initialize(self, pod: Object) -> None:
        """Look whether the container before the others has ended."""
        if (result := self.runtime.initialized(pod)) is None:
            return
        code, message = result
        reason = "Error" if code else "Completed"
        state = {"exitCode": code, "reason": reason, "message": message[:MOST_MESSAGE]}
        self._containers(pod, {"terminated": state}, ready=not code, init=True)
        if not code:
            self._run(pod)
            return
        if pod["spec"]["restartPolicy"] != "Never":
            raise Gap("containers that start again")
        self.runtime.stop(pod)
        pod["status"]["phase"] = "Failed"
        self.store.update(PODS, pod)

    def _with_variables(self, pod: Object, node: Object) -> Object:
        """Return a pod whose variables have the values that they refer to."""
        fields = {
            "spec.nodeName": node["metadata"]["name"],
            "status.podIP": self.runtime.address(pod, node),
        }
        pod = copy.deepcopy(pod)
        for variable in [v for c in containers_of(pod["spec"]) for v in c.get("env") or ()]:
            source = variable.pop("valueFrom", {})
            if field := source.get("fieldRef"):
                variable["value"] = fields[field["fieldPath"]]
            elif key := source.get("secretKeyRef"):
                secret = self.store.get(SECRETS, pod["metadata"]["namespace"], key["name"])
                variable["value"] = base64.b64decode(secret["data"][key["key"]]).decode()
            elif source:
                raise Gap(f"variables from {source}")
        return pod

    def _resolve_names(self) -> None:
        """Publish the names of pods that are ready, or whose Service does not mind."""
        with self._naming:
            names = {}
            for service in self.store.list(SERVICES):
                spec = service["spec"]
                if spec["clusterIP"] != "None":
                    raise Gap("Services with an address")
                selector = ",".join(f"{key}={value}" for key, value in spec["selector"].items())
                for pod in self.store.list(PODS, service["metadata"]["namespace"]):
                    ready = pod["status"]["phase"] == "Running"
                    is_published = ready or spec.get("publishNotReadyAddresses")
                    is_member = pod["spec"].get("subdomain") == service["metadata"]["name"]
                    address = pod["status"].get("podIP")
                    if is_member and is_published and address and matches_labels(pod, selector):
                        names[f"{pod['spec']['hostname']}.{service['metadata']['name']}"] = address
            self.runtime.resolve(names)

    def _keep_image(self, image: str, node: Object) -> None:
        images = node["status"].setdefault("images", [])
        if {"names": [image], "sizeBytes": 1} not in images:
            images.append({"names": [image], "sizeBytes": 1})
            self.store.update(NODES, node)

    def _containers(
        self, pod: Object, state: dict[str, Any], *, ready: bool, init: bool = False
    ) -> None:
        statuses, kind = (
            ("initContainerStatuses", "initContainers")
            if init
            else ("containerStatuses", "containers")
        )
        pod["status"][statuses] = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"][kind]
        ]

    def _obstacle(self, pod: Object) -> tuple[str, str] | None:
        obstacles = (self._obstacle_of(container, pod) for container in containers_of(pod["spec"]))
        return next(filter(None, obstacles), None)

    def _obstacle_of(self, container: dict[str, Any], pod: Object) -> tuple[str, str] | None:
        image = container["image"]
        if not IMAGE.fullmatch(image):
            return (
                "InvalidImageName",
                (
                    f'Failed to apply default image tag "{image}": couldn\'t parse image name '
                    f'"{image}": invalid reference format'
                ),
            )
        if image not in self.images:
            return (
                "ImagePullBackOff",
                (
                    f'Back-off pulling image "{image}": ErrImagePull: failed to pull and unpack '
                    f'image "{image}": failed to resolve reference "{image}": not found'
                ),
            )
        shared = pod["spec"].get("securityContext") or {}
        security = shared | (container.get("securityContext") or {})
        user = security.get("runAsUser", self.images[image].user)
        if security.get("runAsNonRoot") and user == 0:
            return (
                "CreateContainerConfigError",
                (
                    "container has runAsNonRoot and image will run as root "
                    f'(pod: "{pod["metadata"]["name"]}", container: {container["name"]})'
                ),
            )
        return None
