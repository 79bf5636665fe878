"""Networks: nothing is deleted while something else needs it."""

from typing import Any

from moto.core.responses import ActionResult

from tests.fakes.aws.calls import Calls
from tests.fakes.aws.errors import refused


class NetworkCalls(Calls):
    """The calls of EC2 about VPCs, subnets and security groups."""

    def delete_security_group(self) -> ActionResult:
        self.error_on_dryrun()
        group = self._group()
        if group is not None:
            if group.name == "default":
                raise refused(
                    "CannotDelete",
                    f'the specified group: "{group.id}" name: "default" '
                    "cannot be deleted by a user",
                )
            if self._needs(group):
                raise refused("DependencyViolation", f"resource {group.id} has a dependent object")
        return self._moto("delete_security_group")

    def _group(self) -> Any:
        backend = self.ec2_backend
        if "GroupId" in self.params:
            return backend.get_security_group_from_id(self.params["GroupId"])
        self.need("GroupName")
        return backend.get_security_group_from_name(self.params["GroupName"])

    def _needs(self, group: Any) -> bool:
        """Tell whether an interface or another group needs a security group."""
        for nic in self.ec2_backend.get_all_network_interfaces():
            if group.id in {g.id for g in nic.group_set}:
                return True
        for other in self.ec2_backend.describe_security_groups():
            rules = [*other.ingress_rules, *other.egress_rules]
            group_ids = {rule.source_group.get("GroupId") for rule in rules}
            if other.id != group.id and group.id in group_ids:
                return True
        return False

    def delete_subnet(self) -> ActionResult:
        self.need("SubnetId")
        self.error_on_dryrun()
        subnet = self.params["SubnetId"]
        if any(n.subnet.id == subnet for n in self.ec2_backend.get_all_network_interfaces()):
            raise refused(
                "DependencyViolation",
                f"The subnet '{subnet}' has dependencies and cannot be deleted.",
            )
        return self._moto("delete_subnet")

    def delete_vpc(self) -> ActionResult:
        self.need("VpcId")
        self.error_on_dryrun()
        vpc = self.params["VpcId"]
        backend = self.ec2_backend
        subnets = any(subnet.vpc_id == vpc for subnet in backend.describe_subnets())
        groups = [g for g in backend.describe_security_groups() if g.vpc_id == vpc]
        tables = [t for t in backend.describe_route_tables() if t.vpc_id == vpc]
        if subnets or len(groups) > 1 or len(tables) > 1:
            raise refused(
                "DependencyViolation", f"The vpc '{vpc}' has dependencies and cannot be deleted."
            )
        return self._moto("delete_vpc")

    def create_route(self) -> ActionResult:
        result = self._moto("create_route")
        self.place.rules_changed()
        return result

    def authorize_security_group_ingress(self) -> ActionResult:
        result = self._moto("authorize_security_group_ingress")
        self.place.rules_changed()
        return result

    def _moto(self, name: str) -> ActionResult:
        result: ActionResult = getattr(super(), name)()
        return result
