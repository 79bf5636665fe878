"""How much is said: `-q`, `-v`, and the log file of `CLUSTER_LOG`."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from cluster import cli
from cluster.cli import signals, verbosity
from cluster.cli.console import console
from cluster.cli.verbosity import take_flags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Said = tuple[int, str, str]


@pytest.fixture
def typed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Said]:
    """Run a command line in this process; give exit status, output and errors."""
    monkeypatch.setattr(signals, "handle", list)
    monkeypatch.setattr(verbosity, "_verbosity", 0)

    def type_(line: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["cluster", *line.split()])
        with own_handlers(), pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return type_


@contextmanager
def own_handlers() -> Iterator[None]:
    """Leave the logger as it was, as the end of a process does."""
    logger = logging.getLogger("cluster")
    handlers, level = list(logger.handlers), logger.level
    yield
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("words", "kept", "much"),
    [
        ("bench p2p", "bench p2p", 0),
        ("-v bench p2p", "bench p2p", 1),
        ("bench --verbose p2p", "bench p2p", 1),
        ("-v bench -v p2p", "bench p2p", 2),
        ("bench p2p -vv", "bench p2p", 2),
        ("-vv -vv bench", "bench", 2),
        ("bench p2p -q", "bench p2p", -1),
        ("-v bench p2p --quiet", "bench p2p", -1),
        ("run mine -- grep -v x", "run mine -- grep -v x", 0),
        ("-q run mine -- grep -v x", "run mine -- grep -v x", -1),
    ],
)
def test_the_flags_may_come_anywhere_before_two_dashes(words: str, kept: str, much: int) -> None:
    assert take_flags(words.split()) == (kept.split(), much)


def test_quiet_shows_results_and_errors_only(
    typed: Callable[[str], Said], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = typed("-q ls")
    console().print("how far it is")
    console(quiet=False).print("the answer")

    assert shown == (0, "There are no clusters.\n", "")
    assert capsys.readouterr().out == "the answer\n"
    assert "There is no cluster 'nosuch'." in typed("-q status nosuch")[2]


def test_verbose_says_what_is_done_and_twice_says_each_command(
    typed: Callable[[str], Said],
) -> None:
    status, _, once = typed("-v up mine")
    assert status == 0
    assert "mine: " in once
    assert "here: " not in once
    assert "here: uname" in typed("-vv run mine -- uname")[2]
    assert "here: uname" not in typed("run mine -- uname")[2]


def test_a_log_file_has_the_command_and_every_step(
    typed: Callable[[str], Said], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_LOG", str(home / "log"))
    _, out, err = typed("up mine")
    said = (home / "log").read_text()

    assert "INFO cluster: cluster up mine\n" in said
    assert "INFO cluster.core.journal: mine: " in said
    assert "cluster.core.journal" not in out + err


def test_a_log_file_that_cannot_be_written_is_refused(
    typed: Callable[[str], Said], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_LOG", str(home / "nowhere" / "log"))
    status, _, said = typed("up mine")

    assert status == 2
    assert "(CLUSTER_LOG) cannot be written: No such file or directory." in said
    assert "unset CLUSTER_LOG" in said
    monkeypatch.delenv("CLUSTER_LOG")
    assert typed("ls")[1] == "There are no clusters.\n", "nothing was made"
