"""Answers as a whole, one file per folder of tests; `SNAPSHOTS=write` writes what differs."""

import fcntl
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

E = TypeVar("E", bound=Exception)
FILE = "answers.snap"
HEAD = re.compile(r"^=== (.+)\n", re.MULTILINE)
RUN = re.compile(r"\d{8}T\d{6}Z")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?")


def read(path: Path) -> dict[str, str]:
    """Return the text of each answer that a file keeps, by module, test and number."""
    parts = HEAD.split(path.read_text(encoding="utf-8"))[1:] if path.exists() else []
    return dict(zip(parts[::2], parts[1::2], strict=True))


class Snapshot:
    """The answers of one test, held against those that are kept."""

    def __init__(self, path: Path, test: str, home: str) -> None:
        self.path, self.test, self.home = path, test, home
        self.count = 0

    def __call__(self, answer: str | Iterable[str]) -> None:
        """Hold the next answer, a text or its lines, against the one that is kept."""
        self.count += 1
        key = f"{self.test} {self.count}"
        text = answer if isinstance(answer, str) else "\n".join(answer)
        for volatile, name in ((self.home, "HOME"), (sys.executable, "PYTHON")):
            text = text.replace(volatile, name)
        text = TIME.sub("TIME", RUN.sub("RUN", text)).rstrip("\n") + "\n"
        text = text.replace(time.strftime("%Y-%m-%d"), "TODAY")
        if os.environ.get("SNAPSHOTS") == "write":
            with self.path.open("a", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # workers write side by side
                answers = sorted({**read(self.path), key: text}.items())
                self.path.write_text("".join(f"=== {k}\n{v}" for k, v in answers), encoding="utf-8")
        else:
            expected = read(self.path).get(key)
            assert text == expected, f"{self.path} has another {key}: SNAPSHOTS=write"

    @contextmanager
    def raises(self, kind: type[E]) -> Iterator[pytest.ExceptionInfo[E]]:
        """Hold what an error says, whose class is that one, against what is kept."""
        with pytest.raises(kind) as refused:
            yield refused
        self(str(refused.value))


@pytest.fixture
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshot:
    """Return what holds a test's answers against those in the file of its folder."""
    name = f"{request.path.name}::{request.node.name}"
    return Snapshot(request.path.with_name(FILE), name, str(tmp_path))
