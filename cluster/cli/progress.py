"""What is shown meanwhile: the states of hosts, how to connect, the ranks' lines, a bar."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from cluster.cli.console import console
from cluster.cli.show import relative_path
from cluster.cli.terminal import is_quiet, printable
from cluster.core.model.results.measurements import Progress
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.cluster import Cluster

BETWEEN_LINES = 0.2  # seconds, at least, between two lines of the ranks that are shown
BETWEEN_REPORTS = 2.0  # seconds, at least, between two plain lines of progress
BETWEEN_STATES = 2.0  # seconds, at least, between two lines of hosts where there is no terminal
QUIET = 1.0  # seconds before anything is shown: most waits are over by then


class HostProgress:
    """Shows the states of the hosts: one line that changes on a terminal, a few lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal else None
        self._states: dict[str, str] = {}
        self._turn = threading.Lock()
        self._shown_at = time.monotonic() - BETWEEN_STATES + QUIET

    def __enter__(self) -> Self:
        """Return what shows it, from the first state on: a question may come before."""
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, host: str, state: str) -> None:
        with self._turn:
            self._states[host] = state
            if self._status is None and time.monotonic() - self._shown_at < BETWEEN_STATES:
                return
            counts = Counter(self._states.values())
            states = ", ".join(f"{count} {state}" for state, count in counts.items())
            line = f"Hosts: {printable(states)}"
            if self._status is not None:
                self._status.update(line)
                self._status.start()
            elif time.monotonic() - self._shown_at >= BETWEEN_STATES:
                self._shown_at = time.monotonic()
                self._console.print(line, soft_wrap=True)


class JobProgress(Listener):
    """Shows a bar on a terminal and plain lines elsewhere.

    The ranks may print thousands of lines a second; the first of each fifth of a second is shown,
    and the last two. Of several launches, only the progress is shown, and one bar is for all.
    """

    def __init__(
        self, *, stderr: bool, founding: bool = False, launches: int = 1, brief: bool = False
    ) -> None:
        self._founding = founding
        self._launches = launches
        self._brief = brief
        self._launch = 0
        self.console = console(stderr=stderr)
        self.console.soft_wrap = True
        self._bar: Bar | None = None
        if self.console.is_terminal and not is_quiet():
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
        self._waiting: HostProgress | None = None
        self._last: list[str] = []
        self._shown_at = 0.0
        self._reported_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end_waiting()
        for line in self._last:
            self._show(line)
        if self._bar is not None:
            self._bar.stop()

    def preparing(self, host: str, step: str) -> None:
        """Show the states of the hosts, before the first launch."""
        if self._launch:
            return
        if self._waiting is None:
            self._waiting = HostProgress(self.console).__enter__()
        self._waiting(host, step)

    def end_waiting(self) -> None:
        """End the line with the states of the hosts, so that a question can be asked."""
        if self._waiting is not None:
            self._waiting.__exit__(None, None, None)
            self._waiting = None

    def started(self, cluster: Cluster, folder: Path) -> None:
        """Show how to connect, once."""
        self.end_waiting()
        self._launch += 1
        if self._launch > 1:
            return
        spec = cluster.spec
        ranks = f"{spec.hosts * spec.ranks_per_host} ranks on {spec.hosts} x {spec.provider}"
        lines = [
            f"{cluster.name}: {ranks}; to watch: cluster connect {cluster.name}",
            f"Run folder: {relative_path(folder)}",
        ]
        if self._founding:
            lines = [
                "Job ready for connection, to connect to most recent task, run the following:",
                f"cluster connect {cluster.name}",
                "Alternatively run",
                f"tmux a -t {cluster.name}",
                "Task internal IPs",
                *(machine.address for machine in cluster.machines),
            ]
        for line in () if self._brief else lines:
            self._show(line)
        if self._bar is not None:
            self._bar.start()
            self._bar.add_task("starting", total=float(self._launches))

    def output(self, line: str) -> None:
        """Show a line of the ranks now, or keep it for the end."""
        now = time.monotonic()
        if self._launches > 1 or self._brief:
            return
        if now - self._shown_at >= BETWEEN_LINES:
            self._shown_at = now
            self._last.clear()
            self._show(line)
        else:
            self._last = [*self._last[-1:], line]

    def notice(self, line: str) -> None:
        """Show it now, however much the ranks print."""
        self._show(line)

    def progress(self, progress: Progress) -> None:
        """Move the bar over all launches, or print a line."""
        launch = max(1, self._launch)
        several = f"launch {launch} of {self._launches}, " if self._launches > 1 else ""
        result = launch - 1 + progress.done / progress.total
        if self._bar is not None:
            for task in self._bar.task_ids:
                label = printable(several + progress.what)
                self._bar.update(task, description=label, completed=result)
            return
        now = time.monotonic()
        if now - self._reported_at >= BETWEEN_REPORTS:
            self._reported_at = now
            self._show(f"[{result / self._launches:4.0%}] {several}{progress.what}")

    def _show(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)
