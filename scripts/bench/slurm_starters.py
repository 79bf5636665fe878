"""The same ranks started by srun and by mpirun, in turn, on two lab hosts that Slurm lends.

The link has a rate, so that large messages take as long as the link lets them, and not as long as
this machine copies.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from stopwatch import medians, say

from cluster.analysis.two_sample import median_ratio, ratio_interval
from cluster.orchestration.launch import launch

if TYPE_CHECKING:
    from cluster.orchestration.cluster import Cluster

MOST = 0.02  # of the time of mpirun's ranks
CONFIDENCE = 0.95
SMALL, LARGE = 8, 1 << 20  # bytes
STARTERS = ("mpirun", "srun")
RATE = "1gbit"


def starting_by_srun(launches: int) -> None:
    """Launch p2p this often by each starter: A B B A ..., so that drift affects both alike."""
    slurm = {"lab": "starters", "reach": "ssh"}
    with (
        launch("starters", provider="lab", hosts=2, options={"slurm": "1", "rate": RATE}),
        launch("lent", provider="slurm", hosts=2, options=slurm) as lent,
    ):
        _times(lent, "srun")  # fill the caches
        found: dict[str, list[dict[tuple[str, int], float]]] = {name: [] for name in STARTERS}
        for number in range(launches):
            for name in STARTERS if number % 2 == 0 else STARTERS[::-1]:
                found[name].append(_times(lent, name))
    for key in (("latency", SMALL), ("oneway_time", LARGE)):
        mpirun, srun = ([one[key] for one in found[name]] for name in STARTERS)
        _say(f"{key[0]} of {key[1]} B", mpirun, srun)


def _times(lent: Cluster, starter: str) -> dict[tuple[str, int], float]:
    run = lent.bench(
        "p2p",
        metrics="latency,oneway_time",
        sizes=f"{SMALL},{LARGE}",
        iterations=1000,
        starter=starter,
    )
    return medians(run)


def _say(what: str, mpirun: list[float], srun: list[float]) -> None:
    """Print the ratio with its interval, and how far launches of one starter differ."""
    ratio = median_ratio(mpirun, srun)
    low, high = ratio_interval(mpirun, srun, CONFIDENCE) or (math.nan, math.nan)
    spread = statistics.quantiles([one / statistics.median(mpirun) for one in mpirun], n=4)
    words = (
        f"{ratio:.3f} x, {low:.3f} to {high:.3f} (95%, {len(srun)} launches each; the middle half "
        f"of mpirun's own: {spread[0]:.3f} to {spread[2]:.3f})"
    )
    most = f"{1 + MOST:g}"
    say(f"{what} by srun against mpirun", words, most, good=ratio <= 1 + MOST)
