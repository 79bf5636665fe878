program known
#if defined(F08)
  use mpi_f08
  implicit none
  type(MPI_Request) :: r(2)
  type(MPI_Status) :: s
#else
#if defined(MODULE)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: r(2), s(MPI_STATUS_SIZE)
#endif
  integer :: rank, i, error
  double precision :: a(100), b(100)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  a = 1
  do i = 1, 5
    call MPI_Allreduce(a, b, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, b, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) then
    call MPI_Send(a, 10, MPI_DOUBLE_PRECISION, 1, 7, MPI_COMM_WORLD, error)
    call MPI_Send(a, 2, MPI_DOUBLE_PRECISION, 1, 7, MPI_COMM_WORLD, error)
  else
    call MPI_Recv(b, 100, MPI_DOUBLE_PRECISION, 0, 7, MPI_COMM_WORLD, s, error)
    call MPI_Recv(b, 100, MPI_DOUBLE_PRECISION, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  end if
  call MPI_Isend(a, 6, MPI_INTEGER, 1 - rank, 8, MPI_COMM_WORLD, r(1), error)
  call MPI_Irecv(b, 6, MPI_INTEGER, 1 - rank, 8, MPI_COMM_WORLD, r(2), error)
  call MPI_Waitall(2, r, MPI_STATUSES_IGNORE, error)
  call MPI_Gather(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program known
