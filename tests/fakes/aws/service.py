"""One call: read as botocore's model says, checked, executed, written."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import camelcase_to_underscores

from cluster.core.model.value import Value
from tests.fakes.aws import actions
from tests.fakes.aws.errors import STATUS, refusal, refused
from tests.fakes.aws.permissions import ACCOUNT, Caller
from tests.fakes.gaps import GapError

if TYPE_CHECKING:
    from moto.core.request import Request

    from tests.fakes.aws.cloud import Cloud

REQUEST_ID = "x-amzn-RequestId"
WOULD = "Request would have succeeded, but DryRun flag is set."
CHECKED = {  # these look further than at permissions, and do not forget that it is a DryRun
    "CreatePlacementGroup",
    "DeletePlacementGroup",
    "DeleteSecurityGroup",
    "DeleteSubnet",
    "DeleteVpc",
    "RunInstances",
    "StartInstances",
    "StopInstances",
    "TerminateInstances",
}


class Reply(Value, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    body: bytes
    code: str = ""


class Service(BaseResponse):
    """The calls of one service; a subclass has a method for each of its actions."""

    name: ClassVar[str]  # that calls are signed for
    model: ClassVar[str] = ""  # what botocore calls it, if otherwise
    protocol: ClassVar[str] = "json"  # or "query", or "ec2"

    def __init__(self, cloud: Cloud, request: Request) -> None:
        BaseResponse.__init__(self, self.model or self.name)
        self.automated_parameter_parsing = True
        self.cloud = cloud
        self.setup_class(request)

    @property
    def action(self) -> str:
        return str(self._get_action())

    @property
    def inputs(self) -> dict[str, Any]:
        return dict(self.params)

    @property
    def user(self) -> str:
        """The access key that signed the call."""
        return str(self.access_key)

    @property
    def caller(self) -> Caller:
        """Whose that key is."""
        caller = self.cloud.permissions.caller(self.user)
        if caller is None:
            raise refused("InvalidClientTokenId", "The security token is invalid")
        return caller

    def get_current_account(self) -> str:
        """Return the account that the call is for, as moto asks for it."""
        caller = self.cloud.permissions.caller(self.user)
        return caller.account if caller else ACCOUNT

    def error(self, code: str, message: str, status: int = 0) -> Reply:
        kind, body = refusal(self.protocol, code, message)
        return Reply(
            status=status or STATUS.get(code, 400),
            headers={"Content-Type": kind, REQUEST_ID: "test-cloud"},
            body=body.encode(),
            code=code,
        )

    def execute(self) -> Reply:
        """Do what was asked, or refuse."""
        try:
            self._check()
            return self._reply(getattr(self, camelcase_to_underscores(self.action))())
        except ServiceException as error:
            return self.error(error.code, error.message)
        except Exception as error:  # noqa: BLE001 - whatever moto does not know is a gap
            text = str(error) if isinstance(error, GapError) else traceback.format_exc()
            self.cloud.gaps.append(f"{self.name} {self.action} {self.inputs}: {text}")
            return self.error("EmulatorGap", f"The test cloud does not know this: {text}")

    def _check(self) -> None:
        self.cloud.permissions.check(self)
        unknown = actions.unknown(self.name, self.action, self.inputs)
        if unknown:
            raise GapError(f"{self.action}: {unknown}")
        if odd := actions.odd_filter(self.action, self.inputs):
            raise refused("InvalidParameterValue", f"The filter '{odd}' is invalid")
        if self.params.get("DryRun") and self.action not in CHECKED:
            raise refused("DryRunOperation", WOULD)

    def _reply(self, result: Any) -> Reply:
        if isinstance(result, ActionResult):
            status, headers, body = self.serialized(result)
        elif isinstance(result, str):
            status, headers, body = 200, {"Content-Type": "text/xml"}, result
        else:
            raise GapError(f"{self.action} gave {type(result)}")
        data = body.encode() if isinstance(body, str) else body
        texts = {str(key): str(value) for key, value in headers.items() if key != "status"}
        return Reply(status=int(status), headers={REQUEST_ID: "test-cloud", **texts}, body=data)

    def need(self, *names: str) -> None:
        """Refuse a call that lacks a parameter."""
        for name in names:
            if name not in self.params:
                raise refused("MissingParameter", f"The request must contain the parameter {name}")
