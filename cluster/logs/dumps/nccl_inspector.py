"""NCCL's inspector plug-in: a JSON object per collective that ended, one a line.

The fields are those of plugins/profiler/inspector/inspector_json.cc (format v4.0, NCCL 2.30.7).
Only what ended is in it, so it says which collective was the last, when, and how often they came.
Ranks are those of a communicator: that of a process in its largest is taken for the job's.
"""

from collections import defaultdict, deque

import msgspec

from cluster.core.model.hang import Operation, Snapshot
from cluster.logs.dumps import DumpReader, rank_in

US = 1e6
LAST = 200  # of each rank and communicator


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int = 0


class _Metadata(msgspec.Struct):
    dump_timestamp_us: int
    hostname: str = ""
    pid: int = 0


class _Collective(msgspec.Struct):
    coll: str
    coll_sn: int


class _Line(msgspec.Struct):
    header: _Header
    metadata: _Metadata
    coll_perf: _Collective | None = None


class NcclInspector(DumpReader):
    """NCCL inspector: the collectives that ended, by rank."""

    marks = (b"inspector_output_format_version",)

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        """Keep the last collectives of each rank."""
        decoder = msgspec.json.Decoder(_Line)
        history: dict[tuple[str, int], deque[Operation]] = defaultdict(lambda: deque(maxlen=LAST))
        largest: dict[tuple[str, int], _Header] = {}
        lines = [line for line in content.splitlines() if line.strip()]
        for number, text in enumerate(lines):
            try:
                line = decoder.decode(text)
            except msgspec.DecodeError:
                if number == len(lines) - 1 and history:
                    break  # it was being written
                raise
            process = line.metadata.hostname, line.metadata.pid
            if line.header.n_ranks >= largest.setdefault(process, line.header).n_ranks:
                largest[process] = line.header
            if line.coll_perf is not None:
                operation = Operation(
                    group=line.header.id,
                    number=line.coll_perf.coll_sn,
                    name=line.coll_perf.coll,
                    done=True,
                    since=line.metadata.dump_timestamp_us / US,
                )
                history[process].append(operation)
        file_rank = rank_in(name)
        return tuple(
            Snapshot(
                source="nccl_inspector",
                rank=file_rank if file_rank >= 0 and len(largest) == 1 else header.rank,
                host=host,
                pid=pid,
                at=mtime,
                operations=tuple(history[host, pid]),
            )
            for (host, pid), header in largest.items()
        )
