"""How a command line is carried out: its flags, its errors as messages, and signals."""

import io
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click
from click.exceptions import Abort, Exit
from click.shell_completion import get_completion_class, shell_complete

from cluster.cli import overview, signals, terminal
from cluster.cli.flags import CommandGroup, call, make_command
from cluster.cli.overview import FAILED, INTERRUPTED, REFUSED, TERMINATED
from cluster.cli.terminal import printable, write_log
from cluster.core.errors import ClusterError, SpecError
from cluster.core.messages import for_command_line
from cluster.core.version import __version__

SETTINGS = {"help_option_names": ["-h", "--help"]}
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


def start(*launchers: Callable[..., None] | click.Command, what: str | None = None) -> NoReturn:
    """Run a launcher script: `cli.flags` on parameters are flags, several functions verbs."""
    commands = [
        launcher
        if isinstance(launcher, click.Command)
        else make_command(launcher.__name__, launcher)
        for launcher in launchers
    ]
    [app, *more] = commands
    for launcher in commands:
        launcher.context_settings.update(SETTINGS)
    if more or what:
        app = CommandGroup(
            help=what, commands=commands, no_args_is_help=True, context_settings=SETTINGS
        )
    run(app)


def run(app: click.Command) -> NoReturn:
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


def _call(app: click.Command, how_much: int) -> NoReturn:
    """Call a command; an error becomes a message and an exit status."""
    events = signals.handle()
    try:
        terminal.configure(how_much)
        status = _status(app)
        is_terminated = events and events[0].number == signal.SIGTERM
        sys.exit(TERMINATED if is_terminated and status == INTERRUPTED else status or 0)
    except click.ClickException as error:
        sys.exit(print_misuse(error))
    except Abort:
        sys.stderr.write("Aborted.\n")
        sys.exit(FAILED)
    except (ClusterError, OSError) as error:
        print_error(error_words(error))
        sys.exit(REFUSED if isinstance(error, SpecError) else FAILED)


def _status(app: click.Command) -> int:
    name = "cluster" if isinstance(app, TopCommands) else Path(sys.argv[0]).name
    shell = os.environ.get(COMPLETE)
    if shell and isinstance(app, TopCommands):
        return shell_complete(app, {}, "cluster", COMPLETE, shell)
    try:
        return call(app, name, sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED


def canonical_arguments(argv: Sequence[str]) -> list[str]:
    """Return arguments, up to `--`, in the current spelling of flags: `--iterations=5`."""
    end = list(argv).index("--") if "--" in argv else len(argv)
    following = [*argv[1:end], ""]
    words = []
    for word, after in zip(argv, following, strict=False):
        flag, equals, value = word.partition("=")
        meaning, beginning = BARE_FLAGS.get(word, ("", ""))
        if meaning and not re.match(beginning, after):
            words.append(f"{word}={meaning}")
        else:
            words.append(OTHER_SPELLINGS.get(flag, flag) + equals + value)
    return [*words[:end], *argv[end:]]


def error_words(error: Exception) -> str:
    """Return what an error says, one of the system with its file."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'output'}"
    return str(error)


def print_error(text: str) -> None:
    """Print an error; where there are colours, its first word is red."""
    from rich.text import Text  # noqa: PLC0415 - most commands end without an error

    from cluster.cli.console import console  # noqa: PLC0415

    write_log(text, logging.ERROR)
    screen, text = console(stderr=True, quiet=False), printable(text)
    text = break_lists(text, screen.width - len("Error: ")) if screen.is_terminal else text
    screen.print(Text.assemble(("Error:", "bold red"), f" {text}"), soft_wrap=True)


def break_lists(text: str, width: int) -> str:
    """Break long lines after commas; others stay whole, so that a command can be copied."""
    lines: list[str] = []
    for line in text.splitlines():
        first, *rest = line.split(", ")
        lines.append(first)
        for word in rest:
            if len(f"{lines[-1]}, {word},") > width:
                lines[-1] += ","
                lines.append(word)
            else:
                lines[-1] += f", {word}"
    return "\n".join(lines)


def print_misuse(error: click.ClickException) -> int:
    """Print what is wrong with a command line, in cluster's words."""
    page = io.StringIO()
    error.show(file=page)
    usage, separator, message = page.getvalue().rstrip().rpartition("Error: ")
    if not separator:  # a help text, as no arguments were given
        click.echo(message, err=True)
        return error.exit_code
    click.echo(usage, err=True, nl=False)
    message = message.removeprefix("Invalid value for ")
    context = getattr(error, "ctx", None)
    name = context.info_name if context else ""
    if name == "run" and isinstance(error, click.NoSuchOption):
        message += (
            "\nOptions of the command itself come after --, such as: cluster run mine -- uname -a"
        )
    if name == "program" and "extra argument" in message:
        message += "\nGive the command as one argument: --command 'hostname -f'"
    print_error(message)
    return error.exit_code


class Commands(CommandGroup):
    """The commands of a folder, each imported when it is looked up."""

    def __init__(self, name: str, folder: str = "", **how: Any) -> None:  # noqa: ANN401 - click's
        self._place = overview.FOLDER / folder
        commands = dict.fromkeys(overview.names(self._place), click.Command(None))
        super().__init__(name, commands, no_args_is_help=True, context_settings=SETTINGS, **how)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.commands:
            return None
        folder = self._place.relative_to(overview.FOLDER).parts
        module = import_module(
            ".".join(("cluster.cli.commands", *folder, overview.module(cmd_name)))
        )
        command = module.command
        if isinstance(command, click.Command):
            return command
        return make_command(cmd_name, command, module.__doc__)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(c, overview.summary(c, self._place)) for c in self.commands])


class TopCommands(Commands):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say of a command that is under `more` where it is; `jobs` is the table of `status`."""
        name = args[0]
        if name == "jobs":
            return super().resolve_command(ctx, ["status", *args[1:]])
        if name not in self.commands and name in overview.names(overview.FOLDER / "more"):
            ctx.fail(f"No such command {name!r}. It is under `more`: cluster more {name}")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:  # noqa: ARG002 - as click has it
        return overview.help_text()


def _show_version(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - as click has it
    if value:
        sys.stdout.write(f"cluster {__version__}\n")
        raise Exit


def _complete(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    """Print what completes words in the user's shell, or write it where the shell finds it."""
    if not value:
        return
    shell = Path(os.environ.get("SHELL", "bash")).name
    kind = get_completion_class(shell)
    if kind is None or shell not in COMPLETIONS:
        raise SpecError(
            f"{shell} has no completion.", remedy=f"There is one for: {', '.join(COMPLETIONS)}"
        )
    text = kind(ctx.command, {}, "cluster", COMPLETE).source()
    if param.name == "show_completion":
        sys.stdout.write(text)
        raise Exit
    path, settings = COMPLETIONS[shell]
    script = Path.home() / path
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text, encoding="utf-8")
    if settings:
        with (Path.home() / settings).open("a+", encoding="utf-8") as file:
            file.seek(0)
            if (line := f"source '{script}'\n") not in file.read():
                file.write(line)
    sys.stdout.write(f"{shell} completes cluster's words in new terminals: {script}\n")
    raise Exit


COMPLETE = "_CLUSTER_COMPLETE"  # the environment variable with which a shell asks
COMPLETIONS = {  # the file that completes, and the settings that read it; fish reads it itself
    "bash": (".bash_completions/cluster.sh", ".bashrc"),
    "zsh": (".zfunc/cluster.zsh", ".zshrc"),
    "fish": (".config/fish/completions/cluster.fish", ""),
}
app = TopCommands(
    "cluster",
    params=[
        click.Option([flag], is_flag=True, expose_value=False, is_eager=True, callback=act)
        for flag, act in (
            ("--version", _show_version),
            ("--install-completion", _complete),
            ("--show-completion", _complete),
        )
    ],
)
