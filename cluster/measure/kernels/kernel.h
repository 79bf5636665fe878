/* What all kernels share: the clock, and the check that they were compiled for the running MPI. */

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

/* The size of a communicator's handle in bytes; 0 if MPI is not initialised for this library. */
int kernel_handle(void)
{
    int up = 0;
    MPI_Initialized(&up);
    return up ? (int)sizeof(MPI_Comm) : 0;
}
