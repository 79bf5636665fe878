/* Times ping-pongs of two ranks, and the loops of the benchmark collectives, under SimGrid's MPI.
 *
 * Prints `pingpong BYTES SECONDS` and `OPERATION BYTES SECONDS` lines; bytes as predict.py counts
 * them: all data of an operation.
 */

#include <stdio.h>
#include <stdlib.h>

#include "collectives.c"

enum { LEAST = 1 << 10, MOST = 1 << 22, TURNS = 4, REPETITIONS = 3 };

static double pingpong(int rank, char *data, int size)
{
    double start = MPI_Wtime();
    for (int i = 0; i < TURNS; i++) {
        if (rank == 0)
            MPI_Send(data, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        if (rank < 2)
            MPI_Recv(data, size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(data, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / (2 * TURNS);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    char *given = calloc(2, MOST), *result = calloc(2, MOST);
    for (int size = 1; size <= MOST; size *= 2) {
        double seconds = pingpong(rank, given, size);
        MPI_Barrier(world);
        if (rank == 0)
            printf("pingpong %d %.9g\n", size, seconds);
    }
    for (int size = LEAST; size <= MOST; size *= 4) {
        const struct {
            const char *name;
            int operation, count;
        } all[] = {
            {"allreduce", ALLREDUCE, size / 4},
            {"allgather", ALLGATHER, size / ranks},
            {"reduce_scatter", REDUCE_SCATTER, size / 4 / ranks},
            {"bcast", BCAST, size},
            {"reduce", REDUCE, size / 4},
            {"alltoall", ALLTOALL, size / ranks},
        };
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            double nanoseconds[REPETITIONS], own, worst;
            struct group g = {.comm = &world, .given = {given, given}, .result = result,
                              .nanoseconds = nanoseconds, .count = all[k].count,
                              .operation = all[k].operation};
            collect(&g, REPETITIONS);
            own = nanoseconds[REPETITIONS - 1] / 1e9;
            MPI_Reduce(&own, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, world);
            if (rank == 0)
                printf("%s %d %.9g\n", all[k].name, size, worst);
        }
    }
    MPI_Finalize();
    return 0;
}
