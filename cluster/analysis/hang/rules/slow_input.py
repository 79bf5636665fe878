"""A rank that reads its input while the others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.core.model.hang import Cause

if TYPE_CHECKING:
    from cluster.analysis.hang.situation import Situation
    from cluster.core.model.hang import Snapshot

PRECEDENCE = 80

FUNCTIONS = ("__next__", "_next_data", "_try_get_data", "_get_data", "__getitem__")
FILES = ("torch/utils/data/", "webdataset/", "datasets/", "tensorflow/python/data")
IN_KERNEL = ("nfs", "rpc_", "fuse", "lustre", "ceph", "folio", "wait_on_page", "io_schedule")


def find_cause(situation: Situation) -> Cause | None:
    """Its stack is in a data loader, or the kernel waits for a disk or file server."""
    ranks = [rank for rank in situation.root if _reads(situation.view(rank))]
    if not ranks:
        return None
    return Cause(
        stragglers=tuple(map(situation.straggler, ranks)),
        stuck=situation.stuck[0] if situation.stuck else None,
        confidence="likely",
    )


def _reads(view: Snapshot) -> bool:
    if any(word in view.wchan for word in IN_KERNEL) or view.state == "disk":
        return True
    return any(
        frame.function in FUNCTIONS or any(part in frame.file for part in FILES)
        for frame in view.stack[:12]
    )
