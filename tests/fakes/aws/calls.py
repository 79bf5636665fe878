"""What the calls of EC2 have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moto.ec2.responses._base_response import EC2BaseResponse

from tests.fakes.aws.errors import refused
from tests.fakes.aws.service import Service

if TYPE_CHECKING:
    from tests.fakes.aws.region import Region


class Calls(Service, EC2BaseResponse):
    @property
    def place(self) -> Region:
        """The region that is asked."""
        return self.cloud.region(self.region, self.current_account)

    def tags(self, kind: str) -> dict[str, str]:
        """Return the tags that a kind of resource gets in a creating call."""
        tags: dict[str, str] = {}
        for spec in self.params.get("TagSpecifications", []):
            if spec.get("ResourceType") == kind:
                tags |= {tag["Key"]: tag.get("Value", "") for tag in spec.get("Tags", [])}
        if any(key.startswith("aws:") for key in tags):
            raise refused(
                "InvalidParameterValue",
                "Value for parameter tagSpecifications is invalid: tag keys starting with 'aws:' "
                "are reserved for internal use",
            )
        return tags
