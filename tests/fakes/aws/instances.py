"""Instances: seen late, listed by pages, ended all or none."""

import copy
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2 import utils
from moto.ec2.utils import Base64EncodedString

from tests.fakes.aws.calls import Calls
from tests.fakes.aws.errors import refused
from tests.fakes.aws.region import OVER

ID = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")
SMALLEST_PAGE, LARGEST_PAGE = 5, 1000

utils.filter_dict_attribute_mapping |= {
    "client-token": "client_token",
    "instance-lifecycle": "lifecycle",
    "placement-group-name": "placement.group_name",
}


class InstanceCalls(Calls):
    """The calls of EC2 about instances that are there."""

    def describe_instances(self) -> ActionResult:
        ids = self.params.get("InstanceIds")
        if ids and "MaxResults" in self.params:
            raise refused(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        if ids is not None:
            self._check_ids(ids)
        self.error_on_dryrun()
        pairs = [
            (reservation, instance)
            for reservation in self.ec2_backend.describe_instances(self._filters())
            for instance in reservation.instances
            if self.place.visible(instance.id) and (ids is None or instance.id in ids)
        ]
        start, page = self._page(len(pairs))
        token = str(start + len(page)) if start + len(page) < len(pairs) else None
        return ActionResult(
            {"Reservations": self._reservations([pairs[i] for i in page]), "NextToken": token}
        )

    def _filters(self) -> dict[str, Any]:
        return {f["Name"]: f.get("Values", []) for f in self.params.get("Filters", [])}

    def _page(self, total: int) -> tuple[int, range]:
        size = int(self.params.get("MaxResults", self.cloud.settings.page))
        if not SMALLEST_PAGE <= size <= LARGEST_PAGE:
            raise refused(
                "InvalidParameterValue", f"Value ( {size} ) for parameter maxResults is invalid."
            )
        start = int(self.params.get("NextToken", "0"))
        size = min(size, self.cloud.settings.page) if "InstanceIds" not in self.params else total
        return start, range(start, min(start + size, total))

    def _reservations(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        result: dict[str, Any] = {}
        for reservation, instance in pairs:
            if reservation.id not in result:
                result[reservation.id] = copy.copy(reservation)
                result[reservation.id].instances = []
            result[reservation.id].instances.append(self._render(instance))
        return list(result.values())

    def _render(self, instance: Any) -> Any:
        """Show an instance as the cloud knows it at this moment."""
        life = self.place.lives[instance.id]
        is_bare = life.complete > time.monotonic() or life.state == "terminated"
        return Bare(instance) if is_bare else instance

    def _check_ids(self, ids: Sequence[str]) -> None:
        """Refuse ids that are wrong, or of instances that the cloud does not know (yet)."""
        if wrong := [i for i in ids if not ID.fullmatch(i)]:
            raise refused("InvalidInstanceID.Malformed", f'Invalid id: "{wrong[0]}"')
        bad_ids = [i for i in ids if not self.place.visible(i)]
        if len(bad_ids) == 1:
            raise refused(
                "InvalidInstanceID.NotFound", f"The instance ID '{bad_ids[0]}' does not exist"
            )
        if bad_ids:
            raise refused(
                "InvalidInstanceID.NotFound",
                f"The instance IDs '{', '.join(bad_ids)}' do not exist",
            )

    def terminate_instances(self) -> ActionResult:
        protected = [
            i
            for i in self.params.get("InstanceIds", [])
            if i in self.place.lives and self.place.lives[i].instance.disable_api_termination
        ]
        if protected:
            raise refused(
                "OperationNotPermitted",
                f"The instance '{protected[0]}' may not be terminated. Modify its "
                "'disableApiTermination' instance attribute and try again.",
            )
        return self._turn("TerminatingInstances", self.place.end)

    def stop_instances(self) -> ActionResult:
        return self._turn("StoppingInstances", self.place.stop, {"running", "stopping", "stopped"})

    def start_instances(self) -> ActionResult:
        return self._turn("StartingInstances", self.place.start, {"stopped", "pending", "running"})

    def _turn(
        self, name: str, act: Callable[[str], None], fitting: set[str] | None = None
    ) -> ActionResult:
        """Change the state of instances: of all of them, or of none."""
        self.need("InstanceIds")
        ids = self.params["InstanceIds"]
        self._check_ids(ids)
        self.error_on_dryrun()
        states = {i: self.place.lives[i].state for i in ids}
        for id_, state in states.items():
            if fitting and state not in fitting:
                raise refused(
                    "IncorrectInstanceState",
                    f"The instance '{id_}' is not in a state from which it can do this: {state}.",
                )
        before = {i: copy.copy(self.place.lives[i].instance.instance_state) for i in ids}
        for id_ in ids:
            if self._turns(name, states[id_]):
                act(id_)
        return ActionResult(
            {
                name: [
                    {
                        "InstanceId": i,
                        "PreviousState": before[i],
                        "CurrentState": _now(self.place.lives[i].instance),
                    }
                    for i in ids
                ]
            }
        )

    def _turns(self, name: str, state: str) -> bool:
        if name == "StartingInstances":
            return state == "stopped"
        return state == "running" if name == "StoppingInstances" else state not in OVER

    def get_console_output(self) -> ActionResult:
        self.need("InstanceId")
        instance = self.params["InstanceId"]
        self._check_ids([instance])
        self.error_on_dryrun()
        text = self.place.console(instance)
        return ActionResult(
            {
                "InstanceId": instance,
                "Timestamp": datetime.now(tz=UTC),
                "Output": Base64EncodedString.from_raw_string(text) if text else None,
            }
        )


class Bare:
    """An instance without addresses: it is too young, or terminated."""

    _NOTHING = frozenset(
        {
            "private_ip_address",
            "private_dns_name",
            "public_ip_address",
            "public_dns_name",
            "subnet_id",
            "vpc_id",
        }
    )

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __getattr__(self, name: str) -> Any:
        if name in self._NOTHING:
            return None
        if name in ("network_interfaces", "security_groups", "dynamic_group_list"):
            return []
        return getattr(self._instance, name)


def _now(instance: Any) -> dict[str, Any]:
    state = instance.instance_state
    if state.name == "terminated":  # it does not happen that fast
        return {"Code": 32, "Name": "shutting-down"}
    return {"Code": state.code, "Name": state.name}
