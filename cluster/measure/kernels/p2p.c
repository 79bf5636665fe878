/* The timed loops of the benchmark p2p; benchmarks/p2p defines what they measure.
 *
 * Each function does `n` repetitions and writes the nanoseconds of each, on the rank that records
 * them. It returns the number of the first message that arrived wrong, or -1. The communicator's
 * handler makes errors of MPI fatal. Nothing is allocated or printed, and bytes are compared
 * outside the timed regions.
 */

#include "kernel.h"

enum { DATA = 100, ACK = 101, WORD = 4 };

struct pair { /* class PairStruct in benchmarks/p2p/loops.py */
    const MPI_Comm *comm;
    const MPI_Datatype *type;
    MPI_Request *requests;  /* 2 * window */
    const char *pattern[2]; /* used in turn, so that a missing byte is noticed */
    char *incoming;         /* room for 1 << shift messages, one after another */
    double *nanoseconds;    /* one per repetition */
    int64_t size;           /* of a message in bytes: `count` of `type` */
    int64_t number;         /* of the next message, or window of messages */
    int32_t count;
    int32_t window;
    int32_t shift;
    int32_t lead;  /* `type`s of an untimed round trip */
    int32_t first; /* this is the rank that sends first, to rank 1 of the two */
};

static const char *outgoing(const struct pair *p, int64_t number)
{
    return p->pattern[number >> p->shift & 1];
}

static char *place(const struct pair *p, int64_t number)
{
    return p->incoming + (number & ((1 << p->shift) - 1)) * p->size;
}

static int wrong(const struct pair *p, int64_t number)
{
    return memcmp(place(p, number), outgoing(p, number), (size_t)p->size) != 0;
}

static void send(const struct pair *p, int64_t number, int count)
{
    MPI_Send(outgoing(p, number), count, *p->type, p->first, DATA, *p->comm);
}

static void receive(const struct pair *p, int64_t number, int count)
{
    MPI_Recv(place(p, number), count, *p->type, p->first, DATA, *p->comm, MPI_STATUS_IGNORE);
}

int64_t oneway_time(struct pair *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++, p->number++) {
        MPI_Barrier(*p->comm);
        int64_t start = now();
        if (p->first)
            send(p, p->number, p->count);
        else
            receive(p, p->number, p->count);
        p->nanoseconds[i] = (double)(now() - start);
        if (!p->first && wrong(p, p->number))
            return p->number;
    }
    return -1;
}

/* The same exchange; only the receiver records values. */
int64_t oneway_bandwidth(struct pair *p, int64_t n)
{
    return oneway_time(p, n);
}

static void ping(const struct pair *p, int64_t n, double *nanoseconds)
{
    int64_t before = now();
    for (int64_t i = 0; i < n; i++) {
        send(p, p->number + i, p->count);
        receive(p, p->number + i, p->count);
        int64_t after = now();
        nanoseconds[i] = (double)(after - before) / 2;
        before = after;
    }
}

static void pong(const struct pair *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        receive(p, p->number + i, p->count);
        send(p, p->number + i, p->count);
    }
}

/* As many round trips as the buffer has room for, then an untimed one to start the next batch. It
 * repeats the last message, so that each timed one differs from what its slot holds. */
static int64_t batch(struct pair *p, int64_t n, double *nanoseconds)
{
    if (p->first)
        ping(p, n, nanoseconds);
    else
        pong(p, n);
    for (int64_t i = 0; i < n; i++)
        if (wrong(p, p->number + i))
            return p->number + i;
    p->number += n;
    MPI_Barrier(*p->comm);
    if (p->first) {
        send(p, p->number - 1, p->lead);
        receive(p, p->number - 1, p->lead);
    } else {
        receive(p, p->number - 1, p->lead);
        send(p, p->number - 1, p->lead);
    }
    return -1;
}

int64_t latency(struct pair *p, int64_t n)
{
    int64_t places = (int64_t)1 << p->shift, bad = -1;
    for (int64_t i = 0; i < n && bad < 0; i += places)
        bad = batch(p, n - i < places ? n - i : places, p->nanoseconds + i);
    return bad;
}

int64_t bandwidth(struct pair *p, int64_t n)
{
    char ack[WORD] = {0};
    for (int64_t i = 0; i < n; i++, p->number++) {
        MPI_Barrier(*p->comm);
        int64_t start = now();
        for (int k = 0; k < p->window; k++) {
            if (p->first)
                MPI_Isend(outgoing(p, p->number), p->count, *p->type, 1, DATA, *p->comm,
                          &p->requests[k]);
            else
                MPI_Irecv(p->incoming, p->count, *p->type, 0, DATA, *p->comm, &p->requests[k]);
        }
        MPI_Waitall(p->window, p->requests, MPI_STATUSES_IGNORE);
        if (p->first)
            MPI_Recv(ack, WORD, MPI_BYTE, 1, ACK, *p->comm, MPI_STATUS_IGNORE);
        else
            MPI_Send(ack, WORD, MPI_BYTE, 0, ACK, *p->comm);
        p->nanoseconds[i] = (double)(now() - start);
        if (!p->first && wrong(p, p->number))
            return p->number;
    }
    return -1;
}

int64_t bidirectional(struct pair *p, int64_t n)
{
    char out[WORD] = {0}, in[WORD];
    int peer = p->first;
    for (int64_t i = 0; i < n; i++, p->number++) {
        MPI_Barrier(*p->comm);
        int64_t start = now();
        for (int k = 0; k < p->window; k++)
            MPI_Irecv(p->incoming, p->count, *p->type, peer, DATA, *p->comm, &p->requests[k]);
        for (int k = 0; k < p->window; k++)
            MPI_Isend(outgoing(p, p->number), p->count, *p->type, peer, DATA, *p->comm,
                      &p->requests[p->window + k]);
        MPI_Waitall(2 * p->window, p->requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(out, WORD, MPI_BYTE, peer, ACK, in, WORD, MPI_BYTE, peer, ACK, *p->comm,
                     MPI_STATUS_IGNORE);
        p->nanoseconds[i] = (double)(now() - start);
        if (wrong(p, p->number))
            return p->number;
    }
    return -1;
}

int64_t memory_copy(struct pair *p, int64_t n)
{
    for (int64_t i = 0; i < n && p->first; i++, p->number++) {
        const char *from = outgoing(p, p->number);
        int64_t start = now();
        for (int k = 0; k < p->window; k++) {
            memcpy(p->incoming, from, (size_t)p->size);
            __asm__ volatile("" ::: "memory"); /* keeps every copy, although not all are read */
        }
        p->nanoseconds[i] = (double)(now() - start);
        if (wrong(p, p->number))
            return p->number;
    }
    MPI_Barrier(*p->comm);
    return -1;
}
