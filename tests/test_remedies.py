"""Each command that a message or an answer says to type exists, with each of its flags."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from click.exceptions import Exit

from cluster.cli.command_line import app, canonical_arguments
from cluster.core.errors import ClusterError
from tests.conftest import answer, command
from tests.snapshots import Snapshot
from tests.test_house import trees

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


@cache
def commands() -> list[str]:
    """Return the command lines in all texts; not where tests are collected, in each worker."""
    lines = {
        match.strip().rstrip(".?'\"")
        for tree in trees(("cluster", "benchmarks")).values()
        for text in texts(tree)
        for match in COMMAND.findall(text)
    }
    return sorted(line for line in lines if not line.startswith((UNKNOWN, *PROSE)))


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
        child = command.get_command(click.Context(command), name)
        assert child is not None
        command = child
    if isinstance(command, click.Group) or command.name == "script":
        return ""  # flags of any benchmark
    flags = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)} | {"--help"}
    options = (word.partition("=")[0].rstrip(".,") for word in words[: _count_own(words)])
    wrong = [word for word in options if re.fullmatch(r"--[a-z-]+", word) and word not in flags]
    return f"{command.name} has no {wrong[0]}" if wrong else ""


def _count_own(words: list[str]) -> int:
    """Return how many words are the command's own; those behind `--` are of a program."""
    return words.index("--") if "--" in words else len(words)


def test_what_a_message_says_to_type_exists() -> None:
    assert {line: why for line in commands() if (why := mistake(line))} == {}


def refusal(line: str) -> str:
    """Return why the values of a command line are refused; empty if they are accepted."""
    command: click.Command = app
    words = canonical_arguments(shlex.split(line))
    try:
        while isinstance(command, click.Group) and words:
            name, child, words = command.resolve_command(click.Context(command), words)
            assert child is not None
            assert name is not None
            command = child
        command.make_context(command.name, words)
    except (click.MissingParameter, click.BadOptionUsage, click.NoSuchOption):
        return ""  # the text mentions a part of it
    except (click.BadParameter, ClusterError) as error:
        return str(error)
    except (click.UsageError, Exit):
        return ""
    return ""


def test_values_of_what_a_message_says_to_type_are_accepted() -> None:
    whole = [line for line in commands() if not re.search(r"[A-Z]{3,}|\.\.\.|['\"{<\[%]", line)]

    assert {line: why for line in whole if (why := refusal(line))} == {}
    assert len(whole) > 90


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    "words",
    [
        ("p2p", "--metrics", "latency", "--sizes", "8"),
        ("p2p", "--metrics", "bandwidth", "--sizes", "8"),
        ("collectives", "--operations", "allreduce", "--sizes", "8"),
    ],
)
def test_the_next_step_of_an_answer_can_be_typed(words: tuple[str, ...], home: Path) -> None:
    command("bench", *words, "--iterations", "10", "--run-local", "--launches", "1")
    step = answer("judge", "latest")["next_command"]

    assert step[:2] in (["cluster", "bench"], ["cluster", "compare"])
    if step[1] == "compare":  # other processes run here, so the same is measured again
        command(*step[1:])
    elif "ssh" in step:  # to hosts that the user knows: as far as that
        assert "HOST1" in command(*step[1:], status=None).stderr
    else:
        command(*step[1:], "--iterations", "3", "--launches", "1")


def test_a_value_that_is_not_accepted_is_found() -> None:
    assert "whole number" in refusal("bench p2p --hosts many")


def test_a_command_that_does_not_exist_is_found(snapshot: Snapshot) -> None:
    snapshot(mistake("bench p2p --sizs 8"))
    snapshot(mistake("benhc p2p"))
    assert len(commands()) > 100
