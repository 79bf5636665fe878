#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, other, swapped = 0, one = 1, word = 0;
    double out[64] = {0}, in[64], *base, sum = 1, old;
    MPI_Win w;
    MPI_File f;
    MPI_Request r;
    MPI_Status s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    MPI_Win_allocate(512, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &w);
    MPI_Win_fence(0, w);
    MPI_Put(out, 8, MPI_DOUBLE, other, 0, 8, MPI_DOUBLE, w);
    MPI_Put(out, 8, MPI_DOUBLE, MPI_PROC_NULL, 0, 8, MPI_DOUBLE, w);
    MPI_Get(in, 4, MPI_DOUBLE, other, 8, 4, MPI_DOUBLE, w);
    MPI_Accumulate(out, 2, MPI_DOUBLE, other, 16, 2, MPI_DOUBLE, MPI_SUM, w);
    MPI_Win_fence(0, w);
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, w);
    MPI_Rput(out, 5, MPI_DOUBLE, other, 32, 5, MPI_DOUBLE, w, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Get_accumulate(out, 0, MPI_DOUBLE, in, 3, MPI_DOUBLE, other, 0, 3, MPI_DOUBLE, MPI_NO_OP,
                       w);
    MPI_Win_flush(other, w);
    MPI_Fetch_and_op(&sum, &old, MPI_DOUBLE, other, 40, MPI_SUM, w);
    MPI_Compare_and_swap(&one, &word, &swapped, MPI_INT, other, 50, w);
    MPI_Win_unlock(other, w);
    MPI_Win_free(&w);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    MPI_File_write_at(f, rank * 80, out, 10, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_sync(f);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at_all(f, 0, in, 20, MPI_DOUBLE, MPI_STATUS_IGNORE);
    for (int again = 0; again < 5000; again++) /* times are printed in ms */
        MPI_File_read_at(f, 120, in, 20, MPI_DOUBLE, &s);
    MPI_File_iread_at(f, 0, in, 2, MPI_DOUBLE, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_File_write_at_all_begin(f, rank * 80, out, 10, MPI_DOUBLE);
    MPI_File_write_at_all_end(f, out, MPI_STATUS_IGNORE);
    MPI_File_close(&f);
    MPI_Finalize();
    return 0;
}
