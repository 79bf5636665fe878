"""Consoles of rich, for cluster's own colours and progress bars."""

import sys
from typing import Any

from rich.console import Console

from cluster.cli.terminal import PrintableStream, is_quiet, printable


class SafeConsole(Console):
    """A console of rich whose own escape sequences reach the terminal, but not those in texts."""

    def print(self, *objects: Any, **how: Any) -> None:  # noqa: ANN401 - as rich has it
        """Print; control characters in plain text become visible."""
        super().print(*[printable(o) if isinstance(o, str) else o for o in objects], **how)


def console(*, stderr: bool = False, quiet: bool = True) -> SafeConsole:
    stream = sys.stderr if stderr else sys.stdout
    inner = stream.inner if isinstance(stream, PrintableStream) else stream
    return SafeConsole(
        file=inner, highlight=False, markup=False, emoji=False, quiet=quiet and is_quiet()
    )
