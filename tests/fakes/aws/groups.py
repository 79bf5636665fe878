"""Placement groups, of which moto has none."""

import fnmatch
from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from tests.fakes.aws.calls import Calls
from tests.fakes.aws.errors import refused
from tests.fakes.aws.region import PlacementGroup
from tests.fakes.gaps import GapError

STRATEGIES = {"cluster", "spread", "partition"}


class GroupCalls(Calls):
    """The calls of EC2 about placement groups."""

    def create_placement_group(self) -> ActionResult:
        self.need("GroupName", "Strategy")
        name, strategy = self.params["GroupName"], self.params["Strategy"]
        if strategy not in STRATEGIES:
            raise refused("InvalidParameterValue", f"Invalid placement strategy: '{strategy}'")
        tags = self.tags("placement-group")
        self.error_on_dryrun()
        if name in self.place.groups:
            raise refused(
                "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists."
            )
        self.place.made += 1
        group = PlacementGroup(self.ec2_backend, self.place.made, name, strategy)
        group.add_tags(tags)
        self.place.groups[name] = group
        return ActionResult({"PlacementGroup": group})

    def describe_placement_groups(self) -> ActionResult:
        groups = list(self.place.groups.values())
        for name in self.params.get("GroupNames", []):
            if name not in self.place.groups:
                raise refused(
                    "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
                )
        for id_ in self.params.get("GroupIds", []):
            if id_ not in {group.id for group in groups}:
                raise refused(
                    "InvalidPlacementGroupId.NotFound", f"The Placement Group '{id_}' is unknown."
                )
        selection = self.params.get("GroupNames"), self.params.get("GroupIds")
        groups = [
            group
            for group in groups
            if (selection[0] is None or group.group_name in selection[0])
            and (selection[1] is None or group.id in selection[1])
            and all(_passes(group, f) for f in self.params.get("Filters", []))
        ]
        return ActionResult({"PlacementGroups": groups})

    def delete_placement_group(self) -> ActionResult:
        self.need("GroupName")
        name = self.params["GroupName"]
        self.error_on_dryrun()
        if name not in self.place.groups:
            raise refused(
                "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
            )
        if any(life.instance.placement.group_name == name for life in self.place.alive()):
            raise refused(
                "InvalidPlacementGroup.InUse",
                f"The placement group '{name}' is in use and may not be deleted.",
            )
        group = self.place.groups.pop(name)
        self.ec2_backend.tags.pop(group.id, None)
        return EmptyResult()


def _passes(group: PlacementGroup, condition: dict[str, Any]) -> bool:
    name, patterns = condition["Name"], condition.get("Values", [])
    tags = {tag["key"]: tag["value"] for tag in group.get_tags()}
    if name.startswith("tag:"):
        values = [tags[name[4:]]] if name[4:] in tags else []
    elif name == "tag-key":
        values = list(tags)
    elif name in ("group-name", "strategy", "state", "group-id"):
        values = [getattr(group, name.replace("-", "_"))]
    else:
        raise GapError(f"the filter {name} of placement groups")
    return any(fnmatch.fnmatchcase(value, pattern) for value in values for pattern in patterns)
