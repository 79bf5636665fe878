"""The program of an allreduce test: two ranks, one on each host of a pair, started by mpirun.

Rank 0 prints the result, in bytes per second: for two ranks, algbw and busbw are the same.
"""

import json
import sys
from array import array
from statistics import median

FLOAT = 4  # bytes
FEWEST = 3  # repetitions that are counted


def main(size: int, seconds: float) -> None:
    """Sum a buffer of this many bytes for about this many seconds."""
    from mpi4py import MPI  # noqa: PLC0415 - it starts MPI

    world = MPI.COMM_WORLD
    data, result = (array("f", bytes(max(size // FLOAT, 1) * FLOAT)) for _ in range(2))
    payload = len(data) * FLOAT

    def once() -> float:
        world.Barrier()
        start = MPI.Wtime()
        world.Allreduce([data, MPI.FLOAT], [result, MPI.FLOAT])
        return MPI.Wtime() - start

    once()  # connections are made
    count = world.bcast(max(FEWEST, int(seconds / max(once(), 1e-9))), root=0)
    times = [world.allreduce(once(), op=MPI.MAX) for _ in range(count)]
    if world.Get_rank() == 0:
        sys.stdout.write(json.dumps({"rate": payload / median(times)}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
