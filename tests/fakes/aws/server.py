"""HTTP on loopback: a call comes in, is logged and harmed as a test wants, and is answered."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import msgspec
from moto.core.request import Request
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from tests.fakes.aws import known
from tests.fakes.aws.ec2 import Ec2
from tests.fakes.aws.efs import Efs
from tests.fakes.aws.others import Ssm, Sts
from tests.fakes.aws.prices import Pricing, Quotas
from tests.fakes.aws.service import Reply
from tests.fakes.aws.values import Call, Fault
from tests.fakes.faults import kill

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
    """A WSGI application."""

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
        cloud = self._cloud
        with cloud.lock:
            log = cloud.log
            call = _call(len(log), service)
            log.append(call)
            fault = cloud.faults.of(call)
        harm = fault or Fault(action="*")
        if harm.kill == "before":
            kill(*ends)
        if harm.refuse:
            cloud.refuse(harm.refuse)
        if harm.kill == "before" or harm.drop == "before" or harm.refuse:
            return self._ended(log, call, None, lost=True)
        with cloud.lock:
            if harm.body is not None:
                reply = Reply(
                    status=harm.status or 502,
                    headers={"Content-Type": "text/html"},
                    body=harm.body.encode(),
                )
            elif harm.code:
                reply = service.error(harm.code, harm.message, harm.status)
            else:
                cloud.region(service.region, service.get_current_account())
                cloud.tick()
                reply = service.execute()
                if harm.cut:
                    reply = msgspec.structs.replace(reply, body=reply.body[: len(reply.body) // 2])
        time.sleep(harm.delay)
        if harm.kill == "after":
            kill(*ends)
        return self._ended(log, call, reply, lost="after" in (harm.drop, harm.kill))

    def _ended(
        self, log: list[Call], call: Call, reply: Reply | None, *, lost: bool
    ) -> Reply | None:
        status, code = (reply.status, reply.code) if reply else (0, "")
        with self._cloud.lock:
            log[call.number] = msgspec.structs.replace(call, status=status, code=code, lost=lost)
        return None if lost else reply


def _call(number: int, service: Service) -> Call:
    return Call(
        number=number,
        service=service.name,
        action=service.action,
        region=service.region,
        user=service.cloud.permissions.name(service.user),
        mutating=known.mutating(service.name, service.action, service.asked),
        params=service.asked,
    )
