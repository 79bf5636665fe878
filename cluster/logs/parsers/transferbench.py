"""TransferBench of ROCm: copies between processors and GPUs, in GB/s of 1e9 bytes.

A test may run several transfers at once, which share links: only the one of a test with a single
transfer shows what a link carries. https://github.com/ROCm/TransferBench
"""

import re

from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Scalar
from cluster.logs.parsers import GB, RunParser, define, number

PEER, HOST, EACH, EXECUTOR, ALL = DEFINITIONS = define(
    "transferbench",
    """
    peer_copy_bandwidth (B/s, one way, GPU to GPU): bytes over the time of the only transfer of a
        test, from one GPU to another
    host_copy_bandwidth (B/s, one way, host to GPU): bytes over the time of the only transfer of a
        test, between a processor and a GPU
    transfer_bandwidth (B/s): bytes over the time of a transfer that others may run beside
    executor_bandwidth (B/s): bytes of all transfers of one executor over its time
    total_bandwidth (B/s): bytes of all transfers of a test over the time that the processor sees
    """,
    clock="events of the GPU, or the processor's clock",
    synchronisation="all transfers of a test begin together",
    warm_up="3 iterations, unless NUM_WARMUPS says otherwise",
)
_START = re.compile(r"\s*TransferBench v([\d.]{1,20})\s*$")
_TEST = re.compile(r"\s*Test (\d{1,6}):\s*$")
_BAR = r"\s*+[|│\\]++\s*+"  # a page may escape it
_ROW = re.compile(
    rf"\s*+(?:Executor: (\w+) ?(\d{{1,4}})|Transfer (\d{{1,6}})|(Aggregate \(CPU\))){_BAR}"
    rf"([\d.]{{1,20}}) GB/s{_BAR}[\d.]{{1,20}} ms{_BAR}(\d{{1,18}}) bytes{_BAR}(.*)$"
)
_PATH = re.compile(r"(\w{0,60}\d|N) -> \S{1,60} -> (\w{0,60}\d|N)\s*$")
_END = re.compile(r"([A-Z])(\d{1,4})")  # one place in memory
_KNOWN = re.compile(
    r"\s*(?:[-─┬┼┴+ ]{9,}$|(?:Executor|Transfer) \d+ Time|Test Time|Overhead|Summary:|SRC.DST"
    r"|RTotal|GPU \d\d\s|(?:Average|Aggregate) +bandwidth|={9,}|## |- Copying"
    r"|.{1,60}benchmark:\s*$|[A-Z_0-9]+ += )"
)
GPU, PROCESSOR = ("G", "F"), ("C", "B", "U")  # kinds of memory, by their letters


class TransferBench(RunParser):
    """TransferBench: GB/s of 1e9 bytes of each transfer, executor and test."""

    marks = ("TransferBench", "Aggregate (CPU)", "(sum)")
    definitions = DEFINITIONS
    title = "TransferBench"

    def __init__(self) -> None:
        super().__init__()
        self._test = 0
        self._transfers: list[tuple[Definition, float, dict[str, Scalar]]] = []  # of the open test

    def take(self, line: str, lineno: int) -> bool:
        test, row, start = _TEST.match(line), _ROW.match(line), _START.match(line)
        if start:
            self._begin(lineno, f"TransferBench {start[1]}")
            return True
        if test:
            self._flush()
            self._test = int(test[1])
            self._open_table(self._test, lineno)
            return True
        if row is None:
            return self._run is not None and _KNOWN.match(line) is not None
        run, rate, size = self._open(lineno), number(row[5]), int(row[6])
        path = _PATH.match(row[7])
        if rate is None or (row[3] and path is None):  # its end is cut off
            return False
        params: dict[str, Scalar] = {"test": self._test}
        if row[1]:
            run.add(EXECUTOR, rate * GB, {**params, "executor": f"{row[1]} {row[2]}"})
        elif path:
            params |= {"transfer": int(row[3]), "path": f"{path[1]} -> {path[2]}", "size": size}
            self._transfers.append((_kind(path[1], path[2]), rate * GB, params))
        else:
            run.add(ALL, rate * GB, params)
            self._flush(is_whole=True)
        return True

    def _flush(self, *, is_whole: bool = False) -> None:
        """Add the transfers of a test; after its last line it is known how many ran at once."""
        run, transfers, self._transfers = self._run, self._transfers, []
        if run is None or not transfers:
            return
        alone = len(transfers) == 1
        if alone and not is_whole:
            run.lack("may_be_one_of_several")
            return
        for kind, rate, params in transfers:
            point = {k: v for k, v in params.items() if not alone or k != "transfer"}
            run.add(kind if alone else EACH, rate, point, size=int(params["size"]))

    def _end(self) -> None:
        self._flush()
        super()._end()


def _kind(*places: str) -> Definition:
    """Return the metric of a lone transfer, by the memory at its ends."""
    ends = [_END.fullmatch(place) for place in places]
    kinds = [end[1] for end in ends if end]
    gpus, processors = sum(k in GPU for k in kinds), sum(k in PROCESSOR for k in kinds)
    if gpus == len(ends) and len({end[2] for end in ends if end}) == gpus:
        return PEER
    return HOST if gpus and processors else EACH
