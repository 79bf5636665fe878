"""Listener: follows a benchmark while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.orchestration.collect import JobListener

if TYPE_CHECKING:
    from pathlib import Path


class Listener(JobListener):
    """Callbacks of a benchmark: derive from it, and override the methods that you need."""

    def preparing(self, host: str, step: str) -> None:
        """Take the step of the installation that a host begins."""

    def started(self, cluster: Any, folder: Path) -> None:  # noqa: ANN401 - a Cluster, which knows this class
        """Take the `Cluster` whose job runs now, and the folder of its run."""

    def ended(self) -> None:
        """Take the end of the job, whether it failed or not."""
