"""IPM: what all ranks of a job spent in MPI. https://github.com/nerscadmin/IPM."""

import re

from cluster.logs.parsers import RunParser, define, number, numbers

WALL, MEAN, MOST, CALLS, SHARE = DEFINITIONS = define(
    "ipm",
    """
    wall_time (s): from MPI_Init to MPI_Finalize, of the slowest rank
    mpi_time (s, mean of ranks): time in MPI, mean over the ranks
    mpi_time_max (s): time in MPI of the rank with the most of it
    routine_time (s, all ranks): time in one routine of MPI, of all ranks together
    mpi_share (%, lower): of the wall time of all ranks, in MPI
    """,
    clock="of each rank",
    synchronisation="none",
    warm_up="none",
)
_START = re.compile(r"\s*##IPM2?v([\w.]{1,20})#")
_TASKS = re.compile(
    r"\s*#\s*mpi_tasks\s*:\s*(\d{1,9}) on (\d{1,9}) nodes?\s+%comm\s*:\s*([\d.]{1,20})"
)
_TIMES = re.compile(r"\s*# (wallclock|MPI)\s*:((?:\s+[\d.]{1,20}){4})\s*$")
_ROUTINE = re.compile(r"\s*#\s*(MPI_\w{1,60})\s+([\d.]{1,20})\s+\d{1,18}\s+[\d.]{1,20}\s*$")
_KNOWN = re.compile(r"\s*#\s*(?:$|[#%]?(?:\w+|mem \[GB\])\s*:|:|\[time\])")


class Ipm(RunParser):
    """IPM: seconds in MPI of all ranks, of the slowest one, and of each routine."""

    marks = ("##IPM",)
    definitions = DEFINITIONS
    title = "IPM"
    _is_counted = False  # what follows are numbers of calls, not seconds

    def take(self, line: str, lineno: int) -> bool:
        if start := _START.match(line):
            self._begin(lineno, f"IPM {start[1]}")
            self._is_counted = False
            return True
        run = self._run
        if run is None:
            return False
        tasks, times, routine = _TASKS.match(line), _TIMES.match(line), _ROUTINE.match(line)
        if tasks:
            run.ranks, run.hosts = int(tasks[1]), int(tasks[2])
            run.add(SHARE, float(tasks[3]))
        elif times and not self._is_counted and (columns := numbers(times[2].split())):
            if times[1] == "MPI":
                run.add(MEAN, columns[1])
            run.add(MOST if times[1] == "MPI" else WALL, columns[-1])
        elif routine and (value := number(routine[2])) is not None:
            run.add(CALLS, value, {"routine": routine[1]})
        elif "####" in line:
            self._end()  # the line of signs below the report
        else:
            self._is_counted |= "#calls" in line
            return _KNOWN.match(line) is not None
        return True
