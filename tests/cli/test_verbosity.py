"""How much is said: `-q`, `-v`, and the log file of `CLUSTER_LOG`."""

import errno
import os
import re
from pathlib import Path

import pytest

from cluster.cli.console import console
from cluster.cli.terminal import take_flags
from tests.cli.conftest import Typed
from tests.conftest import answer
from tests.snapshots import Snapshot


@pytest.mark.parametrize(
    ("words", "rest", "level"),
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
def test_the_flags_may_come_anywhere_before_two_dashes(words: str, rest: str, level: int) -> None:
    assert take_flags(words.split()) == (rest.split(), level)


def test_quiet_shows_results_and_errors_only(
    snapshot: Snapshot, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    result = typed("-q ls")
    console().print("how far it is")
    console(quiet=False).print("the answer")

    assert (result[0], result[2]) == (0, "")
    assert capsys.readouterr().out == "the answer\n"
    snapshot(typed("-q status nosuch")[2])


def test_verbose_says_what_is_done_and_twice_says_each_command(typed: Typed) -> None:
    status, _, once = typed("-v up mine")
    assert status == 0
    assert "mine: " in once
    assert "here: " not in once
    assert re.search(r"here: .*uname$", typed("-vv run mine -- uname")[2], re.MULTILINE)
    assert "here: " not in typed("run mine -- uname")[2]


def test_a_log_file_has_the_command_and_every_step(
    typed: Typed, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_LOG", str(home / "log"))
    _, out, err = typed("up mine")
    text = (home / "log").read_text()

    assert "INFO cluster: cluster up mine" in text
    assert "INFO cluster.core.state.journal: mine: " in text
    assert "cluster.core.state.journal" not in out + err


def test_a_log_file_that_cannot_be_written_is_refused(
    typed: Typed, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_LOG", str(home / "nowhere" / "log"))
    status, _, error = typed("up mine")

    assert status == 2
    assert os.strerror(errno.ENOENT) in error
    assert "unset CLUSTER_LOG" in error
    monkeypatch.delenv("CLUSTER_LOG")
    assert answer("ls") == [], "nothing was made"
