#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size, flag = 0, index, done, indices[2], counts[2] = {3, 1}, places[2] = {0, 4};
    double out[64] = {0}, in[64];
    MPI_Datatype column, types[2] = {MPI_DOUBLE, MPI_INT};
    MPI_Request r[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &flag);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_vector(4, 1, 8, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Send(out, 8, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(in, 8, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(out, 1, column, 1, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(in, 64, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Gather(rank ? out : MPI_IN_PLACE, 2, MPI_INT, in, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gatherv(rank ? out : MPI_IN_PLACE, counts[rank], MPI_INT, in, counts, places, MPI_INT, 0,
                MPI_COMM_WORLD);
    MPI_Scatterv(out, counts, places, MPI_INT, in, counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
    counts[0] = counts[1] = 2, places[1] = 32;
    MPI_Datatype mine[2] = {types[rank], types[rank]};
    MPI_Alltoallw(out, counts, places, types, in, counts, places, mine, MPI_COMM_WORLD);
    MPI_Send_init(out, 4, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(in, 4, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Startall(2, r);
    MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE);
    MPI_Waitsome(2, r, &done, indices, MPI_STATUSES_IGNORE);
    MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    MPI_Finalize();
    return 0;
}
