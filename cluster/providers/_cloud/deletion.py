"""Taking away until nothing is left: a cloud takes a while to do, and even to list, what it did."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from cluster.core.errors import ProvisionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.core.model.billing import Resource

WITHIN = 600.0  # seconds for everything to be gone
REMAINS = (  # of what cluster
    "What the launch had made may still exist, and cost money until its time to live is over; "
    "try again: cluster down {}"
)
FIRST_POLL, LONGEST_POLL = 0.1, 2.0  # seconds between two looks


def listing_delay() -> float:
    """Give the seconds after which a cloud lists whatever it made; `CLUSTER_LATE` changes it.

    Source: docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html has no figure; the
    other tools wait for up to 30.
    """
    return float(os.environ.get("CLUSTER_LATE", "30"))


def delete_until_gone(attempt: Callable[[], tuple[Resource, ...]], where: str) -> None:
    """Attempt to take things away until none is there.

    Args:
        attempt: takes away what can go now, and tells what was there.
        where: for a person, such as `us-east-1`.

    Raises:
        ProvisionError: something is left.

    """
    deadline, pause = time.monotonic() + WITHIN, FIRST_POLL
    while left := attempt():
        if time.monotonic() > deadline:
            raise ProvisionError(
                f"{len(left)} thing(s) still exist in {where}: "
                + ", ".join(f"{one.kind} {one.id}" for one in left),
                means="They were to go, and the cloud was asked again and again.",
                remedy="Try again: cluster gc -y",
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_POLL)
