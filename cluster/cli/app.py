"""The commands; each is imported when it is used, from where `overview` says it is."""

from __future__ import annotations

import sys
from collections import UserDict
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from cluster.cli import overview
from cluster.core.version import __version__


class _Commands(UserDict[str, Any]):
    """Commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer's own type
        module, _, place = self.data[name].partition(":")
        found = getattr(import_module(f"cluster.cli.{module}"), place)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command(name)(function)
        command = get_command(found)
        command.name = name
        return command


class Commands(TyperGroup):
    """All commands."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**settings)
        places = (place for group in overview.GROUPS.values() for place in group.items())
        self.commands = _Commands(places)

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
