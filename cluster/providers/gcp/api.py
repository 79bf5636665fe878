"""Calls to Google, with typed answers and classified failures; only this module uses its client."""

from __future__ import annotations

import os
import platform
import pwd
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cluster.core import decoders
from cluster.core.extras import require
from cluster.providers._cloud.api_errors import Failure, Kind, NotTheCloudError, pause_after
from cluster.providers.gcp.errors import call_name, check_operations, kind_of

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import Operation

TIMEOUT = 20.0  # seconds for a reply
FIRST_POLL, LONGEST_POLL = 0.1, 2.0  # seconds between two checks of an operation
PATIENCE = 600.0  # seconds for an operation
GLOBAL = (
    *("firewalls", "images", "instance_templates"),
    *("network_profiles", "networks", "regions", "zones"),
)
SIGNS = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "CLOUDSDK_CORE_PROJECT",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE",
)
SERVICES = {  # other than Compute Engine, by gcloud's names for them
    "CLOUDBILLING": "https://cloudbilling.googleapis.com",
    "ORGPOLICY": "https://orgpolicy.googleapis.com",
}
NO_SERVICE = "no service"  # code of a failure: another cloud with Google's API lacks the service
SKUS = "/v1/services/6F81-5844-456A/skus"  # the price list of Compute Engine
WHOSE = "https://oauth2.googleapis.com/tokeninfo"  # answers with the owner of a token
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

T = TypeVar("T")


class AnyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What all answers of Compute Engine have in common."""

    kind: str = ""  # such as `compute#instanceList`; only a refusal, or advice, has none
    recommendations: list[Any] | None = None  # of advice
    error: dict[str, msgspec.Raw] = {}  # of a refusal, or of an operation
    unreachables: tuple[str, ...] = ()  # regions or zones that a list lacks


def is_set_up() -> bool:
    folder = Path(os.environ.get("CLOUDSDK_CONFIG", "~/.config/gcloud")).expanduser()
    return any(os.environ.get(sign) for sign in SIGNS) or folder.exists()


def default_endpoint() -> str:
    """Return the endpoint of another cloud with Google's API; empty if the environment has none."""
    return os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "")


def default_project() -> str:
    """Return the project of the environment or of the credentials; empty if there is none."""
    project = os.environ.get("GOOGLE_CLOUD_PROJECT") or os.environ.get("CLOUDSDK_CORE_PROJECT")
    if project or default_endpoint():
        return project or ""
    return _default()[1]


@cache
def _default() -> tuple[Any, str]:
    require("google.auth", "gcp", "Google's cloud")
    import google.auth  # noqa: PLC0415 - slow to import, and not everybody needs it
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415

    try:
        credentials, project = google.auth.default(scopes=SCOPES)
    except GoogleAuthError as error:
        raise _failure("google.auth.default", error) from error
    return credentials, project or ""


class Project:
    """The API of Google's cloud in one project.

    A call is repeated while it is throttled or its reply is lost, so every call has to be
    idempotent. The client's own retries are switched off, because it repeats only some of these. An
    `endpoint` is that of another cloud with the same API, which needs no credentials.
    """

    def __init__(self, name: str, endpoint: str = "") -> None:
        require("google.cloud.compute_v1", "gcp", "Google's cloud")
        self.name = name
        self._endpoint = (endpoint or default_endpoint()).partition("/compute/")[0].rstrip("/")
        self._clients: dict[str, Any] = {}

    user: str = ""  # Google's policies use the owner's name

    def now(self) -> float:
        """Return the time of the local clock, in seconds since the epoch."""
        return time.time()

    @property
    def account(self) -> str:
        return self.name

    @cached_property
    def owner(self) -> str:
        """The caller's e-mail address; without credentials, the user and name of this machine."""
        account = os.environ.get("CLOUDSDK_CORE_ACCOUNT", "")
        if self._endpoint:
            return account or _local_user()
        with _translating("tokeninfo"):
            email = _email(_default()[0])
        if email or account:
            return email or account
        raise Failure(
            "denied",
            operation="tokeninfo",
            code="no email",
            message="The credentials do not tell whose they are; say it: "
            "export CLOUDSDK_CORE_ACCOUNT=you@example.com",
        )

    def call(self, collection: str, verb: str, **params: Any) -> Any:  # noqa: ANN401
        """Call a method, and repeat it while it is throttled or its reply is lost.

        The words are the client's: `instances`, `get`; the answer is Google's message, such as an
        `Instance`. Failure: it was refused, or did not succeed in time.
        """
        start, failures = time.monotonic(), 0
        while True:
            try:
                return self._send(collection, verb, params)
            except Failure as failure:
                pause_after(failure, failures := failures + 1, start)

    def all(self, collection: str, **params: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """List resources over all pages, of every zone or region if none is named (Failure)."""
        in_one_place = collection in GLOBAL or params.keys() & {"zone", "region"}
        verb = "list" if in_one_place else "aggregated_list"
        rows: tuple[Any, ...] = self.call(collection, verb, **params)
        return rows

    def begin(self, collection: str, verb: str, **params: Any) -> Operation:  # noqa: ANN401
        operation: Operation = self.call(collection, f"{verb}_unary", **params)
        return operation

    def look(self, operation: Operation) -> Operation:
        """Read the state of an operation (Failure).

        The client's own method to wait always calls Google, also if the endpoint is another cloud.
        """
        scope = {
            kind: place.rpartition("/")[2]
            for kind, place in (("zone", operation.zone), ("region", operation.region))
            if place
        }
        kind = next(iter(scope), "global")
        now: Operation = self.call(f"{kind}_operations", "get", operation=operation.name, **scope)
        return now

    def finish(self, label: str, operation: Operation, within: float = PATIENCE) -> Operation:
        """Wait until an operation is done (Failure: it failed, or did not end in time)."""
        deadline, pause = time.monotonic() + within, FIRST_POLL
        while not is_done(operation):
            if time.monotonic() > deadline:
                raise Failure(
                    "lost", operation=label, code=operation.name, message="It is not done in time"
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)
            operation = self.look(operation)
        zones = operation.instances_bulk_insert_operation_metadata.per_location_status
        if operation.error.errors or any(
            status.created_vm_count < status.target_vm_count for status in zones.values()
        ):
            check_operations(label, operation, *self._parts(operation))
        return operation

    def _parts(self, operation: Operation) -> tuple[Operation, ...]:
        """List the operations that an operation started in turn: the inserts of a bulkInsert."""
        if not (operation.operation_group_id and operation.zone):
            return ()
        condition = f"operationGroupId = {operation.operation_group_id}"
        zone = operation.zone.rpartition("/")[2]
        try:
            return self.all("zone_operations", zone=zone, filter=condition)
        except Failure:  # then only the errors of the operation itself are known
            return ()

    def console(self, machine: str) -> str:
        zone, _, name = machine.partition("/")
        with suppress(Failure):
            output = self.call("instances", "get_serial_port_output", zone=zone, instance=name)
            return str(output.contents)
        return ""

    def catalog(self) -> list[dict[str, Any]]:
        """Read Google's price list of Compute Engine (Failure)."""
        params = {"pageSize": "5000", "currencyCode": "USD"}
        skus: list[dict[str, Any]] = []
        while True:
            page = self._call_service("CLOUDBILLING", "skus.list", SKUS, params)
            skus += page["skus"]
            if not page.get("nextPageToken"):
                return skus
            params["pageToken"] = page["nextPageToken"]

    def policy(self, constraint: str) -> dict[str, Any]:
        """Read a policy for this project, such as `compute.requireOsLogin` (Failure)."""
        path = f"/v2/projects/{self.name}/policies/{constraint}:getEffectivePolicy"
        return self._call_service("ORGPOLICY", "policies.getEffectivePolicy", path, {})

    def _call_service(
        self, service: str, label: str, path: str, params: dict[str, str]
    ) -> dict[str, Any]:
        """Call a service other than Compute Engine, once: a plan does not need its answer.

        The endpoint of another cloud is one of the environment (Failure: it is not set).
        """
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415 - with it

        endpoint = os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service}", "").rstrip("/")
        if self._endpoint and not endpoint:
            raise Failure("missing", operation=label, code=NO_SERVICE, message="It is not there")
        with _translating(label), AuthorizedSession(self._credentials()) as session:
            url = f"{endpoint or SERVICES[service]}{path}"
            answer = session.get(url, params=params, timeout=TIMEOUT)
        if answer.ok:
            return _decode(label, answer.content, dict[str, Any])
        refusal = _decode(label, answer.content, dict[str, dict[str, Any]])
        status, message = answer.status_code, str(refusal.get("error", {}).get("message", ""))
        raise Failure(kind_of("", status), operation=label, code=str(status), message=message)

    def _credentials(self) -> Any:  # noqa: ANN401
        from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415 - slow to import

        return AnonymousCredentials() if self._endpoint else _default()[0]

    def _send(self, collection: str, verb: str, params: dict[str, Any]) -> Any:  # noqa: ANN401
        request = {"project": self.name, **params}
        with _translating(call_name(collection, verb)):
            method = getattr(self._client(collection), verb)
            answer = method(request=request, retry=None, timeout=TIMEOUT)
            if verb == "aggregated_list":  # reading on calls for further pages
                return tuple(item for _, scope in answer for item in getattr(scope, collection))
            return tuple(answer) if verb == "list" else answer

    def _client(self, collection: str) -> Any:  # noqa: ANN401
        from google.api_core.client_options import ClientOptions  # noqa: PLC0415 - slow to import
        from google.cloud import compute_v1  # noqa: PLC0415

        if collection not in self._clients:
            kind = "".join(part.capitalize() for part in collection.split("_"))
            client_type = getattr(compute_v1, f"{kind}Client")
            options = ClientOptions(api_endpoint=self._endpoint) if self._endpoint else None
            client = client_type(
                credentials=self._credentials(), transport="rest", client_options=options
            )
            client.transport._session.hooks["response"].append(_check_answer)  # noqa: SLF001
            self._clients[collection] = client
        return self._clients[collection]


def is_done(operation: Operation) -> bool:
    return bool(operation.status == operation.Status.DONE)


def count_created(operation: Operation) -> int:
    zones = operation.instances_bulk_insert_operation_metadata.per_location_status
    return sum(status.created_vm_count for status in zones.values())


def _check_answer(response: Any, **_: object) -> None:  # noqa: ANN401 - of requests
    """Refuse what lacks the `kind` that each answer of Compute Engine has, or the `error`.

    The client reads any JSON, such as `{}`, as an answer without entries, and any page with status
    404 as proof that something does not exist. A failing server (5xx) has its own kind of failure.
    """
    if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return
    try:
        answer = decoders.decode(response.content, AnyAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = AnyAnswer()
    is_ours = answer.kind.startswith("compute#") or answer.recommendations is not None
    if not (is_ours if response.ok else answer.error):
        raise NotTheCloudError(response.status_code, response.content)
    if answer.unreachables:
        places = ", ".join(answer.unreachables)
        raise Failure("lost", operation="list", code="unreachables", message=f"without {places}")


def _decode(label: str, answer: bytes, kind: type[T]) -> T:
    """Decode the answer of a service; what is not valid, such as a proxy's page, is a failure."""
    try:
        return decoders.decode(answer, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"The answer is not one of Google's: {error}"
        raise Failure("other", operation=label, code="unreadable", message=message) from error


def _local_user() -> str:
    """Return the user and name of this machine, from the system: LOGNAME can be set to anything."""
    user = os.geteuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # a container may run as a user without a name
        name = f"uid{user}"
    return f"{name}@{platform.node()}"


def _email(credentials: Any) -> str:  # noqa: ANN401
    """Return the e-mail address of credentials; empty if neither they nor Google give it.

    A user's own credentials do not contain it, so Google is asked for the owner of their token.
    Those of a machine have the address `default` until their first token was fetched.
    """
    from google.auth.transport.requests import Request  # noqa: PLC0415 - with the client

    def metadata_email() -> str:
        names = ("service_account_email", "account")
        addresses = [str(getattr(credentials, name, "") or "") for name in names]
        return next((address for address in addresses if address not in ("", "default")), "")

    if email := metadata_email():
        return email
    request = Request()
    if not credentials.valid:
        credentials.refresh(request)
    if email := metadata_email():
        return email
    query = urllib.parse.urlencode({"access_token": credentials.token})
    answer = request(url=f"{WHOSE}?{query}", method="GET", timeout=TIMEOUT)
    if answer.status != HTTPStatus.OK:
        return ""
    info = _decode("tokeninfo", answer.data, dict[str, Any])
    return str(info.get("email") or info.get("sub") or "")


@contextmanager
def _translating(label: str) -> Iterator[None]:
    """Turn exceptions of the client into failures."""
    from google.api_core.exceptions import GoogleAPIError  # noqa: PLC0415 - with the client
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
    from google.protobuf.json_format import ParseError  # noqa: PLC0415
    from requests.exceptions import RequestException  # noqa: PLC0415

    no_json = (ParseError, UnicodeDecodeError)  # of a failing server
    try:
        yield
    except NotTheCloudError as error:
        raise error.failure(label) from error
    except (GoogleAPIError, GoogleAuthError, RequestException, *no_json) as error:
        raise _failure(label, error) from error


def _failure(label: str, error: Exception) -> Failure:
    """Classify an exception; one that is not an answer of Google gets its class as the code."""
    from google.api_core.exceptions import GoogleAPICallError  # noqa: PLC0415 - with the client
    from google.auth.exceptions import GoogleAuthError, TransportError  # noqa: PLC0415

    if isinstance(error, GoogleAPICallError):
        details = [detail for detail in error.errors if isinstance(detail, dict)]
        word = str(details[0].get("reason", "")) if details else ""
        status = int(error.code or 0)
        message = str(details[0].get("message", "")) if details else str(error.message)
        return Failure(
            kind_of(word, status), operation=label, code=word or str(status), message=message
        )
    is_denied = (
        isinstance(error, GoogleAuthError)
        and not isinstance(error, TransportError)
        and not error.retryable
    )
    kind: Kind = "denied" if is_denied else "lost"
    return Failure(kind, operation=label, code=type(error).__name__, message=str(error))
