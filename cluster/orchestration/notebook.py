"""Progress in a notebook: one line below the cell, updated while hosts or ranks work."""

import builtins
import time
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

from cluster.core.model.results.measurements import Progress
from cluster.orchestration.bench.collect import Listener
from cluster.reports.words.outcomes import outcome_words

BETWEEN = 0.2  # seconds between two updates, at least


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel."""
    shell = getattr(builtins, "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class NotebookProgress(Listener):
    """Shows the progress of a launch, an installation and jobs, all in one line below the cell."""

    def __init__(self, jobs: int = 1) -> None:
        self._handle: Any = None
        self._shown_at = 0.0
        self._states: dict[str, str] = {}
        self._jobs = jobs
        self._launch = 0
        self._part = 0.0

    def preparing(self, host: str, step: str) -> None:
        """Count the hosts in each state; also the callback of a launch."""
        self._states[host] = step
        counts = Counter(self._states.values())
        self._replace("Hosts: " + ", ".join(f"{n} {state}" for state, n in counts.items()))

    def started(self, cluster: Any, folder: Path) -> None:  # noqa: ANN401 - as in Listener
        """Show that the job runs, and where its values go."""
        self._launch += 1
        self._show(outcome_words("values_go_to", cluster.name, folder), 0.0, now=True)

    def progress(self, progress: Progress) -> None:
        self._show(progress.what, progress.done / progress.total)

    def ended(self) -> None:
        """Show the end; the bar stays where it was, as a job may fail."""
        text = outcome_words("job_ended" if self._jobs == 1 else "launch_ended")
        self._replace(self._with_number(text), self._part, now=True)

    def _show(self, text: str, part: float, *, now: bool = False) -> None:
        self._part = (max(0, self._launch - 1) + part) / self._jobs
        self._replace(self._with_number(text), self._part, now=now)

    def _replace(self, text: str, part: float | None = None, *, now: bool = False) -> None:
        """Replace the line, at most every `BETWEEN` seconds; `part` (0 to 1) draws a bar."""
        if not now and time.monotonic() - self._shown_at < BETWEEN:
            return
        self._shown_at = time.monotonic()
        bar = (
            "" if part is None else f'<progress max="1" value="{part:.3f}"></progress> {part:.0%} '
        )
        shares = "" if part is None else f"[{part:4.0%}] "
        content = {"text/plain": f"{shares}{text}", "text/html": f"<div>{bar}{escape(text)}</div>"}
        if self._handle is not None:
            self._handle.update(content, raw=True)
            return
        from IPython.display import display  # noqa: PLC0415 - installed in every notebook

        self._handle = display(content, raw=True, display_id=True)

    def _with_number(self, text: str) -> str:
        return text if self._jobs == 1 else f"Launch {self._launch} of {self._jobs}: {text}"


def default_listener(jobs: int = 1) -> Listener:
    """Return the default listener: a line in a notebook, nothing elsewhere."""
    return NotebookProgress(jobs) if in_notebook() else Listener()
