"""Pages of the command: every command's help, exit statuses, environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tables import page, table

from cluster.cli.command_line import app
from cluster.cli.commands.bench import ALL
from cluster.cli.overview import STATUSES, groups
from cluster.core.environment_variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 100
STATUS_TEXT = """
`cluster run` and `cluster wait` end with the status of the command or job. All other commands end
with one of these; `--fail-on` is explained in [gates in CI](../how-to/ci.md).
"""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the pages."""
    yield "reference/commands.md", _commands()
    yield "reference/exit-statuses.md", _exit_statuses()
    yield "reference/environment-variables.md", _variables()


def commands() -> Iterator[tuple[str, Any]]:
    """Walk all commands in the order of use."""
    context = app.make_context("cluster", [], resilient_parsing=True)
    context.max_content_width = context.terminal_width = WIDTH
    for names in groups().values():
        for name in names:
            yield from _walk(app, name, context)


def _walk(group: Any, name: str, above: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - click's own types
    command = group.get_command(above, name)
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
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


def _exit_statuses() -> str:
    rows = table(("status", "meaning"), STATUSES.items())
    return page("Exit statuses", STATUS_TEXT, rows)


def _variables() -> str:
    rows = table(
        ("variable", "default", "meaning"),
        ((f"`{name}`", *texts) for name, texts in VARIABLES.items()),
    )
    return page("Environment variables", "What each does, and what counts if it is not set.", rows)
