"""Plain loops in C of what p2p defines, in turns with those of p2p: scripts/bench compares them.

They run in the same two processes, as a machine differs from launch to launch.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from cluster.benchmarks.p2p.definitions import BANDWIDTH, LATENCY, P2PParams
from cluster.benchmarks.p2p.loops import MOST_AT_ONCE, CompiledPairLoops, Messages, PairMemory
from cluster.core.model.value import Scalar, Value
from cluster.core.text.units import Sizes
from cluster.measure.benchmark import Benchmark
from cluster.measure.buffers import open_memory
from cluster.measure.kernels import address, load
from cluster.measure.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cluster.core.model.results.measurements import Definition
    from cluster.measure.rank import Rank

CELLS = ((LATENCY, 8), (BANDWIDTH, 64 << 10), (BANDWIDTH, 1 << 20), (BANDWIDTH, 4 << 20))
COUNTS = {LATENCY.id: 10_000, BANDWIDTH.id: 20}  # values in a turn, as the program takes
SOURCE = r"""
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 64, ROUND_TRIPS = 10000, WINDOWS = 20, MOST = 4 << 20 };
static double seconds[ROUND_TRIPS];
static int rank;
static MPI_Comm comm;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int latency(char *out, char *in, int size)
{
    for (int i = -100; i < ROUND_TRIPS; i++) {
        double start = now();
        if (rank == 0) {
            MPI_Send(out, size, MPI_BYTE, 1, 1, comm);
            MPI_Recv(in, size, MPI_BYTE, 1, 1, comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, size, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 0, 1, comm);
        }
        if (i >= 0)
            seconds[i] = (now() - start) / 2;
    }
    return ROUND_TRIPS;
}

static int bandwidth(char *out, char *in, int size)
{
    MPI_Request requests[WINDOW];
    for (int i = -2; i < WINDOWS; i++) {
        MPI_Barrier(comm);
        double start = now();
        for (int k = 0; k < WINDOW; k++)
            if (rank == 0)
                MPI_Isend(out, size, MPI_BYTE, 1, 1, comm, &requests[k]);
            else
                MPI_Irecv(in, size, MPI_BYTE, 0, 1, comm, &requests[k]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(in, 4, MPI_BYTE, 1, 2, comm, MPI_STATUS_IGNORE);
        else
            MPI_Send(out, 4, MPI_BYTE, 0, 2, comm);
        if (i >= 0)
            seconds[i] = now() - start;
        if (rank == 1 && memcmp(in, out, size) != 0)
            MPI_Abort(comm, 1);
    }
    return WINDOWS;
}

/* A turn of one of the two, for a process that has MPI already; NULL would be an error of ours. */
double *turn(const MPI_Comm *given, int windowed, int size)
{
    static char *out, *in;
    if (out == NULL) {
        out = aligned_alloc(4096, MOST);
        in = aligned_alloc(4096, MOST);
        memset(out, 1, MOST);
        memset(in, 0, MOST);
    }
    comm = *given;
    MPI_Comm_rank(comm, &rank);
    (windowed ? bandwidth : latency)(out, in, size);
    return seconds;
}
"""


class PlainParams(Value, frozen=True, kw_only=True):
    """How often each of the two loops has a turn."""

    turns: int = 1


class Plain(Benchmark[PlainParams]):
    """It measures beside p2p."""

    Params = PlainParams
    metrics: ClassVar[tuple[Definition, ...]] = (LATENCY, BANDWIDTH)

    def measure(self, rank: Rank, params: PlainParams) -> None:
        """Take turns; the values are the medians of each turn."""
        library_of_c = ctypes.CDLL(str(compile_plain()))
        library_of_c.turn.restype = ctypes.POINTER(ctypes.c_double)
        sizes = Sizes(size for _, size in CELLS)
        data = PairMemory(rank.comm, P2PParams(sizes=sizes), open_memory("cpu", rank.comm))
        library = load(rank, "p2p", "c")
        if library is None:
            raise SystemExit("the kernel was insisted on")
        loops = CompiledPairLoops(data, library)
        for definition, size in CELLS:
            ways = {
                "p2p": partial(in_portions, loops, definition, Messages(data, definition, size)),
                "plain": partial(in_one_go, library_of_c, rank, definition, size),
            }
            times = in_turn(ways, params.turns, rank)
            for way, values in times.items() if rank.number == 0 else ():
                point: dict[str, Scalar] = {"size": size, "by": way}
                payload = data.count_bytes(definition, size)
                rank.begin(definition, point, size=payload).extend(values)
                rank.end()


def in_portions(
    loops: CompiledPairLoops, definition: Definition, messages: Messages
) -> list[float]:
    """Take a turn of p2p's loop."""
    repeat, n = loops.loop(definition, messages), COUNTS[definition.id]
    return [
        s for result in range(0, n, MOST_AT_ONCE) for s in repeat(min(MOST_AT_ONCE, n - result))
    ]


def in_one_go(library: ctypes.CDLL, rank: Rank, definition: Definition, size: int) -> list[float]:
    """Take a turn of the plain loop."""
    comm = ctypes.c_void_p(address(rank.comm))
    seconds = library.turn(comm, definition is BANDWIDTH, size)
    return list(seconds[: COUNTS[definition.id]]) if rank.number == 0 else []


def in_turn(
    ways: Mapping[str, Callable[[], list[float]]], turns: int, rank: Rank
) -> dict[str, list[float]]:
    """Return the median of every turn; who begins changes from round to round."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(-1, turns):
        for way in sorted(ways, reverse=number % 2 == 0):
            rank.comm.Barrier()
            values = ways[way]()
            if number >= 0 and values:
                times[way].append(median(values))
    return times


def compile_plain() -> Path:
    """Compile it with the same MPI."""
    target = Path(f"plain.{os.getpid()}").absolute()
    target.with_suffix(".c").write_text(SOURCE)
    mpicc = str(Path(sys.executable).with_name("mpicc"))
    words = [mpicc, "-O2", "-shared", "-fPIC", str(target.with_suffix(".c")), "-o", str(target)]
    subprocess.run(words, check=True, capture_output=True)
    return target


if __name__ == "__main__":
    main(Plain())
