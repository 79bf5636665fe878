"""Where instances are in the network; moto knows nothing of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult

from tests.fakes.aws.errors import refused
from tests.fakes.aws.instances import InstanceCalls

if TYPE_CHECKING:
    from tests.fakes.aws.region import Life

MOST, PAGE = 100, 20
TYPES = re.compile(
    r"hpc6a\.48xlarge|hpc6id\.32xlarge|hpc7a\.\d+xlarge|hpc7g\.\d+xlarge|"
    r"p3dn\.24xlarge|p4de?\.24xlarge|p5(e|en)?\.48xlarge|trn1n?\.\d+xlarge"
)
ONE_PLACE = ("nn-0000000000000001", "nn-0000000000000011", "nn-0000000000000111")


class TopologyCalls(InstanceCalls):
    """The call of EC2 about its network."""

    def describe_instance_topology(self) -> ActionResult:
        ids = self.params.get("InstanceIds")
        if ids is not None and "MaxResults" in self.params:
            raise refused(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        if len(ids or ()) > MOST:
            raise refused("InvalidParameterValue", "instance-ids cannot contain over 100 values.")
        if ids is not None:
            self._check_ids(ids)
        self.error_on_dryrun()
        lives = [
            life
            for id_, life in self.place.lives.items()
            if self.place.visible(id_) and (ids is None or id_ in ids)
        ]
        start = int(self.params.get("NextToken", "0"))
        end = start + int(self.params.get("MaxResults", PAGE))
        token = str(end) if end < len(lives) else None
        rows = [self._placed(life) for life in lives[start:end]]
        return ActionResult({"Instances": rows, "NextToken": token})

    def _placed(self, life: Life) -> dict[str, Any]:
        """Show where an instance is; of other types and states, Amazon does not say it."""
        instance = life.instance
        is_listed = TYPES.fullmatch(instance.instance_type) and life.state == "running"
        nodes = self.cloud.settings.nodes
        place = nodes[instance.ami_launch_index] if nodes else ONE_PLACE
        return {
            "InstanceId": instance.id,
            "InstanceType": instance.instance_type,
            "GroupName": instance.placement.group_name or None,
            "NetworkNodes": list(place) if is_listed else None,
            "AvailabilityZone": instance.availability_zone,
        }
