"""Calls to Google, and the only place that knows its client: typed answers, failures told apart."""

from __future__ import annotations

import os
import platform
import pwd
import time
import urllib.parse
from functools import cache, cached_property, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cluster.core.extras import require
from cluster.providers._cloud.api_errors import Failure, Kind, retry
from cluster.providers.gcp.errors import call_name, check_operations, kind_of
from cluster.providers.gcp.responses import GcpOperation, Refusal, SkuPage

if TYPE_CHECKING:
    from collections.abc import Iterable

TIMEOUT = 20.0  # seconds for a reply
FIRST_POLL, LONGEST_POLL = 0.1, 2.0  # seconds between two looks at an operation
PATIENCE = 600.0  # seconds for an operation
SIGNS = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "CLOUDSDK_CORE_PROJECT",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE",
)
SERVICES = {  # beside Compute Engine, by the names that gcloud has for them
    "CLOUDBILLING": "https://cloudbilling.googleapis.com",
    "ORGPOLICY": "https://orgpolicy.googleapis.com",
}
NO_SERVICE = "no service"  # the code of a failure: a cloud other than Google's lacks the service
SKUS = "/v1/services/6F81-5844-456A/skus"  # the price list of Compute Engine
WHOSE = "https://oauth2.googleapis.com/tokeninfo"  # tells whose a token is
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

T = TypeVar("T")


def is_set_up() -> bool:
    """Tell whether anybody here uses Google's cloud at all, without asking anybody.

    Returns:
        Whether there is any sign of credentials.

    """
    folder = Path(os.environ.get("CLOUDSDK_CONFIG", "~/.config/gcloud")).expanduser()
    return any(os.environ.get(sign) for sign in SIGNS) or folder.exists()


def default_endpoint() -> str:
    """Give the address of a cloud that is not Google's own; empty if none is named."""
    return os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "")


def default_project() -> str:
    """Give the project of the environment or of the credentials; empty if there is none."""
    own = os.environ.get("GOOGLE_CLOUD_PROJECT") or os.environ.get("CLOUDSDK_CORE_PROJECT")
    if own or default_endpoint():
        return own or ""
    return _default()[1]


@cache
def _default() -> tuple[Any, str]:
    """Find the user's credentials and their project."""
    require("google.auth", "gcp", "Google's cloud")
    import google.auth  # noqa: PLC0415 - slow to import, and not everybody needs it
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415

    try:
        credentials, project = google.auth.default(scopes=SCOPES)
    except GoogleAuthError as error:
        raise _failure("google.auth.default", error) from error
    return credentials, project or ""


class Project:
    """Google's cloud, as one project sees it.

    Every call is repeated while it is throttled or its reply is lost: each of ours may come twice.
    The client's own attempts are switched off, because it would repeat only some of them.

    Args:
        name: of the project.
        endpoint: of a cloud that is not Google's own, such as `http://127.0.0.1:5006`, which asks
            for no credentials.

    """

    def __init__(self, name: str, endpoint: str = "") -> None:
        """Connect to nothing yet."""
        require("google.cloud.compute_v1", "gcp", "Google's cloud")
        self.name = name
        self._endpoint = (endpoint or default_endpoint()).partition("/compute/")[0].rstrip("/")
        self._clients: dict[str, Any] = {}

    user: str = ""  # policies of Google name nobody otherwise

    def now(self) -> float:
        """Give the time, in seconds since the epoch."""
        return time.time()

    @property
    def account(self) -> str:
        """What pays: the project."""
        return self.name

    @cached_property
    def owner(self) -> str:
        """Who we are, as Google knows us; where it asks for no credentials, who we are here."""
        named = os.environ.get("CLOUDSDK_CORE_ACCOUNT", "")
        if self._endpoint:
            return named or _local_user()
        try:
            email = _email(_default()[0])
        except Exception as error:
            raise _translated("tokeninfo", error) from error
        if email or named:
            return email or named
        raise Failure(
            "denied",
            operation="tokeninfo",
            code="no email",
            message="The credentials do not tell whose they are; say it: "
            "export CLOUDSDK_CORE_ACCOUNT=you@example.com",
        )

    def call(self, collection: str, verb: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        """Call until it gets through.

        Args:
            collection: what it is about, such as `instances`.
            verb: in the client's spelling, such as `get`.
            params: of the call, beside the project.

        Returns:
            The answer, as its JSON is.

        Raises:
            Failure: it was refused, or did not get through in time.

        """
        return retry(partial(self._once, collection, verb, params))

    def get(self, collection: str, of: type[T], **params: Any) -> T:  # noqa: ANN401
        """Get one thing.

        Args:
            collection: where it is, such as `instances`.
            of: what it is.
            params: that say which.

        Returns:
            The thing.

        Raises:
            Failure: there is none, it was refused, or did not get through in time.

        """
        return msgspec.convert(self.call(collection, "get", **params), of, strict=False)

    def all(self, collection: str, of: type[T], **params: Any) -> tuple[T, ...]:  # noqa: ANN401
        """List things, however many pages they take; of every zone or region, if none is named.

        Args:
            collection: where they are, such as `instances`.
            of: what they are.
            params: of the call, such as `filter`.

        Returns:
            The things.

        Raises:
            Failure: it was refused, or did not get through in time.

        """
        alone = collection in ("firewalls", "networks", "regions", "zones", "images")
        verb = "list" if alone or params.keys() & {"zone", "region"} else "aggregated_list"
        found = retry(partial(self._list, collection, verb, params))
        return tuple(msgspec.convert(one, of, strict=False) for one in found)

    def begin(self, collection: str, verb: str, **params: Any) -> GcpOperation:  # noqa: ANN401
        """Call what takes time: it goes on when this returns.

        Args:
            collection: what it is about.
            verb: in the client's spelling, such as `insert`.
            params: of the call.

        Returns:
            The operation that was begun.

        Raises:
            Failure: it was refused, or did not get through in time.

        """
        answer = self.call(collection, f"{verb}_unary", **params)
        return msgspec.convert(answer, GcpOperation, strict=False)

    def look(self, operation: GcpOperation) -> GcpOperation:
        """Look how far an operation is.

        The client's own way to wait asks Google's own address, whatever cloud the call went to.

        Args:
            operation: that was begun.

        Returns:
            The same as it is now.

        Raises:
            Failure: it cannot be told.

        """
        scope = {
            kind: place.rpartition("/")[2]
            for kind, place in (("zone", operation.zone), ("region", operation.region))
            if place
        }
        kind = next(iter(scope), "global")
        return self.get(f"{kind}_operations", GcpOperation, operation=operation.name, **scope)

    def finish(self, what: str, operation: GcpOperation, within: float = PATIENCE) -> GcpOperation:
        """Wait until an operation is done.

        Args:
            what: was called, for whoever reads of its failure.
            operation: that was begun.
            within: seconds.

        Returns:
            The operation.

        Raises:
            Failure: it went wrong, or is not done in time.

        """
        deadline, pause = time.monotonic() + within, FIRST_POLL
        while not operation.done:
            if time.monotonic() > deadline:
                raise Failure(
                    "lost", operation=what, code=operation.name, message="It is not done in time"
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)
            operation = self.look(operation)
        if operation.error.errors or operation.created < operation.asked:
            check_operations(what, operation, *self._parts(operation))
        return operation

    def _parts(self, operation: GcpOperation) -> tuple[GcpOperation, ...]:
        """List what an operation began in its turn: the insertions of a bulkInsert."""
        if not (operation.operation_group_id and operation.zone):
            return ()
        wanted = f"operationGroupId = {operation.operation_group_id}"
        zone = operation.zone.rpartition("/")[2]
        try:
            return self.all("zone_operations", GcpOperation, zone=zone, filter=wanted)
        except Failure:  # what the operation itself says has to do
            return ()

    def catalog(self, of: type[T]) -> tuple[T, ...]:
        """List what Google's price list has of Compute Engine.

        Args:
            of: what its entries are.

        Returns:
            The entries.

        Raises:
            Failure: it cannot be had; another cloud's own may be named in the environment.

        """
        params = {"pageSize": "5000", "currencyCode": "USD"}
        found = []
        while True:
            page = self._other("CLOUDBILLING", "skus.list", SKUS, params, SkuPage)
            found += [_decoded("skus.list", one, of) for one in page.skus]
            if not page.next_page_token:
                return tuple(found)
            params["pageToken"] = page.next_page_token

    def policy(self, constraint: str, of: type[T]) -> T:
        """Ask what an organisation policy says for this project.

        Args:
            constraint: of the policy, such as `compute.requireOsLogin`.
            of: what it is.

        Returns:
            The policy that is in effect, by whichever folder or organisation.

        Raises:
            Failure: it cannot be had; another cloud's own may be named in the environment.

        """
        path = f"/v2/projects/{self.name}/policies/{constraint}:getEffectivePolicy"
        return self._other("ORGPOLICY", "policies.getEffectivePolicy", path, {}, of)

    def _other(self, service: str, what: str, path: str, params: dict[str, str], of: type[T]) -> T:
        """Ask a service beside Compute Engine, once: a plan can do without its answer."""
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415 - with it

        own = os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service}", "").rstrip("/")
        if self._endpoint and not own:
            raise Failure("missing", operation=what, code=NO_SERVICE, message="It is not there")
        try:
            with AuthorizedSession(self._credentials()) as session:
                url = f"{own or SERVICES[service]}{path}"
                answer = session.get(url, params=params, timeout=TIMEOUT)
        except Exception as error:
            raise _translated(what, error) from error
        if answer.ok:
            return _decoded(what, answer.content, of)
        message = _decoded(what, answer.content, Refusal).error.message
        status = answer.status_code
        raise Failure(kind_of("", status), operation=what, code=str(status), message=message)

    def _credentials(self) -> Any:  # noqa: ANN401
        from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415 - slow to import

        return AnonymousCredentials() if self._endpoint else _default()[0]

    def _once(self, collection: str, verb: str, params: dict[str, Any]) -> dict[str, Any]:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - with the client

        answer = self._send(collection, verb, params)
        found: dict[str, Any] = MessageToDict(type(answer).pb(answer))
        return found

    def _list(self, collection: str, verb: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - with the client

        try:
            answered: Iterable[Any] = self._send(collection, verb, params)
            if verb == "aggregated_list":
                answered = [one for _, held in answered for one in getattr(held, collection)]
            return [MessageToDict(type(one).pb(one)) for one in answered]
        except Exception as error:
            raise _translated(call_name(collection, verb), error) from error

    def _send(self, collection: str, verb: str, params: dict[str, Any]) -> Any:  # noqa: ANN401
        request = {"project": self.name, **params}
        try:
            method = getattr(self._client(collection), verb)
            return method(request=request, retry=None, timeout=TIMEOUT)
        except Exception as error:
            raise _translated(call_name(collection, verb), error) from error

    def _client(self, collection: str) -> Any:  # noqa: ANN401
        from google.api_core.client_options import ClientOptions  # noqa: PLC0415 - slow to import
        from google.cloud import compute_v1  # noqa: PLC0415

        if collection not in self._clients:
            kind = "".join(part.capitalize() for part in collection.split("_"))
            made = getattr(compute_v1, f"{kind}Client")
            options = ClientOptions(api_endpoint=self._endpoint) if self._endpoint else None
            self._clients[collection] = made(
                credentials=self._credentials(), transport="rest", client_options=options
            )
        return self._clients[collection]


def _decoded(what: str, answer: bytes | msgspec.Raw, of: type[T]) -> T:
    """Read what a service answered; anything else, as of a proxy, is a failure."""
    try:
        return msgspec.json.decode(answer, type=of, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"The answer is not one of Google's: {error}"
        raise Failure("other", operation=what, code="unreadable", message=message) from error


def _local_user() -> str:
    """Tell who runs this: by the system, as anybody may set the variable LOGNAME."""
    user = os.geteuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # a container may run as a number
        name = f"uid{user}"
    return f"{name}@{platform.node()}"


def _email(credentials: Any) -> str:  # noqa: ANN401
    """Tell whose credentials they are; empty, if neither they nor Google tell it.

    A user's own do not name them: Google answers whose its token is. Those of a machine are called
    `default` until the first token came.
    """
    from google.auth.transport.requests import Request  # noqa: PLC0415 - with the client

    def told() -> str:
        names = ("service_account_email", "account")
        found = [str(getattr(credentials, name, "") or "") for name in names]
        return next((one for one in found if one not in ("", "default")), "")

    if email := told():
        return email
    request = Request()
    if not credentials.valid:
        credentials.refresh(request)
    if email := told():
        return email
    query = urllib.parse.urlencode({"access_token": credentials.token})
    answer = request(url=f"{WHOSE}?{query}", method="GET", timeout=TIMEOUT)
    if answer.status != HTTPStatus.OK:
        return ""
    about = _decoded("tokeninfo", answer.data, dict[str, Any])
    return str(about.get("email") or about.get("sub") or "")


def _translated(what: str, error: Exception) -> Exception:
    """Give the failure that an exception of the client means; other exceptions stay."""
    from google.api_core.exceptions import GoogleAPIError  # noqa: PLC0415 - with the client
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
    from google.protobuf.json_format import ParseError  # noqa: PLC0415
    from requests.exceptions import RequestException  # noqa: PLC0415

    no_json = (ParseError, UnicodeDecodeError)  # a proxy answered
    known = isinstance(error, (GoogleAPIError, GoogleAuthError, RequestException, *no_json))
    return _failure(what, error) if known else error


def _failure(what: str, error: Exception) -> Failure:
    """Tell a failure's kind; what did not come from Google has its class for a code."""
    from google.api_core.exceptions import GoogleAPICallError  # noqa: PLC0415 - with the client
    from google.auth.exceptions import GoogleAuthError, TransportError  # noqa: PLC0415

    if isinstance(error, GoogleAPICallError):
        said = [one for one in error.errors if isinstance(one, dict)]
        word = str(said[0].get("reason", "")) if said else ""
        status = int(error.code or 0)
        message = str(said[0].get("message", "")) if said else str(error.message)
        return Failure(
            kind_of(word, status), operation=what, code=word or str(status), message=message
        )
    locked = (
        isinstance(error, GoogleAuthError)
        and not isinstance(error, TransportError)
        and not error.retryable
    )
    kind: Kind = "denied" if locked else "lost"
    return Failure(kind, operation=what, code=type(error).__name__, message=str(error))
