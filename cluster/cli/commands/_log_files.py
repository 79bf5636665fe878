"""Logs that a command reads without keeping them; one that is not understood is left out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cluster.core.errors import ParseError
from cluster.runs.import_.logs import read_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.logs import Reading


def readings(
    files: Sequence[str], left_out: list[str], *, format_: str = ""
) -> Iterator[tuple[str, Reading]]:
    """Read logs; `-` is standard input.

    The reason why one could not be read is added to `left_out`. If none was understood, the error
    of the parser is raised (ParseError); a file that cannot be read raises a SpecError.
    """
    first: ParseError | None = None
    for file in files:
        try:
            reading = read_log(file, format_=format_, stdin=sys.stdin.buffer)
        except ParseError as error:
            first = first or error
            left_out.append(error.what)
            continue
        yield file, reading
    if first and len(left_out) == len(files):
        raise first


def print_left_out(left_out: Sequence[str]) -> None:
    """Print on standard error which logs were left out."""
    for reason in left_out:
        sys.stderr.write(f"Left out: {reason}\n")
