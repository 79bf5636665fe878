"""Horovod's synthetic benchmarks, for PyTorch, TensorFlow and MXNet.

The line of an iteration is the rate of one GPU (or CPU). Some versions print the rate of all GPUs
there without saying so: it is compared with the last lines, which name both rates. The number after
+- is 1.96 standard deviations.
"""

import re
from statistics import median

from cluster.logs.parsers import ResultBuilder, RunParser, define, number

NEAR = 0.2  # relative difference of the iterations from their mean that is accepted

ITERATION, ITERATION_ALL, MEAN, TOTAL = DEFINITIONS = define(
    "horovod",
    """
    iteration_rate (images/s): images of one GPU over the time of an iteration (10 batches unless
        said otherwise)
    iteration_total_rate (images/s, all ranks): images of all GPUs over the time of an iteration, as
        some versions print
    mean_rate (images/s): images of one GPU per second, mean over the iterations
    total_rate (images/s, all ranks): images of all GPUs per second: the mean of one times their
        number
    """,
    clock="timeit of the first rank",
    synchronisation="the exchange of gradients of each batch",
    warm_up="the warm-up batches of the program (10 unless said otherwise)",
)

_ITERATION = re.compile(
    r"\s*Iter #(\d{1,9}): (\d+\.\d+) (?:img|image|images|samples)/sec"
    r"(?: per ([\w:]+))?(?:, .*)?\s*$"
)
_MEAN = re.compile(r"\s*(?:Img|Images)/sec per ([\w:]+): (\d+\.\d+) ?\+/?- ?(\d+\.\d)")
_TOTAL = re.compile(
    r"\s*Total (?:img|images)/sec on (\d{1,7}) ([\w:]+)(?:\(s\))?: (\d+\.\d+) ?\+/?- ?(\d+\.\d)"
)
_ABOUT = re.compile(r"\s*(Model|Batch size|Number of (?:GPUs|CPUs|\w+)): (.*\S)")
_KNOWN = re.compile(r"\s*Running (?:warmup|benchmark)")


class Horovod(RunParser):
    """Horovod synthetic benchmark: one GPU's images per second, and the total."""

    marks = ("Iter #", "img/sec", "Img/sec per", "images/sec on")
    definitions = DEFINITIONS

    def __init__(self) -> None:
        super().__init__()
        self._about: dict[str, str] = {}

    def _reset(self) -> None:
        self._has_total = False
        self._single_rate = 0.0  # the mean of one GPU
        self._unclear: list[float] = []  # of iterations, of one GPU or of all

    def take(self, line: str, lineno: int) -> bool:
        if iteration := _ITERATION.match(line):
            builder, value = self._open(lineno), number(iteration[2]) or 0.0
            if iteration[3]:
                builder.add(ITERATION, value)
            else:
                self._unclear.append(value)
        elif mean := _MEAN.match(line):
            builder = self._open(lineno)  # a new run forgets the mean of the last one
            self._single_rate = number(mean[2]) or 0.0
            builder.add(MEAN, self._single_rate)
        elif total := _TOTAL.match(line):
            builder, value = self._open(lineno), number(total[3]) or 0.0
            builder.add(TOTAL, value, {"devices": int(total[1])})
            self._clear_up(builder, value)
            self._has_total = True
        else:
            setting = _ABOUT.match(line)
            if setting and setting[1] == "Model":
                self._about.clear()
            if setting:
                self._about[setting[1]] = setting[2][:200]
            return bool(setting or _KNOWN.match(line))
        return True

    def _clear_up(self, builder: ResultBuilder, total: float) -> None:
        """Find out from the last lines whether iterations are of one GPU or of all."""
        unclear, self._unclear = self._unclear, []
        if not unclear:
            return
        middle = median(unclear)
        for definition, rate in ((ITERATION_ALL, total), (ITERATION, self._single_rate)):
            if abs(middle - rate) <= NEAR * rate:
                for value in unclear:
                    builder.add(definition, value)
                return
        builder.note("neither_gpu_nor_all")

    def _open(self, first: int) -> ResultBuilder:
        if not self._has_total and self._run is not None:
            return self._run
        run = self._begin(first, f"Horovod synthetic {self._about.get('Model', '')}".strip())
        for name, value in self._about.items():
            run.note("setting", name.lower(), value)
        return run

    def _finish(self, run: ResultBuilder) -> None:
        if not self._has_total:
            run.lack("no_total")
