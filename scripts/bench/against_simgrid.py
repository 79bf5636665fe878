"""What we compute against SimGrid, which others validated for 25 years.

Rates of flows that share links are compared with its own. The compiled loops of collectives run
under its MPI (SMPI), and take as long as `predict` says, or not.

SMPI runs the loops of 64 ranks on a simulated network. The algorithm of each collective is given:
its time is compared, and not the choice of a library.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from stopwatch import ROOT, say

from cluster.analysis.models.fit import fit
from cluster.analysis.models.predict import predicted_time
from cluster.core.model.results.measurements import Summary
from cluster.fleet.simulation import NO_LINK, max_min_rates

if TYPE_CHECKING:
    from pathlib import Path

RANKS = 64
KERNELS = ROOT / "cluster/measure/kernels"
NETWORK = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-{last}" speed="1000Tf" bw="1.25GBps" lat="10us"
           sharing_policy="SPLITDUPLEX"/>
</platform>
"""
ALGORITHMS = {  # collective -> our name of an algorithm -> SMPI's
    "allreduce": {"recursive doubling": "rdb", "ring": "lr", "halving and doubling": "rab"},
    "allgather": {"recursive doubling": "rdb", "ring": "ring"},
    "reduce_scatter": {"recursive halving": "ompi_basic_recursivehalving", "ring": "ompi_ring"},
    "bcast": {"binomial tree": "binomial_tree", "scatter and allgather": "scatter_LR_allgather"},
    "reduce": {"binomial tree": "binomial", "reduce-scatter and gather": "scatter_gather"},
    "alltoall": {"pairwise": "pair", "Bruck": "bruck"},
}
SYSTEM = "/usr/bin/python3"  # for which Debian packages SimGrid
RATES = ROOT / "tests/fleet/simgrid_rates.py"
CASES, BATCH, MOST_FLOWS, MOST_LINKS = 200, 5, 512, 60
SAME = 0.01  # by which rates may differ
NEAR = 0.2  # by which a prediction may differ
MOST_FAR = 0.1  # of the operations, whose messages are where the fit is worst


def sharing() -> None:
    """Compare the rates of flows in random cases."""
    probe = subprocess.run([SYSTEM, "-c", "import simgrid"], capture_output=True, check=False)
    if probe.returncode:
        sys.stdout.write("skip  rates against SimGrid: apt-get install python3-simgrid\n")
        return
    chance = np.random.default_rng(1)
    worst = 0.0
    for _ in range(CASES // BATCH):
        cases = [_case(chance) for _ in range(BATCH)]
        text = json.dumps([{"paths": p, "capacities": c} for p, c in cases])
        result = subprocess.run(
            [SYSTEM, str(RATES)], input=text, capture_output=True, text=True, check=True
        )
        for (paths, capacities), expected in zip(cases, json.loads(result.stdout), strict=True):
            ways = np.full((len(paths), max(map(len, paths))), NO_LINK)
            for flow, path in enumerate(paths):
                ways[flow, : len(path)] = path
            own_rates = max_min_rates(ways, np.array(capacities))
            worst = max(worst, float(np.max(np.abs(own_rates / np.array(expected) - 1))))
    label = f"largest difference to SimGrid's rates, {CASES} cases of up to {MOST_FLOWS - 1} flows"
    say(label, f"{worst:.1e}", f"{SAME:g}", good=worst <= SAME)


def _case(chance: np.random.Generator) -> tuple[list[list[int]], list[float]]:
    """Return the links of each flow, and the rate of each link."""
    links, flows = int(chance.integers(2, MOST_LINKS)), int(chance.integers(1, MOST_FLOWS))
    lengths = chance.integers(1, min(4, links) + 1, flows)
    paths = [chance.permutation(links)[:length].tolist() for length in lengths]
    return paths, chance.uniform(5e7, 1e9, links).tolist()


def predicting(place: Path) -> None:
    """Compare the predicted time of each algorithm and size with the simulated one."""
    compiler, starter = shutil.which("smpicc"), shutil.which("smpirun")
    if compiler is None or starter is None:
        sys.stdout.write("skip  predict against SMPI: apt-get install libsimgrid-dev\n")
        return
    (place / "network.xml").write_text(NETWORK.format(last=RANKS - 1))
    (place / "hosts").write_text("".join(f"n{rank}\n" for rank in range(RANKS)))
    source = ROOT / "scripts/bench/smpi.c"
    program = place / "smpi_loops"
    subprocess.run([compiler, "-O2", f"-I{KERNELS}", str(source), "-o", str(program)], check=True)
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for turn in range(max(map(len, ALGORITHMS.values()))):
        algorithms = {c: [*names][turn] for c, names in ALGORITHMS.items() if turn < len(names)}
        for collective, ratio in _ratios(starter, place, program, algorithms):
            ratios[collective, algorithms[collective]].append(ratio)
    for (collective, algorithm), ratios_of_operation in ratios.items():
        words = " ".join(f"{ratio:.2f}" for ratio in ratios_of_operation)
        sys.stdout.write(f"      {collective:15}{algorithm:26} {words}\n")
    all_ratios = [ratio for ratios_of_operation in ratios.values() for ratio in ratios_of_operation]
    near_count = sum(1 / (1 + NEAR) <= ratio <= 1 + NEAR for ratio in all_ratios)
    label = f"simulated over predicted time within {NEAR:.0%}, of {len(all_ratios)}"
    least = (1 - MOST_FAR) * len(all_ratios)
    say(label, str(near_count), f"{least:.0f}", good=near_count >= least, least=True)


def _ratios(
    starter: str, place: Path, program: Path, choice: dict[str, str]
) -> list[tuple[str, float]]:
    algorithms = [f"--cfg=smpi/{c}:{ALGORITHMS[c][name]}" for c, name in choice.items()]
    argv = [starter, "-np", str(RANKS), "-hostfile", str(place / "hosts")]
    argv += ["-platform", str(place / "network.xml"), "--log=root.thres:critical"]
    argv += ["--cfg=smpi/simulate-computation:no", *algorithms, str(program)]
    rows = [line.split() for line in subprocess.check_output(argv, text=True).splitlines()]
    times = [(name, int(size), float(seconds)) for name, size, seconds in rows]
    messages = fit([_summary(size, t) for name, size, t in times if name == "pingpong"])
    if messages is None:
        sys.exit("the simulated ping-pong has too few sizes")
    return [
        (name, seconds / prediction)
        for name, size, seconds in times
        if name in choice
        and (prediction := predicted_time(messages, name, choice[name], RANKS, size))
    ]


def _summary(size: int, seconds: float) -> Summary:
    return Summary(
        metric="latency", definition="smpi", unit="s", better="lower", params={"size": size},
        n=1, ci=None, converged=True, median=seconds, p5=seconds, p95=seconds, p99=seconds,
    )  # fmt: skip
