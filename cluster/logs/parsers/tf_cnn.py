"""tf_cnn_benchmarks: images per second of each step, and in total.

The rate of a step is the mean since the first step, of one process. `total images/sec` is the rate
of all processes together. With Horovod, every rank prints it, so these rates are never added up.
It is compared with the rates of the last step: they add up to it, or it is that of several such
processes.
"""

import re
from collections import Counter

from cluster.core.model.results.records import NoteKind
from cluster.logs.parsers import ResultBuilder, RunParser, define, number

STEP, TOTAL = DEFINITIONS = define(
    "tf_cnn",
    """
    step_rate (images/s): images of one process over time, mean from the first step to this one
    total_rate (images/s, all ranks): images of all processes together over time, as each prints it:
        never summed
    """,
    clock="time.time of each process",
    synchronisation="the exchange of gradients of each step",
    warm_up="the warm-up batches of the program (10 unless said otherwise)",
)

ALIKE = 0.05  # relative: the total also has the time between the steps

_HEAD = re.compile(r"\s*Step\s+Img/sec\b")
_STEP = re.compile(
    r"\s*(\d{1,9})\s+images/sec: (\d+\.\d+) \+/- (\d+\.\d+) \(jitter = (\d+\.\d+)\)\s+\S"
)
_TOTAL = re.compile(r"\s*total images/sec: (\d+\.\d{2,15})\s*$")
_ABOUT = re.compile(
    r"\s*(Model|Batch size|Devices|Variables|Data format|Num batches|Mode):\s+(.*\S)"
)
_KNOWN = re.compile(
    r"\s*(?:-{10,}\s*$|TensorFlow: |Dataset: |SingleSess: |Num epochs: |NUMA bind|Optimizer: |"
    r"Layout optimizer|Running warm up|Done warm up|AllReduce: |Generating (?:training )?model|"
    r"\d+ (?:global|per device)|Sync: |Horovod on: |={5,}\s*$|Running evaluation|Accuracy @ 1)"
)


class TfCnn(RunParser):
    """tf_cnn_benchmarks: a process's rate per step, and the global one."""

    marks = ("images/sec: ", "Img/sec")
    definitions = DEFINITIONS

    def __init__(self) -> None:
        super().__init__()
        self._about: dict[str, str] = {}
        self._steps: Counter[str] = Counter()
        self._totals: list[float] = []
        self._last = ""  # step that was printed
        self._rates: list[float] = []  # of that step, of each process

    def take(self, line: str, lineno: int) -> bool:
        if step := _STEP.match(line):
            rate = number(step[2]) or 0.0
            self._open(lineno).add(STEP, rate)
            self._rates = [*self._rates, rate] if step[1] == self._last else [rate]
            self._last = step[1]
            self._steps[step[1]] += 1
        elif total := _TOTAL.match(line):
            self._totals.append(number(total[1]) or 0.0)
            self._open(lineno).add(TOTAL, self._totals[-1])
        elif _HEAD.match(line):
            self._open(lineno)
        elif setting := _ABOUT.match(line):
            self._about[setting[1]] = setting[2][:200]
        else:
            return _KNOWN.match(line) is not None
        return True

    def _finish(self, builder: ResultBuilder) -> None:
        builder.title = f"tf_cnn_benchmarks {self._about.get('Model', '')}".strip()
        for name, value in self._about.items():
            builder.note("setting", name.lower(), value)
        processes = max(self._steps.values(), default=0)
        if processes > 1:
            builder.note("mixed_processes", processes)
        if len(self._totals) > 1:
            builder.note("several_totals", len(self._totals))
        if len(self._rates) == processes:
            _note_other_total(builder, self._totals, self._rates)
        if builder.empty:
            text = "there is no step: it failed, or the log is cut off"
            builder.lack_rows(text, "rows of a step, and images/sec: FIGURE +/- ...")
        elif not self._totals:
            builder.lack("no_total")


def _note_other_total(run: ResultBuilder, totals: list[float], rates: list[float]) -> None:
    """Add a note if the totals of one run do not follow from the last step's rates."""
    if not totals or not all(rates) or max(totals) > (1 + ALIKE) * min(totals):
        return
    rate_sum = sum(rates)
    times = max(1, round(totals[0] / rate_sum)) if len(rates) == 1 else 1
    if abs(totals[0] - times * rate_sum) > ALIKE * totals[0]:
        kind: NoteKind = "other_total" if len(rates) > 1 else "other_total_each"
        run.note(kind, totals[0], rate_sum)
