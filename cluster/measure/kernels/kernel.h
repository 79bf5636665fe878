/* What all kernels share: the clock, and the proof that they were compiled for the MPI that runs. */

#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static inline int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The bytes of a communicator's handle, if MPI is up for this library too; 0 if it is not. */
int kernel_handle(void)
{
    int up = 0;
    MPI_Initialized(&up);
    return up ? (int)sizeof(MPI_Comm) : 0;
}
