"""Who may do what: the users, and the permissions that each call needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.core.model.value import Value
from tests.fakes.aws.errors import refused
from tests.fakes.aws.policies import Demand, allows
from tests.fakes.gaps import GapError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moto.core.exceptions import ServiceException

    from tests.fakes.aws.service import Service

ACCOUNT = "123456789012"
OTHER_ACCOUNT = "210987654321"
ADMIN = "AKIATESTCLOUDADMIN00"  # may do everything
FREE = {("sts", "GetCallerIdentity"), ("sts", "AssumeRole")}  # need no permission of the user

MADE = {  # what a call makes, in the words of ARNs
    "AllocateAddress": "elastic-ip",
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
    "AllocationId": "elastic-ip",
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
    "eipalloc": "elastic-ip",
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


class Caller(Value, frozen=True, kw_only=True):
    account: str = ACCOUNT  # that pays
    arn: str  # of a user, or of a session of a role
    id: str  # by which policies know them: of a role, with its session
    policy: dict[str, Any] | None = None  # what they may do; everything, if none

    @property
    def name(self) -> str:
        """Of the user or the session."""
        return self.arn.rpartition("/")[2]


class Permissions:
    """Who may call, by access key, and the roles that they may take on, by ARN."""

    def __init__(self) -> None:
        self._callers = {ADMIN: _user("admin", ADMIN, ACCOUNT, None)}
        self._roles: dict[str, dict[str, Any] | None] = {}

    def add(self, name: str, policy: dict[str, Any] | None, account: str = ACCOUNT) -> str:
        """Make a user, and return its access key."""
        key = f"AKIATESTCLOUDUSER{len(self._callers):03}"
        self._callers[key] = _user(name, key, account, policy)
        return key

    def add_role(self, name: str, policy: dict[str, Any] | None, account: str = ACCOUNT) -> str:
        """Return the ARN of a new role, which anybody may take on."""
        arn = f"arn:aws:iam::{account}:role/{name}"
        self._roles[arn] = policy
        return arn

    def assume(self, arn: str, session: str) -> str:
        """Return the access key of a new session of a role."""
        if arn not in self._roles:
            raise refused("AccessDenied", f"You may not perform: sts:AssumeRole on {arn}")
        account, name = arn.split(":")[4], arn.rpartition("/")[2]
        key = f"ASIATESTCLOUDROLE{len(self._callers):03}"
        self._callers[key] = Caller(
            account=account,
            arn=f"arn:aws:sts::{account}:assumed-role/{name}/{session}",
            id=f"AROATESTCLOUD{name.upper()}:{session}",
            policy=self._roles[arn],
        )
        return key

    def caller(self, key: str) -> Caller | None:
        """Tell whose an access key is."""
        return self._callers.get(key)

    def name(self, key: str) -> str:
        """Tell whose an access key is; of a strange one, the key."""
        caller = self.caller(key)
        return caller.name if caller else key

    def check(self, service: Service) -> None:
        """Refuse a call that its caller may not make."""
        caller = self.caller(service.user)
        if caller is None:
            raise refused(
                "AuthFailure", "AWS was not able to validate the provided access credentials"
            )
        if caller.policy is None or (service.name, service.action) in FREE:
            return
        for demand in _demands(service):
            if not allows(caller.policy, demand):
                raise _denial(service, demand, caller)


def _user(name: str, key: str, account: str, policy: dict[str, Any] | None) -> Caller:
    arn = f"arn:aws:iam::{account}:user/{name}"
    return Caller(account=account, arn=arn, id=f"AIDA{key[4:]}", policy=policy)


def _denial(service: Service, demand: Demand, caller: Caller) -> ServiceException:
    code = "UnauthorizedOperation" if service.protocol == "ec2" else "AccessDeniedException"
    user = f"User: {caller.arn}"
    return refused(
        code,
        f"You are not authorized to perform this operation. {user} is not authorized to perform: "
        f"{demand.action} on resource: {demand.resource} because no identity-based policy allows "
        f"the {demand.action} action",
    )


def _demands(service: Service) -> Iterator[Demand]:
    action = f"{service.name}:{service.action}"
    if service.name == "ssm":
        names = service.inputs.get("Names") or [service.inputs["Name"]]
        for name in names:
            arn = f"arn:aws:ssm:{service.region}::parameter{name}"
            yield Demand(action=action, resource=arn, context=_context(service))
    elif service.name != "ec2" or service.action.startswith(("Describe", "Get")):
        yield Demand(action=action, resource="*", context=_context(service))
    else:
        yield from _writes(service, action)


def _context(service: Service) -> dict[str, tuple[str, ...]]:
    region = (service.region,)
    return {"aws:requestedregion": region, "aws:userid": (service.caller.id,), "ec2:region": region}


def _writes(service: Service, action: str) -> Iterator[Demand]:
    """Yield what a call of EC2 that changes something needs."""
    tags = _asked_tags(service)
    new_kinds = _new_kinds(service)
    for kind in new_kinds:
        yield _demand(service, action, f"{kind}/*", requested=tags.get(kind))
    for kind, ids in _list_ids(service):
        requested = _tags_of(service.inputs.get("Tags")) if service.action == "CreateTags" else None
        for id_ in ids:
            if kind not in new_kinds:
                yield _demand(service, action, f"{kind}/{id_}", requested=requested)
    for kind, new_tags in tags.items():
        demand = _demand(service, "ec2:CreateTags", f"{kind}/*", requested=new_tags)
        demand.context["ec2:createaction"] = (service.action,)
        yield demand


def _new_kinds(service: Service) -> list[str]:
    if service.action == "RunInstances":
        return ["instance", "volume", "network-interface"]
    return [MADE[service.action]] if service.action in MADE else []


def _list_ids(service: Service) -> Iterator[tuple[str, list[str]]]:
    inputs = service.inputs
    for key, value in inputs.items():
        if key in NAMED:
            yield NAMED[key], value if isinstance(value, list) else [value]
    if service.action == "DeletePlacementGroup":
        yield "placement-group", [inputs["GroupName"]]
    for id_ in inputs.get("Resources", []):
        prefix = id_.partition("-")[0]
        if prefix not in PREFIXES:
            raise GapError(f"the kind of {id_}")
        yield PREFIXES[prefix], [id_]
    if service.action == "RunInstances":
        yield from _launched(inputs)


def _launched(inputs: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    group = inputs.get("Placement", {}).get("GroupName")
    if group:
        yield "placement-group", [group]
    for nic in inputs.get("NetworkInterfaces", []):
        yield "security-group", nic.get("Groups", [])
        yield "subnet", [nic["SubnetId"]] if "SubnetId" in nic else ["*"]
    if "SubnetId" not in inputs and not inputs.get("NetworkInterfaces"):
        yield "subnet", ["*"]


def _asked_tags(service: Service) -> dict[str, dict[str, str]]:
    specs = service.inputs.get("TagSpecifications", [])
    return {spec["ResourceType"]: _tags_of(spec.get("Tags")) for spec in specs}


def _tags_of(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in tags or []}


def _demand(
    service: Service, action: str, resource: str, *, requested: dict[str, str] | None
) -> Demand:
    """Return a demand with its condition keys."""
    kind, _, id_ = resource.partition("/")
    owner = "" if kind == "image" else service.caller.account
    context = _context(service)
    context |= {f"aws:requesttag/{k}".lower(): (v,) for k, v in (requested or {}).items()}
    if requested:
        context["aws:tagkeys"] = tuple(requested)
    if "InstanceType" in service.inputs and kind == "instance":
        context["ec2:instancetype"] = (service.inputs["InstanceType"],)
    for key, value in _resource_tags(service, kind, id_).items():
        context[f"aws:resourcetag/{key}".lower()] = (value,)
        context[f"ec2:resourcetag/{key}".lower()] = (value,)
    return Demand(
        action=action, resource=f"arn:aws:ec2:{service.region}:{owner}:{resource}", context=context
    )


def _resource_tags(service: Service, kind: str, id_: str) -> dict[str, str]:
    region = service.cloud.region(service.region, service.caller.account)
    if kind == "key-pair" and id_ in region.backend.key_pairs:
        id_ = region.backend.key_pairs[id_].id
    if kind == "placement-group" and id_ in region.groups:
        id_ = region.groups[id_].id
    return dict(region.backend.tags.get(id_, {}))
