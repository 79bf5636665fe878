"""NCCL's RAS as text: `VERBOSE STATUS` to port 28028, or `ncclras -v`; NCCL 2.24 and later.

The lines are those of src/ras/client_support.cc: before 2.26 there is one count of all collectives,
later one of each kind. Only outliers are listed with their rank; the others are the rest of the
communicator, whose size is in the table above.
"""

import re
from dataclasses import dataclass, field

from cluster.core.model.hang import Count, Membership, ProcessState, Snapshot
from cluster.logs.dumps import MOST_RANK, DumpReader

_ROW = re.compile(r"\s*(\d+)\s+\d+\s+\d+\s+[\d-]+\s+(\d+)(?:-(\d+))?\s+\d+\s+[A-Z,]+\s+[A-Z,]+\s*$")
_COMM = re.compile(r"#(\d+)-\d+ \(([0-9a-f]+)\) (\w+)")
_KIND = re.compile(
    r"\s*Communicator ranks have different (\w+) (?:operation )?(?:counts|operation)"
)
_SHARED = re.compile(r"\s*(\d+) ranks? ha(?:s|ve) (?:launched up to operation (\d+)|not launched)")
_RANK = re.compile(
    r"\s*Rank (\d+)(?: has (?:launched up to operation (\d+)|(not launched any operations)))?"
    r" -- (?:GPU .*managed by process (\d+) on node (\S+))?"
)
_MISSING = re.compile(r"\s*The missing ranks?: ([\d, ]+)")
MOST_COUNTS = 1 << 21
_ANY = "collective"  # before 2.26


@dataclass
class _Mismatch:
    """The counts of one kind in one communicator."""

    group: str
    kind: str
    size: int
    outliers: dict[int, int] = field(default_factory=dict)
    totals: list[tuple[int, int]] = field(default_factory=list)  # how many ranks, their count

    def counts(self) -> dict[int, int]:
        """Return the count of each rank; the one group that is not listed is all others."""
        values = list(self.outliers.values())
        rest = [count for total, count in self.totals if values.count(count) != total]
        other_count = rest[0] if len(rest) == 1 else None
        ranks = range(self.size) if other_count is not None else self.outliers
        return {rank: self.outliers.get(rank, other_count or 0) for rank in ranks}


class _StatusText:
    """What the lines so far have said."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.mismatches: list[_Mismatch] = []
        self.process: dict[int, tuple[int, str]] = {}
        self.missing: set[int] = set()
        self.dead = False
        self._sizes = sizes
        self._group, self._size, self._count, self._section = "", 0, 0, ""

    def take(self, line: str) -> None:
        if match := _COMM.match(line):
            self._group, self._size = match[2], self._sizes.get(match[1], 0)
            self._section = match[3]
        elif line in ("DEAD", "INCOMPLETE", "TIMEOUT"):
            self._section = line
            self.dead = self.dead or line == "DEAD"
        elif match := _KIND.match(line):
            kind = _ANY if match[1] == "collective" else match[1]
            self.mismatches.append(_Mismatch(self._group, kind, self._size))
        elif (match := _SHARED.match(line)) and self.mismatches:
            self._count = int(match[2] or 0)
            self.mismatches[-1].totals.append((int(match[1]), self._count))
        elif match := _RANK.match(line):
            self._take_rank(match)
        elif match := _MISSING.match(line):
            words = [word for word in match[1].split(",") if word.strip()]
            self.missing |= {min(int(word), MOST_RANK) for word in words}

    def _take_rank(self, match: re.Match[str]) -> None:
        rank = min(int(match[1]), MOST_RANK)
        if match[4]:
            self.process[rank] = (int(match[4]), match[5])
        if self._section == "INCOMPLETE":
            self.missing.add(rank)
        elif self.mismatches and self._section == "MISMATCH":
            alone = int(match[2]) if match[2] else 0 if match[3] else self._count
            self.mismatches[-1].outliers[rank] = alone


class NcclRasText(DumpReader):
    """NCCL RAS, text: ranks whose counts differ, and processes that do not answer."""

    marks = (b"Job summary", b"Communicators...", b"Ranks     Ranks     Ranks")

    def read(self, name: str, content: bytes, mtime: float) -> tuple[Snapshot, ...]:
        text = content.decode(errors="replace")
        rows = filter(None, map(_ROW.match, text.splitlines()))
        sizes = {row[1]: min(int(row[3] or row[2]), MOST_RANK) for row in rows}
        status = _StatusText(sizes)
        for line in text.splitlines():
            status.take(line)
        mismatches, process, missing = status.mismatches, status.process, status.missing
        if sum(mismatch.size for mismatch in mismatches) > MOST_COUNTS:
            raise ValueError("It has more counts than any job.")
        pairs = [(mismatch, mismatch.counts()) for mismatch in mismatches]
        groups = tuple(
            Membership(group=mismatch.group, ranks=tuple(range(mismatch.size)))
            for mismatch in mismatches
            if mismatch.size
        )
        ranks = {*missing, *process, *(rank for _, counts in pairs for rank in counts)}
        ranks = ranks or set(range(max(sizes.values(), default=0)))
        lost_state: ProcessState = "dead" if status.dead else "unresponsive"
        return tuple(
            Snapshot(
                source="nccl_ras",
                rank=rank,
                pid=process.get(rank, (0, ""))[0],
                host=process.get(rank, (0, ""))[1],
                at=mtime,
                state=lost_state if rank in missing else "",
                counts=tuple(
                    Count(group=mismatch.group, name=mismatch.kind, entered=counts[rank])
                    for mismatch, counts in pairs
                    if rank in counts
                ),
                groups=groups,
            )
            for rank in sorted(ranks)
        )
