"""A benchmark whose rank 1 goes wrong in every way that a rank can."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import ClassVar

from cluster.core.model.results.measurements import Definition
from cluster.core.model.value import Value
from cluster.measure.benchmark import Benchmark
from cluster.measure.main import main
from cluster.measure.rank import Rank

NOTHING = Definition(
    benchmark="faulty",
    metric="nothing",
    unit="s",
    better="lower",
    what="nothing at all",
    clock="none",
    synchronisation="none",
    warm_up="none",
    aggregation="each rank",
)

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[6n\x9b31m\u202eevil\rgone"  # what a terminal would obey


class FaultyParams(Value, frozen=True, kw_only=True):
    """The parameters of `faulty`."""

    # What goes wrong: raise, kill, exit, leave, hang, sleep (both ranks), deaf, escape or nothing
    how: str = "nothing"


class Faulty(Benchmark[FaultyParams]):
    """Takes three values on each rank, says "ready", and goes wrong on rank 1."""

    Params = FaultyParams
    metrics: ClassVar[tuple[Definition, ...]] = (NOTHING,)

    def measure(self, rank: Rank, params: FaultyParams) -> None:
        """Take three values, then go wrong."""
        values = rank.begin(NOTHING, {})
        values += [1.0, 2.0, 3.0]
        sys.stderr.write(f"complaint of rank {rank.number}\n")
        rank.print_line(f"ready {rank.number}")
        if params.how == "nothing":
            rank.end()
            return
        if params.how == "escape":
            sys.stderr.write(f"{ESCAPES}\n")
            rank.print_line(ESCAPES)
            rank.progress(1, 2, ESCAPES)
            rank.note(f"note {ESCAPES}")
            rank.end()
            rank.barrier()  # mpirun ends the other rank at once
            raise ValueError(ESCAPES)
        if rank.number == 1:
            _go_wrong(params.how)
        if params.how in ("sleep", "deaf"):  # a rank that waits in MPI keeps a core
            _go_wrong("sleep")
        rank.comm.recv(source=1)


def _go_wrong(how: str) -> None:
    if how == "raise":
        raise ValueError("rank 1 had enough")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(3)
    if how == "leave":
        os._exit(0)
    if how == "deaf":  # to every signal that can be ignored
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:  # hang, sleep
        time.sleep(0.1)


if __name__ == "__main__":
    main(Faulty())
