"""Listener: follows a benchmark while it runs."""

from pathlib import Path
from typing import Any

from cluster.orchestration.bench.collect import JobListener


class Listener(JobListener):
    """Callbacks of a benchmark: derive from it, and override the methods that you need."""

    def preparing(self, host: str, step: str) -> None:
        """Receive the step of the installation that a host begins."""

    def started(self, cluster: Any, folder: Path) -> None:  # noqa: ANN401 - a Cluster, which knows this class
        """Receive the `Cluster` whose job runs now, and the folder of its run."""

    def ended(self) -> None:
        """Called when the job has ended, whether it failed or not."""
