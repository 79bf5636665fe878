"""mpiP: what each rank of a job spent in MPI, and at which call. https://github.com/LLNL/mpiP."""

import re

from cluster.core.model.value import Scalar
from cluster.logs.parsers import MILLI, ResultBuilder, RunParser, count, define, numbers

RUN, MPI, SITE, BYTES = DEFINITIONS = define(
    "mpip",
    """
    app_time (s): from MPI_Init to MPI_Finalize, of one rank
    mpi_time (s): of that, in MPI, of one rank
    site_time (s, all ranks): in one call of the program, of all ranks together; printed in ms
    site_message (B, all ranks): bytes that one call sends, mean over all
    """,
    clock="MPI_Wtime of each rank",
    synchronisation="none",
    warm_up="none",
)
_START = re.compile(r"\s*@ mpiP\s*$")
_TASK = re.compile(r"\s*@ MPI Task Assignment\s*:\s*(\d{1,9}) (\S{1,200})\s*$")
_SECTION = re.compile(
    r"\s*@--- (MPI Time|Aggregate Time|Aggregate Sent Message Size|End of Report)?"
)
_HEAD = re.compile(r"\s*(?:Task\s+AppTime|Call\s+Site|ID\s+Lev|Name\s+Site|-{20,}|\.\.\.\s*$)")
_OTHER = re.compile(r"\d{1,6} \d{1,4} \S+|[A-Z]\w{1,30} \d{1,6} (?:\d{1,9}|\*) \d")
CELLS = 4  # of a row of a rank; those of a call have two more, and of its time three since 3.5


class MpiP(RunParser):
    """mpiP: seconds in MPI of each rank, and of each call of the program."""

    marks = ("@ mpiP", "@--- MPI Time")
    has_rows = True
    definitions = DEFINITIONS
    title = "mpiP"

    def __init__(self) -> None:
        super().__init__()
        self._section = ""
        self._hosts: dict[int, str] = {}  # of ranks

    def take(self, line: str, lineno: int) -> bool:
        if _START.match(line):
            self._begin(lineno, self.title)
            self._section, self._hosts = "", {}
        elif section := _SECTION.match(line):
            run = self._open(lineno)
            self._section = section[1] or "other"
            if self._section == "End of Report":
                self._end()
                self._section = ""
            elif self._hosts:
                run.ranks, run.hosts = len(self._hosts), len(set(self._hosts.values()))
        elif self._run is None:
            return False
        elif task := _TASK.match(line):
            self._hosts[int(task[1])] = task[2]
        elif self._section:
            return _HEAD.match(line) is not None or self._row(self._run, line.split())
        else:
            return line.lstrip().startswith("@ ")
        return True

    def _row(self, run: ResultBuilder, cells: list[str]) -> bool:
        if self._section == "other":
            return _OTHER.match(" ".join(cells)) is not None
        values = numbers(cells[1:])
        expected = {"MPI Time": (CELLS,), "Aggregate Time": (CELLS + 2, CELLS + 3)}
        if not values or len(cells) not in expected.get(self._section, (CELLS + 2,)):
            return False
        rank = count(cells[0])
        if self._section == "MPI Time":
            if rank is not None:  # else of all ranks together
                run.add(RUN, values[0], rank=rank)
                run.add(MPI, values[1], rank=rank)
            return True
        point: dict[str, Scalar] = {"call": f"MPI_{cells[0]}", "site": int(values[0])}
        if self._section == "Aggregate Time":
            run.add(SITE, values[1] / MILLI, point)
        else:
            run.add(BYTES, values[3], point)
        return True
