"""A rank that reads its input while the others wait."""

from __future__ import annotations

from cluster.analysis.hang.situation import Situation
from cluster.core.model.hang import Cause, Snapshot

PRECEDENCE = 80
FUNCTIONS = ("__next__", "_next_data", "_try_get_data", "_get_data", "__getitem__")
FILES = ("torch/utils/data/", "webdataset/", "datasets/", "tensorflow/python/data")
IN_KERNEL = ("nfs", "rpc_", "fuse", "lustre", "ceph", "folio", "wait_on_page", "io_schedule")


def find_cause(situation: Situation) -> Cause | None:
    """Its stack is in a data loader, or the kernel waits for a disk or file server."""
    ranks = [rank for rank in situation.root if _reads(situation.view(rank))]
    return situation.cause(ranks, "likely")


def _reads(view: Snapshot) -> bool:
    waits = (view.wchan, *view.kernel)
    if any(word in name for name in waits for word in IN_KERNEL) or view.state == "disk":
        return True
    return any(
        frame.function in FUNCTIONS or any(part in frame.file for part in FILES)
        for frame in view.stack[:12]
    )
