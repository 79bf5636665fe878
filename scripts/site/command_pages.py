"""The page of the command: the help of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tables import page

from cluster.cli.command_line import app
from cluster.cli.commands.bench import ALL
from cluster.cli.overview import groups

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 100


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page."""
    yield "reference/commands.md", _commands()


def commands() -> Iterator[tuple[str, Any]]:
    """Walk all commands in the order of use."""
    context = app.make_context("cluster", [], resilient_parsing=True)
    context.max_content_width = context.terminal_width = WIDTH
    for names in groups().values():
        for name in names:
            yield from _walk(app, name, context)


def _walk(group: Any, name: str, parent: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - click's own types
    command = group.get_command(parent, name)
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.params[ALL] = True  # every flag of a benchmark
    yield context.command_path, context
    for inner in getattr(command, "list_commands", lambda _: ())(context):
        yield from _walk(command, inner, context)


def _commands() -> str:
    parts = []
    helps = {path: context.get_help() for path, context in commands()}
    for title, names in groups().items():
        parts.append(f"## {title}\n")
        for path, text in helps.items():
            if path.split()[1] in names:
                parts.append(f"### {path}\n\n```text\n{text}\n```\n")
    return page("Commands", "What `--help` prints, command by command.", *parts)
