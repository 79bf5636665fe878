"""What a command imports: --help nothing, and each command only what it needs."""

import sys

import click
import pytest

from cluster.cli import overview
from cluster.cli.command_line import app
from tests.conftest import ROOT, command, run

LOADED = """
import atexit, sys
sys.argv[0] = "cluster"
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from cluster.cli import main
main()
"""


def loaded(*words: str) -> set[str]:
    """Return the modules that a command has loaded by its end."""
    result = run(sys.executable, "-c", LOADED, *words)
    return set(result.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_an_answer_that_needs_no_command_imports_none(flag: str) -> None:
    modules = loaded(flag)

    assert not modules & {"click", "msgspec", "rich", "logging", "json", "numpy"}
    own_modules = {name for name in modules if name.startswith("cluster.")}
    assert own_modules - {"cluster.core.moved"} == {
        *("cluster.cli", "cluster.cli.overview", "cluster.core", "cluster.core.version")
    }


def test_judging_a_log_imports_no_cloud_no_connection_and_no_other_command() -> None:
    modules = loaded("judge", str(ROOT / "tests" / "logs" / "nccl_tests.hopper.txt"))

    foreign = {"boto3", "fabric", "paramiko", "google.cloud", "matplotlib", "rich.progress"}
    assert not modules & foreign
    commands = {name for name in modules if name.startswith("cluster.cli.commands.")}
    assert commands == {f"cluster.cli.commands.{name}" for name in ("judge", "_log_files")}
    prefixes = ("cluster.orchestration.c", "cluster.orchestration.l", "cluster.remote.ssh")
    assert not [name for name in modules if name.startswith((*prefixes, "cluster.fleet"))]


def test_each_line_of_the_help_is_the_first_of_its_command_s_own() -> None:
    """The help reads it from the source, so this imports them all."""
    context = click.Context(app)
    for name in overview.names():
        summary = overview.summary(name)
        command_ = app.get_command(context, name)
        assert command_ is not None
        assert (command_.help or "").startswith(summary), name
        assert summary.endswith("."), name


def test_a_narrow_terminal_breaks_lines_and_cuts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = " ".join(overview.help_text().split())
    monkeypatch.setenv("COLUMNS", "50")

    assert " ".join(overview.help_text().split()) == wide
    assert max(map(len, overview.help_text().partition("\nMeasure:")[2].splitlines())) <= 50


def test_a_command_that_does_not_exist_is_compared_with_all() -> None:
    assert "judge" in command("jugde", status=2).stderr
