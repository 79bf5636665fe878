"""What commands print fits the terminal, and no number is torn apart by its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from typing import TYPE_CHECKING

import pytest

from cluster.cli import show
from cluster.cli.app import app
from tests.conftest import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

NUMBER = re.compile(r"\d[\d.]*")
SWEEP = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n" + "".join(
    f"{2**n:<12} {{}}{1.25 + 2**n / 1e4:.2f}\n" for n in range(0, 23, 2)
)
COMMANDS = (
    ("show", "a"),
    ("judge", "a"),
    ("runs",),
    ("ls",),
    ("compare", "a", "b"),
    ("fit", "a"),
    ("sql", "select run, metric, size, median from summaries limit 5"),
    ("gc",),
)


@pytest.fixture
def runs(home: Path) -> None:
    for name, digit in (("a", ""), ("b", "1")):
        log = home / f"{name}.log"
        log.write_text(SWEEP.replace("{}", digit))
        run("import", str(log), "--name", name)


def run(*words: str) -> None:
    """Run a command in this process."""
    with contextlib.suppress(SystemExit):
        assert not app(list(words), standalone_mode=False)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_lines_fit_and_numbers_stay_whole(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is torn apart leaves pieces that are no numbers of the wide output."""
    capsys.readouterr()
    run(*words)
    whole = set(NUMBER.findall(capsys.readouterr().out))
    for width in (40, 80, 120, 200):
        monkeypatch.setattr(show, "screen_width", lambda width=width: width)
        monkeypatch.setattr("cluster.cli.compare.screen_width", lambda width=width: width)
        run(*words)
        out = capsys.readouterr().out
        # Half of an interval is only in narrow tables.
        assert set(NUMBER.findall(re.sub(r"±\S+", "", out))) - {"2"} <= whole, width
        for line in out.splitlines():
            assert len(line) <= width or len(line.split()) <= 2, (width, line)


@pytest.mark.usefixtures("runs")
def test_a_terminal_of_80_columns_has_a_table_of_fewer_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS")
    narrow, wide = on_terminal(80, "show", "a"), on_terminal(80, "show", "a", "--wide")

    assert "median ± half-CI" in narrow
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in narrow.splitlines())
    assert "p99" not in wide, "one value each has no percentiles"
    assert "95% CI, this launch" in wide


def on_terminal(width: int, *words: str) -> str:
    """Run a command on a terminal of so many columns."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen([COMMAND, *words], stdout=terminal, env=environment) as process:
        os.close(terminal)
        shown = b""
        while piece := _read(controller):
            shown += piece
    os.close(controller)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode().replace("\r\n", "\n"))


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # the other end is closed
        return b""
