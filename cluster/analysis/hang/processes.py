"""Which rank of the job a process is: NCCL knows its rank in a communicator only."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cluster.core.model.hang import Membership, Snapshot

OF_COMMUNICATORS = ("nccl_ras", "nccl_inspector")  # the sources that have such ranks


def with_ranks(snapshots: Sequence[Snapshot]) -> Iterator[Snapshot]:
    """Return the snapshots with the rank that another source knows for their process, if any."""
    owners: dict[int, list[Snapshot]] = defaultdict(list)
    in_job = [
        snapshot
        for snapshot in snapshots
        if snapshot.rank >= 0 and snapshot.source not in OF_COMMUNICATORS
    ]
    for snapshot in in_job:
        owners[snapshot.pid].append(snapshot)
    owners.pop(0, None)  # no process is known
    ranks: dict[str, dict[int, int]] = {source: {} for source in OF_COMMUNICATORS}
    for snapshot in snapshots:
        if snapshot.source in ranks and (rank := _owner(snapshot, owners[snapshot.pid])) >= 0:
            ranks[snapshot.source][snapshot.rank] = rank
    for snapshot in snapshots:
        if snapshot.source in ranks:
            yield from _numbered(snapshot, ranks[snapshot.source])
        else:
            rank = snapshot.rank if snapshot.rank >= 0 else _owner(snapshot, owners[snapshot.pid])
            yield from (msgspec.structs.replace(snapshot, rank=rank),) * (rank >= 0)


def _owner(snapshot: Snapshot, owners: Sequence[Snapshot]) -> int:
    """Return the rank of a process; -1 if no source knows it, or several do."""
    ranks = {owner.rank for owner in owners if _is_same_host(snapshot.host, owner)}
    return ranks.pop() if len(ranks) == 1 else -1


def _is_same_host(name: str, owner: Snapshot) -> bool:
    """Compare hosts: NCCL names one by an address, others by a name with or without its domain."""
    if not name or not owner.host or name in owner.addresses:
        return True
    is_address = ":" in name or name.replace(".", "").isdigit()
    if is_address:
        return not owner.addresses
    return name.partition(".")[0] == owner.host.partition(".")[0]


def _numbered(snapshot: Snapshot, ranks: Mapping[int, int]) -> Iterator[Snapshot]:
    """Return it with ranks of the job; nothing if those are others, and its own is not known."""
    if all(old == new for old, new in ranks.items()):
        yield from (snapshot,) * (snapshot.rank >= 0)
    elif snapshot.rank in ranks:
        groups = tuple(
            Membership(group=group.group, ranks=tuple(sorted(ranks[rank] for rank in group.ranks)))
            for group in snapshot.groups
            if {*group.ranks} <= {*ranks}
        )
        yield msgspec.structs.replace(snapshot, rank=ranks[snapshot.rank], groups=groups)
