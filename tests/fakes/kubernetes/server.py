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
from tests.fakes.kubernetes.admission import admit, check_update
from tests.fakes.kubernetes.controllers import delete
from tests.fakes.kubernetes.errors import Gap, Refused, not_found
from tests.fakes.kubernetes.schemas import check
from tests.fakes.kubernetes.store import (
    JOBS,
    KINDS,
    NAMESPACES,
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
    "list": {
        *("labelSelector", "fieldSelector", "limit", "watch", "resourceVersion"),
        *("timeoutSeconds", "timeout", "allowWatchBookmarks", "pretty"),
        "includeObject",
    },
    "create": {"dryRun", "fieldManager", "fieldValidation", "timeout", "pretty"},
    "update": {"dryRun", "fieldManager", "fieldValidation", "timeout"},
    "patch": {"dryRun", "fieldManager", "fieldValidation", "timeout", "force"},
    "delete": {"propagationPolicy", "gracePeriodSeconds", "timeout"},
    "exec": {"command", "container", "stdin", "stdout", "stderr", "timeout"},
    "log": {"container", "tailLines", "timeout"},
}
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"  # kubectl writes JSON, which is YAML


class Asked(NamedTuple):
    """A request for objects."""

    verb: str
    kind: Kind
    namespace: str
    name: str
    sub: str
    query: dict[str, list[str]]

    def one(self, key: str) -> str:
        """Return a parameter of the query."""
        return self.query.get(key, [""])[0]


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

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
        if code == 429:
            self.send_header("Retry-After", "1")
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
        if kind not in ("application/json", MERGE, STRATEGIC, APPLY):
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
        if found := discovery(
            parts.path, self.kubernetes.version, kueue=self.kubernetes.plane.kueue
        ):
            self._send(200, found)
            return
        asked = self._asked(parts.path, query)
        self._authorize(user, asked)
        if answer := {"exec": self._exec, "log": self._log}.get(asked.sub):
            answer(asked)
        elif asked.one("watch") in ("1", "true"):
            self._watch(asked)
        elif asked.kind == REVIEWS:
            self._review(user)
        else:
            with self.kubernetes.store.lock:
                code, item, warnings = self._act(asked)
            self._send(code, item, *warnings)

    def _user(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        user = self.kubernetes.tokens.get(token) if scheme == "Bearer" else None
        if user is None:
            raise Refused(401, "Unauthorized")
        return user

    def _asked(self, path: str, query: dict[str, list[str]]) -> Asked:
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
        if match["sub"] not in (None, "exec", "log", "status"):
            raise Gap(f"the subresource {match['sub']}")
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            self.command, "get" if name else "list"
        )
        allowed = QUERY[sub if sub in ("exec", "log") else verb]
        if "sendInitialEvents" in query:
            raise Refused(
                422,
                'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is "
                "enabled",
            )
        if unknown := set(query) - allowed:
            raise Gap(f"{unknown} of {verb}")
        if verb == "delete" and not name:
            raise Gap("deleting collections")
        return Asked(verb, kind, match["namespace"] or "", name, sub, query)

    def _authorize(self, user: str, asked: Asked) -> None:
        verb = "watch" if asked.one("watch") else asked.verb
        resource = asked.kind.plural + (f"/{asked.sub}" if asked.sub else "")
        if asked.kind != REVIEWS and not self.kubernetes.may(user, verb, resource, asked.namespace):
            where = (
                f' in the namespace "{asked.namespace}"'
                if asked.namespace
                else " at the cluster scope"
            )
            raise Refused(
                403,
                f"{asked.kind.resource}{f' {json.dumps(asked.name)}' if asked.name else ''} is "
                f'forbidden: User "{user}" cannot {verb} resource "{resource}" in API group '
                f'"{asked.kind.group}"{where}',
            )

    def _review(self, user: str) -> None:
        item = self._body()
        check(item)
        about = item["spec"]["resourceAttributes"]
        resource = about["resource"] + (
            f"/{about['subresource']}" if about.get("subresource") else ""
        )
        allowed = self.kubernetes.may(user, about["verb"], resource, about.get("namespace", ""))
        self._send(201, item | {"status": {"allowed": allowed}})

    def _act(self, asked: Asked) -> tuple[int, Any, list[str]]:
        store, kind = self.kubernetes.store, asked.kind
        is_new = (kind, asked.namespace, asked.name) not in store.objects
        if asked.verb == "create" or (is_new and self.headers["Content-Type"] == APPLY):
            return self._create(asked)
        if asked.verb == "list":
            items = [
                item
                for item in store.list(kind, asked.namespace)
                if matches_labels(item, asked.one("labelSelector"))
                and matches_fields(item, asked.one("fieldSelector"))
            ]
            version = str(store.changes[-1].number)
            meta = {"resourceVersion": version}
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
        old = store.get(kind, asked.namespace, asked.name)
        if asked.verb == "get":
            return 200, old, []
        if asked.verb == "delete":
            return 200, self._delete(asked, old), []
        new = self._body() if asked.verb == "update" else self._patched(old)
        check(new)
        check_update(kind, old, new)
        if asked.sub != "status" and asked.verb == "patch":
            new["status"] = old.get("status", {})
        return 200, store.update(kind, new, dry=bool(asked.one("dryRun"))), []

    def _patched(self, old: Object) -> Object:
        kind, patch = self.headers["Content-Type"], self._body()
        if kind == STRATEGIC and patch.get("spec", {}).keys() != {"taints"} and _has_list(patch):
            raise Gap("strategic patches of lists other than taints, which are replaced whole")
        if kind not in (MERGE, STRATEGIC, APPLY):
            raise Gap(f"patches of {kind}")
        new: Object = merged(old, patch)
        return new

    def _create(self, asked: Asked) -> tuple[int, Any, list[str]]:
        store, item = self.kubernetes.store, self._body()
        if asked.one("fieldValidation") not in ("", "Strict", "Warn", "Ignore"):
            raise Refused(422, "invalid fieldValidation")
        check(item, self.kubernetes.version)
        namespace = item["metadata"].setdefault("namespace", asked.namespace)
        if asked.kind.namespaced and namespace != asked.namespace:
            raise Refused(
                400,
                "the namespace of the provided object does not match the namespace sent on the "
                "request",
            )
        if asked.kind.namespaced:
            home = store.objects.get((NAMESPACES, "", namespace))
            if home is None:
                raise not_found("namespaces", namespace)
            if "deletionTimestamp" in home["metadata"]:
                raise Refused(
                    403,
                    f'{asked.kind.resource} "{item["metadata"].get("name", "")}" is forbidden: '
                    f"unable to create new content in namespace {namespace} because it is being "
                    "terminated",
                )
        warnings = admit(store, asked.kind, item, kueue=self.kubernetes.plane.kueue)
        for webhook in self.kubernetes.webhooks:
            webhook(asked.kind, item)
        made = store.create(asked.kind, item, dry=asked.one("dryRun") == "All")
        return 201, made, warnings

    def _delete(self, asked: Asked, old: Object) -> Object:
        body = self._body()
        if unknown := set(body) - {
            "kind",
            "apiVersion",
            "propagationPolicy",
            "gracePeriodSeconds",
            "preconditions",
            "orphanDependents",
        }:
            raise Gap(f"{unknown} of DeleteOptions")
        policy = body.get("propagationPolicy") or asked.one("propagationPolicy") or "Background"
        if policy not in ("Background", "Foreground"):
            raise Gap(f"propagationPolicy {policy}")
        wanted = (body.get("preconditions") or {}).get("uid")
        if wanted not in (None, old["metadata"]["uid"]):
            raise Refused(
                409,
                f"Precondition failed: UID in precondition: {wanted}, UID in object meta: "
                f"{old['metadata']['uid']}",
            )
        seconds = str(body.get("gracePeriodSeconds", asked.one("gracePeriodSeconds")))
        delete(self.kubernetes.store, asked.kind, old, policy, grace=seconds != "0")
        if (
            asked.kind in (PODS, JOBS)
            and (asked.kind, asked.namespace, asked.name) in self.kubernetes.store.objects
        ):
            return self.kubernetes.store.get(asked.kind, asked.namespace, asked.name)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _watch(self, asked: Asked) -> None:
        store = self.kubernetes.store
        start = int(asked.one("resourceVersion") or 0)
        if start and start < store.forgotten:
            raise Refused(410, f"too old resource version: {start} ({store.forgotten})")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        deadline = time.monotonic() + float(asked.one("timeoutSeconds") or 1800)
        marks = asked.one("allowWatchBookmarks") in ("1", "true")
        while time.monotonic() < deadline and not self.kubernetes.stopping.is_set():
            with store.lock:
                fresh = [change for change in store.changes if change.number > start]
                if not fresh:
                    store.lock.wait(0.2)
            for change in fresh:
                start = change.number
                if change.kind == asked.kind and self._is_watched(asked, change.item):
                    self._chunk({"type": change.what, "object": change.item})
            if marks and fresh:
                seen = {"resourceVersion": str(start), "creationTimestamp": None}
                mark = {"kind": asked.kind.kind, "apiVersion": asked.kind.api, "metadata": seen}
                self._chunk({"type": "BOOKMARK", "object": mark})
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: dict[str, Any]) -> None:
        line = json.dumps(event) + "\n"
        self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())

    def _is_watched(self, asked: Asked, item: Object) -> bool:
        return (
            asked.namespace in ("", item["metadata"].get("namespace", ""))
            and asked.name in ("", item["metadata"]["name"])
            and matches_labels(item, asked.one("labelSelector"))
            and matches_fields(item, asked.one("fieldSelector"))
        )

    def _pod(self, asked: Asked) -> tuple[Object, str]:
        """Return a pod and the name of its container that is asked for."""
        pod = self.kubernetes.store.get(PODS, asked.namespace, asked.name)
        names = [container["name"] for container in pod["spec"]["containers"]]
        if asked.one("container") and asked.one("container") not in names:
            raise Refused(
                400, f"container {asked.one('container')} is not valid for pod {asked.name}"
            )
        return pod, asked.one("container") or names[0]

    def _log(self, asked: Asked) -> None:
        pod, container = self._pod(asked)
        about = f'container "{container}" in pod "{asked.name}"'
        if pod["spec"].get("nodeName") in self.kubernetes.kubelets.dead:
            where = f"https://192.0.2.1:10250/containerLogs/{asked.namespace}/{asked.name}"
            why = "dial tcp 192.0.2.1:10250: i/o timeout"
            raise Refused(500, f'Get "{where}/{container}": {why}')
        if not (log := self.kubernetes.runtime.log(pod)).exists():
            raise Refused(400, f"{about} is waiting to start: ContainerCreating")
        lines = log.read_bytes().splitlines(keepends=True)
        most = int(asked.one("tailLines") or len(lines))
        data = b"".join(lines[len(lines) - min(most, len(lines)) :])
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _exec(self, asked: Asked) -> None:
        pod, container = self._pod(asked)
        if pod["status"]["phase"] in ("Failed", "Succeeded"):
            raise Refused(
                500,
                "cannot exec into a container in a completed pod; current phase is "
                f"{pod['status']['phase']}",
            )
        if pod["spec"].get("nodeName") in self.kubernetes.kubelets.dead:
            raise Refused(500, "error dialing backend: dial tcp 192.0.2.1:10250: i/o timeout")
        if pod["status"]["phase"] != "Running":
            raise Refused(400, f'container "{container}" in pod "{asked.name}" is waiting to start')
        if self.headers.get("Upgrade", "").lower() != "websocket":
            raise Gap(f"exec by {self.headers.get('Upgrade')}")
        _, headers = websocket.answer(self.headers)
        self.send_response(101)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        connection = websocket.WebSocket(self.rfile, self.connection)
        process = self.kubernetes.runtime.execute(pod, asked.query["command"])
        if process.stdin and asked.one("stdin") not in ("1", "true"):
            process.stdin.close()
        websocket.Session(connection, process, self.kubernetes.allowance()).serve()


def _has_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_list, value.values()))
    return isinstance(value, list)


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
        listed = []
        for group, number in groups:
            both = {"groupVersion": f"{group}/{number}", "version": number}
            listed.append({"name": group, "versions": [both], "preferredVersion": both})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
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
        "shortNames": list(kind.short),
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
    """Serve in a thread."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    return thread
