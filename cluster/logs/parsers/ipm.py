"""IPM: what all ranks of a job spent in MPI. https://github.com/nerscadmin/IPM."""

from cluster.logs.parsers import TableParser, define

DEFINITIONS = define(
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


class Ipm(TableParser):
    """IPM: seconds in MPI of all ranks, of the slowest one, and of each routine."""

    marks = ("##IPM",)
    definitions = DEFINITIONS
    title = "IPM"
    start = r"\s*##IPM2?v(?P<_version>[\w.]{1,20})#"
    rows = r"""
        \s*#\s*mpi_tasks\s*:\s*(?P<_ranks>\d{1,9}) on (?P<_hosts>\d{1,9}) nodes?
            \s+%comm\s*:\s*(?P<mpi_share>[\d.]{1,20})
        \s*# wallclock\s*:(?:\s+\d+\.\d+){3}\s+(?P<wall_time>\d+\.\d+)\s*$
        \s*# MPI\s*:\s+\d+\.\d+\s+(?P<mpi_time>\d+\.\d+)\s+\d+\.\d+\s+(?P<mpi_time_max>\d+\.\d+)\s*$
        \s*#\s*(?P<routine>MPI_\w{1,60})\s+(?P<routine_time>[\d.]{1,20})\s+\d{1,18}\s+[\d.]{1,20}\s*$
    """
    remarks = r"\s*#\s*(?:$|[#%]?(?:\w+|mem \[GB\])\s*:|:|\[time\])"
    end = r".*####"  # the line of signs below the report
