"""Standard output and error, which show control characters of hosts and logs as text.

All output of a command passes through here, so that no message is missed. Only cluster's own
colours and progress bars bypass it: `console` and `write_coloured`.
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
    """A text stream that shows control characters as text."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        """Write text, with visible control characters."""
        self.inner.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines in the same way."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a stream has
        """Return any other attribute of the inner stream."""
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
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in lacking), error.end


def _safe(stream: TextIO | None) -> TextIO:
    stream = stream or Path(os.devnull).open("w")  # noqa: SIM115 - open to the end
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="plain")
    return cast("TextIO", PrintableStream(stream))


def write_coloured(text: str) -> None:
    """Write a text with cluster's colours to standard output; other control characters are gone."""
    inner = sys.stdout.inner if isinstance(sys.stdout, PrintableStream) else sys.stdout
    inner.write(text)
