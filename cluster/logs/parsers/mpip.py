"""mpiP: what each rank of a job spent in MPI, and at which call. https://github.com/LLNL/mpiP."""

import re
from collections.abc import Mapping

from cluster.logs.parsers import MILLI, ResultBuilder, SizeColumn, TableParser, define

_, _, SITE, _ = DEFINITIONS = define(
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
_TASK = re.compile(r"\s*@ MPI Task Assignment\s*:\s*(\d{1,9}) (\S{1,200})\s*$")


class MpiP(TableParser):
    """mpiP: seconds in MPI of each rank, and of each call of the program."""

    marks = ("@ mpiP", "@--- MPI Time")
    has_rows = True
    definitions = DEFINITIONS
    title = "mpiP"
    start = r"\s*@ mpiP\s*$"
    header = r"\s*@--- (?P<_section>\w*(?: Time| Sent)?)"
    # Each after its section: what a rank spent, what a call took and sent on all ranks, and others.
    rows = r"""
        MPI Time:\s*(?P<_rank>\d{1,18})\s+(?P<app_time>\S+)\s+(?P<mpi_time>\S+)\s+[\d.]\S*\s*$
        MPI Time:\s*(?P<_all>\*)(?:\s+[\d.]\S*){3}\s*$
        Aggregate Time:\s*(?P<call>\S+)\s+(?P<site>\d{1,9})\s+(?P<site_time>\S+)
            (?:\s+[\d.]\S*){3,4}\s*$
        Aggregate Sent:\s*(?P<call>\S+)\s+(?P<site>\d{1,9})(?:\s+[\d.]\S*){2}
            \s+(?P<site_message>\S+)\s+[\d.]\S*\s*$
        Callsite[^:]*:\s*(?P<_call>\d{1,6}\s+\d{1,4}\s+\S|[A-Z]\w{1,30}\s+\d{1,6}\s+[\d*]+\s+\d)
        [^:]+:\s*(?P<_head>Task\s+AppTime|Call\s+Site|ID\s+Lev|Name\s+Site|-{20,}|\.\.\.\s*$)
    """
    counts = ("site",)
    columns = (SizeColumn(SITE, over=MILLI),)
    remarks = r"\s*@ "

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[int, str] = {}  # of ranks

    def take(self, line: str, lineno: int) -> bool:
        if self._run and (task := _TASK.match(line)):
            self._hosts[int(task[1])] = task[2]
            return True
        return super().take(line, lineno)

    def _head(self, run: ResultBuilder, texts: Mapping[str, str]) -> None:
        super()._head(run, texts)
        if "_section" not in texts:  # the first line
            self._hosts.clear()
        elif texts["_section"] == "End":  # of the report
            self._end()
        elif self._hosts:
            run.ranks, run.hosts = len(self._hosts), len(set(self._hosts.values()))

    def read(self, line: str) -> Mapping[str, str] | None:
        row = super().read(f"{self._heading.get('_section', '')}:{line}")
        return {**row, "call": f"MPI_{row['call']}"} if row and "call" in row else row
