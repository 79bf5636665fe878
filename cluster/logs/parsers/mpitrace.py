"""Profiles of IBM's mpitrace (libmpitrace, libhpmprof): three generations and two variants.

Times are seconds of one rank inside MPI. They include waiting for other ranks; operations on files
are not part of the total, as they are not communication. Sizes are average bytes of a call. By
default, only rank 0 and the ranks with the least, the median and the most time in MPI write a file,
so missing ranks are normal.
"""

import re
from collections import Counter
from collections.abc import Iterable
from sys import intern

from cluster.core.model.logs import (
    Parsed,
    Profile,
    ProfileSection,
    RoleTime,
    Routine,
    TaskTimes,
    is_file_routine,
)
from cluster.logs.parsers import BINARY, Parser, ResultBuilder, count, define, number, numbers

SLACK = 0.001  # seconds to which each time is rounded

ROUTINE, COMMUNICATION, ELAPSED = DEFINITIONS = define(
    "mpitrace",
    """
    routine_time (s): all calls of one MPI routine of one rank
    communication_time (s): all MPI calls of one rank
    elapsed_time (s): the profiled region of one rank, wall clock
    """,
    clock="the time base of the processor, read around each MPI call of the rank",
    synchronisation="none: waiting for other ranks is part of the time",
    warm_up="none: the whole region counts",
    aggregation="each rank",
)

_RANK = re.compile(r"\s*Data for MPI rank (\d{1,9}) of (\d{1,9})")
_REGION = re.compile(r"\s*Times (?:and statistics )?from (.*?)\.?\s*$")
_CONTEXT = re.compile(r"\s*Data for context = (.*?), call count = (\d+)")
_TABLE = re.compile(r"\s*MPI Routine\s+#calls")
# Times have three decimals and sizes have one; a row that was cut off does not match.
_ROW = re.compile(r"\s*(MPI_\w+)\s+(\d{1,18})((?:\s+\d{1,18}\.\d)?\s+\d{1,12}\.\d{3})\s*$")
_SIZES = re.compile(r"\s*(On-node m|M)essage size distributions:")
_SIZED = re.compile(r"\s*(MPI_\w+)\s+#calls\s+avg\. bytes")
_SIZE = re.compile(r"\s*(\d{1,18})\s+(\d{1,18}\.\d)\s+(\d{1,12}\.\d{3})\s*$")
RULE = 10  # dashes
_ROLE = re.compile(r"\s*MPI task \d+ of \d+ had the (minimum|median|maximum) communication time")
_EXTREME = re.compile(
    r"\s*(minimum|median|maximum)\s+communication time\s*=\s*(\d+\.\d+) sec\w* for task (\d{1,9})"
)
_TOTAL = re.compile(
    r"\s*(total communication time|total elapsed time|user cpu time|system time|"
    r"total MPI-IO time|max resident set size|maximum memory size)\s*=\s*([\d.]+)\s*(seconds|[KMG])"
)
_SECTIONS = (
    ("communicator size", re.compile(r"\s*Data for communicator sizes (.*?)\s*:\s*$")),
    ("call site", re.compile(r"\s*communication time = [\d.]+ sec, call site address = (\w+)")),
    ("parent", re.compile(r"\s*communication time = [\d.]+ sec, parent = (.*\S)")),
    ("call stack", re.compile(r"\s*time in MPI routines = [\d.]+ sec, call stack index = (\d+)")),
    ("on-node", re.compile(r"\s*(Summary for on-node communication)")),
)
_SECTION_TIME = re.compile(
    r"\s*(?:communication time|time in MPI routines|measured on-node communication time|"
    r"MPI time for this communicator bin)\s*=\s*([\d.]+)"
)
_TASKS = re.compile(r"\s*taskid\s*(.*)")
_COLUMN = re.compile(r"(host(?:name)?|cpu|comm|elapsed|user|system|size|switches)(?:\((\w+)\))?")
_KNOWN = re.compile(
    r"\s*(?:-{10,}\s*$|Rank \d+ reported|(?:Communication s|S)ummary for all tasks:"
    r"|MPI timing summary|MPI tasks sorted by|(?:minimum|median|maximum|average)\s+\S+ ?time"
    r"|synchronization time|exclusive elapsed|Profile (?:data )?by|call stack:"
    r"|filename =|address = 0x|Histogram of times|time-bin|\d+\.\d+\s+\d+\s*$|Call Graph Section"
    r"|(?:minimum|maximum) memory)"
)


class _Part:
    """The tables of one context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.routines: list[Routine] = []
        self.distributions: list[Routine] = []
        self.totals: dict[str, float] = {}
        self.sections: list[tuple[str, str, float, list[Routine]]] = []


class _Profile:
    """The file of one rank."""

    def __init__(self, first: int, rank: int, size: int) -> None:
        self._first = first
        self._rank = rank
        self._size = size
        self._region = ""
        self._roles: list[str] = []
        self._tasks: list[TaskTimes] = []
        self._extremes: list[RoleTime] = []
        self._columns: list[tuple[str, str]] = []  # of the table of all ranks
        self._parts: list[_Part] = [_Part("")]
        self._routines: list[Routine] = self._parts[0].routines  # where rows go
        self._routine = ""  # the routine whose sizes follow

    def context(self, name: str) -> None:
        self._parts.append(_Part(name))

    def table(self) -> None:
        """Begin a table: of the profile itself, or of the section that has just begun."""
        part = self._parts[-1]
        self._routines = part.sections[-1][3] if part.sections else part.routines
        self._columns = []

    def take(self, line: str) -> bool:
        if len(line) >= RULE and not line.strip("-"):
            return True
        for read in (self._table_row, self._sizes, self._total, self._section, self._task):
            if read(line):
                return True
        if region := _REGION.match(line):
            self._region = region[1]
        elif role := _ROLE.match(line):
            self._roles.append(role[1])
        elif extreme := _EXTREME.match(line):
            time = RoleTime(role=extreme[1], rank=int(extreme[3]), time=float(extreme[2]))
            self._extremes.append(time)
        else:
            return _KNOWN.match(line) is not None
        return True

    def _table_row(self, line: str) -> bool:
        match = _ROW.match(line)
        values = numbers(match[3].split()) if match else None
        if match is None or not values:
            return False
        size = values[0] if len(values) > 1 else 0.0
        row = Routine(name=intern(match[1]), calls=int(match[2]), bytes=size, time=values[-1])
        self._routines.append(row)
        return True

    def _sizes(self, line: str) -> bool:
        if title := _SIZES.match(line):
            self._columns, self._routine = [], ""
            self._routines = [] if title[1] != "M" else self._parts[-1].distributions
        elif head := _SIZED.match(line):
            self._routine = intern(head[1])
        elif self._routine and not self._columns and (row := _SIZE.match(line)):
            values = numbers((row[2], row[3]))
            if values is None:
                return False
            self._routines.append(
                Routine(name=self._routine, calls=int(row[1]), bytes=values[0], time=values[1])
            )
        else:
            return False
        return True

    def _total(self, line: str) -> bool:
        match = _TOTAL.match(line)
        value = number(match[2]) if match else None
        if match is None or value is None:
            return False
        self._parts[-1].totals.setdefault(match[1], value * BINARY.get(match[3], 1.0))
        return True

    def _section(self, line: str) -> bool:
        sections = self._parts[-1].sections
        time = _SECTION_TIME.match(line)
        seconds = number(time[1]) if time else None
        for kind, pattern in _SECTIONS:
            if match := pattern.match(line):
                rows: list[Routine] = []
                sections.append((kind, match[1].strip(), seconds or 0.0, rows))
                self._routines, self._routine = rows, ""
                return True
        if seconds is not None and sections:
            kind, name, _, rows = sections[-1]
            sections[-1] = (kind, name, seconds, rows)
        return seconds is not None

    def _task(self, line: str) -> bool:
        if header := _TASKS.match(line):
            self._columns = [(m[1], m[2] or "") for m in _COLUMN.finditer(header[1])]
            return True
        rank, *cells = line.split() or [""]
        if not self._columns or count(rank) is None or len(cells) != len(self._columns):
            return False
        fields = {
            name: (cell, unit) for (name, unit), cell in zip(self._columns, cells, strict=True)
        }
        host = fields.pop("hostname", fields.pop("host", ("", "")))[0]
        values = {name: number(cell) for name, (cell, _) in fields.items()}
        if None in values.values():
            return False
        scale = BINARY.get(fields.get("size", ("", " "))[1][:1], 1.0)
        figures = {name: value or 0.0 for name, value in values.items()}
        task = TaskTimes(
            rank=int(rank),
            host=host,
            communication=figures.get("comm", 0.0),
            elapsed=figures.get("elapsed", 0.0),
            user=figures.get("user", 0.0),
            system=figures.get("system", 0.0),
            memory=figures.get("size", 0.0) * scale,
        )
        self._tasks.append(task)
        return True

    def results(self) -> Iterable[Parsed]:
        parts = [part for part in self._parts if part.routines or part.totals]
        for part in parts or self._parts[:1]:
            title = f"rank {self._rank} of {self._size}"
            builder = ResultBuilder(
                "mpitrace", self._first, title + (f", {part.name}" if part.name else "")
            )
            totals = part.totals
            profile = Profile(
                rank=self._rank,
                size=self._size,
                region=self._region,
                context=part.name,
                routines=tuple(part.routines),
                distributions=tuple(part.distributions),
                communication=totals.get("total communication time", 0.0),
                files=totals.get("total MPI-IO time", 0.0),
                elapsed=totals.get("total elapsed time", 0.0),
                user=totals.get("user cpu time", 0.0),
                system=totals.get("system time", 0.0),
                memory=totals.get("max resident set size", totals.get("maximum memory size", 0.0)),
                roles=tuple(self._roles),
                sections=tuple(
                    ProfileSection(kind=kind, name=name, time=time, routines=tuple(rows))
                    for kind, name, time, rows in part.sections
                ),
                tasks=tuple(self._tasks),
                extremes=tuple(self._extremes),
                complete="total communication time" in totals and "total elapsed time" in totals,
            )
            rank = max(self._rank, 0)
            point = {"context": profile.context} if profile.context else {}
            for routine in profile.routines:
                builder.add(ROUTINE, routine.time, {**point, "routine": routine.name}, rank=rank)
            if profile.complete:
                builder.add(COMMUNICATION, profile.communication, point, rank=rank)
                builder.add(ELAPSED, profile.elapsed, point, rank=rank)
            elif not self._tasks:
                builder.lack("no_profile_totals")
            if self._rank < 0:
                builder.lack("unknown_rank")
            _note_doubts(builder, profile)
            yield builder.result(profile)


def _note_doubts(builder: ResultBuilder, profile: Profile) -> None:
    calls = {routine.name: routine.calls for routine in profile.routines}
    sums: Counter[str] = Counter()
    for row in profile.distributions:
        sums[row.name] += row.calls
    for name, sum_ in sums.items():
        if sum_ != calls.get(name, sum_):
            builder.note("other_calls", name, calls[name], sum_)
    total = sum(routine.time for routine in profile.routines if not is_file_routine(routine.name))
    rounding = SLACK * (len(profile.routines) + 1)
    if profile.complete and abs(total - profile.communication) > rounding:
        builder.note("other_sum", total, profile.communication)


class MpiTrace(Parser):
    """IBM mpitrace: what each MPI routine took, and with messages of which sizes."""

    marks = (
        *("Data for MPI rank", "MPI Routine", "MPI timing summary", "essage size distributions"),
        *("communication time = ", "MPI tasks sorted by"),
    )
    has_rows = True
    definitions = DEFINITIONS

    def __init__(self) -> None:
        self._profiles: list[_Profile] = []

    def take(self, line: str, lineno: int) -> bool:
        if rank := _RANK.match(line):
            self._profiles.append(_Profile(lineno, int(rank[1]), int(rank[2])))
        elif context := _CONTEXT.match(line):
            self._open(lineno).context(context[1])
        elif _TABLE.match(line):
            self._open(lineno).table()
        elif not self._profiles and (_EXTREME.match(line) or _TASKS.match(line)):
            return self._open(lineno).take(line)  # the tables of the rank are missing
        else:
            return bool(self._profiles) and self._profiles[-1].take(line)
        return True

    def _open(self, lineno: int) -> _Profile:
        if not self._profiles:
            self._profiles.append(_Profile(lineno, -1, 0))
        return self._profiles[-1]

    def results(self) -> tuple[Parsed, ...]:
        return tuple(result for profile in self._profiles for result in profile.results())
