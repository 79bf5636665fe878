"""The suite itself: what a killed run leaves, and what `scripts/test --clean` does about it."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import clean
from tests.conftest import COMMAND, ROOT, run, until, write_program
from tests.forked import put_command
from tests.in_process import run_here

ENDS = "n = int(sys.argv[2]); os.kill(os.getpid(), -n) if n < 0 else sys.exit(n)"
READ_ONLY = 'mount -t tmpfs -o ro tmpfs /sys/fs/cgroup && exec "$@"'
WITHOUT_GROUPS = ("unshare", "--mount", "sh", "-c", READ_ONLY, "sh")
ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def of_run(leader: int) -> list[str]:
    """Return the command lines of the processes that have the mark of a run, but for its leader."""
    lines = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f":{leader}:" in (path / "environ").read_text(errors="replace"):
                lines.append((path / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in lines if line]


@pytest.mark.parametrize("setting", ["", "NO_COLOR=1"])  # forked, and started anew
def test_a_shell_sees_of_a_forked_script_what_it_would_see(tmp_path: Path, setting: str) -> None:
    """Its output, its exit status and the signal that ended it."""
    script = tmp_path / "script"
    script.write_text("import os, sys; print(*sys.argv[1:]); sys.stdout.flush(); " + ENDS)
    (tmp_path / "bin").mkdir()
    shell = put_command(str(script), tmp_path / "bin")
    for how, status in (("0", 0), ("3", 3), ("-9", 128 + 9)):
        result = run(
            "bash", "-c", f"{setting} script 'a b' {how} | cat; echo ${{PIPESTATUS[0]}}", **shell
        )
        assert result.stdout == f"a b {how}\n{status}\n"


OF_A_MOMENT = r"\S*\d{8}T\d{6}Z\S*"  # the id of a run
LOG = str(ROOT / "tests" / "logs" / "nccl_tests.hopper.txt")


@pytest.mark.parametrize(
    ("words", "text", "status"),
    [
        (("judge", LOG), "", 0),
        (("judge", LOG, "--json"), "", 0),
        (("judge", "-"), Path(LOG).read_text(), 0),
        (("show", "nothing"), "", 2),
        (("show", "--unknown"), "", 2),
        (("compare", "--help"), "", 0),
    ],
    ids=lambda value: " ".join(value)[-20:] if isinstance(value, tuple) else "",
)
def test_a_command_in_the_process_of_a_test_is_the_same(
    words: tuple[str, ...], text: str, status: int
) -> None:
    """Its exit status and both of its streams, and what is left of it in that process: nothing."""
    before = (sys.argv, sys.stdin, sys.stdout, sys.stderr)
    local = run_here(*words, text=text)
    assert before == (sys.argv, sys.stdin, sys.stdout, sys.stderr)
    other = run(sys.executable, COMMAND, *words, status=status, input=text)

    texts = [re.sub(OF_A_MOMENT, "", end.stdout + end.stderr) for end in (local, other)]
    assert (local.returncode, texts[0]) == (status, texts[1])
    assert bool(local.stderr) == bool(other.stderr)


@pytest.mark.usefixtures("possible_hosts")
def test_a_run_that_is_killed_in_the_middle_of_a_lab_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "-q"]
    words += ["tests/lab/test_hosts_of_the_lab.py", "-k", "test_the_verbs_take_effect"]
    env = {k: v for k, v in os.environ.items() if k not in (clean.MARK, "PYTEST_XDIST_WORKER")}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            words, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        until(lambda: any("/lab/init" in line for line in of_run(process.pid)), "a lab is there")
        os.killpg(process.pid, signal.SIGKILL)

    until(lambda: not of_run(process.pid), "all of its processes are gone")
    assert [folder.exists() for folder in clean.folders()] == [True]
    assert clean.clean() == (0, 1)
    assert clean.folders() == []


def test_what_namespaces_did_not_take_is_ended_by_its_mark() -> None:
    """And what belongs to a run that goes on, or to nobody, is left alone."""
    if run(*ALONE, "true", status=None).returncode != 0:
        pytest.skip("it needs a process namespace of its own")
    script = f"""
      here=$(readlink /proc/self/ns/pid)
      CLUSTER_TESTS=$here:999999:1 sleep 600 & dead=$!
      CLUSTER_TESTS=$here:1:$(cut -d' ' -f22 /proc/1/stat) sleep 600 & alive=$!
      CLUSTER_TESTS=elsewhere:999999:1 sleep 600 & elsewhere=$!
      sleep 600 & nobody=$!
      env -u CLUSTER_TESTS {shlex.quote(sys.executable)} -m tests.clean
      for pid in $dead $alive $elsewhere $nobody; do
        [ -d /proc/$pid ] && ! grep -q ' Z ' /proc/$pid/stat && echo there || echo gone
      done
    """
    env = {k: v for k, v in os.environ.items() if k != clean.MARK}
    result = run(*ALONE, "sh", "-c", script, cwd=ROOT, env=env)
    assert result.stdout.split("\n")[1:-1] == ["gone", "there", "there", "there"]


PYTEST = """#!/bin/sh
case "$*" in
  *tests.clean*) exit 0 ;;
  *"-m not ("*) exit $SIDE_BY_SIDE ;;
  *"-m network"*) exit $NETWORK ;;
  *"-m timed"*) exit $TIMED ;;
  *"-m serial"*) exit $SERIAL ;;
  *) exit $ALONE ;;
esac
"""


@pytest.mark.parametrize(
    ("by_pytest", "status"),
    [
        ((5, 5, 5, 5, 5), 5),  # `-k` with a typo
        ((0, 5, 5, 5, 5), 0),
        ((5, 0, 5, 5, 5), 0),
        ((5, 5, 0, 5, 5), 0),
        ((5, 5, 5, 0, 5), 0),
        ((5, 5, 5, 5, 0), 0),
        ((1, 0, 5, 0, 0), 1),
        ((5, 2, 0, 5, 5), 2),
        ((0, 0, 0, 1, 5), 1),
        ((0, 0, 1, 0, 5), 1),
        ((0, 5, 5, 5, 1), 1),
    ],
)
@pytest.mark.parametrize("prefix", [(), WITHOUT_GROUPS], ids=["groups", "no groups"])
def test_a_selection_fails_if_a_test_of_it_does_or_if_it_has_none(
    tmp_path: Path, by_pytest: tuple[int, ...], status: int, prefix: tuple[str, ...]
) -> None:
    """5 is what pytest says where it finds no test; here each of the five says what it should.

    It is the same where no control group can be made: parts then come after the others.
    """
    for path, text in (
        ("scripts/test", (ROOT / "scripts" / "test").read_text()),
        ("scripts/setup", "#!/bin/sh"),
        ("scripts/check", "#!/bin/sh"),
        (".venv/bin/python", PYTEST),
    ):
        write_program(tmp_path / path, text)
    names = ("SIDE_BY_SIDE", "NETWORK", "TIMED", "SERIAL", "ALONE")
    values = dict(zip(names, map(str, by_pytest), strict=True))

    words = (*prefix, str(tmp_path / "scripts" / "test"), "-k", "x")
    if prefix and run(*prefix, "true", status=None).returncode != 0:
        pytest.skip("it needs mounts of its own")
    result = run(*words, env={**os.environ, **values}, status=None)
    assert result.returncode == status
