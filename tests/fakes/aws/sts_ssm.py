"""The small services: who am I, and which image is the newest."""

from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult

from tests.fakes.aws import images
from tests.fakes.aws.errors import refused
from tests.fakes.aws.service import Service


class Sts(Service):
    """Who the caller is."""

    name = "sts"
    protocol = "query"

    def get_caller_identity(self) -> ActionResult:
        caller = self.caller
        return ActionResult({"Account": caller.account, "Arn": caller.arn, "UserId": caller.id})

    def assume_role(self) -> ActionResult:
        self.need("RoleArn", "RoleSessionName")
        key = self.cloud.permissions.assume(self.params["RoleArn"], self.params["RoleSessionName"])
        ends = datetime.now(UTC) + timedelta(hours=1)
        credentials: dict[str, Any] = {"AccessKeyId": key, "SecretAccessKey": "not-a-secret"}
        credentials |= {"SessionToken": "not-a-secret", "Expiration": ends}
        return ActionResult({"Credentials": credentials})


class Ssm(Service):
    """The public parameters that name images."""

    name = "ssm"

    def get_parameter(self) -> ActionResult:
        self.need("Name")
        name = self.params["Name"]
        if name not in images.ALIASES:
            raise refused("ParameterNotFound", "")
        return ActionResult({"Parameter": _parameter(name)})

    def get_parameters(self) -> ActionResult:
        self.need("Names")
        aliases = [name for name in self.params["Names"] if name in images.ALIASES]
        bad_names = [name for name in self.params["Names"] if name not in images.ALIASES]
        parameters = [_parameter(name) for name in aliases]
        return ActionResult({"Parameters": parameters, "InvalidParameters": bad_names})


def _parameter(name: str) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "String",
        "Value": images.ALIASES[name],
        "Version": 42,
        "DataType": "aws:ec2:image",
        "ARN": f"arn:aws:ssm:us-east-1::parameter{name}",
    }
