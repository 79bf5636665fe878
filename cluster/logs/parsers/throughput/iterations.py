"""The time of an iteration of a training loop, and the rate that follows from it.

Megatron, NeMo, nanoGPT and its descendants, LitGPT, MaxText, mmcv and mmengine, detectron2, the
ImageNet example of PyTorch, TensorFlow's estimators, slim and CIFAR-10, and tqdm's progress bars.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cluster.core.model.measurements import Definition
from cluster.logs.parsers import define, number

TIME, RATE, SAMPLES, TOKENS, DEVICE_TOKENS = DEFINITIONS = define(
    "throughput",
    """
    iteration_time (s): one iteration of the training loop, or the mean since the last line, as it
        prints it
    iterations_rate (iterations/s): iterations of the training loop per second, as it prints it
    derived_samples_rate (samples/s): samples of all processes per second: the global batch size
        over the time of an iteration
    derived_tokens_rate (tokens/s): tokens of all processes per second: the tokens of an iteration
        over its time
    device_tokens_rate (tokens/s): tokens of one device per second, as MaxText prints it
        (Tokens/s/device)
    """,
    clock="the program's own",
    synchronisation="not known",
    warm_up="not known",
    aggregation="all ranks",
)
DEFINITIONS = (TIME, RATE, SAMPLES, TOKENS, DEVICE_TOKENS)


class Form(NamedTuple):
    """A form of lines with the time of an iteration, or their rate.

    Its pattern has the groups `time` and `unit`, or `rate`.
    """

    word: str
    pattern: re.Pattern[str]


_UNITS = {"ms": 1e3, "s": 1.0, "sec": 1.0, "": 1.0}
# Each with words that every such line contains, and a pattern with a time and its unit.
_TIMES = tuple(
    Form(word, re.compile(pattern))
    for word, pattern in (
        ("per iteration (", r"elapsed time per iteration \((?P<unit>ms|s)\): (?P<time>\d[\d.]*)"),
        (", time ", r"\b[Ii]ter \d+: loss [^|]{1,80}?, time (?P<time>\d[\d.]*)(?P<unit>ms|s)\b"),
        ("train_step_time", r'MLLOG .*"train_step_time": ?(?P<time>\d[\d.]*)(?P<unit>)(?=[,}])'),
        ("iter time:", r"\biter time: (?P<time>\d[\d.]*) ?(?P<unit>ms|s)\b"),
        (
            "step_timing",
            r"\btrain_step_timing in (?P<unit>s)['\"]?\s?[:=] ?(?P<time>\d[\d.]*)(?=[\s,|\]]|$)",
        ),
        ("sec/", r"\bglobal step \d+: loss = .*\((?P<time>\d+\.\d+) (?P<unit>sec)/step\)"),
        ("sec/", r"\(\d[\d.]* examples/sec; +(?P<time>\d+\.\d+) +(?P<unit>sec)/batch\)"),
        ("completed step:", r"\bcompleted step: \d+, seconds: (?P<time>\d[\d.]*)(?P<unit>),"),
        (
            "data_time:",
            r"\btime: (?P<time>\d+\.\d+)(?P<unit>),?\s+(?:last_time: \S+\s+)?data_time: ",
        ),
        ("Time", r"\bEpoch: \[\d+\]\[ *\d+/\d+\]\s+Time +(?P<time>\d+\.\d+)(?P<unit>) ?\("),
        ("dt: ", r"\| dt: (?P<time>\d+\.\d+)(?P<unit>ms)\b"),
        (" ms |", r"^step +\d+/\d+ .*\| +(?P<time>\d+\.\d+) (?P<unit>ms) \|"),
        ("s/it", r"\d%\|[^|]*\| *\d+/\d+ \[[^\]]{0,80}, +(?P<time>\d+\.\d+)(?P<unit>s)/it\b"),
    )
)
_RATES = tuple(
    Form(word, re.compile(pattern))
    for word, pattern in (
        ("global_step/sec", r"\bglobal_step/sec: (?P<rate>\d[\d.]*)\s*$"),
        ("it/s", r"\d%\|[^|]*\| *\d+/\d+ \[[^\]]{0,80}, +(?P<rate>\d+\.\d+)it/s\b"),
    )
)
_FORMS = (*_TIMES, *_RATES)
_DEVICE = re.compile(r"\bTokens/s/device: (\d[\d.]*),")
_BATCH = re.compile(r"\bglobal[ _]batch[ _]size:\s+(\d{1,9})\b")
_PER_ITERATION = re.compile(
    r"\s*(?:total )?tokens per (?:iteration|step)(?: will be)?:\s+([\d,]{1,15})\s*$", re.IGNORECASE
)


class Found(NamedTuple):
    """A figure of a line."""

    definition: Definition
    value: float


class IterationTimes:
    """Reads lines of training loops, and remembers how many tokens an iteration has."""

    def __init__(self) -> None:
        self._tokens = 0

    def notes(self, line: str) -> bool:
        """Read how many tokens an iteration has, if a line says so."""
        match = _PER_ITERATION.match(line) if "okens per" in line else None
        if match:
            self._tokens = int(match[1].replace(",", ""))
        return match is not None

    def find(self, line: str, forms: Sequence[Form]) -> list[Found]:
        """Find the figures of an iteration in a line, and the rates that follow from them."""
        matches = [match for form in forms if (match := form.pattern.search(line))]
        times = (match for match in matches if "time" in match.re.groupindex)
        rates = (match for match in matches if "rate" in match.re.groupindex)
        intervals = [
            Found(RATE, rate) for match in rates if (rate := number(match["rate"])) is not None
        ]
        first = next(times, None)
        return intervals if first is None else [*self._times(line, first), *intervals]

    def _times(self, line: str, match: re.Match[str]) -> Iterator[Found]:
        time = number(match["time"])
        if not time:
            return
        seconds = time / _UNITS[match["unit"]]
        yield Found(TIME, seconds)
        batch = _BATCH.search(line) if "global" in line else None
        device = _DEVICE.search(line) if "Tokens/s/device" in line else None
        if batch:
            yield Found(SAMPLES, int(batch[1]) / seconds)
        if self._tokens and ": loss " in line:
            yield Found(TOKENS, self._tokens / seconds)
        rate = number(device[1]) if device else None
        if rate is not None:
            yield Found(DEVICE_TOKENS, rate)


def forms_in(line: str) -> tuple[Form, ...]:
    """Return the forms of lines with times or rates of iterations whose words a line has."""
    return tuple(form for form in _FORMS if form.word in line)
