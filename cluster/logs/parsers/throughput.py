"""Lines of any training program that print its throughput.

Such as `Images/sec: 100702.49`, `Throughput: 1965.668 images/s`, `train_throughput : 6638.0`,
`Throughput Average (sentences/sec) = 52.31`, and the lines of timm, Keras, DeepSpeed, Megatron,
transformers, fairseq, torchtitan, PaddlePaddle, Caffe2 and MLPerf. The line does not say whether
the rate is that of one process or of all.

Also the time of an iteration of a training loop, and the rate that follows from it: of Megatron,
NeMo, nanoGPT and its descendants, LitGPT, MaxText, mmcv and mmengine, detectron2, the ImageNet
example of PyTorch, TensorFlow's estimators, slim and CIFAR-10, and tqdm's progress bars.
"""

import re
from collections.abc import Iterator

from cluster.core.model.results.measurements import Definition
from cluster.logs.parsers import ResultBuilder, RunParser, define, number

DEFINITIONS = define(
    "throughput",
    """
    images_rate (images/s): images per second, as the program prints it; whether of one process or
        of all, the line does not say
    sentences_rate (sentences/s): sentences per second, as the program prints it; whether of one
        process or of all, the line does not say
    samples_rate (samples/s): samples per second, as the program prints it; whether of one process
        or of all, the line does not say
    tokens_rate (tokens/s): tokens per second, as the program prints it; whether of one process or
        of all, the line does not say
    examples_rate (examples/s): examples per second, as the program prints it; whether of one
        process or of all, the line does not say
    training_rate (items/s): items (images, sentences) per second, as the program prints it; whether
        of one process or of all, the line does not say
    flops_rate (FLOP/s, one rank): operations of the model per second on one GPU, as the program
        counts them; in TFLOP/s
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
IMAGES, SENTENCES, SAMPLES, TOKENS, EXAMPLES, TRAINING, FLOPS, *_ITERATIONS = DEFINITIONS
TIME, ITERATION_RATE, DERIVED_SAMPLES, DERIVED_TOKENS, DEVICE_TOKENS = _ITERATIONS
TERA = 1e12
_BY_WORD = {
    **dict.fromkeys(("image", "images", "img", "imgs"), IMAGES),
    **dict.fromkeys(("sentence", "sentences", "sequences", "seq"), SENTENCES),
    **dict.fromkeys(("sample", "samples"), SAMPLES),
    **dict.fromkeys(("token", "tokens", "tok"), TOKENS),
    **dict.fromkeys(("example", "examples", "exp"), EXAMPLES),
}
_WORD = "|".join(sorted(_BY_WORD, reverse=True))
_PER = rf"(?P<word>{_WORD})/s(?:ec(?:ond)?)?"
_PER_SECOND = r"[ _]?per[ _]?sec(?:ond)?"
_LOGGED = "train_throughput|total_ips|throughput_train"
_NUMBER = (
    r"(?P<value>\d[\d.,]*(?:[eE][+-]?\d+)?)"
    rf"(?:(?<!,)\s?(?P<scale>(?-i:[kKMG]))(?=[^\w.]|$|(?i:{_WORD})/s))?"
)
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_END = r"(?![\w.,])"

# word, then number: `Images/sec: 1.0`, `Throughput Average (sentences/sec) = 52.31`
_BEFORE = re.compile(
    rf"\s*(?:\S{{1,40}} ){{0,6}}?(?:INFO:\w+:)?(?:\S{{0,40}}?throughput[\w -]{{0,40}}[(\[])?"
    rf"{_PER}[)\]]?\s*[:=]\s*{_NUMBER}{_END}",
    re.IGNORECASE,
)
# number, then word: `Throughput: 1965.668 images/s`
_AFTER = re.compile(
    rf"(?:.{{0,120}}(?:\b|#011))?(?:throughput|speed|performance)\b[\w ]{{0,30}}[:=]\s*{_NUMBER}\s*"
    rf"{_PER}(?:\b|#011)",
    re.IGNORECASE,
)
_OTHERS = re.compile(r"total images/sec|\+/-|\bIter #|Img/sec per|\|")  # lines of other parsers
# Figures anywhere in a line, perhaps several: each with words of which one is in every such line,
# and a pattern with a name, a word or a unit.
_FORMS = tuple(
    (words, re.compile(pattern, re.IGNORECASE), definition)
    for words, pattern, definition in (
        # `SamplesPerSec=12.3`, `'train_samples_per_second': 48.1`, `samples per second: 12.3 |`
        (
            ("PerSec", "_per_sec", " per sec"),
            # DLIO's means and deviations over epochs are no rates of a step.
            rf"\b(?!train_throughput_)(?P<name>\w*?(?P<word>{_WORD}){_PER_SECOND})['\"]?\s*[:=]\s*['\"]?{_NUMBER}",
            None,
        ),
        # `train.total_ips : 2500.1 images/s`, `ips: 1040.6 images/sec,`
        (("ips",), rf"\b(?P<name>(?:\w+_)?ips)\s*:\s*{_NUMBER}\s+{_PER}\b", None),
        # NVIDIA's DLLogger does not name on the line what it counts
        (
            ("total_ips", "train_throughput", "throughput_train"),
            rf"\b(?P<name>{_LOGGED})\s*:\s*{_NUMBER}{_END}(?!\s+(?:{_WORD})/s)(?! [a-z]{{1,9}}$)",
            TRAINING,
        ),
        (("TimeHistory: ",), rf"\bTimeHistory: [\d.]+ seconds, {_NUMBER} {_PER}\b", None),
        (("Finished iteration ",), rf"\bFinished iteration .*\({_NUMBER} {_PER}\)", None),
        # `step 1 | tok/sec: 123456.7`
        (("| ",), rf"\|\s*{_PER}\s*[:=]\s*{_NUMBER}{_END}", None),
        (("tokens/s ",), rf", tokens/s {_NUMBER}(?=,|$)", TOKENS),  # descendants of nanoGPT
        (("examples/sec;",), rf"\({_NUMBER} {_PER}; ", None),  # TensorFlow's CIFAR-10
        ((" tok/s",), rf"\|\s*{_NUMBER} tok/s\b", TOKENS),  # llm.c
        (("Time: ",), rf"\bTime: +[\d.]+s, +{_NUMBER}/s +\(", IMAGES),  # timm
        (("wps",), rf"\b(?P<name>wps)['\"]?\s*[:=]\s*['\"]?{_NUMBER}", TOKENS),  # fairseq: words
        (("tps:",), rf"\b(?P<name>tps):\s+{_NUMBER}", TOKENS),  # torchtitan
        (("MLLOG ",), rf'MLLOG .*"throughput":\s*{_NUMBER}', SAMPLES),
        (("TFLOP", "tflops:"), rf"\b(?:TFLOP/s/GPU\)|TFLOPs|TFLOP/s/device):\s*{_NUMBER}", FLOPS),
    )
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_KNOWN = re.compile(r"\s*Epoch(?: time :|\s+\d+/\d+\s*$)")


class TrainingThroughput(RunParser):
    """Any rate that a training program prints, of one process or of all: that is not known."""

    marks = (
        *("/sec", "/s", "hroughput", "_ips", "ips:", "Images/", "images/", "PerSec", "per_sec"),
        *("per sec", "wps", "tps:", "TFLOP"),
        *("elapsed time per iteration", ", time ", "iter time:", "step_tim", "completed step:"),
        *("data_time:", "Epoch: [", "dt: ", "s/it", "it/s", "global_step/sec", "sec/step"),
        "sec/batch",
    )
    title = "training throughput"
    definitions = DEFINITIONS
    _tokens = 0  # of an iteration

    def take(self, line: str, lineno: int) -> bool:
        figures = [  # their metric may be that of a word in the line
            (match, definition)
            for words, form, definition in _FORMS
            if any(word in line for word in words)
            for match in form.finditer(line)
        ]
        if not figures and ("/s" in line or "hroughput" in line) and not _OTHERS.search(line):
            whole = _BEFORE.match(line) or _AFTER.match(line)
            figures = [(whole, None)] if whole else []
        iterations = self._iteration(line)
        for definition, value in iterations:
            self._open(lineno).add(definition, value)
        read = [self._add(lineno, *figure) for figure in figures]
        if (read and all(read)) or iterations or (self._run and _KNOWN.match(line)):
            return True
        match = _PER_ITERATION.match(line) if "okens per" in line else None
        if match:
            self._tokens = int(match[1].replace(",", ""))
        return match is not None

    def _iteration(self, line: str) -> list[tuple[Definition, float]]:
        """Find the time or the rate of an iteration in a line, and the rates that follow."""
        forms = (form for word, form in _ITERATION_FORMS if word in line)
        matches = [match for form in forms if (match := form.search(line))]
        times = (match for match in matches if "time" in match.re.groupindex)
        rates = (match for match in matches if "rate" in match.re.groupindex)
        intervals = [
            (ITERATION_RATE, rate) for match in rates if (rate := number(match["rate"])) is not None
        ]
        first = next(times, None)
        return intervals if first is None else [*self._times(line, first), *intervals]

    def _times(self, line: str, match: re.Match[str]) -> Iterator[tuple[Definition, float]]:
        time = number(match["time"])
        if not time:
            return
        seconds = time / _UNITS[match["unit"]]
        yield TIME, seconds
        batch = _BATCH.search(line) if "global" in line else None
        device = _DEVICE.search(line) if "Tokens/s/device" in line else None
        if batch:
            yield DERIVED_SAMPLES, int(batch[1]) / seconds
        if self._tokens and ": loss " in line:
            yield DERIVED_TOKENS, self._tokens / seconds
        rate = number(device[1]) if device else None
        if rate is not None:
            yield DEVICE_TOKENS, rate

    def _add(self, lineno: int, match: re.Match[str], default: Definition | None) -> bool:
        groups = match.groupdict()
        definition = default or _BY_WORD[groups["word"].lower()]
        text, name = match["value"].rstrip(","), groups.get("name") or ""
        scale = _SCALES.get(groups.get("scale") or "", 1.0) * (TERA if definition is FLOPS else 1.0)
        if definition is TOKENS and name == "tps" and _THOUSANDS.fullmatch(text) is not None:
            text = text.replace(",", "")
        value = number(text)
        if value is None:
            return False
        self._open(lineno).add(definition, value * scale, {"name": name} if name else None)
        return True

    def _finish(self, run: ResultBuilder) -> None:
        run.note("one_or_all")


_UNITS = {"ms": 1e3, "s": 1.0, "sec": 1.0, "": 1.0}
# Each with a word that every such line contains, and a pattern with the groups `time` and `unit`,
# or `rate`.
_ITERATION_FORMS = tuple(
    (word, re.compile(pattern))
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
        ("global_step/sec", r"\bglobal_step/sec: (?P<rate>\d[\d.]*)\s*$"),
        ("it/s", r"\d%\|[^|]*\| *\d+/\d+ \[[^\]]{0,80}, +(?P<rate>\d+\.\d+)it/s\b"),
    )
)
_DEVICE = re.compile(r"\bTokens/s/device: (\d[\d.]*),")
_BATCH = re.compile(r"\bglobal[ _]batch[ _]size:\s+(\d{1,9})\b")
_PER_ITERATION = re.compile(
    r"\s*(?:total )?tokens per (?:iteration|step)(?: will be)?:\s+([\d,]{1,15})\s*$", re.IGNORECASE
)
