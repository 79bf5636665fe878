"""Elastic File Systems, as the API of EFS describes them (botocore's model, `efs` 2015-02-01)."""

from typing import Any

from moto.core.responses import ActionResult

from tests.fakes.aws.errors import refused
from tests.fakes.aws.permissions import ACCOUNT
from tests.fakes.aws.service import Service


class Efs(Service):
    """Which file systems there are, and where they can be mounted; all in the default VPC."""

    name = "elasticfilesystem"
    model = "efs"

    def describe_mount_targets(self) -> ActionResult:
        self.need("FileSystemId")
        id_ = self.params["FileSystemId"]
        if id_ not in self.cloud.settings.file_systems:
            raise refused("FileSystemNotFound", f"File system '{id_}' does not exist.")
        zones = self.cloud.settings.file_systems[id_]
        return ActionResult({"MountTargets": [self._target(id_, zone) for zone in zones]})

    def _target(self, id_: str, zone: str) -> dict[str, Any]:
        subnet = self._subnet(zone)
        return {
            "OwnerId": ACCOUNT,
            "MountTargetId": f"fsmt-{zone}",
            "FileSystemId": id_,
            "SubnetId": subnet.id,
            "LifeCycleState": "available",
            "AvailabilityZoneName": zone,
            "VpcId": subnet.vpc_id,
        }

    def describe_mount_target_security_groups(self) -> ActionResult:
        self.need("MountTargetId")
        zone = self.params["MountTargetId"].removeprefix("fsmt-")
        if all(zone not in zones for zones in self.cloud.settings.file_systems.values()):
            raise refused("MountTargetNotFound", f"Mount target of {zone} does not exist.")
        backend = self._backend
        group = backend.get_default_security_group(self._subnet(zone).vpc_id)
        return ActionResult({"SecurityGroups": [group.id]})

    @property
    def _backend(self) -> Any:
        return self.cloud.region(self.region, self.get_current_account()).backend

    def _subnet(self, zone: str) -> Any:
        return next(s for s in self._backend.subnets[zone].values() if s.default_for_az)
