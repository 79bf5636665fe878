"""How often a gate answers in its time: on hosts of a lab, and on many simulated ones."""

from __future__ import annotations

import subprocess
import time

from stopwatch import BIN, say

from cluster.cli.deadline import raise_priority
from cluster.orchestration.launch.launch import launch

LAB, MODEL = ("lab", {"rate": "40mbit"}), ("sim", {"fabric": "leafspine:32x320"})
FLEETS = ((*LAB, 8, 20), (*LAB, 16, 20), (*LAB, 64, 60), (*MODEL, 10240, 20))  # hosts, seconds
OVERRUN = 1.05


def gating_in_time(gates: int) -> None:
    """Run this many gates on each fleet, one after another."""
    raise_priority()  # the times are of the gate, not of how late this process looks
    for provider, options, hosts, seconds in FLEETS:
        with launch(f"gate{hosts}", provider=provider, hosts=hosts, options=options) as fleet:
            times = [_time_gate(fleet.name, seconds) for _ in range(gates)]
        count = sum(took <= OVERRUN * seconds for took in times)
        label = f"gates of {hosts} {provider} hosts that end within {seconds} s and 5%"
        value = f"{count} of {gates}, the longest {max(times):.2f} s"
        say(label, value, str(gates), good=count == gates, least=True)


def _time_gate(name: str, seconds: int) -> float:
    start = time.monotonic()
    words = [str(BIN / "cluster"), "check", name, "--gate", "--within", f"{seconds}s"]
    subprocess.run(words, capture_output=True, check=False)
    return time.monotonic() - start
