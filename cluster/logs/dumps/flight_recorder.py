"""PyTorch's Flight Recorder, of one rank, in JSON or pickled.

The fields are those of torch/csrc/distributed/c10d/FlightRecorder.hpp, of format 2.4 (PyTorch 2.5)
to 2.10 (2.13); all that may be missing is optional. A dump does not hold its rank: the name of its
file does (torch/distributed/flight_recorder/components/loader.py). `retired` is the only sign of
the end of an operation for gloo, whose `state` stays `scheduled`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.core import decoders
from cluster.core.model.hang import Membership, Operation, Snapshot
from cluster.logs.dumps import DumpReader, rank_in
from cluster.logs.dumps._pickled import plain_value

NS = 1e9
FORMAT = 2  # the major version
DEFAULT = "0"  # the group of all ranks, whose name is empty with gloo


class _Entry(msgspec.Struct):
    process_group: list[str]
    collective_seq_id: int = 0
    profiling_name: str = ""
    state: str = ""
    is_p2p: bool = False
    retired: bool = False
    time_created_ns: int = 0
    input_sizes: list[list[int]] = []
    input_dtypes: list[str] = []
    frames: list[dict[str, str | int]] = []


class _Group(msgspec.Struct):
    name: str = ""
    ranks: str = "[]"


class _Dump(msgspec.Struct):
    version: str
    entries: list[_Entry] = []
    pg_config: dict[str, _Group] = {}
    rank: int = -1
    host_name: str = ""


class FlightRecorder(DumpReader):
    """torch.distributed: the last collectives of a rank."""

    marks = (b"pg_config",)

    def read(self, name: str, content: bytes, at: float) -> tuple[Snapshot, ...]:
        """Decode both forms into the same fields."""
        raw: Any = (
            decoders.decode(content, Any) if content.lstrip()[:1] == b"{" else plain_value(content)
        )
        dump = decoders.convert(raw, _Dump, strict=False)
        if dump.version.partition(".")[0] != str(FORMAT):
            raise ValueError(f"It is of format {dump.version[:20]}; {FORMAT}.x is known.")
        rank = dump.rank if dump.rank >= 0 else rank_in(name, last=True)
        if rank < 0:
            raise ValueError("The name of its file must end with its rank, as in dump_rank_5.")
        snapshot = Snapshot(
            source="flight_recorder",
            rank=rank,
            host=dump.host_name,
            at=at,
            operations=tuple(_operation(entry) for entry in dump.entries if not entry.is_p2p),
            groups=tuple(
                Membership(group=group.name or key or DEFAULT, ranks=ranks)
                for key, group in dump.pg_config.items()
                if (ranks := _ranks(group.ranks))
            ),
        )
        return (snapshot,)


def _operation(entry: _Entry) -> Operation:
    frames = [frame for frame in entry.frames if "site-packages" not in str(frame.get("filename"))]
    frame = next(iter(frames or entry.frames), {})
    place = f"{frame.get('filename', '')}:{frame.get('line', 0)} in {frame.get('name', '')}"
    return Operation(
        group=entry.process_group[0] if entry.process_group else "",
        number=entry.collective_seq_id,
        name=entry.profiling_name.rpartition(":")[2],
        done=entry.retired or entry.state == "completed",
        since=entry.time_created_ns / NS,
        sizes=tuple(map(tuple, entry.input_sizes)),
        dtypes=tuple(entry.input_dtypes),
        place=place if frame else "",
    )


def _ranks(text: str) -> tuple[int, ...]:
    """Read `[0, 1, 2]`."""
    return tuple(int(word) for word in text.strip("[] ").split(",") if word.strip())
