"""The test cloud of AWS: calls that change something, and real hosts behind it."""

import json
import os
import subprocess
import sys

from stopwatch import ROOT, ratio, say


def launching_in_a_cloud() -> None:
    """Count AWS's changing calls on the test cloud, and time 16 real hosts behind it."""
    for hosts, count in cloud_figures("calls", "2", "64", "1000").items():
        shown = f"{count['launch']:.0f} in launch, {count['teardown']:.0f} in teardown"
        say(f"changing calls of {hosts} hosts", shown, "6", good=max(count.values()) <= 6)  # noqa: PLR2004
    if os.geteuid() == 0:
        took = cloud_figures("hosts", "16")["16"]
        ratio("16 hosts of AWS, RunInstances to SSH", took["ready"], took["boot"], 1.3)
        down = took["down"]
        say("16 hosts of AWS taken down", f"{down:.2f} s", "5 s", good=down <= 5)  # noqa: PLR2004


def cloud_figures(what: str, *numbers: str) -> dict[str, dict[str, float]]:
    """Ask the test cloud, in a process of its own."""
    argv = [sys.executable, "-m", "tests.fakes.aws.launch_cost", what, *numbers]
    result = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, dict[str, float]] = json.loads(result.stdout)
    return found
