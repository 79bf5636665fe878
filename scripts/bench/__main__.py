"""How fast `cluster` itself is: ratios and differences measured side by side in one run.

Usage: .venv/bin/python scripts/bench [REPETITIONS [PART...]]

A part is one of the functions that `main` calls, such as `turning`.

As root it also makes labs of namespaces.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from against_otava import against_otava
from against_simgrid import predicting, sharing
from analysis_speed import judging, reporting, summarising
from cloud import launching_in_a_cloud, launching_pods
from fleet import checking_fleets
from gate import gating
from gate_time import gating_in_time
from jobs import orchestrating
from lab_and_simulator import lab_and_simulator
from lab_fleet import checking_a_lab
from logs import parsing, profiles
from loops import profiling, turning
from startup import around_commands, starting
from stopwatch import BIN, ROOT
from training import fetching_too_slowly, naming_links, naming_slow_links, naming_stalls
from watched import watching

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run everything, or the parts that are named, in a place of its own."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    names = sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="cb") as place:
        os.environ.update(CLUSTER_STATE=f"{place}/s", CLUSTER_RUNS=f"{place}/r", TMUX_TMPDIR=place)
        os.environ.setdefault("CLUSTER_CACHE", str(ROOT / ".cache"))
        parts: dict[str, Callable[[], None]] = {
            "starting": lambda: starting(repetitions),
            "summarising": lambda: summarising(Path(place) / "r", repetitions),
            "parsing": lambda: parsing(Path(place), repetitions),
            "profiles": lambda: profiles(Path(place)),
            "profiling": lambda: profiling(repetitions),
            "judging": lambda: judging(Path(place) / "r", min(repetitions, 5)),
            "reporting": lambda: reporting(Path(place) / "r", min(repetitions, 3)),
            "around": lambda: around_commands(repetitions),
            "turning": lambda: turning(repetitions),
            "cloud": launching_in_a_cloud,
            "predicting": lambda: predicting(Path(place)),
            "sharing": sharing,
            "watching": lambda: watching(min(repetitions, 2)),
            "against_otava": lambda: against_otava(min(repetitions, 2)),
            "fleet": lambda: checking_fleets(repetitions),
            "gating": lambda: gating(repetitions),
            "naming_stalls": lambda: naming_stalls(repetitions),
        }
        if os.geteuid() == 0:
            parts |= {
                "lab_and_simulator": lab_and_simulator,
                "jobs": lambda: orchestrating(Path(place), repetitions),
                "pods": lambda: launching_pods(min(repetitions, 5)),
                "lab_fleet": lambda: checking_a_lab(repetitions),
                "gating_in_time": lambda: gating_in_time(repetitions),
                "fetching_too_slowly": lambda: fetching_too_slowly(Path(place)),
                "naming_slow_links": lambda: naming_slow_links(repetitions),
            }
        inside = {"naming_links": lambda: naming_links(repetitions)}
        for part in names or parts:
            (parts | inside)[part]()
        subprocess.run([str(BIN / "cluster"), "down", "--all", "-y"], check=True)


if __name__ == "__main__":
    main()
