"""scripts/fresh: what it says about a command that ended, and what it takes along from here."""

import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, run
from tests.snapshots import Snapshot

PRINTED = """
/bin/sh is /bin/dash, built in 2s
tmux is missing, and may not be installed from here: jobs run in its sessions.
Type: sudo apt-get install tmux
Type: sudo apt-get install tmux
FAILED tests/core/test_units.py::test_sizes - assert 1 == 2
SKIPPED [2] tests/conftest.py:71: tmux is missing: apt-get install tmux
SKIPPED [1] tests/test_kernels.py:32: there is no C compiler: apt-get install gcc
SKIPPED [3] tests/conftest.py:71: tmux is missing: apt-get install tmux
== 1 failed, 12 passed, 6 skipped in 61.02s (0:01:01) ==
== 3 passed in 9.00s ==
"""


@pytest.fixture
def fresh() -> Any:
    """Yield the script as a module."""
    loader = SourceFileLoader("fresh", str(ROOT / "scripts" / "fresh"))
    spec = importlib.util.spec_from_loader("fresh", loader)
    assert spec is not None
    sys.modules["fresh"] = module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    yield module
    del sys.modules["fresh"]


def test_the_table_says_how_each_command_ended(fresh: Any, snapshot: Snapshot) -> None:
    test = fresh.CommandResult("user", "scripts/test", 61.5, 1, PRINTED.splitlines(), ["tmux"])
    demo = fresh.CommandResult("user", "scripts/demo", 0.5, 0, ["Fetched 9 kB in 1s"], [])
    lines = fresh.table([test, demo]).splitlines()

    assert lines[0].split() == [*fresh.COLUMNS]
    assert lines[1].split() == ["user", "scripts/test", "61.5", "1", "15", "1", "6", "1"]
    assert lines[2].split() == ["user", "scripts/demo", "0.5", "0", "-", "-", "-", "0"]
    snapshot(lines[3:])


def test_settings_of_pip_go_along_with_the_files_they_name(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are copied to the same place; folders are given back, to be shown inside."""
    index, certificate = tmp_path / "index" / "simple", tmp_path / "own.pem"
    index.mkdir(parents=True)
    certificate.write_text("CERTIFICATE")
    settings = tmp_path / ".pip" / "pip.conf"
    settings.parent.mkdir()
    settings.write_text(f"[global]\nextra-index-url = file://{index}\n")
    monkeypatch.setenv("PIP_CERT", str(certificate))
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)

    assert (index.parent, str(index.parent)) in fresh.settings_of(root)
    assert (root / certificate.relative_to("/")).read_text() == "CERTIFICATE"
    assert str(index) in (root / "etc" / "pip.conf").read_text()


def test_its_help_needs_no_environment() -> None:
    assert "--only {demo,test}" in run(str(ROOT / "scripts" / "fresh"), "--help").stdout


@pytest.fixture
def _handlers() -> Iterator[None]:
    """Have the handlers of signals afterwards that there were before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize("keep", [False, True])
def test_what_is_left_after_ctrl_c_is_said_and_a_second_one_does_not_stop_the_removal(
    fresh: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, keep: bool
) -> None:
    folder, do = tmp_path / "kept", fresh.run_command
    (temporary := tmp_path / "temporary").mkdir()

    def impatient(*words: str) -> None:
        signal.raise_signal(signal.SIGINT)
        do(*words)

    monkeypatch.setattr(sys, "argv", ["fresh", *(["--keep", str(folder)] if keep else [])])
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(fresh, "make_base", lambda *_: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(fresh, "run_command", impatient)
    message = f"what was made is in {folder}" if keep else "nothing is left"
    with pytest.raises(SystemExit, match=rf"Interrupted; {message}\."):
        fresh.main()

    assert folder.exists() == keep
    assert [*temporary.iterdir()] == []
