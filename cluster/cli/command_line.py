"""How a command line is carried out: its flags, its errors as messages, and signals."""

from __future__ import annotations

import re
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from cluster.cli import signals, streams, verbosity
from cluster.cli.errors import Misuse, print_error, print_misuse
from cluster.cli.exit_statuses import FAILED, INTERRUPTED, REFUSED, TERMINATED
from cluster.core.errors import ClusterError, SpecError
from cluster.core.messages import for_command_line

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
    words, how_much = verbosity.take_flags(sys.argv[1:])
    sys.argv[1:] = canonical_arguments(words)
    streams.make_safe()
    with for_command_line():
        try:
            _call(app, how_much)
        except SystemExit as end:
            verbosity.write_log(f"exit status {end.code or 0}")
            raise


def _call(app: typer.Typer, how_much: int) -> NoReturn:
    """Call a command; an error becomes a message and an exit status."""
    received = signals.handle()
    try:
        verbosity.configure(how_much)
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
