"""A rank whose main thread waits for a lock, a queue or a thread of its own."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Snapshot

PRECEDENCE = 90
MODULES = (
    *("/threading.py", "/queue.py", "/multiprocessing/synchronize.py", "/futures/_base.py"),
    "/filelock/_api.py",
)
WAITS = ("acquire", "__enter__", "join", "wait", "get", "put", "result", "_wait_for_tstate_lock")


def find_cause(situation: Situation) -> Cause | None:
    """Its innermost frame is a wait of the standard library."""
    ranks = [rank for rank in situation.root if _waits(situation.view(rank))]
    return situation.cause(ranks, "likely")


def _waits(view: Snapshot) -> bool:
    return any(
        frame.function in WAITS and f"/{frame.file}".endswith(MODULES) for frame in view.stack[:2]
    )
