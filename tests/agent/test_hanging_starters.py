"""A starter that waits for ever: the job ends, and says what it waits for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.agent.protocol import PROGRESS, REASON, TIMED_OUT
from tests.conftest import write_program
from tests.snapshots import Snapshot

# It refuses other words than those that the job gives it.
HANGS = """\
#!/bin/sh
[ "$*" = "--overlap --mpi=pmix rank" ] || exit 64
{first}
exec sleep 600
"""
BEGIN = "import sys; from cluster.agent import supervise; supervise.BEGIN_WITHIN = "
RUN = "; sys.exit(supervise.run_job(float(sys.argv[1]), sys.argv[2:]))"


def run_job(folder: Path, seconds: float, name: str, first: str = "", begin: float = 0.5) -> int:
    """Run a job whose starter hangs, with so many seconds to begin."""
    programs = folder / "bin"
    write_program(programs / name, HANGS.format(first=first))
    words = [
        sys.executable,
        "-c",
        f"{BEGIN}{begin}{RUN}",
        f"{seconds:g}",
        name,
        "--overlap",
        "--mpi=pmix",
        "rank",
    ]
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(words, cwd=folder, env=env, check=False, timeout=60).returncode


@pytest.mark.parametrize("name", ["srun", "aprun"])
def test_a_starter_that_starts_no_rank_is_ended_and_named(
    snapshot: Snapshot, tmp_path: Path, name: str
) -> None:
    assert run_job(tmp_path, 60, name) == TIMED_OUT
    reason = (tmp_path / REASON).read_text()
    snapshot(reason)


def test_a_starter_whose_rank_0_has_begun_has_all_of_its_time(tmp_path: Path) -> None:
    """8 s: a shell on a busy machine has 4 of them to write a line."""
    progress = '{"done":1,"total":2,"what":"latency"}'
    first = f"echo '{progress}' > {PROGRESS}"
    assert run_job(tmp_path, 8, "srun", first, begin=4) == TIMED_OUT
    reason = (tmp_path / REASON).read_text()
    assert "--timeout" in reason
    assert "50%" in reason
