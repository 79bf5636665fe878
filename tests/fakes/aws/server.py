"""HTTP on loopback: a call comes in, is logged and harmed as a test wants, and is answered."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import msgspec
from moto.core.request import Request
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from tests.fakes.aws import actions
from tests.fakes.aws.ec2 import Ec2
from tests.fakes.aws.efs import Efs
from tests.fakes.aws.prices import Pricing, Quotas
from tests.fakes.aws.service import Reply
from tests.fakes.aws.sts_ssm import Ssm, Sts
from tests.fakes.aws.values import Call, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.fakes.aws.cloud import Cloud
    from tests.fakes.aws.service import Service

SERVICES: dict[str, type[Service]] = {
    service.name: service for service in (Ec2, Efs, Ssm, Sts, Pricing, Quotas)
}


class Quiet(WSGIRequestHandler):
    """Says nothing on standard error."""

    def log(self, *args: Any, **kwargs: Any) -> None:
        pass

    def make_environ(self) -> dict[str, Any]:
        return {**super().make_environ(), "socket": self.connection}


def listener(cloud: Cloud, port: int) -> ThreadedWSGIServer:
    """Return what will answer requests to a cloud, once it serves."""
    return ThreadedWSGIServer("127.0.0.1", port, Answers(cloud), handler=Quiet)


class Answers:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/checkip":
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [f"{self._cloud.caller}\n".encode()]
        request = Request(environ)
        request.from_wsgi_server = True
        scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split("/")
        service = scope[3] if len(scope) > 3 else "nobody"
        if service not in SERVICES:
            self._cloud.gaps.append(f"the service {service}")
            start_response("501 Gap", [("Content-Type", "text/plain")])
            return [b"EmulatorGap"]
        ends = int(environ["REMOTE_PORT"]), int(environ["SERVER_PORT"])
        reply = self._answer(SERVICES[service](self._cloud, request), ends)
        if reply is None:
            environ["socket"].shutdown(socket.SHUT_RDWR)
            start_response("500 Lost", [])
            return []
        start_response(f"{reply.status} Said", list(reply.headers.items()))
        return [reply.body]

    def _answer(self, service: Service, ends: tuple[int, int]) -> Reply | None:
        call = Call(
            service=service.name,
            action=service.action,
            region=service.region,
            user=service.cloud.permissions.name(service.user),
            mutating=actions.mutating(service.action, service.inputs),
            params=service.inputs,
        )
        return self._cloud.exchange(
            call,
            lambda harm: self._executed(service, harm),
            lambda reply: (reply.status, reply.code),
            ends,
        )

    def _executed(self, service: Service, harm: Fault) -> Reply:
        with self._cloud.lock:
            if harm.body is not None:
                return Reply(
                    status=harm.status or 502,
                    headers={"Content-Type": "text/html"},
                    body=harm.body.encode(),
                )
            if harm.code:
                return service.error(harm.code, harm.message, harm.status)
            self._cloud.region(service.region, service.get_current_account())
            self._cloud.tick()
            reply = service.execute()
            half = reply.body[: len(reply.body) // 2]
            return msgspec.structs.replace(reply, body=half) if harm.cut else reply
