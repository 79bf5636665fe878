"""Show the help of a command.

Example: cluster help bench p2p
"""

from typing import Annotated

from click.exceptions import Exit

from cluster.cli.command_line import app
from cluster.cli.flags import argument, call


def command(words: Annotated[list[str] | None, argument("COMMAND")] = None) -> None:
    raise Exit(call(app, "cluster", [*(words or ()), "--help"]))
