"""How a command line is carried out: its flags, its errors as messages, and signals."""

from __future__ import annotations

import io
import logging
import re
import signal
import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from cluster.cli import overview, signals, terminal
from cluster.cli.overview import FAILED, INTERRUPTED, REFUSED, TERMINATED
from cluster.cli.terminal import write_log
from cluster.core.errors import ClusterError, SpecError
from cluster.core.messages import for_command_line
from cluster.core.printable import printable
from cluster.core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What a flag means when no value follows: --placement is 1, as in the founding program.
BARE_FLAGS = {"--placement": ("1", r"(?!-)."), "--profile": ("own", "/")}  # and how values begin
OTHER_SPELLINGS = {  # of the founding programs; help shows only the current ones
    "--data-size-mb": "--data-mb",
    "--instance-type": "--instance",
    "--iters": "--iterations",
    "--num-iters": "--iterations",
    "--num-machines": "--hosts",
    "--run-locally": "--run-local",
    "--size-mb": "--data-mb",
    "--world-size": "--hosts",
}


def start(*launchers: Callable[..., None], what: str | None = None) -> NoReturn:
    """Run a launcher script: parameters become flags, docstrings the help.

    Args:
        launchers: functions whose parameters are annotated with `cluster.cli.flags`; if there are
            several, the name of each is a verb.

    """
    app = typer.Typer(
        help=what, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    for launcher in launchers:
        app.command()(launcher)
    run(app)


def run(app: typer.Typer) -> NoReturn:
    """Carry out this process's command line, and end with its exit status."""
    words, how_much = terminal.take_flags(sys.argv[1:])
    sys.argv[1:] = canonical_arguments(words)
    terminal.make_safe()
    with for_command_line():
        try:
            _call(app, how_much)
        except SystemExit as end:
            terminal.write_log(f"exit status {end.code or 0}")
            raise


def _call(app: typer.Typer, how_much: int) -> NoReturn:
    """Call a command; an error becomes a message and an exit status."""
    received = signals.handle()
    try:
        terminal.configure(how_much)
        status = app(standalone_mode=False)
        terminated = received and received[0].number == signal.SIGTERM
        sys.exit(TERMINATED if terminated and status == INTERRUPTED else status or 0)
    except Misuse as error:
        sys.exit(print_misuse(error))
    except typer.Abort:
        sys.stderr.write("Aborted.\n")
        sys.exit(FAILED)
    except ClusterError as error:
        print_error(str(error))
        sys.exit(REFUSED if isinstance(error, SpecError) else FAILED)
    except OSError as error:
        print_error(f"{error.strerror or error}: {error.filename or 'output'}")
        sys.exit(FAILED)


def canonical_arguments(argv: Sequence[str]) -> list[str]:
    """Replace other spellings of flags by the current ones, and give bare flags their value.

    Args:
        argv: the arguments, such as `--num-iters=5 --placement`; those after `--` belong to
            another program.

    Returns:
        The same arguments in the current spelling: `--iterations=5 --placement=1`.

    """
    ours = list(argv).index("--") if "--" in argv else len(argv)
    following = [*argv[1:ours], ""]
    spelled = [
        _canonical_argument(word, after) for word, after in zip(argv, following, strict=False)
    ]
    return [*spelled[:ours], *argv[ours:]]


def _canonical_argument(word: str, after: str) -> str:
    flag, equals, value = word.partition("=")
    if word in BARE_FLAGS:
        meaning, beginning = BARE_FLAGS[word]
        if not re.match(beginning, after):
            return f"{word}={meaning}"
    return OTHER_SPELLINGS.get(flag, flag) + equals + value


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


class _Commands(UserDict[str, Any]):
    """Commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer's own type
        super().__getitem__(name)
        module = import_module(f"cluster.cli.commands.{overview.module(name)}")
        found = module.command
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command(name, help=module.__doc__)(function)
        command = get_command(found)
        command.name = name
        return command


class Commands(TyperGroup):
    """All commands."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**settings)
        self.commands = _Commands(dict.fromkeys(overview.names()))

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401, ARG002 - typer's own type
        """Return the help that lists all commands."""
        return overview.help_text()


app = typer.Typer(
    name="cluster",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Handle the options that belong to no command."""
    if version:
        sys.stdout.write(f"cluster {__version__}\n")
        raise typer.Exit
