"""Calls to Amazon, with typed answers and classified failures; the only module that uses boto3."""

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cluster.core.extras import require
from cluster.providers._cloud.api_errors import Failure, Kind, NotTheCloudError, pause_after
from cluster.providers.aws.errors import LOGINS, kind_of

CONNECT_TIMEOUT, READ_TIMEOUT = 5, 20  # seconds
SIGNS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
PAGE = 1000  # most resources in one answer
AT_ONCE = 4  # dry runs in flight
PERMITTED = "DryRunOperation"  # the code of a dry run whose call would have succeeded


def is_set_up() -> bool:
    if any(os.environ.get(sign) for sign in SIGNS):
        return True
    files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    values = [os.environ.get(name) for name in files]
    paths = [Path(name) for name in values if name] or [Path("~/.aws").expanduser()]
    return any(path.exists() for path in paths)


def default_region() -> str:
    """Return the region of the environment or the profile; empty if there is none."""
    return str(_session("").region_name or "")


def _session(region: str) -> Any:  # noqa: ANN401 - boto3 has no types
    require("boto3", "aws", "Amazon's cloud")
    import boto3  # noqa: PLC0415 - slow to import, and not everybody needs it
    import botocore.session  # noqa: PLC0415
    from botocore.exceptions import ProfileNotFound  # noqa: PLC0415

    try:
        session = botocore.session.Session()
        session.register_component("data_loader", service_models())
        return boto3.Session(botocore_session=session, region_name=region or None)
    except ProfileNotFound as error:
        raise _failure("boto3", error) from error


@cache  # without it, each session would read the large model of EC2 again
def service_models() -> Any:  # noqa: ANN401
    """Return botocore's loader of service models, which all sessions share."""
    import botocore.session  # noqa: PLC0415

    return botocore.session.Session().get_component("data_loader")


class Region:
    """The API of Amazon in one region, such as `us-east-1`.

    `call` repeats while a call is throttled or its reply is lost, so every call has to be
    idempotent. boto3's own retries are switched off, because it also repeats other failures.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._session = _session(name)
        self._clients: dict[str, Any] = {}
        self._skew = 0.0
        self._last = threading.local()  # the last answer of each thread, before it is parsed

    @cached_property
    def _caller(self) -> Mapping[str, Any]:
        return self.call("get_caller_identity", "Account", service="sts")

    @property
    def account(self) -> str:
        return str(self._caller["Account"])

    @property
    def owner(self) -> str:
        """The caller's ARN, without the session."""
        arn = str(self._caller["Arn"])
        return arn.rpartition("/")[0] if _has_passing_session(arn) else arn

    @property
    def user(self) -> str:
        """The caller's id in policies: the beginning of `${aws:userid}`."""
        user = str(self._caller["UserId"])
        return user.partition(":")[0] if _has_passing_session(str(self._caller["Arn"])) else user

    def now(self) -> float:
        """Return the time of Amazon's clock, in seconds since the epoch: the local may be wrong."""
        return datetime.now(UTC).timestamp() + self._skew

    def call(self, operation: str, key: str = "", **params: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Call an operation such as `run_instances`, again while it is throttled or gets no reply.

        Each of its answers has `key`. Failure: it was refused, or did not succeed in time.
        """
        start, failures = time.monotonic(), 0
        while True:
            try:
                return self.once(operation, key, **params)
            except Failure as failure:
                pause_after(failure, failures := failures + 1, start)

    def once(
        self,
        operation: str,
        key: str = "",
        *,
        service: str = "ec2",
        **params: Any,  # noqa: ANN401
    ) -> Mapping[str, Any]:
        """Call an operation once.

        boto3 reads any well-formed XML, such as the page of a proxy, as an answer without entries.
        So an answer counts only with a request id and its key, which botocore gives also to an
        empty list: `<reservationSet/>`. Failure: it was refused, or its reply was lost or is none.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - with boto3
        from botocore.parsers import ResponseParserError  # noqa: PLC0415

        self._last.response = {}
        try:
            answer: Mapping[str, Any] = getattr(self._client(service), operation)(**params)
        except ClientError as error:
            self._check(operation, error.response)
            if error.response.get("Error", {}).get("Code") == PERMITTED:
                return error.response
            raise _failure(operation, error) from error
        except (BotoCoreError, ResponseParserError, KeyError) as error:  # KeyError: STS's parser
            self._check(operation, {})
            raise _failure(operation, error) from error
        self._check(operation, answer, key)
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date:
            server_time = parsedate_to_datetime(date).timestamp()
            self._skew = server_time - datetime.now(UTC).timestamp()
        return answer

    def _check(self, operation: str, answer: Mapping[str, Any], key: str = "") -> None:
        """Raise the failure of a call that something other than Amazon answered.

        What a failing server or a proxy before it says (5xx) has its own kind of failure.
        """
        raw = self._last.response
        if not raw or raw["status_code"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        if not answer.get("ResponseMetadata", {}).get("RequestId") or (key and key not in answer):
            raise NotTheCloudError(raw["status_code"], raw["body"]).failure(_name_of(operation))

    def check_permissions(self, calls: Mapping[str, Mapping[str, Any]]) -> None:
        """Check with dry runs that the caller may make these calls (Failure)."""
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            list(pool.map(lambda name: self.call(name, DryRun=True, **calls[name]), calls))

    def all(self, operation: str, key: str, **params: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """List resources over all pages, as boto3's dictionaries: `types_boto3_ec2` (Failure)."""
        rows: list[Any] = []
        token: dict[str, str] = {}
        while True:
            page = self.call(operation, key, **params, **token)
            rows += page[key]
            if not page.get("NextToken"):
                return tuple(rows)
            token = {"NextToken": page["NextToken"]}

    def console(self, machine: str) -> str:
        for latest in (True, False):  # older types have only the output of the boot
            with suppress(Failure):
                answer = self.call("get_console_output", InstanceId=machine, Latest=latest)
                return str(answer.get("Output", ""))
        return ""

    def _client(self, service: str) -> Any:  # noqa: ANN401
        from botocore.config import Config  # noqa: PLC0415 - with boto3

        if service not in self._clients:
            # The price list covers all regions, but only some regions serve it.
            region = "us-east-1" if service == "pricing" else self.name
            client = self._session.client(
                service,
                region_name=region,
                config=Config(
                    retries={"total_max_attempts": 1},
                    connect_timeout=CONNECT_TIMEOUT,
                    read_timeout=READ_TIMEOUT,
                    user_agent_extra="cluster",
                ),
            )
            client.meta.events.register("before-parse", self._note_response)
            self._clients[service] = client
        return self._clients[service]

    def _note_response(self, response_dict: dict[str, Any], **_: object) -> None:
        self._last.response = response_dict


def _has_passing_session(arn: str) -> bool:
    """Tell whether the last part of an ARN is a session that may differ in every process.

    That is so for a role. But in IAM Identity Center many people share a role, and the session is
    the person (IAM Identity Center user guide, "Identity-based policy examples").
    """
    return ":assumed-role/" in arn and ":assumed-role/AWSReservedSSO_" not in arn


def _name_of(operation: str) -> str:
    """Return Amazon's own name of an operation, such as `RunInstances`."""
    return "".join(part.capitalize() for part in operation.split("_"))


def _failure(operation: str, error: Exception) -> Failure:
    """Classify an error of boto3; errors that boto3 itself raises get their class as the code."""
    from botocore import exceptions  # noqa: PLC0415 - with boto3
    from botocore.parsers import ResponseParserError  # noqa: PLC0415

    name = _name_of(operation)
    if isinstance(error, exceptions.ClientError):
        answer = error.response
        refusal = answer.get("Error", {})
        code = str(refusal.get("Code", ""))
        return Failure(
            kind_of(code, int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))),
            operation=name,
            code=code,
            message=str(refusal.get("Message", "")),
            request=str(answer.get("ResponseMetadata", {}).get("RequestId", "")),
        )
    losses = (
        exceptions.ConnectionError,  # refused, not resolved, TLS, proxy or timeout
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        ResponseParserError,
    )
    is_denied = any(base.__name__ in (*LOGINS, "LoginError") for base in type(error).__mro__)
    kind: Kind = "denied" if is_denied else "lost" if isinstance(error, losses) else "other"
    return Failure(kind, operation=name, code=type(error).__name__, message=str(error))
