"""Standard output and error, which show control characters of hosts and logs as text.

All output of a command passes through here, so that no message is missed. Only cluster's own
colours and progress bars bypass it: `console` and `write_coloured`.
"""

import codecs
import io
import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from cluster.core.errors import SpecError

PLAIN = {"µ": "u", "±": "+-", "─": "-", "━": "=", "…": "...", **dict.fromkeys("▁▂▃▄▅▆▇█", "#")}
# What moves the cursor, changes the title, makes the terminal answer as if the user had typed, or
# reverses the direction of writing.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def printable(text: str) -> str:
    r"""Show control characters as text, such as `\x1b` for an escape; newlines and tabs stay."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def json_printable(text: str) -> str:
    """Escape control characters of eight bits in JSON text, which decodes to the same value."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class PrintableStream:
    """A text stream that shows control characters as text."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        self.inner.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        return getattr(self.inner, name)


def make_safe() -> None:
    """Make standard output and error safe: when closed, in ASCII, and for control characters."""
    codecs.register_error("plain", _plain)
    sys.stdout = _safe(sys.stdout)
    sys.stderr = _safe(sys.stderr)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace characters that a stream's encoding lacks by plain ones: `us` for `µs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in letters), error.end


def _safe(stream: TextIO | None) -> TextIO:
    stream = stream or Path(os.devnull).open("w")  # noqa: SIM115 - open to the end
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="plain")
    return cast("TextIO", PrintableStream(stream))


def write_coloured(text: str) -> None:
    """Write a text with cluster's colours to standard output; other control characters are gone."""
    inner = sys.stdout.inner if isinstance(sys.stdout, PrintableStream) else sys.stdout
    inner.write(text)


LOG = "CLUSTER_LOG"  # the environment variable
FLAGS = {"-v": 1, "--verbose": 1, "-vv": 2, "-q": -1, "--quiet": -1}
LEVELS = {1: logging.INFO, 2: logging.DEBUG}
FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_verbosity = 0


def take_flags(argv: Sequence[str]) -> tuple[list[str], int]:
    """Take -v and -q before `--` out of a command line; return the rest, and -1 (-q) to 2 (-vv)."""
    end = list(argv).index("--") if "--" in argv else len(argv)
    levels = [FLAGS[word] for word in argv[:end] if word in FLAGS]
    words = [word for word in argv[:end] if word not in FLAGS]
    return [*words, *argv[end:]], min(levels) if -1 in levels else min(2, sum(levels))


def configure(verbosity: int) -> None:
    """Set how much is printed, as `take_flags` returns it, and open the log file (SpecError)."""
    global _verbosity  # noqa: PLW0603 - one process has one terminal
    _verbosity = verbosity
    logger = logging.getLogger("cluster")
    path = os.environ.get(LOG)
    if path:
        try:
            file = logging.FileHandler(path, encoding="utf-8", delay=False)
        except OSError as error:
            raise SpecError(
                f"The log file {path} ({LOG}) cannot be written: {error.strerror}.",
                remedy=f"Name another file, or: unset {LOG}",
            ) from error
        file.setFormatter(logging.Formatter(FORM))
        logger.addHandler(file)
        logger.setLevel(logging.DEBUG)
        logger.info("cluster %s", " ".join(sys.argv[1:]))
    if verbosity > 0:
        screen = logging.StreamHandler()
        screen.setFormatter(logging.Formatter("%(message)s"))
        screen.setLevel(LEVELS[verbosity])
        logger.addHandler(screen)
        logger.setLevel(logging.DEBUG if path else LEVELS[verbosity])


def write_log(text: str, level: int = logging.INFO) -> None:
    """Write a line to the log file only, if there is one; `level` is one of `logging`."""
    logger = logging.getLogger("cluster")
    record = logger.makeRecord(logger.name, level, "", 0, text, (), None)
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)


def is_quiet() -> bool:
    """Tell whether only results and errors are shown."""
    return _verbosity < 0
