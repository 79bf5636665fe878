"""Logs that a command reads: what it says meanwhile, and of those that are not understood."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from cluster.cli.terminal import is_quiet
from cluster.core.errors import ParseError
from cluster.core.model.logs import Reading
from cluster.runs.import_.logs import read_log

NOTICE = 10.0  # seconds between two words about logs that take long


@contextmanager
def progress(files: Sequence[str]) -> Iterator[None]:
    """Say on standard error, from time to time, that logs are still read inside this context."""
    result, start = Event(), monotonic()

    def speak() -> None:
        while not result.wait(NOTICE) and not is_quiet():
            names = ", ".join(files[:3])
            sys.stderr.write(f"Still reading {names}: {monotonic() - start:.0f} s\n")
            sys.stderr.flush()

    Thread(target=speak, daemon=True).start()
    try:
        yield
    finally:
        result.set()


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
            with progress([file]):
                reading = read_log(file, format_=format_, stdin=sys.stdin.buffer)
        except ParseError as error:
            first = first or error
            left_out.append(error.what)
            continue
        yield file, reading
    if first and len(left_out) == len(files):
        raise first


def print_left_out(left_out: Sequence[str]) -> None:
    for reason in left_out:
        sys.stderr.write(f"Left out: {reason}\n")
