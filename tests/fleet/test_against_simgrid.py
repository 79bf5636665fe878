"""B1: our flows against those of SimGrid, which others validated for 25 years."""

import json
import subprocess
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest

from cluster.fleet.simulation import NO_LINK, max_min_rates


class Case(TypedDict):
    """As `simgrid_rates.py` has it, which imports what only the other Python has."""

    paths: list[list[int]]
    capacities: list[float]


SYSTEM = "/usr/bin/python3"  # for which Debian packages SimGrid
PROGRAM = Path(__file__).with_name("simgrid_rates.py")
CASES, MOST_FLOWS = 10, 64


def simgrid_missing() -> bool:
    argv = [SYSTEM, "-c", "import simgrid"]
    return (
        not Path(SYSTEM).exists()
        or subprocess.run(argv, capture_output=True, check=False).returncode != 0
    )


@pytest.mark.skipif(simgrid_missing(), reason="SimGrid is missing: apt-get install python3-simgrid")
def test_rates_are_those_of_simgrid() -> None:
    chance = np.random.default_rng(1)
    cases: list[Case] = []
    for _ in range(CASES):
        links, flows = int(chance.integers(2, 60)), int(chance.integers(1, MOST_FLOWS))
        paths = [
            chance.permutation(links)[: int(chance.integers(1, min(4, links) + 1))].tolist()
            for _ in range(flows)
        ]
        cases.append({"paths": paths, "capacities": chance.uniform(5e7, 1e9, links).tolist()})
    result = subprocess.run(
        [SYSTEM, str(PROGRAM)], input=json.dumps(cases), capture_output=True, text=True, check=True
    )

    for case, rates in zip(cases, json.loads(result.stdout), strict=True):
        ways = np.full((len(case["paths"]), 4), NO_LINK)
        for flow, way in enumerate(case["paths"]):
            ways[flow, : len(way)] = way
        assert max_min_rates(ways, np.array(case["capacities"])) == pytest.approx(rates, rel=1e-6)
