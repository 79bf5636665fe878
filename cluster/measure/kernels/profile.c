/* Counts and times the calls of MPI of any program, and writes a profile as IBM's mpitrace does.
 *
 * It is preloaded (LD_PRELOAD) and intercepts the program's calls through MPI's own profiling
 * interface (PMPI). MPI_Finalize writes mpi_profile.JOB.RANK into the folder in which MPI_Init was
 * called: on rank 0 and the ranks with the least, the median and the most time in MPI, or on all
 * ranks if SAVE_ALL_TASKS is yes. cluster/logs/parsers/mpitrace.py reads it.
 *
 * Bytes of a call: what this rank sends (count times the size of the type, for all receivers
 * together); for a receive or a read what arrived, or the size of the buffer if the operation ends
 * after the call; for a get what arrives; for a scatter what this rank receives. Times include all
 * waiting.
 *
 * Each routine is defined by both of its names: C programs call MPI_Send, and the Fortran bindings
 * of Open MPI and MPICH call PMPI_Send or MPI_Send. Calls that MPI makes itself, such as those of
 * its file operations, count for the program's call. Times of files are no communication, as in
 * mpitrace. Not counted: neighbourhood collectives, and what threads do before MPI_Init.
 *
 * While the program runs, mpi_calls.RANK in the same folder says which call the rank is in, and how
 * many collectives it has entered in each group of ranks: cluster/agent/hang.py reads it.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ROUTINES(X)                                                                               \
    X(Send) X(Bsend) X(Ssend) X(Rsend) X(Isend) X(Ibsend) X(Issend) X(Irsend)                     \
    X(Recv) X(Irecv) X(Mrecv) X(Imrecv) X(Sendrecv) X(Sendrecv_replace)                           \
    X(Probe) X(Iprobe) X(Mprobe) X(Improbe) X(Start) X(Startall)                                  \
    X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) X(Testsome)           \
    X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Reduce_scatter) X(Reduce_scatter_block)          \
    X(Scan) X(Exscan) X(Gather) X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv)      \
    X(Alltoall) X(Alltoallv) X(Alltoallw)                                                         \
    X(Ibarrier) X(Ibcast) X(Ireduce) X(Iallreduce) X(Ireduce_scatter) X(Ireduce_scatter_block)    \
    X(Iscan) X(Iexscan) X(Igather) X(Igatherv) X(Iscatter) X(Iscatterv) X(Iallgather)             \
    X(Iallgatherv) X(Ialltoall) X(Ialltoallv) X(Ialltoallw)                                       \
    X(Put) X(Rput) X(Get) X(Rget) X(Accumulate) X(Raccumulate) X(Get_accumulate)                  \
    X(Rget_accumulate) X(Fetch_and_op) X(Compare_and_swap)                                        \
    X(Win_create) X(Win_create_dynamic) X(Win_allocate) X(Win_allocate_shared) X(Win_free)        \
    X(Win_fence) X(Win_start) X(Win_complete) X(Win_post) X(Win_wait) X(Win_test)                 \
    X(Win_lock) X(Win_unlock) X(Win_lock_all) X(Win_unlock_all)                                   \
    X(Win_flush) X(Win_flush_all) X(Win_flush_local) X(Win_flush_local_all) X(Win_sync)           \
    FILES(X)

/* These come last: their times are added up separately. */
#define FILES(X)                                                                                  \
    X(File_open) X(File_close) X(File_delete) X(File_set_size) X(File_preallocate)                \
    X(File_set_view) X(File_seek) X(File_seek_shared) X(File_sync)                                \
    X(File_read) X(File_read_at) X(File_read_all) X(File_read_at_all) X(File_read_shared)         \
    X(File_read_ordered) X(File_write) X(File_write_at) X(File_write_all) X(File_write_at_all)    \
    X(File_write_shared) X(File_write_ordered)                                                    \
    X(File_iread) X(File_iread_at) X(File_iread_all) X(File_iread_at_all) X(File_iread_shared)    \
    X(File_iwrite) X(File_iwrite_at) X(File_iwrite_all) X(File_iwrite_at_all)                     \
    X(File_iwrite_shared)                                                                         \
    X(File_read_all_begin) X(File_read_all_end) X(File_read_at_all_begin)                         \
    X(File_read_at_all_end) X(File_read_ordered_begin) X(File_read_ordered_end)                   \
    X(File_write_all_begin) X(File_write_all_end) X(File_write_at_all_begin)                      \
    X(File_write_at_all_end) X(File_write_ordered_begin) X(File_write_ordered_end)

#define AS_NUMBER(name) R_##name,
#define AS_NAME(name) "MPI_" #name,
enum { ROUTINES(AS_NUMBER) COUNT, FIRST_FILE = R_File_open };
static const char *const names[] = {ROUTINES(AS_NAME)};

enum { BINS = 65 }; /* bin 0 holds no bytes, bin k + 1 more than 2^(k-1), up to 2^k of them */

struct sum {
    int64_t calls, bytes, time; /* in ticks */
};

static struct routine {
    struct sum all, bins[BINS];
} routines[COUNT];

static int active, threaded, lock;
static __thread int depth __attribute__((tls_model("initial-exec"))); /* of calls within calls */
static char folder[PATH_MAX], calls_path[PATH_MAX + 32];
static int64_t first_tick, first_nanosecond;
static double second; /* ticks */

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A clock is read twice per call: the processor's own counter takes a third of the time of the
 * kernel's clock, by which the length of a tick is found at the end. */
static inline int64_t tick(void)
{
#if defined(__x86_64__)
    return (int64_t)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    int64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return nanoseconds();
#endif
}

static void add(struct sum *sum, int64_t bytes, int64_t time)
{
    sum->calls++;
    sum->bytes += bytes;
    sum->time += time;
}

static int bin(int64_t bytes)
{
    if (bytes <= 1)
        return (int)bytes;
    return 65 - __builtin_clzll((uint64_t)bytes - 1);
}

static void record(int which, int64_t start, int64_t end, int64_t bytes)
{
    struct routine *routine = &routines[which];
    if (!active)
        return;
    while (threaded && __atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        sched_yield();
    add(&routine->all, bytes, end - start);
    add(&routine->bins[bin(bytes)], bytes, end - start);
    if (threaded)
        __atomic_clear(&lock, __ATOMIC_RELEASE);
}

enum { SLOTS = 64, /* the first is of calls that are no collectives */
       RANKS = 1 << 15 };

static struct calls {
    int32_t pid, rank, size, unused;
    struct slot {
        uint64_t group; /* of its ranks in MPI_COMM_WORLD */
        int64_t number, since;
        int32_t size, inside;
        char name[32];
        int64_t pause; /* the longest between two of them, in ns */
    } slots[SLOTS];
    int32_t ranks[RANKS]; /* of the groups, one after another, as many as there is room for */
} *calls;
static MPI_Comm known[SLOTS]; /* communicators, each with its slot */
static int slot_of_known[SLOTS], communicators, listed; /* ranks of all groups */
static const MPI_Comm c; /* in CALLED, of a routine without a communicator */

static uint64_t members(MPI_Comm comm, int size)
{
    MPI_Group group, world;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0, rank = 0; i < size; i++) {
        PMPI_Group_translate_ranks(group, 1, &i, world, &rank);
        hash = (hash ^ (uint64_t)rank) * 1099511628211u;
        if (listed + size <= RANKS)
            calls->ranks[listed + i] = rank;
    }
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return hash;
}

static int slot_of(MPI_Comm comm)
{
    int inter = 0, size = 0, slot = 1;
    uint64_t group;
    for (int i = 0; i < communicators; i++)
        if (known[i] == comm)
            return slot_of_known[i];
    PMPI_Comm_test_inter(comm, &inter);
    if (inter || communicators == SLOTS)
        return 0;
    PMPI_Comm_size(comm, &size);
    group = members(comm, size);
    while (slot < SLOTS - 1 && calls->slots[slot].size && calls->slots[slot].group != group)
        slot++;
    if (slot == SLOTS - 1)
        return 0;
    if (!calls->slots[slot].size)
        listed += size;
    calls->slots[slot].group = group;
    calls->slots[slot].size = size;
    known[communicators] = comm;
    return slot_of_known[communicators++] = slot;
}

static struct slot *enter(int which, MPI_Comm comm)
{
    struct timespec now;
    struct slot *slot;
    int64_t at;
    if (!calls)
        return 0;
    slot = &calls->slots[which >= R_Barrier && which <= R_Ialltoallw && comm ? slot_of(comm) : 0];
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    strncpy(slot->name, names[which], sizeof slot->name - 1);
    at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (slot->number && at - slot->since > slot->pause)
        slot->pause = at - slot->since;
    slot->since = at;
    slot->number++;
    slot->inside = 1;
    return slot;
}

static void show_calls(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return;
    if (ftruncate(file, sizeof *calls) == 0) {
        void *mapped = mmap(0, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        calls = mapped == MAP_FAILED ? 0 : mapped;
    }
    close(file);
}

static int64_t held(int64_t count, MPI_Datatype type)
{
    MPI_Count size = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return count * (int64_t)size;
}

static int64_t given(int to, int64_t count, MPI_Datatype type)
{
    return to == MPI_PROC_NULL ? 0 : held(count, type);
}

static int64_t arrived(const MPI_Status *status)
{
    MPI_Count bytes = 0;
    PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
    return bytes < 0 ? 0 : (int64_t)bytes;
}

/* How many ranks a rank of this communicator exchanges data with, itself included. */
static int peers(MPI_Comm comm)
{
    int inter = 0, size = 0;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_size(comm, &size);
    else
        PMPI_Comm_size(comm, &size);
    return size;
}

static int own(MPI_Comm comm)
{
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

/* The next definition of a routine after this one: MPI's own. */
static void *behind(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "The profiler finds no %s behind itself.\n", name);
        abort();
    }
    return found;
}

#define BEHIND(fn)                                                                                \
    static __typeof__(&MPI_##fn) real;                                                            \
    if (!real)                                                                                    \
        real = (__typeof__(real))behind("PMPI_" #fn)

#define CALLED(name, fn, args, bytes)                                                             \
    {                                                                                             \
        BEHIND(fn);                                                                               \
        int outer = !depth++;                                                                     \
        struct slot *slot = outer ? enter(R_##name, c) : 0;                                       \
        int64_t start = tick();                                                                   \
        int outcome = real args;                                                                  \
        int64_t end = tick();                                                                     \
        depth--;                                                                                  \
        if (slot)                                                                                 \
            slot->inside = 0;                                                                     \
        if (outer)                                                                                \
            record(R_##name, start, end, bytes);                                                  \
        return outcome;                                                                           \
    }

#define BY_BOTH_NAMES(fn)                                                                         \
    extern __typeof__(MPI_##fn) PMPI_##fn __attribute__((alias("MPI_" #fn)));

#define TIMED(name, fn, args, bytes) CALLED(name, fn, args, bytes) BY_BOTH_NAMES(fn)

/* Notes what arrived, also if the program does not want to know it. */
#define ARRIVING(name, fn, args)                                                                  \
    {                                                                                             \
        MPI_Status mine;                                                                          \
        s = s == MPI_STATUS_IGNORE ? &mine : s;                                                   \
        CALLED(name, fn, args, outcome ? 0 : arrived(s))                                          \
    }                                                                                             \
    BY_BOTH_NAMES(fn)

/* T ends the name of the variant for large counts, N is the type of its counts, D of places. */
#define RECEIVES(T, N)                                                                            \
    int MPI_Recv##T(void *b, N n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s)   \
    ARRIVING(Recv, Recv##T, (b, n, t, from, tag, c, s))                                           \
    int MPI_Mrecv##T(void *b, N n, MPI_Datatype t, MPI_Message *m, MPI_Status *s)                 \
    ARRIVING(Mrecv, Mrecv##T, (b, n, t, m, s))                                                    \
    int MPI_Irecv##T(void *b, N n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r) \
    TIMED(Irecv, Irecv##T, (b, n, t, from, tag, c, r), given(from, n, t))                         \
    int MPI_Imrecv##T(void *b, N n, MPI_Datatype t, MPI_Message *m, MPI_Request *r)               \
    TIMED(Imrecv, Imrecv##T, (b, n, t, m, r), held(n, t))                                         \
    int MPI_Sendrecv##T(const void *b, N n, MPI_Datatype t, int to, int tag, void *rb, N rn,      \
                        MPI_Datatype rt, int from, int rtag, MPI_Comm c, MPI_Status *s)           \
    TIMED(Sendrecv, Sendrecv##T, (b, n, t, to, tag, rb, rn, rt, from, rtag, c, s),                \
          given(to, n, t))                                                                        \
    int MPI_Sendrecv_replace##T(void *b, N n, MPI_Datatype t, int to, int tag, int from,          \
                                int rtag, MPI_Comm c, MPI_Status *s)                              \
    TIMED(Sendrecv_replace, Sendrecv_replace##T, (b, n, t, to, tag, from, rtag, c, s),            \
          given(to, n, t))

/* The non-blocking form of an operation has one more argument, the request. */

#define SEND(name, T, N, ARGS, args)                                                              \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, int to, int tag, MPI_Comm c ARGS)       \
    TIMED(name, name##T, (b, n, t, to, tag, c args), given(to, n, t))

#define BCAST(name, T, N, ARGS, args)                                                             \
    int MPI_##name##T(void *b, N n, MPI_Datatype t, int root, MPI_Comm c ARGS)                    \
    TIMED(name, name##T, (b, n, t, root, c args), given(root, n, t))

#define REDUCE(name, T, N, ARGS, args)                                                            \
    int MPI_##name##T(const void *b, void *rb, N n, MPI_Datatype t, MPI_Op o, int root,           \
                      MPI_Comm c ARGS)                                                            \
    TIMED(name, name##T, (b, rb, n, t, o, root, c args), given(root, n, t))

#define ALLREDUCE(name, T, N, ARGS, args)                                                         \
    int MPI_##name##T(const void *b, void *rb, N n, MPI_Datatype t, MPI_Op o, MPI_Comm c ARGS)    \
    TIMED(name, name##T, (b, rb, n, t, o, c args), held(n, t))

#define REDUCE_SCATTER(name, T, N, ARGS, args)                                                    \
    int MPI_##name##T(const void *b, void *rb, const N n[], MPI_Datatype t, MPI_Op o,             \
                      MPI_Comm c ARGS)                                                            \
    TIMED(name, name##T, (b, rb, n, t, o, c args), total##T(n, c) * held(1, t))

#define REDUCE_BLOCK(name, T, N, ARGS, args)                                                      \
    int MPI_##name##T(const void *b, void *rb, N n, MPI_Datatype t, MPI_Op o, MPI_Comm c ARGS)    \
    TIMED(name, name##T, (b, rb, n, t, o, c args), peers(c) * held(n, t))

#define GATHER(name, T, N, ARGS, args)                                                            \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, N rn, MPI_Datatype rt,        \
                      int root, MPI_Comm c ARGS)                                                  \
    TIMED(name, name##T, (b, n, t, rb, rn, rt, root, c args),                                     \
          b == MPI_IN_PLACE ? held(rn, rt) : given(root, n, t))

#define GATHERV(name, T, N, D, ARGS, args)                                                        \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, const N rn[], const D d[],    \
                      MPI_Datatype rt, int root, MPI_Comm c ARGS)                                 \
    TIMED(name, name##T, (b, n, t, rb, rn, d, rt, root, c args),                                  \
          b == MPI_IN_PLACE ? held(rn[own(c)], rt) : given(root, n, t))

#define SCATTER(name, T, N, ARGS, args)                                                           \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, N rn, MPI_Datatype rt,        \
                      int root, MPI_Comm c ARGS)                                                  \
    TIMED(name, name##T, (b, n, t, rb, rn, rt, root, c args),                                     \
          rb == MPI_IN_PLACE ? held(n, t) : given(root, rn, rt))

#define SCATTERV(name, T, N, D, ARGS, args)                                                       \
    int MPI_##name##T(const void *b, const N n[], const D d[], MPI_Datatype t, void *rb, N rn,    \
                      MPI_Datatype rt, int root, MPI_Comm c ARGS)                                 \
    TIMED(name, name##T, (b, n, d, t, rb, rn, rt, root, c args),                                  \
          rb == MPI_IN_PLACE ? held(n[own(c)], t) : given(root, rn, rt))

#define ALLGATHER(name, T, N, ARGS, args)                                                         \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, N rn, MPI_Datatype rt,        \
                      MPI_Comm c ARGS)                                                            \
    TIMED(name, name##T, (b, n, t, rb, rn, rt, c args),                                           \
          b == MPI_IN_PLACE ? held(rn, rt) : held(n, t))

#define ALLGATHERV(name, T, N, D, ARGS, args)                                                     \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, const N rn[], const D d[],    \
                      MPI_Datatype rt, MPI_Comm c ARGS)                                           \
    TIMED(name, name##T, (b, n, t, rb, rn, d, rt, c args),                                        \
          b == MPI_IN_PLACE ? held(rn[own(c)], rt) : held(n, t))

#define ALLTOALL(name, T, N, ARGS, args)                                                          \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, N rn, MPI_Datatype rt,        \
                      MPI_Comm c ARGS)                                                            \
    TIMED(name, name##T, (b, n, t, rb, rn, rt, c args),                                           \
          peers(c) * (b == MPI_IN_PLACE ? held(rn, rt) : held(n, t)))

#define ALLTOALLV(name, T, N, D, ARGS, args)                                                      \
    int MPI_##name##T(const void *b, const N n[], const D d[], MPI_Datatype t, void *rb,          \
                      const N rn[], const D rd[], MPI_Datatype rt, MPI_Comm c ARGS)               \
    TIMED(name, name##T, (b, n, d, t, rb, rn, rd, rt, c args),                                    \
          b == MPI_IN_PLACE ? total##T(rn, c) * held(1, rt) : total##T(n, c) * held(1, t))

#define ALLTOALLW(name, T, N, D, ARGS, args)                                                      \
    int MPI_##name##T(const void *b, const N n[], const D d[], const MPI_Datatype t[], void *rb,  \
                      const N rn[], const D rd[], const MPI_Datatype rt[], MPI_Comm c ARGS)       \
    TIMED(name, name##T, (b, n, d, t, rb, rn, rd, rt, c args),                                    \
          b == MPI_IN_PLACE ? mixed##T(rn, rt, c) : mixed##T(n, t, c))

/* One-sided operations; their forms with a request have one more argument, too. */

#define PUT(name, T, N, ARGS, args)                                                               \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, int to, MPI_Aint d, N tn,               \
                      MPI_Datatype tt, MPI_Win w ARGS)                                            \
    TIMED(name, name##T, (b, n, t, to, d, tn, tt, w args), given(to, n, t))

#define GET(name, T, N, ARGS, args)                                                               \
    int MPI_##name##T(void *b, N n, MPI_Datatype t, int from, MPI_Aint d, N tn,                   \
                      MPI_Datatype tt, MPI_Win w ARGS)                                            \
    TIMED(name, name##T, (b, n, t, from, d, tn, tt, w args), given(from, n, t))

#define ACCUMULATE(name, T, N, ARGS, args)                                                        \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, int to, MPI_Aint d, N tn,               \
                      MPI_Datatype tt, MPI_Op o, MPI_Win w ARGS)                                  \
    TIMED(name, name##T, (b, n, t, to, d, tn, tt, o, w args), given(to, n, t))

#define GET_ACCUMULATE(name, T, N, ARGS, args)                                                    \
    int MPI_##name##T(const void *b, N n, MPI_Datatype t, void *rb, N rn, MPI_Datatype rt,        \
                      int to, MPI_Aint d, N tn, MPI_Datatype tt, MPI_Op o, MPI_Win w ARGS)        \
    TIMED(name, name##T, (b, n, t, rb, rn, rt, to, d, tn, tt, o, w args),                         \
          o == MPI_NO_OP ? given(to, rn, rt) : given(to, n, t))

#define WINDOWS(T, D)                                                                             \
    int MPI_Win_create##T(void *b, MPI_Aint n, D d, MPI_Info i, MPI_Comm c, MPI_Win *w)           \
    TIMED(Win_create, Win_create##T, (b, n, d, i, c, w), 0)                                       \
    int MPI_Win_allocate##T(MPI_Aint n, D d, MPI_Info i, MPI_Comm c, void *b, MPI_Win *w)         \
    TIMED(Win_allocate, Win_allocate##T, (n, d, i, c, b, w), 0)                                   \
    int MPI_Win_allocate_shared##T(MPI_Aint n, D d, MPI_Info i, MPI_Comm c, void *b, MPI_Win *w)  \
    TIMED(Win_allocate_shared, Win_allocate_shared##T, (n, d, i, c, b, w), 0)

/* Files: at an explicit offset, or at the file's pointer. */

#define READ(name, T, N, PLACE, place)                                                            \
    int MPI_File_##name##T(MPI_File f PLACE, void *b, N n, MPI_Datatype t, MPI_Status *s)         \
    ARRIVING(File_##name, File_##name##T, (f place, b, n, t, s))

#define WRITE(name, T, N, PLACE, place)                                                           \
    int MPI_File_##name##T(MPI_File f PLACE, const void *b, N n, MPI_Datatype t, MPI_Status *s)   \
    TIMED(File_##name, File_##name##T, (f place, b, n, t, s), held(n, t))

#define IREAD(name, T, N, PLACE, place)                                                           \
    int MPI_File_##name##T(MPI_File f PLACE, void *b, N n, MPI_Datatype t, MPI_Request *r)        \
    TIMED(File_##name, File_##name##T, (f place, b, n, t, r), held(n, t))

#define IWRITE(name, T, N, PLACE, place)                                                          \
    int MPI_File_##name##T(MPI_File f PLACE, const void *b, N n, MPI_Datatype t, MPI_Request *r)  \
    TIMED(File_##name, File_##name##T, (f place, b, n, t, r), held(n, t))

#define READ_BEGIN(name, T, N, PLACE, place)                                                      \
    int MPI_File_##name##T(MPI_File f PLACE, void *b, N n, MPI_Datatype t)                        \
    TIMED(File_##name, File_##name##T, (f place, b, n, t), held(n, t))

#define WRITE_BEGIN(name, T, N, PLACE, place)                                                     \
    int MPI_File_##name##T(MPI_File f PLACE, const void *b, N n, MPI_Datatype t)                  \
    TIMED(File_##name, File_##name##T, (f place, b, n, t), held(n, t))

#define COMMA ,
#define LATER COMMA MPI_Request *r
#define later COMMA r
#define AT COMMA MPI_Offset o
#define at COMMA o

#define BOTH(KIND, name, iname, T, N) KIND(name, T, N, , ) KIND(iname, T, N, LATER, later)
#define PLACED(KIND, name, iname, T, N, D)                                                        \
    KIND(name, T, N, D, , ) KIND(iname, T, N, D, LATER, later)
#define FILED(KIND, name, T, N)                                                                   \
    KIND(name, T, N, , ) KIND(name##_at, T, N, AT, at) KIND(name##_all, T, N, , )                 \
    KIND(name##_at_all, T, N, AT, at) KIND(name##_shared, T, N, , )

#define COUNTED(T, N, D)                                                                          \
    static int64_t total##T(const N n[], MPI_Comm c)                                              \
    {                                                                                             \
        int64_t sum = 0;                                                                          \
        for (int i = peers(c) - 1; i >= 0; i--)                                                   \
            sum += n[i];                                                                          \
        return sum;                                                                               \
    }                                                                                             \
    static int64_t mixed##T(const N n[], const MPI_Datatype t[], MPI_Comm c)                      \
    {                                                                                             \
        int64_t sum = 0;                                                                          \
        for (int i = peers(c) - 1; i >= 0; i--)                                                   \
            sum += held(n[i], t[i]);                                                              \
        return sum;                                                                               \
    }                                                                                             \
    BOTH(SEND, Send, Isend, T, N) BOTH(SEND, Bsend, Ibsend, T, N)                                 \
    BOTH(SEND, Ssend, Issend, T, N) BOTH(SEND, Rsend, Irsend, T, N)                               \
    RECEIVES(T, N)                                                                                \
    BOTH(BCAST, Bcast, Ibcast, T, N)                                                              \
    BOTH(REDUCE, Reduce, Ireduce, T, N)                                                           \
    BOTH(ALLREDUCE, Allreduce, Iallreduce, T, N)                                                  \
    BOTH(ALLREDUCE, Scan, Iscan, T, N)                                                            \
    BOTH(ALLREDUCE, Exscan, Iexscan, T, N)                                                        \
    BOTH(REDUCE_SCATTER, Reduce_scatter, Ireduce_scatter, T, N)                                   \
    BOTH(REDUCE_BLOCK, Reduce_scatter_block, Ireduce_scatter_block, T, N)                         \
    BOTH(GATHER, Gather, Igather, T, N)                                                           \
    BOTH(SCATTER, Scatter, Iscatter, T, N)                                                        \
    BOTH(ALLGATHER, Allgather, Iallgather, T, N)                                                  \
    BOTH(ALLTOALL, Alltoall, Ialltoall, T, N)                                                     \
    PLACED(GATHERV, Gatherv, Igatherv, T, N, D)                                                   \
    PLACED(SCATTERV, Scatterv, Iscatterv, T, N, D)                                                \
    PLACED(ALLGATHERV, Allgatherv, Iallgatherv, T, N, D)                                          \
    PLACED(ALLTOALLV, Alltoallv, Ialltoallv, T, N, D)                                             \
    PLACED(ALLTOALLW, Alltoallw, Ialltoallw, T, N, D)                                             \
    BOTH(PUT, Put, Rput, T, N)                                                                    \
    BOTH(GET, Get, Rget, T, N)                                                                    \
    BOTH(ACCUMULATE, Accumulate, Raccumulate, T, N)                                               \
    BOTH(GET_ACCUMULATE, Get_accumulate, Rget_accumulate, T, N)                                   \
    WINDOWS(T, D)                                                                                 \
    FILED(READ, read, T, N) FILED(WRITE, write, T, N)                                             \
    READ(read_ordered, T, N, , ) WRITE(write_ordered, T, N, , )                                   \
    FILED(IREAD, iread, T, N) FILED(IWRITE, iwrite, T, N)                                         \
    READ_BEGIN(read_all_begin, T, N, , ) READ_BEGIN(read_at_all_begin, T, N, AT, at)              \
    READ_BEGIN(read_ordered_begin, T, N, , )                                                      \
    WRITE_BEGIN(write_all_begin, T, N, , ) WRITE_BEGIN(write_at_all_begin, T, N, AT, at)          \
    WRITE_BEGIN(write_ordered_begin, T, N, , )

COUNTED(, int, int)
#if MPI_VERSION >= 4
COUNTED(_c, MPI_Count, MPI_Aint)
#endif

/* A routine that moves no bytes of its own. */
#define PLAIN(name, params, args)                                                                 \
    int MPI_##name params TIMED(name, name, args, 0)

PLAIN(Barrier, (MPI_Comm c), (c))
PLAIN(Ibarrier, (MPI_Comm c, MPI_Request *r), (c, r))
PLAIN(Probe, (int from, int tag, MPI_Comm c, MPI_Status *s), (from, tag, c, s))
PLAIN(Iprobe, (int from, int tag, MPI_Comm c, int *f, MPI_Status *s), (from, tag, c, f, s))
PLAIN(Mprobe, (int from, int tag, MPI_Comm c, MPI_Message *m, MPI_Status *s), (from, tag, c, m, s))
PLAIN(Improbe, (int from, int tag, MPI_Comm c, int *f, MPI_Message *m, MPI_Status *s),
      (from, tag, c, f, m, s))
PLAIN(Start, (MPI_Request *r), (r))
PLAIN(Startall, (int n, MPI_Request r[]), (n, r))
PLAIN(Wait, (MPI_Request *r, MPI_Status *s), (r, s))
PLAIN(Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
PLAIN(Waitany, (int n, MPI_Request r[], int *i, MPI_Status *s), (n, r, i, s))
PLAIN(Waitsome, (int n, MPI_Request r[], int *k, int i[], MPI_Status s[]), (n, r, k, i, s))
PLAIN(Test, (MPI_Request *r, int *f, MPI_Status *s), (r, f, s))
PLAIN(Testall, (int n, MPI_Request r[], int *f, MPI_Status s[]), (n, r, f, s))
PLAIN(Testany, (int n, MPI_Request r[], int *i, int *f, MPI_Status *s), (n, r, i, f, s))
PLAIN(Testsome, (int n, MPI_Request r[], int *k, int i[], MPI_Status s[]), (n, r, k, i, s))

int MPI_Fetch_and_op(const void *b, void *rb, MPI_Datatype t, int to, MPI_Aint d, MPI_Op o,
                     MPI_Win w)
    TIMED(Fetch_and_op, Fetch_and_op, (b, rb, t, to, d, o, w), given(to, 1, t))
int MPI_Compare_and_swap(const void *b, const void *cb, void *rb, MPI_Datatype t, int to,
                         MPI_Aint d, MPI_Win w)
    TIMED(Compare_and_swap, Compare_and_swap, (b, cb, rb, t, to, d, w), given(to, 1, t))
PLAIN(Win_create_dynamic, (MPI_Info i, MPI_Comm c, MPI_Win *w), (i, c, w))
PLAIN(Win_free, (MPI_Win *w), (w))
PLAIN(Win_fence, (int how, MPI_Win w), (how, w))
PLAIN(Win_start, (MPI_Group g, int how, MPI_Win w), (g, how, w))
PLAIN(Win_complete, (MPI_Win w), (w))
PLAIN(Win_post, (MPI_Group g, int how, MPI_Win w), (g, how, w))
PLAIN(Win_wait, (MPI_Win w), (w))
PLAIN(Win_test, (MPI_Win w, int *f), (w, f))
PLAIN(Win_lock, (int kind, int who, int how, MPI_Win w), (kind, who, how, w))
PLAIN(Win_unlock, (int who, MPI_Win w), (who, w))
PLAIN(Win_lock_all, (int how, MPI_Win w), (how, w))
PLAIN(Win_unlock_all, (MPI_Win w), (w))
PLAIN(Win_flush, (int who, MPI_Win w), (who, w))
PLAIN(Win_flush_all, (MPI_Win w), (w))
PLAIN(Win_flush_local, (int who, MPI_Win w), (who, w))
PLAIN(Win_flush_local_all, (MPI_Win w), (w))
PLAIN(Win_sync, (MPI_Win w), (w))

PLAIN(File_open, (MPI_Comm c, const char *path, int mode, MPI_Info i, MPI_File *f),
      (c, path, mode, i, f))
PLAIN(File_close, (MPI_File *f), (f))
PLAIN(File_delete, (const char *path, MPI_Info i), (path, i))
PLAIN(File_set_size, (MPI_File f, MPI_Offset n), (f, n))
PLAIN(File_preallocate, (MPI_File f, MPI_Offset n), (f, n))
PLAIN(File_set_view, (MPI_File f, MPI_Offset o, MPI_Datatype t, MPI_Datatype ft, const char *how,
                      MPI_Info i), (f, o, t, ft, how, i))
PLAIN(File_seek, (MPI_File f, MPI_Offset o, int from), (f, o, from))
PLAIN(File_seek_shared, (MPI_File f, MPI_Offset o, int from), (f, o, from))
PLAIN(File_sync, (MPI_File f), (f))
PLAIN(File_read_all_end, (MPI_File f, void *b, MPI_Status *s), (f, b, s))
PLAIN(File_read_at_all_end, (MPI_File f, void *b, MPI_Status *s), (f, b, s))
PLAIN(File_read_ordered_end, (MPI_File f, void *b, MPI_Status *s), (f, b, s))
PLAIN(File_write_all_end, (MPI_File f, const void *b, MPI_Status *s), (f, b, s))
PLAIN(File_write_at_all_end, (MPI_File f, const void *b, MPI_Status *s), (f, b, s))
PLAIN(File_write_ordered_end, (MPI_File f, const void *b, MPI_Status *s), (f, b, s))

/* The profile itself. */

struct task { /* a line of the table of all ranks */
    double communication, elapsed, user, system, memory;
    int64_t switches;
    int32_t cpu;
    char host[64];
};

enum { LEAST, MEDIAN, MOST, ROLES };
static const char *const roles[] = {"minimum", "median", "maximum"};
static const char rule[] =
    "-----------------------------------------------------------------------\n";

static double seconds(int64_t ticks)
{
    return (double)ticks / second;
}

static int64_t spent(int from, int to)
{
    int64_t ticks = 0;
    for (int i = from; i < to; i++)
        ticks += routines[i].all.time;
    return ticks;
}

static struct task measured(void)
{
    struct task task = {0};
    struct rusage usage;
    int64_t nanos = nanoseconds() - first_nanosecond;
    second = 1e9 * (double)(tick() - first_tick) / (double)(nanos > 0 ? nanos : 1);
    getrusage(RUSAGE_SELF, &usage);
    task.communication = seconds(spent(0, FIRST_FILE));
    task.elapsed = (double)nanos / 1e9;
    task.user = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
    task.system = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    task.memory = (double)usage.ru_maxrss / 1024;
    task.switches = usage.ru_nvcsw + usage.ru_nivcsw;
    task.cpu = sched_getcpu();
    gethostname(task.host, sizeof task.host - 1);
    return task;
}

static const struct task *sorted_tasks;

static int by_communication(const void *a, const void *b)
{
    double x = sorted_tasks[*(const int *)a].communication;
    double y = sorted_tasks[*(const int *)b].communication;
    return (x > y) - (x < y);
}

static void choose(const struct task *tasks, int size, int chosen[ROLES])
{
    int *order = malloc((size_t)size * sizeof *order);
    memset(chosen, 0, ROLES * sizeof *chosen);
    if (!order)
        return;
    for (int i = 0; i < size; i++)
        order[i] = i;
    sorted_tasks = tasks;
    qsort(order, (size_t)size, sizeof *order, by_communication);
    chosen[LEAST] = order[0];
    chosen[MEDIAN] = order[(size - 1) / 2];
    chosen[MOST] = order[size - 1];
    free(order);
}

static void write_routines(FILE *out)
{
    fprintf(out, "%sMPI Routine                        #calls     avg. bytes      time(sec)\n%s",
            rule, rule);
    for (int i = 0; i < COUNT; i++) {
        const struct sum *all = &routines[i].all;
        if (all->calls)
            fprintf(out, "%-28s %12lld    %11.1f   %12.3f\n", names[i], (long long)all->calls,
                    (double)all->bytes / (double)all->calls, seconds(all->time));
    }
    fputs(rule, out);
}

static void write_sizes(FILE *out)
{
    fprintf(out, "\n%.65s\nMessage size distributions:\n", rule);
    for (int i = 0; i < COUNT; i++) {
        if (routines[i].all.bytes == 0)
            continue;
        fprintf(out, "\n%-22s    #calls    avg. bytes      time(sec)\n", names[i]);
        for (int k = 0; k < BINS; k++) {
            const struct sum *bin = &routines[i].bins[k];
            if (bin->calls)
                fprintf(out, "%32lld   %13.1f  %13.3f\n", (long long)bin->calls,
                        (double)bin->bytes / (double)bin->calls, seconds(bin->time));
        }
    }
    fprintf(out, "\n%.65s\n", rule);
}

static void write_tasks(FILE *out, const struct task *tasks, int size, const int chosen[ROLES])
{
    int large = 0, late = 0, width = 4;
    for (int i = 0; i < size; i++) {
        int length = (int)strlen(tasks[i].host);
        large = tasks[i].memory > tasks[large].memory ? i : large;
        late = tasks[i].elapsed > tasks[late].elapsed ? i : late;
        width = length > width ? length : width;
    }
    fprintf(out,
            "\nSummary for all tasks:\n\n"
            "  Rank %d reported the largest memory utilization : %.2f MiB\n"
            "  Rank %d reported the largest elapsed time : %.2f sec\n\n",
            large, tasks[large].memory, late, tasks[late].elapsed);
    for (int role = 0; role < ROLES; role++)
        fprintf(out, "  %-7s communication time = %.3f sec for task %d\n", roles[role],
                tasks[chosen[role]].communication, chosen[role]);
    fprintf(out,
            "\n\nMPI timing summary for all ranks:\n"
            "taskid %*s    cpu    comm(s)  elapsed(s)     user(s)   system(s)   size(MiB)"
            "    switches\n",
            width, "host");
    for (int i = 0; i < size; i++)
        fprintf(out, "%6d %*s %6d %10.2f  %10.2f  %10.2f  %10.2f  %10.2f  %10lld\n", i, width,
                tasks[i].host, tasks[i].cpu, tasks[i].communication, tasks[i].elapsed,
                tasks[i].user, tasks[i].system, tasks[i].memory, (long long)tasks[i].switches);
}

static void write_profile(FILE *out, int rank, int size, const struct task *task,
                          const int chosen[ROLES])
{
    fprintf(out, "Data for MPI rank %d of %d:\nTimes from MPI_Init() to MPI_Finalize().\n", rank,
            size);
    write_routines(out);
    for (int role = 0; role < ROLES; role++)
        if (chosen[role] == rank)
            fprintf(out, "MPI task %d of %d had the %s communication time.\n", rank, size,
                    roles[role]);
    fprintf(out,
            "total communication time = %.3f seconds.\n"
            "total elapsed time       = %.3f seconds.\n"
            "user cpu time            = %.3f seconds.\n"
            "system time              = %.3f seconds.\n"
            "max resident set size    = %.3f MiB.\n",
            task->communication, task->elapsed, task->user, task->system, task->memory);
    for (int i = FIRST_FILE; i < COUNT; i++)
        if (routines[i].all.calls) {
            fprintf(out, "\ntotal MPI-IO time = %.3f seconds.\n",
                    seconds(spent(FIRST_FILE, COUNT)));
            break;
        }
    write_sizes(out);
}

static int job(void)
{
    static const char *const variables[] = {"SLURM_JOBID", "PBS_JOBID", "LSB_JOBID",
                                            "COBALT_JOBID"};
    int number = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (!number && getenv(variables[i]))
            number = atoi(getenv(variables[i]));
    if (!number)
        number = (int)getpid();
    PMPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return number;
}

static void report(void)
{
    int rank = own(MPI_COMM_WORLD), size = peers(MPI_COMM_WORLD), chosen[ROLES], number;
    const char *all = getenv("SAVE_ALL_TASKS");
    struct task task = measured(), *tasks = 0;
    char path[PATH_MAX + 64];
    FILE *out;
    if (rank == 0)
        tasks = calloc((size_t)size, sizeof *tasks);
    number = job();
    PMPI_Gather(&task, (int)sizeof task, MPI_BYTE, tasks, (int)sizeof task, MPI_BYTE, 0,
                MPI_COMM_WORLD);
    if (rank == 0)
        choose(tasks, size, chosen);
    PMPI_Bcast(chosen, ROLES, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0 || (all && (*all == 'y' || *all == 'Y')) || rank == chosen[LEAST] ||
        rank == chosen[MEDIAN] || rank == chosen[MOST]) {
        snprintf(path, sizeof path, "%s/mpi_profile.%d.%d", folder, number, rank);
        out = fopen(path, "w");
        if (!out) {
            fprintf(stderr, "%s could not be written: %s.\n", path, strerror(errno));
        } else {
            write_profile(out, rank, size, &task, chosen);
            if (rank == 0)
                write_tasks(out, tasks, size, chosen);
            fclose(out);
        }
    }
    free(tasks);
}

static void begin(int level)
{
    if (!getcwd(folder, sizeof folder))
        strcpy(folder, ".");
    threaded = level == MPI_THREAD_MULTIPLE;
    snprintf(calls_path, sizeof calls_path, "%s/mpi_calls.%d", folder, own(MPI_COMM_WORLD));
    show_calls(calls_path);
    if (calls) {
        calls->pid = (int32_t)getpid();
        calls->rank = own(MPI_COMM_WORLD);
        calls->size = peers(MPI_COMM_WORLD);
    }
    first_nanosecond = nanoseconds();
    first_tick = tick();
    active = 1;
}

int MPI_Init(int *argc, char ***argv)
{
    BEHIND(Init);
    int outcome = real(argc, argv);
    begin(MPI_THREAD_SINGLE);
    return outcome;
}
BY_BOTH_NAMES(Init)

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    BEHIND(Init_thread);
    int outcome = real(argc, argv, required, provided);
    begin(*provided);
    return outcome;
}
BY_BOTH_NAMES(Init_thread)

/* A handle may be used again, for other ranks. */
int MPI_Comm_free(MPI_Comm *comm)
{
    BEHIND(Comm_free);
    for (int i = 0; i < communicators; i++)
        if (known[i] == *comm) {
            known[i] = known[--communicators];
            slot_of_known[i] = slot_of_known[communicators];
        }
    return real(comm);
}
BY_BOTH_NAMES(Comm_free)

int MPI_Finalize(void)
{
    BEHIND(Finalize);
    if (active) {
        active = 0;
        if (calls)
            unlink(calls_path);
        calls = 0;
        report();
    }
    return real();
}
BY_BOTH_NAMES(Finalize)
