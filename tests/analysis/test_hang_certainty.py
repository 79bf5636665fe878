"""Jobs whose dumps mislead: no more is said to be certain, or to hang, than they show."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.analysis.hang import diagnose
from cluster.analysis.hang.situation import with_ranks
from cluster.core.model.hang import Count, Frame, HangAnswer, Membership, Operation, Snapshot
from tests.analysis.test_hang import NOW, absent, job, last, member, ras_counts

Snapshots = list[Snapshot]
HOUR = 3600.0


def twice(later: Iterable[Snapshot], seconds: float = 2.0) -> Snapshots:
    """Look at ranks that do not go on."""
    ranks = list(later)
    return [*(replace(rank, at=rank.at - seconds) for rank in ranks), *ranks]


def states(size: int = 4, **changes: Any) -> Snapshots:
    """Return the states of processes, from two looks; `changes` are those of rank 1."""
    template = Snapshot(source="processes", at=NOW, state="sleeping")
    ranks = [replace(template, rank=rank, pid=100 + rank) for rank in range(size)]
    ranks[1] = replace(ranks[1], **changes)
    return twice(ranks)


def late(rank: int = 1, waits: float = 60.0, size: int = 4) -> Snapshots:
    """Return ranks of which one is absent."""
    ranks = job(size, 0.1, 50, waits)
    ranks[rank] = absent(ranks[rank])
    return ranks


def late_in(**changes: Any) -> Snapshots:
    """Return ranks of which 1 is absent, and its process is in a state."""
    return [*twice(late()), *states(**changes)]


def message(rank: int, name: str, *, is_done: bool = False, number: int = 1) -> Operation:
    peer = int(name.replace("<", "-").replace(">", "-").rpartition("-")[2])
    return Operation(
        group="pp", number=number, name=name, peer=peer, done=is_done, since=NOW - 60 + rank
    )


def stages(*entered: Iterable[str]) -> Snapshots:
    """Return ranks of a pipeline that wait for messages; a name that begins with + has ended."""
    every = tuple(range(len(entered)))
    return [
        member(
            "flight_recorder",
            rank,
            "pp",
            every,
            operations=tuple(
                message(rank, name.strip("+"), is_done=name.startswith("+"), number=number)
                for number, name in enumerate(("+send 9->9", *names), 1)
                if "9" not in name
            )
            or (Operation(group="pp", number=1, name="all_reduce", done=True, since=NOW - 90),),
        )
        for rank, names in enumerate(entered)
    ]


def old_dump() -> Snapshots:
    """A dump of an hour ago, when rank 1 was late for a second; the job has gone on since."""
    return [*(replace(rank, at=rank.at - HOUR) for rank in late(waits=1 + HOUR)), *states()]


def clock_ahead() -> Snapshots:
    """The host of ranks 2 and 3 is an hour ahead; rank 1 is late for a second."""
    ranks = late(waits=1)
    for rank in (2, 3):
        shifted = [replace(op, since=op.since + HOUR) for op in ranks[rank].operations]
        ranks[rank] = replace(ranks[rank], at=NOW + HOUR, operations=tuple(shifted))
    return twice(ranks)


def unread_host() -> Snapshots:
    return [*twice([snapshot for snapshot in late(size=8) if snapshot.rank < 4]), *states(8)]


def unread_majority() -> Snapshots:
    ranks = job(8, 0.1, 50, 60)
    return twice([ranks[0], ranks[1], last(ranks[2], name="all_to_all")])


def halves(*, members: bool) -> Snapshots:
    """Two halves of a communicator that was split, in groups of one name; all goes well."""
    ranks = job(4, 0.1, 50, waits=0.05)
    for rank in (2, 3):
        ranks[rank] = last(ranks[rank], name="broadcast")
    halved = [Membership(group="0", ranks=(n - n % 2, n - n % 2 + 1)) for n in range(4)]
    return [replace(r, groups=(halved[r.rank],) if members else ()) for r in ranks]


def overwritten() -> Snapshots:
    """Rank 1 has overwritten what it entered in the group that others wait in."""
    ranks = late()
    busy = tuple(
        Operation(group="tp", number=n, name="all_reduce", done=True, since=NOW - 60 + n / 9)
        for n in range(900, 950)
    )
    ranks[1] = replace(ranks[1], operations=busy, partial=True)
    return [*twice(ranks), *states()]


def stopped_in_collective() -> Snapshots:
    """Rank 1 is stopped in the collective, which rank 2 has not entered."""
    return [*twice(late(2)), *states(state="stopped")]


def stopped_a_moment() -> Snapshots:
    """A debugger reads the stack of rank 1 at the second look."""
    looks = states()
    looks[5] = replace(looks[5], state="stopped")
    return [*twice(late(2)), *looks]


def in_recv() -> Snapshots:
    """Rank 1 waits in MPI_Recv for rank 2, which computes; 0 and 3 wait for both."""
    ranks = late()
    ranks[1] = replace(ranks[1], call="MPI_Recv")
    ranks[2] = absent(ranks[2])
    return [*twice(ranks), *states()]


def stacks() -> Snapshots:
    """A slow rank, each 10 s in a step, whose collectives take long: stacks are alike."""
    wait = Frame(function="all_reduce", file="/x/torch/distributed/distributed_c10d.py")
    step = Frame(function="step", file="/job/train.py", line=7)
    ranks = [
        Snapshot(
            source="python_stacks", rank=rank, at=NOW, stack=(wait, step) if rank != 1 else (step,)
        )
        for rank in range(4)
    ]
    return [*twice(ranks, 30.0), *states()]


def early_dump() -> Snapshots:
    """The dump of rank 1 was written before the others entered."""
    ranks = late()
    ranks[1] = replace(ranks[1], at=NOW - 61)
    return [*ranks, *states()]


def ended_only() -> Snapshots:
    ranks = [last(rank, done=True) for rank in job(4, 0.1, 50, 60)]
    return twice(replace(rank, source="nccl_inspector") for rank in ranks)


def slow_mpi() -> Snapshots:
    """Its steps take up to 60 s, of which only the last is known."""
    ranks = late(waits=20)
    looks = [replace(rank, operations=rank.operations[-1:], pause=60.0) for rank in ranks]
    return [*twice(looks), *states()]


def one_recorder() -> Snapshots:
    """Only rank 0 has a Flight Recorder; that the others call MPI says nothing of its group."""
    ranks = job(4, 0.1, 50, 60)
    calls = [
        replace(
            rank,
            source="mpi_calls",
            groups=(Membership(group="MPI_COMM_WORLD", ranks=(0, 1, 2, 3)),),
            operations=(Operation(group="MPI_COMM_WORLD", number=9, name="MPI_Bcast", done=True),),
        )
        for rank in ranks
    ]
    return [*twice([ranks[0], *calls]), *states()]


def dump_before_counts() -> Snapshots:
    """The Flight Recorder was written an hour ago, in a short wait; NCCL counts now."""
    ranks = [replace(entry, at=entry.at - HOUR) for entry in late(waits=1 + HOUR)]
    return [*ranks, *twice(ras_counts("0x1", (9, 9, 9, 9))), *states()]


def half_overwritten() -> Snapshots:
    """Rank 1 waits for a message; the dump of rank 0 has lost how many it has sent."""
    first, second = stages(("+send 0->1",), ("recv 1<-0",))
    return twice([replace(first, partial=True), second])


def other_order() -> Snapshots:
    """One dump of each rank, of which 1 calls another collective; two looks at the processes."""
    ranks = job(4, 0.1, 50, 60)
    ranks[1] = last(ranks[1], name="all_to_all")
    return [*ranks, *states()]


def ras_by_address() -> Snapshots:
    """NCCL numbers the ranks of each group of two hosts by itself, and names hosts by address."""
    ranks = [
        Snapshot(
            source="nccl_ras",
            rank=number,
            host=f"10.0.0.{number}",
            pid=7,  # in a container of each
            at=NOW,
            groups=(Membership(group="0x1", ranks=(0, 1)),),
            counts=(Count(group="0x1", name="AllReduce", entered=9 - number),),
        )
        for number in range(2)
    ]
    processes = [
        Snapshot(
            source="processes",
            rank=rank,
            host=f"n{number}.cloud",
            addresses=(f"10.0.0.{number}",),
            pid=7,
            at=NOW,
        )
        for number, rank in enumerate((2, 5))
    ]
    return twice([*ranks, *processes], 60.0)


def mismatch(name: str, size: tuple[int, ...], waits: float = 60) -> Snapshots:
    """All ranks are in one collective, to which rank 1 brings another size than 4 x 8."""
    ranks = [last(rank, name=name, sizes=((4, 8),)) for rank in job(4, 0.1, 50, waits)]
    ranks[1] = last(ranks[1], sizes=(size,))
    return [*twice(ranks), *states()]


def in_calls(*functions: str) -> Snapshots:
    """Ranks whose stacks are in these calls of torch.distributed, the innermost first."""
    return [
        Snapshot(
            source="python_stacks",
            rank=rank,
            at=NOW,
            stack=tuple(
                Frame(function=name, file="/x/torch/distributed/distributed_c10d.py")
                for name in names.split()
            )
            or (Frame(function="step", file="/job/train.py", line=7),),
        )
        for rank, names in enumerate(functions)
    ]


def not_hung(answer: HangAnswer) -> bool:
    return answer.verdict != "hung"


def not_certain(answer: HangAnswer) -> bool:
    causes = (answer.cause, *answer.others)
    return not any(cause is not None and cause.confidence == "certain" for cause in causes)


def has_no_other(answer: HangAnswer) -> bool:
    return not answer.others


def blames(kind: str, *ranks: int, sure: str = "", call: str = "") -> Callable[[HangAnswer], bool]:
    def check(answer: HangAnswer) -> bool:
        cause = answer.cause
        return (
            cause is not None
            and cause.kind == kind
            and tuple(straggler.rank for straggler in cause.stragglers) == ranks
            and cause.confidence == (sure or cause.confidence)
            and (not call or (cause.stuck is not None and cause.stuck.name == call))
        )

    return check


def is_on(host: str) -> Callable[[HangAnswer], bool]:
    return lambda answer: answer.cause is not None and answer.cause.stragglers[0].host == host


def has_verdict(*verdicts: str) -> Callable[[HangAnswer], bool]:
    return lambda answer: answer.verdict in verdicts


@pytest.mark.parametrize(
    ("snapshots", "checks"),
    [
        (late_in(), [blames("rank_absent", 1, sure="certain"), has_no_other]),
        ([*twice(job(4, 0.1, 50, 60)), *states()], [blames("link_cut", sure="likely")]),
        ([*job(4, 0.1, 50, 60), *states()], [blames("link_cut", sure="possible")]),
        (old_dump(), [not_hung, not_certain]),
        (clock_ahead(), [not_hung, blames("rank_absent", 1)]),
        (unread_host(), [has_verdict("hung"), not_certain]),
        (unread_majority(), [has_verdict("hung"), not_certain]),
        (halves(members=True), [not_hung, not_certain, blames("link_cut")]),
        (halves(members=False), [not_hung, not_certain]),
        (overwritten(), [not_certain]),
        (stopped_in_collective(), [blames("rank_absent", 2)]),
        (stopped_a_moment(), [blames("rank_absent", 2)]),
        (late_in(state="stopped"), [blames("process_stopped", 1, sure="certain")]),
        ([*late(), *states(state="stopped")[4:]], [blames("process_stopped", 1, sure="likely")]),
        (in_recv(), [blames("rank_absent", 2)]),
        (
            [*late(waits=3), *states(state="stopped")[4:]],
            [has_verdict("undecided"), blames("process_stopped", 1, sure="likely")],
        ),
        (
            [*twice(late(waits=3)), *states(state="stopped")],
            [has_verdict("hung"), blames("process_stopped", 1, sure="certain")],
        ),
        (
            [*twice(late(waits=3)), *states(state="unreachable")],
            [has_verdict("hung"), blames("host_dead", 1, sure="likely")],
        ),
        (
            [*late(waits=3), *states(state="unreachable")[4:]],
            [has_verdict("undecided"), blames("host_dead", 1, sure="likely")],
        ),
        (late_in(call="MPI_Recv"), [blames("rank_absent", 1, sure="likely")]),
        (
            in_calls("all_gather barrier", "gather barrier", ""),
            [blames("rank_absent", 2, call="barrier")],
        ),
        (in_calls("all_reduce", "broadcast", ""), [has_verdict("unknown")]),
        (mismatch("all_reduce", (32,)), [blames("link_cut")]),
        (mismatch("all_reduce", (9,)), [blames("shape_differs", 1, sure="likely")]),
        (mismatch("all_reduce", (9,), 3)[4:], [has_verdict("undecided")]),
        (mismatch("all_reduce", (9,), 3), [has_verdict("hung")]),
        (mismatch("all_to_all", (9,)), [blames("link_cut")]),
        (late_in(state="gone", pid=0), [blames("process_gone", 1, sure="likely")]),
        (late_in(state="dead"), [blames("process_gone", 1, sure="likely")]),
        (states(state="unreachable"), [has_verdict("unknown"), not_certain]),
        (stacks(), [not_hung, not_certain]),
        (early_dump(), [not_certain, blames("rank_absent", 1, sure="possible")]),
        (ended_only(), [has_verdict("unknown")]),
        (slow_mpi(), [not_hung]),
        (one_recorder(), [not_certain, blames("rank_absent", 1, 2, 3, sure="possible")]),
        (dump_before_counts(), [not_hung, not_certain]),
        (half_overwritten(), [blames("rank_absent", 0, sure="possible")]),
        (other_order(), [blames("order_differs", 1, sure="likely")]),
        (twice(other_order()), [blames("order_differs", 1, sure="certain")]),
        (ras_by_address(), [has_verdict("hung"), blames("rank_absent", 5), is_on("n1.cloud")]),
        # rank 0 sleeps, each stage waits for the one before it
        (twice(stages((), ("recv 1<-0",), ("recv 2<-1",))), [blames("rank_absent", 0)]),
        # all wait for one another
        (
            twice(stages(("recv 0<-2",), ("recv 1<-0",), ("recv 2<-1",))),
            [blames("order_differs", 0, 1, 2, sure="likely")],
        ),
        # rank 0 has sent, and it does not arrive
        (twice(stages(("+send 0->1",), ("recv 1<-0",))), [blames("link_cut")]),
    ],
    ids=lambda value: "" if isinstance(value, list) else None,
)  # fmt: skip
def test_no_more_is_certain_than_was_read(
    snapshots: Snapshots, checks: list[Callable[[HangAnswer], bool]]
) -> None:
    answer = diagnose(snapshots)
    for check in checks:
        assert check(answer), (answer.verdict, answer.cause)


def test_a_stack_of_a_process_that_two_hosts_have_is_of_no_rank() -> None:
    """Two containers have a process 7, and a stack does not say its host."""
    ranks = [replace(snapshot, pid=7, host=f"n{snapshot.rank}") for snapshot in states(2)]
    stack = Snapshot(
        source="python_stacks", pid=7, at=NOW, stack=(Frame(function="f", file="f.py"),)
    )

    assert "python_stacks" not in {snapshot.source for snapshot in with_ranks([*ranks, stack])}
    assert [snapshot.rank for snapshot in with_ranks([ranks[1], stack])] == [1, 1]
