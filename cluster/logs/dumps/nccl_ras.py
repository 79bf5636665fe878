"""NCCL's RAS in JSON: `SET FORMAT json`, `VERBOSE STATUS` to port 28028, NCCL 2.28.7 and later.

The fields are those of src/ras/client_support.cc (NCCL 2.30.7). Ranks are those of a communicator:
those of the largest are taken for the job's, and other communicators are joined by process.
"""

from collections import defaultdict
from datetime import UTC, datetime

import msgspec

from cluster.core import decoders
from cluster.core.model.hang import Count, Membership, ProcessState, Snapshot
from cluster.logs.dumps import DumpReader

ZONE_STEP = 900  # seconds; zones of the world differ by quarters of an hour
FARTHEST_ZONE = 14 * 3600  # seconds from UTC


class _RankStatus(msgspec.Struct):
    considered_dead: bool = False


class _Rank(msgspec.Struct):
    rank: int
    host: str = ""
    pid: int = 0
    cuda_dev: int = 0
    status: _RankStatus = msgspec.field(default_factory=_RankStatus)
    collective_counts: dict[str, int] = {}


class _Communicator(msgspec.Struct):
    hash: str
    size: int
    ranks: list[_Rank] = []
    missing_ranks: list[_Rank] = []


class _Answer(msgspec.Struct):
    nccl_version: str
    communicators: list[_Communicator]
    timestamp: str = ""


class NcclRas(DumpReader):
    """NCCL RAS, JSON: counts of collectives, and processes that do not answer."""

    marks = (b'"nccl_version"',)

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        start, end = content.find(b"{"), content.rfind(b"}")  # replies to SET FORMAT come before
        answer = decoders.decode(content[start : end + 1], _Answer)
        mtime = _seconds(answer.timestamp, mtime) or mtime
        groups = sorted(answer.communicators, key=lambda group: -group.size)
        numbers: dict[tuple[str, int, int], int] = {}
        counts: dict[int, list[Count]] = defaultdict(list)
        members: dict[int, list[Membership]] = defaultdict(list)
        states: dict[int, ProcessState] = {}
        for group in groups:
            all_ranks = [*group.ranks, *group.missing_ranks]
            first = group is groups[0]
            for peer in all_ranks if first else ():
                numbers.setdefault((peer.host, peer.pid, peer.cuda_dev), peer.rank)
            job = {r.rank: numbers.get((r.host, r.pid, r.cuda_dev), -1) for r in all_ranks}
            ranks = tuple(sorted(rank for rank in job.values() if rank >= 0))
            for peer in all_ranks:
                rank = job[peer.rank]
                members[rank].append(Membership(group=group.hash, ranks=ranks))
                counts[rank] += [
                    Count(group=group.hash, name=kind, entered=number)
                    for kind, number in peer.collective_counts.items()
                ]
            for peer in group.missing_ranks:
                is_dead = peer.status.considered_dead
                states[job[peer.rank]] = "dead" if is_dead else "unresponsive"
        return tuple(
            Snapshot(
                source="nccl_ras",
                rank=rank,
                host=host,
                pid=pid,
                at=mtime,
                counts=tuple(counts[rank]),
                groups=tuple(members[rank]),
                state=states.get(rank, ""),
            )
            for (host, pid, _), rank in numbers.items()
        )


def _seconds(text: str, mtime: float) -> float:
    """Return the time of an answer; without a zone, in that which is nearest to the file's time."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    if time.tzinfo is not None:
        return time.timestamp()
    seconds = time.replace(tzinfo=UTC).timestamp()
    offset = round((mtime - seconds) / ZONE_STEP) * ZONE_STEP
    return seconds + offset if abs(offset) <= FARTHEST_ZONE else seconds
