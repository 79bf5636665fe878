"""The same ranks started by srun and by mpirun, in turn, on two lab hosts that Slurm lends.

The link has a rate, so that large messages take as long as the link lets them, and not as long as
this machine copies. Each launch of one starter has a partner by the other right beside it, and the
ranks of both run on the same cores: neither starter binds ranks of hosts that share a machine, and
where the kernel puts them makes 10 % of the time of a small message.

Small and large messages are launched apart, each as often as its time allows: a thousand exchanges
of 1 MiB in a launch would take half a minute of the link's time, and its ranks idle meanwhile.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paired import paired_ratio
from stopwatch import medians, say

from cluster.agent.supervise import RANK_MARKS
from cluster.orchestration.launch.launch import launch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.orchestration.cluster import Cluster

MOST = 0.02  # of the time of mpirun's ranks
CONFIDENCE = 0.95
# What p2p is asked for. A window of the second has 64 messages, 0.6 s at this rate.
SMALL: dict[str, Any] = {"metrics": "latency", "sizes": "8", "iterations": 10_000}
LARGE: dict[str, Any] = {"metrics": "bandwidth", "sizes": "1048576", "iterations": 3, "warm_up": 1}
OFTEN = 3  # pairs of the first to one of the second, as this machine has faster and slower minutes
STARTERS = ("mpirun", "srun")
RATE = "1gbit"
RANKS = 2
LOOKS = 0.05  # seconds between two looks for ranks that have not begun; none while they are timed


def starting_by_srun(pairs: int) -> None:
    """Launch p2p this often by each starter: A B B A ..., so that drift affects both alike.

    Args:
        pairs: of launches with large messages; those with small ones are `OFTEN` times as many.

    """
    slurm = {"lab": "starters", "reach": "ssh"}
    with (
        launch("starters", provider="lab", hosts=2, options={"slurm": "1", "rate": RATE}),
        launch("lent", provider="slurm", hosts=2, options=slurm) as lent,
    ):
        parts = (("latency of 8 B", SMALL, OFTEN * pairs), ("time of 64 x 1 MiB", LARGE, pairs))
        for what, params, many in parts:
            _time(lent, "srun", params)  # fill the caches
            began = time.monotonic()
            found: dict[str, list[float]] = {name: [] for name in STARTERS}
            for number in range(many):
                for name in STARTERS if number % 2 == 0 else STARTERS[::-1]:
                    found[name].append(_time(lent, name, params))
            _say(what, found["mpirun"], found["srun"], time.monotonic() - began)


def _time(lent: Cluster, starter: str, params: Mapping[str, Any]) -> float:
    """Launch once; give the median of the only series."""
    with _pinned_ranks():
        run = lent.bench("p2p", starter=starter, **params)
    (measured,) = medians(run).values()
    return measured


@contextmanager
def _pinned_ranks() -> Iterator[None]:
    """Pin the ranks that begin during a block, each to a core of its own, while they import."""
    over, pinned = threading.Event(), set[int]()
    cores = sorted(os.sched_getaffinity(0))
    before = set(_ranks().items())

    def look() -> None:
        while len(pinned) < RANKS and not over.wait(LOOKS):
            for rank, pid in _ranks().items():
                if pid not in pinned and (rank, pid) not in before:
                    _pin(pid, cores[rank % len(cores)])
                    pinned.add(pid)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    if len(pinned) < RANKS:
        raise RuntimeError(f"Only {len(pinned)} of {RANKS} ranks were found, and pinned.")


def _pin(pid: int, core: int) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


def _ranks() -> dict[int, int]:
    """Find the ranks that run: process ids by the numbers of the ranks."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"p2p.py" not in (path / "cmdline").read_bytes().split(b"\0"):
                continue
            for variable in (path / "environ").read_bytes().split(b"\0"):
                if variable.startswith(RANK_MARKS):
                    found[int(variable.partition(b"=")[2])] = int(path.name)
    return found


def _say(what: str, mpirun: list[float], srun: list[float], seconds: float) -> None:
    """Print the ratio with its interval, and how far launches of one starter differ."""
    ratio, low, high = paired_ratio(mpirun, srun, CONFIDENCE)
    spread = statistics.quantiles([one / statistics.median(mpirun) for one in mpirun], n=4)
    shown = low >= 1 - MOST and high <= 1 + MOST
    apart = low > 1 + MOST or high < 1 - MOST
    more = "" if shown or apart else "; more launches are needed"
    words = (
        f"{ratio:.3f} x, {low:.3f} to {high:.3f} (95%, {len(srun)} pairs of launches in "
        f"{seconds:.0f} s{more}; the middle half of mpirun's own: {spread[0]:.3f} to "
        f"{spread[2]:.3f}, median {statistics.median(mpirun):.4g} s)"
    )
    say(f"{what} by srun against mpirun", words, f"{1 + MOST:g}, least {1 - MOST:g}", good=shown)
