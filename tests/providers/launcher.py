"""What holds of the founding command, and of a launch that is killed, in any cloud."""

import signal
import subprocess
from typing import Any

from tests.background import only_run, record
from tests.conftest import COMMAND, answer, command, launcher
from tests.fakes.cloud import Emulated


def check_launcher(cloud: Emulated[Any], *words: str) -> tuple[str, dict[str, Any]]:
    """Make a cluster, measure and end it; return what was printed, and the record of the run."""
    before = cloud.things()
    words = ("--name=c5", "--placement=1", *words, "--iters=5", "--data-mb=10")
    output = launcher(*words).stdout

    assert "cluster connect c5" in output
    assert "transferred 10 MB in" in output
    assert "0 left" in output
    assert cloud.things() == before
    assert answer("ls") == []
    run = record(only_run())
    assert {"create", "running", "ssh", "install", "run", "fetch", "teardown"} <= set(run["phases"])
    assert run["receipt"]["final"]
    return output, run


def check_killed_launch(cloud: Emulated[Any], *words: str) -> None:
    """Launch, which the cloud kills, and launch again: no machine is there twice."""
    result = subprocess.run([COMMAND, *words], capture_output=True, check=False, timeout=60)
    assert result.returncode == -signal.SIGKILL, result.stderr.decode()
    cloud.mend()
    command(*words)

    [cluster] = answer("ls")
    assert cluster["hosts"] == 2
    things = cloud.things(foreign=False)
    assert sum(thing.kind in ("instance", "instances") for thing in things) == 2
    command("down", "c5")
