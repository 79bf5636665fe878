"""What tests of commands share."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import cli
from cluster.cli import signals, terminal

Typed = Callable[[str], tuple[int, str, str]]
"""Runs a command line in this process; gives the exit status, the output and the errors."""


@pytest.fixture
def typed(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    monkeypatch.setattr(signals, "handle", list)
    monkeypatch.setattr(terminal, "_verbosity", 0)

    def type_(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cluster", *line.split()])
        with _own_handlers(), pytest.raises(SystemExit) as system_exit:
            cli.main()
        out, err = capsys.readouterr()
        return int(system_exit.value.code or 0), out, err

    return type_


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Leave the logger as it was, as the end of a process does."""
    logger = logging.getLogger("cluster")
    handlers, level = list(logger.handlers), logger.level
    yield
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)
