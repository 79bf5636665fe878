"""The whole cluster: server, control plane, nodes, users, and what a test does to them."""

import datetime as dt
import ipaddress
import json
import re
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fakes.kubernetes.controllers import ControlPlane, delete, say
from tests.fakes.kubernetes.kubelets import Kubelets
from tests.fakes.kubernetes.pods import FolderPods, Image
from tests.fakes.kubernetes.schemas import VERSION
from tests.fakes.kubernetes.server import Server, serve
from tests.fakes.kubernetes.store import (
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    QUOTAS,
    WORKLOADS,
    Kind,
    Object,
    Store,
)
from tests.fakes.kubernetes.websocket import STDIN

STEP = 0.02  # seconds between two looks of each controller
NAMESPACE, USER = "team-a", "jane"
TOKEN = "secret-of-jane"  # noqa: S105 - of nobody
IMAGE = "registry.example/cluster:1"
ALL = frozenset({("*", "*")})
ABSENT = (  # groups that clients look for, and do without
    *("/openapi", "/apis/kueue", "/apis/jobset", "/apis/resource.k8s.io"),
    "/apis/coordination.k8s.io",
)
NEEDED = frozenset(
    {
        ("create", "jobs"),
        ("get", "jobs"),
        ("list", "jobs"),
        ("delete", "jobs"),
        ("list", "pods"),
        ("get", "pods"),
        ("get", "pods/exec"),
        ("create", "pods/exec"),
    }
)


class Kubernetes:
    """A cluster with one user, one namespace, and nodes as a test adds them."""

    def __init__(self, runtime: FolderPods | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kubernetes"))
        self.gaps: list[str] = []
        self.calls: list[str] = []
        self.stopping = threading.Event()
        self.hangs = 60.0  # seconds
        self.version = VERSION
        self.runtime = runtime or FolderPods()
        _certify(self.folder)
        self._server = Server(self, self.folder)
        self.reset()
        serve(self._server)
        self._controlling = threading.Thread(target=self._control, daemon=True)
        self._controlling.start()

    def reset(self) -> None:
        self.store = Store()
        self.plane = ControlPlane(self.store)
        self.kubelets = Kubelets(self.store, self.runtime)
        self.kubelets.images[IMAGE] = Image()
        self.webhooks: list[Callable[[Kind, Object], None]] = []
        self.tokens = {TOKEN: USER}
        self.roles: dict[str, frozenset[tuple[str, str]]] = {USER: ALL}
        self._faults: list[tuple[re.Pattern[str], str, int]] = []
        # After how many bytes of which way (`in`, `out`) the next commands are cut.
        self.cuts: list[tuple[str, int]] = []
        self.add(NAMESPACES, NAMESPACE)
        self.gaps.clear()
        self.calls.clear()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._controlling.join()
        self._server.shutdown()
        self._server.server_close()
        for pod in self.store.list(PODS):
            self.runtime.stop(pod)
        self.runtime.close()
        shutil.rmtree(self.folder)

    def _control(self) -> None:
        while not self.stopping.wait(STEP):
            try:
                self.plane.step()
                self.kubelets.step()
            except Exception:  # noqa: BLE001 - the test is to fail of it
                self.gaps.append(traceback.format_exc())

    def settings(self, token: str = TOKEN) -> Path:
        """Write the settings of kubectl by which the user logs in; give their path."""
        path = self.folder / "kubeconfig"
        certificate = str(self.folder / "server.crt")
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "clusters": [
                        {
                            "name": "fake",
                            "cluster": {"server": self.url, "certificate-authority": certificate},
                        }
                    ],
                    "users": [{"name": USER, "user": {"token": token}}],
                    "contexts": [
                        {
                            "name": "fake",
                            "context": {"cluster": "fake", "user": USER, "namespace": NAMESPACE},
                        }
                    ],
                }
            )
        )
        return path

    def add(self, kind: Kind, name: str, namespace: str = "", **fields: Any) -> Object:
        """Add an object, past all checks."""
        meta = {"name": name, "labels": fields.pop("labels", {}), "annotations": {}}
        if kind.namespaced:
            meta["namespace"] = namespace or NAMESPACE
        item = {"apiVersion": kind.api, "kind": kind.kind, "metadata": meta, **fields}
        return self.store.create(kind, item)

    def add_node(self, name: str, *, gpus: int = 0, labels: dict[str, str] | None = None) -> None:
        """Add a node that is ready."""
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        amounts |= {"nvidia.com/gpu": str(gpus)} if gpus else {}
        self.add(
            NODES,
            name,
            labels={"kubernetes.io/hostname": name, **(labels or {})},
            spec={},
            status={
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        )

    def add_pod(self, name: str, gpus: int = 0) -> None:
        """Add a pod of nobody's Job, and wait until it runs."""
        command = ["sh", "-c", "sleep infinity & wait"]
        container: Object = {"name": "host", "image": IMAGE, "command": command}
        if gpus:
            container |= {"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
        self.add(PODS, name, spec={"containers": [container]}, status={"phase": "Pending"})
        while self.store.get(PODS, NAMESPACE, name)["status"]["phase"] != "Running":
            time.sleep(STEP)

    def remove(self, kind: Kind, name: str) -> None:
        """Take an object out, past all checks."""
        item = self.store.get(kind, NAMESPACE, name)
        self.runtime.stop(item)
        self.store.remove(kind, item)

    def job_name(self) -> str:
        [job] = self.jobs()
        return str(job["metadata"]["name"])

    def add_quota(self, **hard: str) -> None:
        """Limit what the pods of the namespace may have."""
        amounts = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
        self.add(QUOTAS, "limits", spec={"hard": amounts}, status={"hard": amounts, "used": {}})

    def change(
        self, kind: Kind, name: str, change: Callable[[Object], None], namespace: str = ""
    ) -> None:
        """Change an object, past all checks."""
        space = (namespace or NAMESPACE) if kind.namespaced else ""
        with self.store.lock:
            item = self.store.get(kind, space, name)
            change(item)
            self.store.update(kind, item)

    def label(self, node: str, labels: dict[str, str]) -> None:
        self.change(NODES, node, lambda item: item["metadata"]["labels"].update(labels))

    def may(self, user: str, verb: str, resource: str, namespace: str) -> bool:
        """Tell whether a user's roles allow something."""
        roles = self.roles[user]
        if ("*", "*") in roles:
            return True
        return (verb, resource) in roles and (bool(namespace) or resource == "nodes")

    def is_known_gap(self, path: str) -> bool:
        """Tell whether a path is of a resource that a real cluster has, and this one lacks."""
        return not path.startswith(ABSENT)

    def fail(self, pattern: str, fault: str, times: int = 1) -> None:
        """Let the next calls fail whose method and path match: a status, `drop` or `hang`."""
        self._faults.append((re.compile(pattern), fault, times))

    def fault_for(self, method: str, path: str) -> str:
        """Take the fault that is to happen to a call; empty if none."""
        for index, (pattern, fault, times) in enumerate(self._faults):
            if pattern.search(f"{method} {path}"):
                self._faults[index : index + 1] = [(pattern, fault, times - 1)] if times > 1 else []
                return fault
        return ""

    def allowance(self) -> Callable[[int, int], int]:
        """Return a function that says how many more bytes of a command's output may be sent."""
        way, most = self.cuts.pop(0) if self.cuts else ("", 0)
        remaining = [most]

        def allowed(channel: int, size: int) -> int:
            if way != ("in" if channel == STDIN else "out"):
                return size
            granted = min(size, remaining[0])
            remaining[0] -= granted
            return granted

        return allowed

    def pods(self) -> list[Object]:
        return self.store.list(PODS)

    def lose_node(self, name: str) -> None:
        """Take a node's power; its pods are not ready any more, as the control plane notes."""
        self.kubelets.dead.add(name)

        def change(pod: Object) -> None:
            self.runtime.stop(pod)
            ready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
            other_conditions = [c for c in pod["status"]["conditions"] if c["type"] != "Ready"]
            pod["status"]["conditions"] = [*other_conditions, ready]

        for pod in self.pods():
            if pod["spec"].get("nodeName") == name:
                self.change(PODS, pod["metadata"]["name"], change)

    def evict(
        self,
        name: str,
        reason: str = "Evicted",
        message: str = "The node was low on resource: memory.",
    ) -> None:
        """End a pod as a kubelet or the scheduler does to make room."""

        def change(pod: Object) -> None:
            self.runtime.stop(pod)
            pod["status"] |= {"phase": "Failed", "reason": reason, "message": message}

        self.change(PODS, name, change)

    def take(self, name: str, reason: str, message: str, event: str) -> None:
        """Delete a pod as a drain, a preemption or a taint does: it says why, and is gone soon."""
        why = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        self.change(PODS, name, lambda pod: pod["status"]["conditions"].append(why))
        pod = self.store.get(PODS, NAMESPACE, name)
        say(self.store, pod, event, message)
        delete(self.store, PODS, pod, "Background")

    def things(self) -> list[tuple[str, str]]:
        """Name all objects but those that are always there, and events."""
        ignored = (NODES, NAMESPACES, EVENTS, QUOTAS, QUEUES, WORKLOADS)
        return [(kind.plural, name) for kind, _, name in self.store.objects if kind not in ignored]

    def jobs(self) -> list[Object]:
        return self.store.list(JOBS)


def _certify(folder: Path) -> None:
    """Make a certificate for the server's address."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake")])
    today = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.key").write_bytes(private)
