"""Which rank a job waits for: planted hangs of every class, jobs that are only slow, real dumps."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.analysis import hang
from cluster.analysis.hang import diagnose, rules
from cluster.core.model.hang import Count, Frame, Membership, Operation, Snapshot
from cluster.logs.dumps import read_dump
from cluster.reports.words.hang import answer_lines
from tests.conftest import ROOT

DUMPS = ROOT / "tests" / "logs" / "dumps"
NOW = 1_790_000_000.0


def member(
    source: str, rank: int, group: str, ranks: tuple[int, ...], moment: float = NOW, **fields: Any
) -> Snapshot:
    """Return a rank of one group."""
    groups = (Membership(group=group, ranks=ranks),)
    return Snapshot(source=source, rank=rank, at=moment, groups=groups, **fields)


def job(size: int, step: float, number: int, waits: float) -> list[Snapshot]:
    """Return ranks that all have entered a collective, `waits` seconds ago."""
    return [
        member(
            "flight_recorder",
            rank,
            "0",
            tuple(range(size)),
            host=f"{rank // 8}.mpi",
            operations=tuple(
                Operation(
                    group="0",
                    number=n,
                    name="all_reduce",
                    done=n < number,
                    since=NOW - waits - step * (number - n),
                    sizes=((1024,),),
                    dtypes=("Float",),
                )
                for n in range(max(1, number - 20), number + 1)
            ),
        )
        for rank in range(size)
    ]


def ras_counts(group: str, entered: Sequence[int], moment: float = NOW) -> list[Snapshot]:
    """Return ranks of one group by their number of AllReduces, as NCCL counts them."""
    everyone = tuple(range(len(entered)))
    counts = [Count(group=group, name="AllReduce", entered=count) for count in entered]
    return [
        member("nccl_ras", rank, group, everyone, moment, counts=(count,))
        for rank, count in enumerate(counts)
    ]


def last(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Change the last operation of a rank."""
    operation = msgspec.structs.replace(snapshot.operations[-1], **changes)
    return msgspec.structs.replace(snapshot, operations=(*snapshot.operations[:-1], operation))


def absent(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Take the last operation of a rank away."""
    return msgspec.structs.replace(snapshot, operations=snapshot.operations[:-1], **changes)


def test_a_link_that_is_cut_blames_no_rank() -> None:
    answer = diagnose(job(8, 0.1, 50, waits=60))
    assert answer.verdict == "hung"
    assert answer.cause is not None
    assert (answer.cause.kind, answer.cause.stragglers) == ("link_cut", ())


def test_jobs_that_are_only_slow_are_not_called_hung() -> None:
    """100 jobs, each seen twice: steps of 5 to 60 s, a rank late in each of them."""
    chance = random.Random(7)
    for _ in range(100):
        size, step, number = chance.randint(2, 32), chance.uniform(5, 60), chance.randint(3, 500)
        before = job(size, step, number, waits=step * chance.uniform(0.1, 0.9))
        odd = chance.randrange(size)
        before[odd] = absent(before[odd])
        before = [msgspec.structs.replace(snapshot, at=NOW - step) for snapshot in before]
        after = job(size, step, number + 1, waits=step * chance.uniform(0.1, 0.9))
        after[odd] = absent(after[odd])
        assert diagnose(after).verdict != "hung"  # one look tells it by the gaps before
        answer = diagnose([*before, *after])
        assert answer.verdict == "slow"
        assert answer.rate == pytest.approx(1 / step, rel=0.5)


@pytest.mark.parametrize(
    ("waits", "step", "verdict"),
    [
        (12, 0.1, "hung"),
        (5, 0.1, "undecided"),  # any collective may take ten seconds
        (12, 6, "undecided"),  # those of this job take half as long as this wait
        (25, 6, "hung"),
    ],
)
def test_a_wait_between_two_looks_is_held_against_the_pauses_of_its_job(
    waits: float, step: float, verdict: str
) -> None:
    later = job(4, step, 50, waits)
    later[1] = absent(later[1])
    before = [msgspec.structs.replace(snapshot, at=NOW - 2) for snapshot in later]

    assert diagnose([*before, *later]).verdict == verdict


def test_a_chain_of_groups_ends_at_the_rank_that_waits_for_nobody() -> None:
    """Rank 0 sleeps, rank 1 waits for it in a pair, and all others wait for both."""
    pair = Membership(group="pair", ranks=(0, 1))
    ranks = job(6, 0.5, 10, waits=90)
    ranks[0] = absent(ranks[0], groups=(*ranks[0].groups, pair))
    entered = Operation(group="pair", number=1, name="all_reduce", since=NOW - 91)
    ranks[1] = msgspec.structs.replace(
        absent(ranks[1]),
        operations=(*ranks[1].operations[:-1], entered),
        groups=(*ranks[1].groups, pair),
    )
    answer = diagnose(ranks)
    assert answer.cause is not None
    assert [straggler.rank for straggler in answer.cause.stragglers] == [0]


def test_counts_of_ras_name_the_rank_that_is_behind() -> None:
    numbers = (812, 812, 811, 812)
    answer = diagnose([*ras_counts("c", numbers), *ras_counts("c", numbers, NOW + 30)])
    assert answer.verdict == "hung"
    assert answer.cause is not None
    assert answer.cause.stuck is not None
    assert answer.cause.stuck.number == 812
    assert [straggler.rank for straggler in answer.cause.stragglers] == [2]


def test_nothing_known_is_unknown_and_nobody_waiting_is_moving() -> None:
    assert diagnose([]).verdict == "unknown"
    assert diagnose([Snapshot(source="processes", rank=0, state="sleeping")]).verdict == "unknown"
    ranks = [last(rank, done=True) for rank in job(4, 1.0, 5, waits=1)]
    assert diagnose(ranks).verdict == "unknown"  # they may wait for a message, or not at all


def read_looks(pattern: str) -> list[Snapshot]:
    """Read real dumps of torch 2.13 and gloo: two looks at each."""
    snapshots: list[Snapshot] = []
    for path in sorted(DUMPS.glob(pattern)):
        snapshots += read_dump(path.name, path.read_bytes(), 0.0)
    start = max(entry.since for snapshot in snapshots for entry in snapshot.operations)
    after = {"1": 4.0, "2": 40.0}
    names = sorted(DUMPS.glob(pattern))
    return [
        msgspec.structs.replace(entry, at=start + after[Path(path).name.partition("-")[2][0]])
        for path, entry in zip(names, snapshots, strict=True)
    ]


@pytest.mark.parametrize(
    ("pattern", "kind", "rank"),
    [
        ("absent-?.rank*.json", "rank_absent", 2),
        ("absent-2[_.][rs]*_*", "rank_absent", 2),  # pickled, and stacks
        ("order-?.rank*.json", "order_differs", 2),
        ("shape-?.rank*.json", "shape_differs", 2),
        ("groups-?.rank*.json", "rank_absent", 0),
        ("input-2*", "slow_input", 2),
        ("lock-2*", "rank_absent", 2),
    ],
)
def test_real_dumps_name_the_rank(pattern: str, kind: str, rank: int) -> None:
    answer = diagnose(read_looks(pattern))
    assert answer.verdict == "hung"
    assert answer.cause is not None
    assert answer.cause.kind == kind
    assert [straggler.rank for straggler in answer.cause.stragglers] == [rank]


def test_the_stack_says_what_a_rank_does_instead() -> None:
    answer = diagnose(read_looks("lock-2*"))
    assert answer.cause is not None
    frame = answer.cause.stragglers[0].frame
    assert frame is not None
    assert (frame.function, frame.line) == ("<module>", 28)


def test_one_rank_of_nccl_waits_for_the_device() -> None:
    """A real dump of an H100 whose stream is busy: scheduled, and not ended."""
    (snapshot,) = read_dump("nccl-1.rank0.json", (DUMPS / "nccl-1.rank0.json").read_bytes(), NOW)
    assert [(operation.name, operation.done) for operation in snapshot.operations] == [
        ("all_reduce", True),
        ("all_reduce", False),
        ("broadcast", False),
    ]


def test_a_rank_that_ended_normally_makes_no_hang_of_a_job_for_which_nobody_waits() -> None:
    ranks = job(4, 0.1, 50, waits=1)
    last_ops = [last(rank, done=True) for rank in ranks]
    exit_state = Snapshot(source="processes", rank=3, at=NOW, state="gone")

    answer = diagnose([*last_ops, exit_state])

    assert answer.verdict != "hung"
    assert answer.cause is not None
    assert (answer.cause.kind, answer.cause.confidence) == ("process_gone", "possible")


def test_a_rank_that_is_gone_while_others_wait_for_it_is_certain() -> None:
    ranks = job(4, 0.1, 50, waits=1)
    exit_state = absent(ranks[3], state="gone", pid=7)

    answer = diagnose([*ranks[:3], exit_state])

    assert answer.verdict == "hung"
    assert answer.cause is not None
    assert (answer.cause.kind, answer.cause.confidence) == ("process_gone", "certain")


def test_a_rank_that_ended_and_for_which_nobody_waits_is_not_to_blame() -> None:
    ranks = job(4, 0.1, 50, waits=60)
    late = absent(ranks[2])
    last_op = last(ranks[3], done=True)
    exit_state = Snapshot(source="processes", rank=3, at=NOW, state="gone")

    answer = diagnose([*ranks[:2], late, last_op, exit_state])

    assert answer.cause is not None
    assert answer.cause.kind == "rank_absent"
    assert [straggler.rank for straggler in answer.cause.stragglers] == [2]


def test_a_job_of_which_one_group_goes_on_and_no_other_waits_long_is_slow() -> None:
    """Ranks 0 and 1 end a collective between two looks, and 2 and 3 wait for each other."""

    def look(moment: float, number: int) -> list[Snapshot]:
        first = Operation(group="a", number=number, name="all_reduce", since=moment - 0.5)
        second = Operation(group="b", number=7, name="all_reduce", since=NOW - 4)
        pairs = ((first, (0, 1)), (second, (2, 3)))
        return [
            member("flight_recorder", rank, entered.group, ranks, moment, operations=(entered,))
            for entered, ranks in pairs
            for rank in ranks
        ]

    answer = diagnose([*look(NOW - 2, 50), *look(NOW, 52)])

    assert (answer.verdict, answer.rate) == ("slow", 1.0)


def test_a_group_that_waits_is_a_hang_though_another_goes_on() -> None:
    looks = []
    for look, moment in enumerate((NOW - 2, NOW)):
        for snapshot in job(4, 0.1, 50, waits=60):
            waits = snapshot if snapshot.rank else absent(snapshot)
            other = Operation(group="tp", number=900 + look, name="broadcast", done=True)
            alone = snapshot.rank == 3
            operations = (*waits.operations, other) if alone else waits.operations
            looks.append(msgspec.structs.replace(waits, at=moment, operations=operations))

    answer = diagnose(looks)

    assert answer.verdict == "hung"
    assert answer.cause is not None
    assert [straggler.rank for straggler in answer.cause.stragglers] == [0]


def stack(*frames: str) -> tuple[Frame, ...]:
    """Return frames of `FUNCTION FILE`, the innermost first."""
    words = [frame.replace("LIB", "/usr/lib/python3.11").split() for frame in frames]
    return tuple(Frame(function=name, file=file, line=7) for name, file in words)


MAIN = "main /job/train.py"
LOADER = "_next_data /x/site-packages/torch/utils/data/dataloader.py"


@pytest.mark.parametrize(
    ("activity", "kind"),
    [
        ({"state": "sleeping", "wchan": "wait_bit", "kernel": ("wait_bit", "nfs_read")}, "input"),
        ({"state": "sleeping", "wchan": "nfs_wait_bit"}, "input"),
        ({"state": "disk"}, "input"),
        ({"state": "sleeping", "wchan": "pipe_read"}, "absent"),
        ({"stack": stack("read /job/io.py", "__getitem__ /job/data.py", MAIN)}, "input"),
        ({"stack": stack("shards /x/site-packages/webdataset/tariterators.py", MAIN)}, "input"),
        ({"stack": stack("wait LIB/selectors.py", LOADER, MAIN)}, "input"),
        ({"stack": stack("wait LIB/threading.py", MAIN)}, "lock"),
        ({"stack": stack("wait threading.py", MAIN)}, "lock"),  # as py-spy shortens it
        (
            {
                "stack": stack(
                    "wait LIB/threading.py",
                    "get LIB/queue.py",
                    MAIN,
                )
            },
            "lock",
        ),
        ({"stack": stack("result LIB/concurrent/futures/_base.py", MAIN)}, "lock"),
        ({"stack": stack("acquire /x/site-packages/filelock/_api.py", MAIN)}, "lock"),
        ({"stack": stack("wait /job/my_threading.py", MAIN)}, "absent"),
        (
            {"stack": stack("run LIB/threading.py", MAIN)},
            "absent",
        ),  # it works in a thread's function
        (
            {"stack": stack("fit /job/fit.py", "call /job/f.py", "get LIB/queue.py")},
            "absent",
        ),
        ({"full": ("/checkpoints/7.pt",)}, "full"),
        ({"stack": stack(MAIN)}, "absent"),
    ],
)
def test_what_a_rank_does_instead_is_the_cause(activity: dict[str, Any], kind: str) -> None:
    """Of the rank that is late; of those that wait for it, the same is no cause."""
    kinds = {"input": "slow_input", "lock": "deadlock", "full": "disk_full"}
    ranks = job(4, 0.1, 50, waits=60)
    late = absent(ranks[1], **activity)
    waits = [msgspec.structs.replace(rank, **activity) for rank in (ranks[0], *ranks[2:])]

    answers = [diagnose([ranks[0], late, *ranks[2:]]), diagnose([absent(ranks[1]), *waits])]

    causes = [answer.cause for answer in answers if answer.cause]
    assert [cause.kind for cause in causes] == [kinds.get(kind, "rank_absent"), "rank_absent"]
    assert [[straggler.rank for straggler in cause.stragglers] for cause in causes] == [[1], [1]]
    frame = causes[0].stragglers[0].frame  # of the program, not of a library
    assert not activity.get("stack") or (frame and frame.file.startswith("/job/"))


@pytest.mark.parametrize("hours", [-8, 0, 5.5])
def test_ras_times_without_a_zone_are_of_the_zone_of_the_host(hours: float) -> None:
    """As its file was written a moment after it, in seconds since the epoch."""
    local = datetime.fromtimestamp(NOW + hours * 3600, UTC).replace(tzinfo=None)
    report = {
        "nccl_version": "2.28.9",
        "timestamp": local.isoformat(),
        "communicators": [{"hash": "0", "size": 1, "ranks": [{"rank": 0, "host": "n0"}]}],
    }
    (ras,) = read_dump("nccl_ras.txt", msgspec.json.encode(report), NOW + 2)

    assert ras.at == NOW


RULE = """
from msgspec.structs import replace
from cluster.core.model.hang import CauseWords


def loud_fan(situation):
    cause = situation.cause([rank for rank in situation.root if rank == 1], "likely")
    words = CauseWords(name="its fan is loud", confirm="listen to it")
    return cause and replace(cause, words=words)


RULES = {5: loud_fan}
"""


def test_a_rule_that_is_added_is_a_file_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fans.py").write_text(RULE)
    ranks = job(4, 0.1, 50, waits=60)
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    monkeypatch.setattr(hang, "RULES", hang.find_rules())

    answer = diagnose([ranks[0], absent(ranks[1]), *ranks[2:]])

    assert answer.cause is not None
    assert (answer.cause.kind, answer.others[0].kind) == ("loud_fan", "rank_absent")
    lines = list(answer_lines(answer, ""))
    assert any("rank 1 (0.mpi): " in line for line in lines)
    assert "  to confirm: listen to it" in lines
