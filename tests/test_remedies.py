"""Each command that a message or an answer says to type exists, with each of its flags."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import click
import pytest

from cluster.cli.command_line import app
from tests.test_house import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

# A command begins a text or a line, or is behind a colon or a semicolon, or in quotes.
COMMAND = re.compile(
    r"""(?:^|[:;`(]\s*|\bor )cluster ((?:(?! or |, |; |\. |: )[^\n`;()'"])+)""", re.MULTILINE
)
PROSE = ("configuration", "does", "has", "installs")  # what follows the word in sentences
UNKNOWN = "VALUE"  # in place of what is only known when the message is made


def texts(tree: ast.AST) -> Iterator[str]:
    """Find all texts of a module; in those with values, `UNKNOWN` stands for each of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else UNKNOWN for p in node.values)
            yield "".join(map(str, parts))


def commands() -> list[str]:
    found = {
        match.strip().rstrip(".?'\"")
        for tree in trees(("cluster", "benchmarks")).values()
        for text in texts(tree)
        for match in COMMAND.findall(text)
    }
    return sorted(line for line in found if not line.startswith((UNKNOWN, *PROSE)))


def mistake(line: str) -> str:
    """Say what does not exist of a command line without `cluster`; empty if all of it does."""
    command: click.Command = app
    words = line.split()
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if not re.fullmatch(r"[a-z0-9_-]+", name):
            return ""  # a placeholder, such as COMMAND
        if name not in command.list_commands(click.Context(command)):
            return "" if command.name == "watch" else f"no command {name}"  # or a cluster's name
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    if isinstance(command, click.Group) or command.name == "script":
        return ""  # flags of any benchmark
    flags = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)} | {"--help"}
    given = (word.partition("=")[0].rstrip(".,") for word in words[: _own(words)])
    wrong = [word for word in given if re.fullmatch(r"--[a-z-]+", word) and word not in flags]
    return f"{command.name} has no {wrong[0]}" if wrong else ""


def _own(words: list[str]) -> int:
    """Return how many words are the command's own; those behind `--` are of a program."""
    return words.index("--") if "--" in words else len(words)


@pytest.mark.parametrize("line", commands())
def test_what_a_message_says_to_type_exists(line: str) -> None:
    assert not mistake(line)


def test_a_command_that_does_not_exist_is_found() -> None:
    assert mistake("bench p2p --sizs 8") == "p2p has no --sizs"
    assert mistake("benhc p2p") == "no command benhc"
    assert len(commands()) > 100
