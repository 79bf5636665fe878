/* The timed loop of the benchmark collectives; benchmarks/collectives defines what it measures.
 *
 * It does `n` repetitions and writes the nanoseconds of each. It returns the number of the first
 * repetition whose result was wrong on this rank, or -1. The communicator's handler makes errors of
 * MPI fatal. Nothing is allocated or printed, and results are compared outside the timed region.
 */

#include "kernel.h"

enum operation { ALLREDUCE, ALLGATHER, REDUCE_SCATTER, BCAST, REDUCE, ALLTOALL, BARRIER };

struct group { /* class GroupStruct in benchmarks/collectives/loops.py */
    const MPI_Comm *comm;
    void *given[2];          /* used in turn, so that missing data is noticed */
    void *result;            /* of the operation */
    const void *expected[2]; /* what it must be; 0 on a rank without a result */
    double *nanoseconds;     /* one per repetition */
    int64_t bytes;           /* of the result */
    int64_t number;          /* of the next repetition */
    int32_t count;           /* for MPI: of numbers, or of bytes */
    int32_t operation;
};

static void operate(const struct group *g, void *given)
{
    MPI_Comm comm = *g->comm;
    switch (g->operation) {
    case ALLREDUCE:
        MPI_Allreduce(given, g->result, g->count, MPI_FLOAT, MPI_SUM, comm);
        break;
    case ALLGATHER:
        MPI_Allgather(given, g->count, MPI_BYTE, g->result, g->count, MPI_BYTE, comm);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(given, g->result, g->count, MPI_FLOAT, MPI_SUM, comm);
        break;
    case BCAST:
        MPI_Bcast(g->expected[0] ? g->result : given, g->count, MPI_BYTE, 0, comm);
        break;
    case REDUCE:
        MPI_Reduce(given, g->result, g->count, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    case ALLTOALL:
        MPI_Alltoall(given, g->count, MPI_BYTE, g->result, g->count, MPI_BYTE, comm);
        break;
    default:
        MPI_Barrier(comm);
    }
}

int64_t collect(struct group *g, int64_t n)
{
    for (int64_t i = 0; i < n; i++, g->number++) {
        int turn = g->number & 1;
        MPI_Barrier(*g->comm);
        int64_t start = now();
        operate(g, g->given[turn]);
        g->nanoseconds[i] = (double)(now() - start);
        if (g->expected[turn] && memcmp(g->result, g->expected[turn], (size_t)g->bytes) != 0)
            return g->number;
    }
    return -1;
}
