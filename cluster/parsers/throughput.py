"""Lines of any training program that say how much it did per second.

Such as `Images/sec: 100702.49`, `Throughput: 1965.668 images/s`, `train_throughput : 6638.0` and
`Throughput Average (sentences/sec) = 52.31`. Whether that is of one process or of all, the line
does not say.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.model import Definition
from cluster.parsers import Parser, Sheet, number

if TYPE_CHECKING:
    from cluster.foreign import Parsed

_rate = partial(
    Definition,
    benchmark="throughput",
    better="higher",
    clock="the program's own",
    synchronisation="not known",
    warm_up="not known",
    aggregation="all ranks",
)
WHAT = "as the program prints it; whether of one process or of all, the line does not say"
IMAGES = _rate(metric="images_rate", unit="images/s", what=f"images per second, {WHAT}")
SENTENCES = _rate(metric="sentences_rate", unit="sentences/s", what=f"sentences per second, {WHAT}")
SAMPLES = _rate(metric="samples_rate", unit="samples/s", what=f"samples per second, {WHAT}")
TOKENS = _rate(metric="tokens_rate", unit="tokens/s", what=f"tokens per second, {WHAT}")
EXAMPLES = _rate(metric="examples_rate", unit="examples/s", what=f"examples per second, {WHAT}")
TRAINING = _rate(
    metric="training_rate",
    unit="items/s",
    what=f"items (images, sentences) per second, {WHAT}",
)
_BY_WORD = {
    **dict.fromkeys(("image", "images", "img", "imgs"), IMAGES),
    **dict.fromkeys(("sentence", "sentences", "sequences", "seq"), SENTENCES),
    **dict.fromkeys(("sample", "samples"), SAMPLES),
    **dict.fromkeys(("token", "tokens"), TOKENS),
    **dict.fromkeys(("example", "examples"), EXAMPLES),
}
_WORD = "|".join(sorted(_BY_WORD, reverse=True))
_NUMBER = r"(\d[\d.,]*(?:[eE][+-]?\d+)?)"
_END = r"(?![\w.,])"

# word, then number: `Images/sec: 1.0`, `Throughput Average (sentences/sec) = 52.31`
_BEFORE = re.compile(
    rf"\s*(?:\S{{1,40}} ){{0,6}}?(?:\S{{0,40}}?throughput[\w -]{{0,40}}\()?"
    rf"(?P<word>{_WORD})/s(?:ec(?:ond)?)?\)?\s*[:=]\s*{_NUMBER}{_END}",
    re.IGNORECASE,
)
# number, then word: `Throughput: 1965.668 images/s`
_AFTER = re.compile(
    rf"(?:.{{0,120}}\b)?(?:throughput|speed|performance)\b[\w ]{{0,30}}[:=]\s*{_NUMBER}\s*"
    rf"(?P<word>{_WORD})/s(?:ec(?:ond)?)?\b",
    re.IGNORECASE,
)
# NVIDIA's DLLogger names what it counts nowhere on the line
_LOGGER = re.compile(
    rf".{{0,120}}\b(train_throughput|total_ips|throughput_train)\s*:\s*{_NUMBER}{_END}"
)
_OTHERS = re.compile(r"total images/sec|\+/-|\bIter #|Img/sec per|\|")  # lines of other parsers
_KNOWN = re.compile(r"\s*Epoch(?: time :|\s+\d+/\d+\s*$)")


class Throughput(Parser):
    """Anything per second that a training program prints; its scope is not known."""

    marks: ClassVar[tuple[str, ...]] = (
        *("/sec", "/s", "hroughput", "total_ips", "Images/", "images/"),
    )
    definitions: ClassVar[tuple[Definition, ...]] = (
        *(IMAGES, SENTENCES, SAMPLES, TOKENS, EXAMPLES, TRAINING),
    )

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sheet: Sheet | None = None

    def take(self, line: str, number_: int) -> bool:
        """Read a line that says how much per second."""
        if "/s" not in line and "hroughput" not in line and "_ips" not in line:
            return self._sheet is not None and _KNOWN.match(line) is not None
        if _OTHERS.search(line):
            return False
        before, after, logger = _BEFORE.match(line), _AFTER.match(line), _LOGGER.match(line)
        if before:
            return self._add(number_, _BY_WORD[before["word"].lower()], before[2])
        if after:
            return self._add(number_, _BY_WORD[after["word"].lower()], after[1])
        return logger is not None and self._add(number_, TRAINING, logger[2], logger[1])

    def _add(self, at: int, definition: Definition, text: str, name: str = "") -> bool:
        value = number(text)
        if value is None:
            return False
        if self._sheet is None:
            self._sheet = Sheet("throughput", at, "training throughput")
        self._sheet.add(definition, value, {"name": name} if name else None)
        return True

    def results(self) -> tuple[Parsed, ...]:
        """Give one result."""
        if self._sheet is None:
            return ()
        self._sheet.note("whether its rates are of one process or of all, the log does not say")
        return (self._sheet.parsed(),)
