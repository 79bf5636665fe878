"""PyTorch's Flight Recorder, of one rank, in JSON or pickled.

The fields are those of torch/csrc/distributed/c10d/FlightRecorder.hpp, of format 2.4 (PyTorch 2.5)
to 2.10 (2.13); all that may be missing is optional. A dump does not hold its rank: the name of its
file does (torch/distributed/flight_recorder/components/loader.py). `retired` is the only sign of
the end of an operation for gloo, whose `state` stays `scheduled`.
"""

import pickle
import pickletools
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from cluster.core import decoders
from cluster.core.model.hang import Membership, Operation, Snapshot
from cluster.logs.dumps import DumpReader, rank_in

NS = 1e9
FORMAT = 2  # the major version
_PEER = re.compile(r"\d+(?:->|<-)(\d{1,6})$")  # send 0->1, recv 1<-0
DEFAULT = "0"  # the group of all ranks, whose name is empty with gloo


class _Entry(msgspec.Struct):
    process_group: list[str]
    collective_seq_id: int = 0
    profiling_name: str = ""
    state: str = ""
    is_p2p: bool = False
    p2p_seq_id: int = 0
    record_id: int = 0
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

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        is_json = content.lstrip()[:1] == b"{"
        raw: Any = decoders.decode(content, Any) if is_json else plain_value(content)
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
            at=mtime,
            operations=tuple(
                operation
                for entry in dump.entries
                if (operation := _operation(entry)).peer >= 0 or not entry.is_p2p
            ),
            partial=min((entry.record_id for entry in dump.entries), default=0) > 0,
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
    name = entry.profiling_name.rpartition(":")[2]
    peer = _PEER.search(name) if entry.is_p2p else None
    place = f"{frame.get('filename', '')}:{frame.get('line', 0)} in {frame.get('name', '')}"
    return Operation(
        group=entry.process_group[0] if entry.process_group else "",
        number=entry.p2p_seq_id if entry.is_p2p else entry.collective_seq_id,
        name=name,
        peer=int(peer[1]) if peer else -1,
        done=entry.retired or entry.state == "completed",
        since=entry.time_created_ns / NS,
        sizes=tuple(map(tuple, entry.input_sizes)),
        dtypes=tuple(entry.input_dtypes),
        place=place if frame else "",
    )


def _ranks(text: str) -> tuple[int, ...]:
    """Read `[0, 1, 2]`."""
    return tuple(int(word) for word in text.strip("[] ").split(",") if word.strip())


Plain: TypeAlias = (
    "bool | int | float | str | bytes | list[Plain] | tuple[Plain, ...] | dict[Plain, Plain] | None"
)
MOST_VALUES = 3_000_000  # with all repetitions of what is shared
MOST_DEPTH = 20
MALFORMED = "malformed pickle"
_PLACED = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"))
_PLAIN = _PLACED.union(  # the operations that make plain values: all others may run code
    ("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "FLOAT", "BINFLOAT"),
    ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"),
    ("BINSTRING", "SHORT_BINSTRING", "STRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    ("NONE", "NEWTRUE", "NEWFALSE", "EMPTY_LIST", "EMPTY_DICT", "MEMOIZE"),
    ("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "LIST", "DICT"),
    ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "MARK", "PROTO", "FRAME", "STOP"),
)


def plain_value(content: bytes) -> Plain:
    """Return what a pickle describes (ValueError: malformed, too large, code)."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in _PLAIN:
            raise ValueError(f"The pickle would run code ({opcode.name}); it is not read.")
        place = argument if opcode.name in _PLACED else None
        if place is not None and not 0 <= place <= len(content):
            raise ValueError(MALFORMED)  # memory for that many values
    try:
        value = pickle.loads(content, encoding="latin-1")  # noqa: S301 - none of it names code
    except (pickle.UnpicklingError, AttributeError, IndexError) as error:
        raise ValueError(MALFORMED) from error
    return _check_size(value, [0], 0)


def _check_size(value: Plain, count: list[int], depth: int) -> Plain:
    """Return a value if it is small: one that refers to itself, or much to the same, is not."""
    count[0] += 1
    if count[0] > MOST_VALUES or depth > MOST_DEPTH:
        raise ValueError("The pickle describes a value that is too large.")
    children: Iterable[Plain] = value if isinstance(value, list | tuple) else ()
    if isinstance(value, dict):
        children = chain(value, value.values())
    for child in children:
        _check_size(child, count, depth + 1)
    return value
