"""HTTP on loopback: a call comes in, is logged and harmed as a test wants, and is answered."""

from __future__ import annotations

import json
import socket
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from cluster.core.model.value import Value
from tests.fakes.gaps import GapError
from tests.fakes.gcp import discovery, org_policies, prices
from tests.fakes.gcp.errors import STATUS, RefusedError, refusal
from tests.fakes.gcp.values import Call, Fault

if TYPE_CHECKING:
    from tests.fakes.gcp.cloud import Cloud

Reply = tuple[int, dict[str, Any] | str]  # what is no JSON is HTML


class Request(Value, frozen=True, kw_only=True):
    method: discovery.Method  # that it calls
    places: dict[str, str]  # the parameters of its path
    query: dict[str, str]  # those behind the question mark
    body: dict[str, Any]  # what it brings

    @property
    def region(self) -> str:
        return self.places.get("zone") or self.places.get("region") or "global"

    @property
    def params(self) -> dict[str, Any]:
        return {**self.places, **self.query, **self.body}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    cloud: Cloud

    def log_message(self, *args: Any) -> None:
        pass

    def _handle(self) -> None:
        url = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if url.path == "/checkip":
            self._write(200, f"{self.cloud.caller}\n".encode(), "text/plain")
            return
        if url.path == f"/billing/v1/services/{prices.COMPUTE}/skus":
            page = prices.page(dict(parse_qsl(url.query)).get("pageToken", ""))
            self._write(200, json.dumps(page).encode(), "application/json")
            return
        if url.path.startswith(org_policies.BASE):
            status, text = org_policies.answer(self.cloud, self.command, url.path)
            self._write(status, text.encode(), "application/json")
            return
        reply = answer(
            self.cloud,
            (self.command, url.path, dict(parse_qsl(url.query))),
            json.loads(body) if body else {},
            (self.client_address[1], self.connection.getsockname()[1]),
        )
        if reply is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if isinstance(reply[1], str):
            self._write(reply[0], reply[1].encode(), "text/html")
        else:
            self._write(reply[0], json.dumps(reply[1]).encode(), "application/json")

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _handle  # noqa: N815 - as http.server wants

    def _write(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Listener(ThreadingHTTPServer):
    """Many connections at once."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a caller may be killed at any moment."""


def listener(cloud: Cloud, port: int) -> Listener:
    """Return what will answer requests to a cloud, once it serves."""
    return Listener(("127.0.0.1", port), type("OurHandler", (Handler,), {"cloud": cloud}))


def answer(
    cloud: Cloud,
    line: tuple[str, str, dict[str, str]],
    body: dict[str, Any],
    peer: tuple[int, int],
) -> Reply | None:
    """Answer a request; nothing, if its reply is to be lost."""
    http, path, query = line
    match = discovery.find(http, path.removeprefix(discovery.BASE))
    if match is None:
        cloud.gaps.append(f"{http} {path}")
        return 501, refusal(501, "notImplemented", f"There is no {http} {path}.")
    request = Request(method=match[0], places=match[1], query=query, body=body)
    call = Call(
        service="compute",
        action=request.method.id,
        region=request.region,
        user="anonymous",
        mutating=request.method.mutating,
        params=request.params,
    )

    def execute(harm: Any) -> Reply:
        reply = _executed(cloud, request, harm)
        text = json.dumps(reply[1])
        return (reply[0], text[: len(text) // 2]) if harm.cut else reply

    return cloud.exchange(call, execute, _outcome, peer)


def _outcome(reply: Reply) -> tuple[int, str]:
    """Return the status of a reply, and the code of its error."""
    status, content = reply
    if status == 200 or isinstance(content, str):
        return status, ""
    errors = content.get("error", {}).get("errors", [])
    return status, errors[0]["reason"] if errors else ""


def _executed(cloud: Cloud, request: Request, harm: Any) -> Reply:
    late = isinstance(harm, Fault) and harm.operation
    if harm.body is not None:
        return harm.status or 502, harm.body
    if harm.code and not late:
        status = harm.status or STATUS.get(harm.code, 400)
        return status, refusal(status, harm.code, harm.message)
    with cloud.lock:
        cloud.tick()
        try:
            return 200, _checked(cloud, request, harm if late else None)
        except RefusedError as error:
            status = STATUS[error.reason]
            return status, refusal(status, error.reason, error.message)
        except Exception as error:  # noqa: BLE001 - a test must see it
            text = str(error) if isinstance(error, GapError) else traceback.format_exc()
            cloud.gaps.append(f"{request.method.id} {request.params}: {text}")
            return 501, refusal(501, "notImplemented", f"The test cloud does not know this: {text}")


def _checked(cloud: Cloud, request: Request, harm: Fault | None) -> dict[str, Any]:
    problems = discovery.wrong_request(request.method, request.places, request.query, request.body)
    if problems:
        raise RefusedError("badRequest", "; ".join(problems))
    answer = {**cloud.calls_of(request, harm), **discovery.kind(request.method)}
    if wrong := discovery.wrong_answer(request.method, answer):
        raise GapError(f"the answer is wrong: {wrong}")
    return answer
