"""A plain program in C that does what p2p defines: scripts/bench compares with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cluster.benchmark import Benchmark
from cluster.benchmarks.p2p import BANDWIDTH, LATENCY
from cluster.model import Definition, Measurement, Output, Value

if TYPE_CHECKING:
    from cluster.rank import Rank

OF = {"latency": LATENCY, "bandwidth": BANDWIDTH}
WINDOW = 64
SOURCE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 64, ROUND_TRIPS = 10000, WINDOWS = 20 };
static double seconds[ROUND_TRIPS];
static int rank;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void say(const char *metric, int size, int n)
{
    for (int i = 0; i < n && rank == 0; i++)
        printf("plain %s %d %.9f\n", metric, size, seconds[i]);
}

static void latency(char *out, char *in, int size)
{
    for (int i = -100; i < ROUND_TRIPS; i++) {
        double start = now();
        if (rank == 0) {
            MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        if (i >= 0)
            seconds[i] = (now() - start) / 2;
    }
    say("latency", size, ROUND_TRIPS);
}

static void bandwidth(char *out, char *in, int size)
{
    MPI_Request requests[WINDOW];
    for (int i = -2; i < WINDOWS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (int k = 0; k < WINDOW; k++)
            if (rank == 0)
                MPI_Isend(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[k]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(in, 4, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(out, 4, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        if (i >= 0)
            seconds[i] = now() - start;
        if (rank == 1 && memcmp(in, out, size) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    say("bandwidth", size, WINDOWS);
}

int main(int argc, char **argv)
{
    enum { MOST = 4 << 20 };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *out = aligned_alloc(4096, MOST), *in = aligned_alloc(4096, MOST);
    memset(out, 1, MOST);
    memset(in, 0, MOST);
    latency(out, in, 8);
    bandwidth(out, in, 64 << 10);
    bandwidth(out, in, 1 << 20);
    bandwidth(out, in, 4 << 20);
    MPI_Finalize();
}
"""


class PlainParams(Value, frozen=True, kw_only=True):
    """Nothing is to be said."""


class Plain(Benchmark[PlainParams]):
    """It prints what it measures."""

    Params = PlainParams
    metrics: ClassVar[tuple[Definition, ...]] = (LATENCY, BANDWIDTH)

    def measure(self, rank: Rank, params: PlainParams) -> None:
        """Nobody calls this: the rank becomes the program."""

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Read the times that the first rank printed."""
        found = defaultdict(list)
        for line in output.stdout.splitlines():
            if line.startswith("plain "):
                _, metric, size, seconds = line.split()
                found[metric, int(size)].append(float(seconds))
        return tuple(
            Measurement(
                metric=metric,
                definition=OF[metric].id,
                unit="s",
                params={"size": size},
                rank=0,
                host="",
                values=tuple(values),
                bytes=size * (WINDOW if metric == "bandwidth" else 1),
            )
            for (metric, size), values in found.items()
        )


if __name__ == "__main__":
    made = Path(f"plain.{os.getpid()}").absolute()
    made.with_suffix(".c").write_text(SOURCE)
    mpicc = str(Path(sys.executable).with_name("mpicc"))
    subprocess.run([mpicc, "-O2", str(made.with_suffix(".c")), "-o", str(made)], check=True)
    os.execv(made, [str(made)])  # noqa: S606 - no shell
