"""Listener: follows a benchmark while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.orchestration.bench.collect import JobListener

if TYPE_CHECKING:
    from pathlib import Path


class Listener(JobListener):
    """Callbacks of a benchmark: derive from it, and override the methods that you need."""

    def preparing(self, host: str, step: str) -> None:
        """Receive the step of the installation that a host begins."""

    def started(self, cluster: Any, folder: Path) -> None:  # noqa: ANN401 - a Cluster, which knows this class
        """Receive the `Cluster` whose job runs now, and the folder of its run."""

    def ended(self) -> None:
        """Called when the job has ended, whether it failed or not."""
