"""What keeps one process, or its host, from entering the collective that others wait in."""

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Confidence, Snapshot

READERS = ("__next__", "_next_data", "_try_get_data", "_get_data", "__getitem__")
LOADERS = ("torch/utils/data/", "webdataset/", "datasets/", "tensorflow/python/data")
IN_KERNEL = ("nfs", "rpc_", "fuse", "lustre", "ceph", "folio", "wait_on_page", "io_schedule")
LOCKS = (
    *("/threading.py", "/queue.py", "/multiprocessing/synchronize.py", "/futures/_base.py"),
    "/filelock/_api.py",
)
WAITS = ("acquire", "__enter__", "join", "wait", "get", "put", "result", "_wait_for_tstate_lock")


def host_dead(situation: Situation) -> Cause | None:
    """A host that does not answer: no connection to it."""
    ranks = situation.blocked_in("unreachable")
    if not situation.stalls:
        return situation.cause(ranks, "possible")
    return situation.cause(ranks, "likely", hard=situation.is_static)


def process_gone(situation: Situation) -> Cause | None:
    """A process that has ended: it was there and is not, is not found, or RAS has given it up.

    A rank may also have ended because its work is done: nobody waits for it then.
    """
    ranks = situation.in_state("gone", "dead")
    views = [situation.view(rank) for rank in ranks]
    gone_views = [view for view in views if view.rank in situation.laggards or view.state == "dead"]
    if gone_views:
        was_there = all(view.pid and view.state == "gone" for view in gone_views)
        sure: Confidence = "certain" if was_there else "likely"
        return situation.cause([view.rank for view in gone_views], sure, hard=True)
    return None if situation.stalls else situation.cause(ranks, "possible")


def process_stopped(situation: Situation) -> Cause | None:
    """A process that was stopped by a signal or a debugger: state T of proc(5)."""
    ranks = situation.blocked_in("stopped")
    twice = {view.rank for view in situation.earlier if view.state} >= {*ranks}
    return situation.cause(ranks, "certain" if twice else "likely", hard=twice)


def disk_full(situation: Situation) -> Cause | None:
    """A rank with a file open for writing on a file system without room."""
    ranks = [rank for rank in situation.root if situation.view(rank).full]
    return situation.cause(ranks, "likely")


def slow_input(situation: Situation) -> Cause | None:
    """A rank that reads: its stack is in a data loader, or the kernel waits for a file server."""
    ranks = [rank for rank in situation.root if _reads(situation.view(rank))]
    return situation.cause(ranks, "likely")


def _reads(view: Snapshot) -> bool:
    waits = (view.wchan, *view.kernel)
    if any(word in name for name in waits for word in IN_KERNEL) or view.state == "disk":
        return True
    return any(
        frame.function in READERS or any(part in frame.file for part in LOADERS)
        for frame in view.stack[:12]
    )


def deadlock(situation: Situation) -> Cause | None:
    """A main thread that waits for a lock, a queue or a thread, by the standard library."""
    ranks = [
        rank
        for rank in situation.root
        for stack in [situation.view(rank).stack[:2]]
        if any(frame.function in WAITS and f"/{frame.file}".endswith(LOCKS) for frame in stack)
    ]
    return situation.cause(ranks, "likely")


RULES = {
    10: host_dead,
    20: process_gone,
    30: process_stopped,
    70: disk_full,
    80: slow_input,
    90: deadlock,
}
