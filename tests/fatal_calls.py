"""Commands before the real ones on the PATH, one of whose calls kills the process that made it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import write_program

# Writes each call in a line, and kills who made the chosen one: before it, or after it did
# everything, when its answer is lost.
WRAPPER = """\
#!/bin/sh
echo "{name} $(echo "$*" | tr '\\n' ' ')" >> "$FATAL_CALLS/lines"
if [ "{name} $(grep -c "^{name} " "$FATAL_CALLS/lines")" = "$(cat "$FATAL_CALLS/call")" ]; then
  [ "$(cat "$FATAL_CALLS/when")" = before ] || {program} "$@" > /dev/null 2>&1
  kill -9 $PPID
  exit 1
fi
exec {program} "$@"
"""


class FatalCalls:
    """The calls of such commands, and the choice of the one that kills."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
        self.folder = folder
        for name in commands:
            program = shutil.which(name)
            write_program(folder / name, WRAPPER.format(name=name, program=program))
        monkeypatch.setenv("FATAL_CALLS", str(folder))
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.choose("", "before")

    def choose(self, call: str, when: str) -> None:
        """Choose the call, such as `squeue 2`: the second one; or none. The count begins again."""
        (self.folder / "lines").write_text("")
        (self.folder / "call").write_text(call)
        (self.folder / "when").write_text(when)

    def calls_of(self, do: Callable[..., None], *words: str) -> list[str]:
        """Return the calls of a function, none of which kills."""
        self.choose("", "before")
        do(*words)
        return self.calls()

    def lines(self) -> list[str]:
        """Return the calls with their arguments."""
        return (self.folder / "lines").read_text().splitlines()

    def calls(self) -> list[str]:
        """Return the calls as `choose` takes them."""
        names = [line.partition(" ")[0] for line in self.lines()]
        return [f"{name} {names[: index + 1].count(name)}" for index, name in enumerate(names)]
