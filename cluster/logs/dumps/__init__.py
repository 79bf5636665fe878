"""Readers of what a hanging job leaves, from strangers: nothing is run, and all is bounded."""

import re
from abc import abstractmethod
from typing import ClassVar

import msgspec

from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.hang import Snapshot
from cluster.core.plugins import Plugin

MOST_RANK = 1 << 17
_RANK = re.compile(r"rank[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE)
_LAST = re.compile(r"(\d{1,7})(?:\.[A-Za-z]+)*$")
_MALFORMED = (ValueError, TypeError, KeyError, EOFError, RecursionError, OverflowError)


class DumpReader(Plugin):
    """One format."""

    folder: ClassVar[str] = "cluster.logs.dumps"

    marks: ClassVar[tuple[bytes, ...]]
    """Every dump of this format has one of these in it."""

    @abstractmethod
    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        """Return what a dump says; nothing if it is of another format.

        Args:
            name: of its file.
            content: of the whole file.
            mtime: when the file was written; 0 if that is not known.

        Raises:
            ValueError: it is of this format, but malformed; so do all errors of decoding.
        """


def read_dump(name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
    """Return what a dump says by the first reader that knows its format (SpecError)."""
    reason = ""
    for kind in plugins.names(DumpReader):
        reader = plugins.load(DumpReader, kind)
        if not any(mark in content for mark in reader.marks):
            continue
        try:
            snapshots = reader.read(name, content, mtime)
        except (*_MALFORMED, msgspec.MsgspecError) as error:
            reason = reason or f"{kind}: {error}"[:200]
        else:
            if snapshots:
                return snapshots
    raise SpecError(
        f"{name} is no dump that can be read.",
        means=reason or f"Known are: {', '.join(plugins.names(DumpReader))}.",
    )


def rank_in(name: str, *, last: bool = False) -> int:
    """Return the rank in a file's name, such as `nccl_trace_rank_5`; -1 if there is none.

    With `last`, the last number in it is the rank if no other is marked as one.
    """
    base = name.rpartition("/")[2]
    match = _RANK.search(base) or (_LAST.search(base) if last else None)
    rank = int(match[1]) if match else -1
    return rank if rank < MOST_RANK else -1
