"""How instances live: they come up, end when their time is over, and take what they had along."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fakes.gcp.operations import NEVER

if TYPE_CHECKING:
    from tests.fakes.gcp.operations import Operation

DOWN = ("STOPPING", "TERMINATED")
SEEN = 0.4  # seconds for which an instance that vanishes is seen, from the first look on


@dataclass
class Life:
    """When what happens to an instance; the times are those of `time.monotonic`."""

    path: str
    instance: dict[str, Any]
    made_by: Operation
    provisioning: float  # seconds from that being done until it is running
    dies: float = NEVER  # when it begins to end by itself
    gone: float = NEVER  # when nothing is left of it
    ghost: Operation | None = None  # it is seen only until this is done
    vanishes: bool = False  # soon after it was listed, once it was made
    booted: bool = False
    queries: list[float] | None = None  # of its guest attributes

    @property
    def status(self) -> str:
        return str(self.instance["status"])

    @property
    def runs(self) -> float:
        """When it is running."""
        return self.made_by.due + self.provisioning

    def end(self, seconds: float) -> None:
        """Begin to end."""
        if self.gone == NEVER:
            self.instance["status"] = "STOPPING"
            self.gone = time.monotonic() + seconds

    def was_listed(self, now: float) -> None:
        """Begin to vanish: not before somebody saw it, however slow he is."""
        if self.vanishes and self.gone == NEVER and self.made_by.due <= now:
            self.gone = now + SEEN

    def tick(self, now: float, stopping: float) -> bool:
        """Let happen what is due; tell whether it is gone."""
        if self.ghost and self.ghost.done:
            return True
        if self.status == "PROVISIONING" and self.runs <= now:
            self.instance["status"] = "RUNNING"
        if self.dies <= now:
            self.end(stopping)
        return self.gone <= now
