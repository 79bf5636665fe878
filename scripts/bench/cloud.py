"""The test clouds: calls that change something, and real hosts behind them."""

import json
import os
import statistics
import subprocess
import sys

from stopwatch import ROOT, ratio, say


def launching_in_a_cloud() -> None:
    """Count AWS's changing calls on the test cloud, and time 16 real hosts behind it."""
    for hosts, count in cloud_figures("calls", "2", "64", "1000").items():
        text = f"{count['launch']:.0f} in launch, {count['teardown']:.0f} in teardown"
        say(f"changing calls of {hosts} hosts", text, "6", good=max(count.values()) <= 6)  # noqa: PLR2004
    if os.geteuid() == 0:
        figures = cloud_figures("hosts", "16")["16"]
        ratio("16 hosts of AWS, RunInstances to SSH", figures["ready"], figures["boot"], 1.3)
        duration = figures["down"]
        say("16 hosts of AWS taken down", f"{duration:.2f} s", "5 s", good=duration <= 5)  # noqa: PLR2004


def launching_pods(repetitions: int) -> None:
    """Compare launches of 32 pods in lab namespaces with launches of 32 lab hosts, by turns."""
    argv = [sys.executable, "-m", "tests.fakes.kubernetes.launch_cost", "32", str(repetitions)]
    figures = json.loads(subprocess.check_output(argv, text=True, cwd=ROOT))
    lab, pods = statistics.median(figures["lab"]), statistics.median(figures["pods"])
    loads = f"load {min(figures['load']):.0f} to {max(figures['load']):.0f}"
    ratio(f"32 pods up, beside 32 lab hosts, {loads}", pods, lab, 1.5)


def cloud_figures(subject: str, *numbers: str) -> dict[str, dict[str, float]]:
    """Ask the test cloud, in a process of its own."""
    argv = [sys.executable, "-m", "tests.fakes.aws.launch_cost", subject, *numbers]
    figures: dict[str, dict[str, float]] = json.loads(subprocess.check_output(argv, cwd=ROOT))
    return figures
