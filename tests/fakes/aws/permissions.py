"""Who may do what: the users, and the permissions that each call needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.aws.errors import refused
from tests.fakes.aws.policies import Demand, allows
from tests.fakes.gaps import GapError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moto.core.exceptions import ServiceException

    from tests.fakes.aws.service import Service

ACCOUNT = "123456789012"
ADMIN = "AKIATESTCLOUDADMIN00"  # may do everything
FREE = {("sts", "GetCallerIdentity")}  # needs no permission

MADE = {  # what a call makes, in the words of ARNs
    "CreateInternetGateway": "internet-gateway",
    "CreateKeyPair": "key-pair",
    "CreatePlacementGroup": "placement-group",
    "CreateRouteTable": "route-table",
    "CreateSecurityGroup": "security-group",
    "CreateSubnet": "subnet",
    "CreateVpc": "vpc",
    "ImportKeyPair": "key-pair",
}
NAMED = {  # what a call names, by parameter
    "GroupId": "security-group",
    "Groups": "security-group",
    "ImageId": "image",
    "InstanceId": "instance",
    "InstanceIds": "instance",
    "InternetGatewayId": "internet-gateway",
    "KeyName": "key-pair",
    "NetworkInterfaceId": "network-interface",
    "RouteTableId": "route-table",
    "SecurityGroupIds": "security-group",
    "SubnetId": "subnet",
    "VolumeId": "volume",
    "VpcId": "vpc",
}
PREFIXES = {
    "eni": "network-interface",
    "i": "instance",
    "igw": "internet-gateway",
    "key": "key-pair",
    "pg": "placement-group",
    "rtb": "route-table",
    "sg": "security-group",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
}


class Permissions:
    """The users of the account, by access key."""

    def __init__(self) -> None:
        self._policies: dict[str, dict[str, Any]] = {}
        self._names = {ADMIN: "admin"}

    def add(self, name: str, policy: dict[str, Any]) -> str:
        """Give the access key of a new user."""
        key = f"AKIATESTCLOUDUSER{len(self._names):03}"
        self._names[key] = name
        self._policies[key] = policy
        return key

    def name(self, key: str) -> str:
        """Tell whose an access key is; of a strange one, the key."""
        return self._names.get(key, key)

    def check(self, service: Service) -> None:
        """Refuse a call that its caller may not make."""
        if service.user not in self._names:
            raise refused(
                "AuthFailure", "AWS was not able to validate the provided access credentials"
            )
        if service.user == ADMIN or (service.name, service.action) in FREE:
            return
        for demand in _demands(service):
            if not allows(self._policies[service.user], demand):
                raise _denied(service, demand, self.name(service.user))


def user_id(key: str) -> str:
    """Give the id of the user of an access key, by which policies know them."""
    return f"AIDA{key[4:]}"


def _denied(service: Service, demand: Demand, name: str) -> ServiceException:
    code = "UnauthorizedOperation" if service.protocol == "ec2" else "AccessDeniedException"
    who = f"User: arn:aws:iam::{ACCOUNT}:user/{name}"
    return refused(
        code,
        f"You are not authorized to perform this operation. {who} is not authorized to perform: "
        f"{demand.action} on resource: {demand.resource} because no identity-based policy allows "
        f"the {demand.action} action",
    )


def _demands(service: Service) -> Iterator[Demand]:
    action = f"{service.name}:{service.action}"
    if service.name == "ssm":
        names = service.asked.get("Names") or [service.asked["Name"]]
        for name in names:
            arn = f"arn:aws:ssm:{service.region}::parameter{name}"
            yield Demand(action=action, resource=arn, context=_where(service))
    elif service.name != "ec2" or service.action.startswith(("Describe", "Get")):
        yield Demand(action=action, resource="*", context=_where(service))
    else:
        yield from _writes(service, action)


def _where(service: Service) -> dict[str, tuple[str, ...]]:
    region = (service.region,)
    return {
        "aws:requestedregion": region,
        "aws:userid": (user_id(service.user),),
        "ec2:region": region,
    }


def _writes(service: Service, action: str) -> Iterator[Demand]:
    """Give what a call of EC2 that changes something needs."""
    tags = _asked_tags(service)
    made = _made(service)
    for kind in made:
        yield _demand(service, action, f"{kind}/*", requested=tags.get(kind))
    for kind, ids in _named(service):
        requested = _tags_of(service.asked.get("Tags")) if service.action == "CreateTags" else None
        for id_ in ids:
            if kind not in made:
                yield _demand(service, action, f"{kind}/{id_}", requested=requested)
    for kind, wanted in tags.items():
        demand = _demand(service, "ec2:CreateTags", f"{kind}/*", requested=wanted)
        demand.context["ec2:createaction"] = (service.action,)
        yield demand


def _made(service: Service) -> list[str]:
    if service.action == "RunInstances":
        return ["instance", "volume", "network-interface"]
    return [MADE[service.action]] if service.action in MADE else []


def _named(service: Service) -> Iterator[tuple[str, list[str]]]:
    asked = service.asked
    for key, value in asked.items():
        if key in NAMED:
            yield NAMED[key], value if isinstance(value, list) else [value]
    if service.action == "DeletePlacementGroup":
        yield "placement-group", [asked["GroupName"]]
    for id_ in asked.get("Resources", []):
        prefix = id_.partition("-")[0]
        if prefix not in PREFIXES:
            raise GapError(f"the kind of {id_}")
        yield PREFIXES[prefix], [id_]
    if service.action == "RunInstances":
        yield from _launched(asked)


def _launched(asked: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    group = asked.get("Placement", {}).get("GroupName")
    if group:
        yield "placement-group", [group]
    for nic in asked.get("NetworkInterfaces", []):
        yield "security-group", nic.get("Groups", [])
        yield "subnet", [nic["SubnetId"]] if "SubnetId" in nic else ["*"]
    if "SubnetId" not in asked and not asked.get("NetworkInterfaces"):
        yield "subnet", ["*"]


def _asked_tags(service: Service) -> dict[str, dict[str, str]]:
    specs = service.asked.get("TagSpecifications", [])
    return {spec["ResourceType"]: _tags_of(spec.get("Tags")) for spec in specs}


def _tags_of(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in tags or []}


def _demand(
    service: Service, action: str, what: str, *, requested: dict[str, str] | None
) -> Demand:
    """Give a demand with its condition keys."""
    kind, _, id_ = what.partition("/")
    owner = "" if kind == "image" else ACCOUNT
    context = _where(service)
    context |= {f"aws:requesttag/{k}".lower(): (v,) for k, v in (requested or {}).items()}
    if requested:
        context["aws:tagkeys"] = tuple(requested)
    if "InstanceType" in service.asked and kind == "instance":
        context["ec2:instancetype"] = (service.asked["InstanceType"],)
    for key, value in _resource_tags(service, kind, id_).items():
        context[f"aws:resourcetag/{key}".lower()] = (value,)
        context[f"ec2:resourcetag/{key}".lower()] = (value,)
    return Demand(
        action=action,
        resource=f"arn:aws:ec2:{service.region}:{owner}:{what}",
        context=context,
    )


def _resource_tags(service: Service, kind: str, id_: str) -> dict[str, str]:
    region = service.cloud.region(service.region)
    if kind == "key-pair" and id_ in region.backend.key_pairs:
        id_ = region.backend.key_pairs[id_].id
    if kind == "placement-group" and id_ in region.groups:
        id_ = region.groups[id_].id
    return dict(region.backend.tags.get(id_, {}))
