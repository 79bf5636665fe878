"""A rank that is told to stop writes what it has, once, and nothing after."""

import json
import sys
from pathlib import Path

from tests.conftest import run

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from cluster.benchmarks.p2p.definitions import LATENCY, ONEWAY
from cluster.measure.rank import Rank

class Comm:
    def Get_rank(self): return 0
    def Get_size(self): return 1

rank = Rank(Comm(), Path("."))
values = rank.begin(ONEWAY, {"size": 1})
values.append(0.5)
rank.end()
values = rank.begin(LATENCY, {"size": 1})
values += [1.0, 2.0]
os.kill(os.getpid(), signal.SIGTERM)
while Path("measurements.0.jsonl").read_text().count("\\n") < 2: time.sleep(0.01)
values.append(3.0)
rank.end()
values = rank.begin(LATENCY, {"size": 2})
values.append(4.0)
rank.end()
signal.pause()  # until the thread that waits for SIGTERM ends the process
"""


def test_nothing_is_written_after_the_stop(home: Path) -> None:
    result = run(sys.executable, "-c", PROGRAM, status=143, cwd=home)

    assert result.stderr == ""
    lines = (home / "measurements.0.jsonl").read_text().splitlines()
    measurements = [(m["metric"], m["values"], m["complete"]) for m in map(json.loads, lines)]
    assert measurements == [("oneway_time", [0.5], True), ("latency", [1.0, 2.0], False)]
