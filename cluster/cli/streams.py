"""Standard output and error, on which text of hosts and logs is seen and never obeyed.

Whatever a command writes passes here, so no message can be forgotten. Only our own colours and
progress bars go around it: `console` and `write_coloured`.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from cluster.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN = {"µ": "u", "±": "+-", "─": "-", "━": "=", "…": "...", **dict.fromkeys("▁▂▃▄▅▆▇█", "#")}


class PrintableStream:
    """A text stream that shows control characters as text.

    Args:
        inner: where it goes; everything but writing is done there.

    """

    def __init__(self, inner: TextIO) -> None:
        """Keep it."""
        self.inner = inner

    def write(self, text: str) -> int:
        """Write text, its control characters seen."""
        self.inner.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines in the same way."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        """Give the rest of the stream."""
        return getattr(self.inner, name)


def make_safe() -> None:
    """Let no closed stream, none that knows only ASCII, and no text of others do any harm."""
    codecs.register_error("plain", _plain)
    sys.stdout = _safe(sys.stdout)
    sys.stderr = _safe(sys.stderr)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write what a stream's encoding lacks in plain characters: `us` for `µs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in lacking), error.end


def _safe(stream: TextIO | None) -> TextIO:
    stream = stream or Path(os.devnull).open("w")  # noqa: SIM115 - open to the end
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="plain")
    return cast("TextIO", PrintableStream(stream))


def write_coloured(text: str) -> None:
    """Write a text with colours of ours to standard output; what is not ours in it is printable."""
    inner = sys.stdout.inner if isinstance(sys.stdout, PrintableStream) else sys.stdout
    inner.write(text)
