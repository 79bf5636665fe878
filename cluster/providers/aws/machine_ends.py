"""Instances that ended by themselves, or that somebody else ended, and Amazon's reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.providers._cloud.launch import EndedMachine

if TYPE_CHECKING:
    from cluster.providers.aws.responses import AwsInstance

ENDED = ("shutting-down", "terminated", "stopping", "stopped")
# docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
TAKEN = ("Capacity", "Server.SpotInstanceTermination", "Server.SpotInstanceShutdown")


def ended_machine(one: AwsInstance) -> EndedMachine | None:
    """Return how an instance ended; none if it has not."""
    if one.state.name not in ENDED:
        return None
    code, message = one.state_reason.code, one.state_reason.message
    return EndedMachine(
        id=one.instance_id,
        state=one.state.name,
        why=message if code in message else f"{code}: {message}".strip(": "),
        taken=any(mark in code for mark in TAKEN),
    )
