"""The API server: paths, verbs, roles, watches and exec, over HTTPS."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.fakes.kubernetes import websocket
from tests.fakes.kubernetes.admission import admit
from tests.fakes.kubernetes.controllers import delete
from tests.fakes.kubernetes.errors import Gap, Refused, not_found
from tests.fakes.kubernetes.schemas import check
from tests.fakes.kubernetes.store import (
    JOBS,
    KINDS,
    NAMESPACES,
    NODES,
    PODS,
    REVIEWS,
    Kind,
    Object,
    matches_fields,
    matches_labels,
    merged,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.kubernetes.cluster import Kubernetes

PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
QUERY = {  # what each verb may be asked with
    "get": {"pretty", "timeout"},
    "list": {"labelSelector", "fieldSelector", "limit", "resourceVersion", "timeout", "pretty"},
    "create": {"dryRun", "fieldManager", "fieldValidation", "timeout", "pretty"},
    "patch": {"fieldManager", "fieldValidation", "timeout"},
    "delete": {"propagationPolicy", "timeout"},
    "exec": {"command", "container", "stdin", "stdout", "stderr", "timeout"},
}
MERGE = "application/merge-patch+json"


class Request(NamedTuple):
    verb: str
    kind: Kind
    namespace: str
    name: str
    sub: str
    query: dict[str, list[str]]

    def value(self, key: str) -> str:
        return self.query.get(key, [""])[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kubernetes: Kubernetes

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _answer(self) -> None:
        try:
            self._route()
        except Refused as error:
            self._send(error.code, error.status())
        except Gap as gap:
            self.kubernetes.gaps.append(f"{self.command} {self.path}: {gap}")
            self._send(501, Refused(500, f"the fake does not know {gap}").status() | {"code": 501})
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def _send(self, code: int, item: Any, *warnings: str) -> None:
        data = json.dumps(item).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for warning in warnings:
            text = warning.replace("\\", "\\\\").replace('"', '\\"')
            self.send_header("Warning", f'299 - "{text}"')
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> Any:
        text = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                text += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not text:
            return {}
        kind = self.headers.get("Content-Type", "application/json").partition(";")[0]
        if kind not in ("application/json", MERGE):
            raise Gap(f"bodies of {kind}")
        return json.loads(text)

    def _route(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        self.kubernetes.calls.append(f"{self.command} {self.path}")
        user = self._user()
        if fault := self.kubernetes.fault_for(self.command, parts.path):
            if fault == "hang":
                time.sleep(self.kubernetes.hangs)
            if fault in ("hang", "drop"):
                raise ConnectionError
            raise Refused(int(fault), "the server is currently unable to handle the request")
        if document := discovery(
            parts.path, self.kubernetes.version, kueue=self.kubernetes.plane.kueue
        ):
            self._send(200, document)
            return
        request = self._request(parts.path, query)
        self._authorize(user, request)
        if request.sub:
            self._exec(request)
        elif request.kind == REVIEWS:
            self._review(user)
        else:
            with self.kubernetes.store.lock:
                code, item, warnings = self._act(request)
            self._send(code, item, *warnings)

    def _user(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        user = self.kubernetes.tokens.get(token) if scheme == "Bearer" else None
        if user is None:
            raise Refused(401, "Unauthorized")
        return user

    def _request(self, path: str, query: dict[str, list[str]]) -> Request:
        match = PATH.fullmatch(path)
        group = (match["group"] or "") if match else ""
        kinds = [k for k in KINDS if match and (k.group, k.plural) == (group, match["plural"])]
        if (
            not match
            or not kinds
            or (kinds[0].group.startswith("kueue") and not self.kubernetes.plane.kueue)
        ):
            if match and not kinds and self.kubernetes.is_known_gap(path):
                raise Gap(path)
            raise Refused(404, "the server could not find the requested resource")
        kind, name, sub = kinds[0], match["name"] or "", match["sub"] or ""
        if match["sub"] not in (None, "exec"):
            raise Gap(f"the subresource {match['sub']}")
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            self.command, "get" if name else "list"
        )
        allowed = QUERY.get(sub or verb)
        if allowed is None:
            raise Gap(f"the verb {verb}")
        if unknown := set(query) - allowed:
            raise Gap(f"{unknown} of {verb}")
        if verb == "delete" and not name:
            raise Gap("deleting collections")
        return Request(verb, kind, match["namespace"] or "", name, sub, query)

    def _authorize(self, user: str, request: Request) -> None:
        resource = request.kind.plural + (f"/{request.sub}" if request.sub else "")
        if request.kind != REVIEWS and not self.kubernetes.may(
            user, request.verb, resource, request.namespace
        ):
            scope = (
                f' in the namespace "{request.namespace}"'
                if request.namespace
                else " at the cluster scope"
            )
            name = f" {json.dumps(request.name)}" if request.name else ""
            raise Refused(
                403,
                f"{request.kind.resource}{name} is "
                f'forbidden: User "{user}" cannot {request.verb} resource "{resource}" in API '
                f'group "{request.kind.group}"{scope}',
            )

    def _review(self, user: str) -> None:
        item = self._body()
        check(item)
        access = item["spec"]["resourceAttributes"]
        resource = access["resource"] + (
            f"/{access['subresource']}" if access.get("subresource") else ""
        )
        allowed = self.kubernetes.may(user, access["verb"], resource, access.get("namespace", ""))
        self._send(201, item | {"status": {"allowed": allowed}})

    def _act(self, request: Request) -> tuple[int, Any, list[str]]:
        store, kind = self.kubernetes.store, request.kind
        if request.verb == "create":
            return self._create(request)
        if request.verb == "list":
            items = [
                item
                for item in store.list(kind, request.namespace)
                if matches_labels(item, request.value("labelSelector"))
                and matches_fields(item, request.value("fieldSelector"))
            ]
            meta = {"resourceVersion": str(store.version)}
            return (
                200,
                {
                    "kind": f"{kind.kind}List",
                    "apiVersion": kind.api,
                    "metadata": meta,
                    "items": items,
                },
                [],
            )
        old = store.get(kind, request.namespace, request.name)
        if request.verb == "get":
            return 200, old, []
        if request.verb == "delete":
            return 200, self._delete(request, old), []
        patch = self._body()
        if kind != NODES:
            raise Gap(f"patches of {kind.resource}")
        new = merged(old, patch)
        check(new)
        new["status"] = old.get("status", {})
        return 200, store.update(kind, new), []

    def _create(self, request: Request) -> tuple[int, Any, list[str]]:
        store, item = self.kubernetes.store, self._body()
        if request.value("fieldValidation") not in ("", "Strict", "Warn", "Ignore"):
            raise Refused(422, "invalid fieldValidation")
        check(item, self.kubernetes.version)
        namespace = item["metadata"].setdefault("namespace", request.namespace)
        if request.kind.namespaced and namespace != request.namespace:
            raise Refused(
                400,
                "the namespace of the provided object does not match the namespace sent on the "
                "request",
            )
        if request.kind.namespaced:
            home = store.objects.get((NAMESPACES, "", namespace))
            if home is None:
                raise not_found("namespaces", namespace)
            if "deletionTimestamp" in home["metadata"]:
                raise Refused(
                    403,
                    f'{request.kind.resource} "{item["metadata"].get("name", "")}" is forbidden: '
                    f"unable to create new content in namespace {namespace} because it is being "
                    "terminated",
                )
        warnings = admit(store, request.kind, item, kueue=self.kubernetes.plane.kueue)
        for webhook in self.kubernetes.webhooks:
            webhook(request.kind, item)
        new_object = store.create(request.kind, item, dry=request.value("dryRun") == "All")
        return 201, new_object, warnings

    def _delete(self, request: Request, old: Object) -> Object:
        body = self._body()
        if unknown := set(body) - {
            "kind",
            "apiVersion",
            "propagationPolicy",
        }:
            raise Gap(f"{unknown} of DeleteOptions")
        policy = body.get("propagationPolicy") or request.value("propagationPolicy") or "Background"
        if policy not in ("Background", "Foreground"):
            raise Gap(f"propagationPolicy {policy}")
        delete(self.kubernetes.store, request.kind, old, policy)
        if (
            request.kind in (PODS, JOBS)
            and (request.kind, request.namespace, request.name) in self.kubernetes.store.objects
        ):
            return self.kubernetes.store.get(request.kind, request.namespace, request.name)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _pod(self, request: Request) -> tuple[Object, str]:
        """Return a pod and the name of its container that is asked for."""
        pod = self.kubernetes.store.get(PODS, request.namespace, request.name)
        names = [container["name"] for container in pod["spec"]["containers"]]
        if request.value("container") and request.value("container") not in names:
            raise Refused(
                400, f"container {request.value('container')} is not valid for pod {request.name}"
            )
        return pod, request.value("container") or names[0]

    def _exec(self, request: Request) -> None:
        pod, container = self._pod(request)
        if pod["status"]["phase"] in ("Failed", "Succeeded"):
            raise Refused(
                500,
                "cannot exec into a container in a completed pod; current phase is "
                f"{pod['status']['phase']}",
            )
        if pod["spec"].get("nodeName") in self.kubernetes.kubelets.dead:
            raise Refused(500, "error dialing backend: dial tcp 192.0.2.1:10250: i/o timeout")
        if pod["status"]["phase"] != "Running":
            raise Refused(
                400, f'container "{container}" in pod "{request.name}" is waiting to start'
            )
        if self.headers.get("Upgrade", "").lower() != "websocket":
            raise Gap(f"exec by {self.headers.get('Upgrade')}")
        _, headers = websocket.answer(self.headers)
        self.send_response(101)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        connection = websocket.WebSocket(self.rfile, self.connection)
        process = self.kubernetes.runtime.execute(pod, request.query["command"])
        if process.stdin and request.value("stdin") not in ("1", "true"):
            process.stdin.close()
        websocket.Session(connection, process, self.kubernetes.allowance()).serve()


def discovery(path: str, version: str, *, kueue: bool) -> Any:
    """Answer what a client asks to learn which resources there are; None for other paths."""
    kinds = [kind for kind in KINDS if kueue or not kind.group.startswith("kueue")]
    groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    if path == "/version":
        major, minor, _ = version.split(".")
        return {
            "major": major,
            "minor": minor,
            "gitVersion": f"v{version}",
            "platform": "linux/amd64",
        }
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        items = []
        for group, number in groups:
            group_version = {"groupVersion": f"{group}/{number}", "version": number}
            items.append(
                {"name": group, "versions": [group_version], "preferredVersion": group_version}
            )
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": items}
    for group, api in (("", "v1"), *groups):
        if path == (f"/apis/{group}/{api}" if group else "/api/v1"):
            resources = [_resource(kind) for kind in kinds if kind.group == group]
            if not group:
                resources.append(
                    {
                        "name": "pods/exec",
                        "singularName": "",
                        "namespaced": True,
                        "kind": "PodExecOptions",
                        "verbs": ["create", "get"],
                    }
                )
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group}/{api}" if group else api,
                "resources": resources,
            }
    return None


def _resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }


class Server(ThreadingHTTPServer):
    """Serves on a free port, with a certificate of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, kubernetes: Kubernetes, folder: Path, address: str = "127.0.0.1") -> None:
        self._kubernetes = kubernetes
        handler = type("BoundHandler", (Handler,), {"kubernetes": kubernetes})
        super().__init__((address, 0), handler)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.crt", folder / "server.key")

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS, in the connection's own thread."""
        with contextlib.suppress(OSError), self._context.wrap_socket(request, True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, *_: object) -> None:
        """Keep what went wrong for the test."""
        self._kubernetes.gaps.append(traceback.format_exc())


def serve(server: Server) -> threading.Thread:
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    return thread
