"""all_reduce_bench.py of PyTorch, in its old and its new form, and all_gather_object's table.

GBps are 1e9 bytes, Gbps 1e9 bits. A payload of 4GB is 4e9 bytes in the title of the old form, and
4 * 2**30 bytes in the table of the new one, which newer versions call 4GiB.
https://github.com/stas00/ml-engineering/tree/master/network/benchmarks
"""

from collections.abc import Mapping

from cluster.logs.parsers import GB, SizeColumn, TableParser, define

BUSBW, ALGBW = DEFINITIONS = define(
    "all_reduce_bench",
    """
    busbw (B/s, one way, collective): bus bandwidth of all_reduce: algorithm bandwidth times
        2(n-1)/n of n ranks
    algbw (B/s): algorithm bandwidth: the size over the time of all_reduce
    """,
    clock="CUDA events of each rank (time.perf_counter in old versions)",
    synchronisation="a barrier before each trial",
    warm_up="5 calls that are not counted (the first of the trials in old versions)",
    aggregation="mean of ranks",
)


class AllReduceBench(TableParser):
    """all_reduce_bench.py: bus and algorithm bandwidth per payload, in GBps of 1e9 bytes."""

    marks = ("bandwidth of all_reduce", "| payload |", "GBps")
    definitions = DEFINITIONS
    operation = "all_reduce"
    start = (
        r"\s*The (?=.*?(?P<size>[\d.]+[KMG]?i?B) payload|)(?:average|\S+ payload) bandwidth of "
        r"all_reduce (?=.*?\b(?P<_ranks>\d{1,7}) ranks\b)"
        r"(?:with a \S+ payload|over \d+ ranks) \(.*\):\s*$"
    )
    header = r"\s*\|\s*(?P<_table>payload)\s*\|\s*busbw\s*\|\s*algbw\s*\|\s*$"
    rows = r"""
        \s*\|(?:\s*(?P<size>\d{1,9}(?:\.\d)?[KMGT]?)i?B\s*\|)?\s*(?P<busbw>\d+\.\d+)GBps\s*
            \|\s*(?P<algbw>\d+\.\d+)GBps\s*\|\s*$
        \s*(?:algbw: (?P<algbw>\d+\.\d+)|busbw: (?P<busbw>\d+\.\d+)) GBps(?: \(\S+ Gbps\))?\s*$
        \s*(?:algbw: (?P<algbw_gbit>\d+\.\d+)|busbw: (?P<busbw_gbit>\d+\.\d+)) Gbps\s*$
    """
    columns = (
        *(SizeColumn(BUSBW, GB), SizeColumn(BUSBW, GB / 8, name="busbw_gbit")),
        *(SizeColumn(ALGBW, GB), SizeColumn(ALGBW, GB / 8, name="algbw_gbit")),
    )
    remarks = (
        r"\s*(?:\|\s*busbw\s*\|\s*algbw\s*\|\s*$|\|[\s:|-]+\|\s*$|Environment:|- software:"
        r"|- hardware:|ignore me \d|\*{3} Plotting|0 data size:|\d+:?\s*$|Legend: |1GBps = "
        r"|Elapsed time: |(?:CPU|GPU Memory) Usage: )"
    )

    def agrees(self, size: int, row: Mapping[str, str]) -> bool:
        return "size" not in row or "_table" in self._heading
