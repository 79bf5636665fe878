"""How errors are shown: cluster's own, and those of a wrong command line."""

from __future__ import annotations

import io
import logging
import re
from typing import Any, cast

import typer

from cluster.cli.verbosity import write_log
from cluster.core.printable import printable

# typer does not export the base of its errors of usage.
Misuse = cast(
    "type[Exception]",
    next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"),
)
PLAIN_WORDS = (  # a library's message about a value, and what replaces it
    (re.compile(r"Input should be a valid integer\b.*"), "a whole number is needed."),
    (re.compile(r"Input should be a valid number\b.*"), "a number is needed."),
    (re.compile(r"Value error, (.*) is not one of (.*?)\.?$", re.MULTILINE), r"\1 is none of \2."),
    (re.compile(r"^Error: Invalid value for ", re.MULTILINE), "Error: "),
)


def print_error(text: str) -> None:
    """Print an error; where there are colours, its first word is red."""
    from rich.text import Text  # noqa: PLC0415 - most commands end without an error

    from cluster.cli.console import console  # noqa: PLC0415

    write_log(text, logging.ERROR)
    line = Text.assemble(("Error:", "bold red"), f" {printable(text)}")
    console(stderr=True, quiet=False).print(line, soft_wrap=True)


def print_misuse(error: Exception) -> int:
    """Print what is wrong with a command line, in cluster's words.

    Args:
        error: a `Misuse`.

    """
    from_typer = cast("Any", error)
    shown = io.StringIO()
    from_typer.show(file=shown)
    text = shown.getvalue().rstrip()
    for pattern, ours in PLAIN_WORDS:
        text = pattern.sub(ours, text)
    usage, separator, what = text.rpartition("Error: ")
    if not separator:  # a help text, as no arguments were given
        typer.echo(text, err=True)
        return int(from_typer.exit_code)
    typer.echo(usage, err=True, nl=False)
    name = from_typer.ctx.info_name if getattr(from_typer, "ctx", None) else ""
    if name == "run" and "No such option" in what:
        what += (
            "\nOptions of the command itself come after --, such as: cluster run mine -- uname -a"
        )
    if name == "program" and "extra argument" in what:
        what += "\nGive the command as one argument: --command 'hostname -f'"
    print_error(what)
    return int(from_typer.exit_code)
