"""Profiles of ranks become that of a job, which is checked, and says what it means."""

import random

import msgspec
import pytest

from cluster.analysis.verdict.profiles import JobProfile, Source, job_profiles
from cluster.core.errors import ParseError
from cluster.core.model.logs import Profile, RoleTime, Routine, TaskTimes
from cluster.logs.reader import read
from cluster.reports.words.profiles import profile_words
from tests.logs.samples import LOGS, damaged
from tests.snapshots import Snapshot


def rank(
    number: int,
    *rows: tuple[str, int, float, float],
    elapsed: float = 10.0,
    size: int = 2,
    tasks: tuple[TaskTimes, ...] = (),
) -> Profile:
    """A profile whose rows are (routine, calls, bytes of each, seconds in all), one size each."""
    routines: dict[str, list[tuple[int, float, float]]] = {}
    for name, calls, bytes_, time in rows:
        routines.setdefault(name, []).append((calls, bytes_, time))
    totals = []
    for name, parts in routines.items():
        calls = sum(part[0] for part in parts)
        mean = sum(n * length for n, length, _ in parts) / calls
        totals.append(Routine(name=name, calls=calls, bytes=mean, time=sum(p[2] for p in parts)))
    return Profile(
        rank=number,
        size=size,
        routines=tuple(totals),
        distributions=tuple(
            Routine(name=name, calls=calls, bytes=bytes_, time=time)
            for name, calls, bytes_, time in rows
            if bytes_
        ),
        communication=sum(row[3] for row in rows),
        elapsed=elapsed,
        tasks=tasks,
    )


def job(*profiles: Profile) -> JobProfile:
    (result,) = job_profiles([Source(job="7", profile=profile) for profile in profiles])
    return result


def says(profile: JobProfile) -> dict[str, str]:
    return {finding.name: profile_words(finding)[0] for finding in profile.findings}


def how(profile: JobProfile, name: str) -> str:
    return next(profile_words(finding)[1] for finding in profile.findings if finding.name == name)


def test_ranks_are_added_up_and_sizes_put_together() -> None:
    profile = job(
        rank(0, ("MPI_Send", 10, 8.0, 1.0), ("MPI_Send", 2, 1000.0, 0.5)),
        rank(1, ("MPI_Recv", 10, 7.0, 3.0), ("MPI_Send", 1, 900.0, 0.5)),
    )

    assert profile.ranks == (0, 1)
    assert [(t.name, t.calls, t.bytes, t.time, t.most_rank) for t in profile.routines] == [
        ("MPI_Recv", 10, 70.0, 3.0, 1),
        ("MPI_Send", 13, 80.0 + 2000.0 + 900.0, 2.0, 0),
    ]
    assert [(b.routine, b.size, b.calls, b.time) for b in profile.bins] == [
        ("MPI_Recv", 7.0, 10, 3.0),
        ("MPI_Send", 8.0, 10, 1.0),
        ("MPI_Send", pytest.approx(2900 / 3), 3, 1.0),
    ]
    assert (profile.communication, profile.elapsed, profile.share) == (5.0, 20.0, 0.25)


def test_jobs_are_told_apart_by_their_files_sizes_and_ranks() -> None:
    """A rank that comes again is that of another job; a rank that is missing is normal."""
    base, other = rank(0, ("MPI_Barrier", 1, 0.0, 0.1)), rank(3, ("MPI_Barrier", 1, 0.0, 0.1))
    larger = rank(0, ("MPI_Barrier", 1, 0.0, 0.1), size=8)
    files = [("a", base), ("a", other), ("b", base), ("b", larger), ("b", base)]

    jobs = job_profiles([Source(job=name, profile=profile) for name, profile in files])
    assert [(j.job, j.size, j.ranks) for j in jobs] == [
        ("a", 2, (0, 3)),
        ("b", 2, (0,)),
        ("b", 8, (0,)),
        ("b", 2, (0,)),
    ]


def test_many_small_messages_that_take_long_are_no_transfer(snapshot: Snapshot) -> None:
    profile = job(
        rank(
            0,
            ("MPI_Allreduce", 910, 8.0, 5.4),
            ("MPI_Allreduce", 40, 2000.0, 0.01),
            ("MPI_Allreduce", 50, 4e6, 4.59),
        )
    )

    snapshot(says(profile)["negotiation"])
    snapshot(how(profile, "negotiation"))
    snapshot(says(profile)["payload"])


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([("MPI_Allreduce", 99, 8.0, 5.0)], id="few calls: connections are set up"),
        pytest.param([("MPI_Allreduce", 9000, 8192.0, 5.0)], id="not small"),
        pytest.param(
            [("MPI_Allreduce", 9000, 8.0, 0.1), ("MPI_Bcast", 9, 9e6, 9.0)], id="not much time"
        ),
        pytest.param(
            [("MPI_Allreduce", 400, 8.0, 5.0), ("MPI_Allreduce", 600, 9e6, 5.0)], id="few of them"
        ),
    ],
)
def test_other_small_messages_mean_nothing(rows: list[tuple[str, int, float, float]]) -> None:
    assert "negotiation" not in says(job(rank(0, *rows)))


def test_without_payload_something_else_carries_it(snapshot: Snapshot) -> None:
    profile = job(rank(0, ("MPI_Allreduce", 11658, 8.0, 5.44), ("MPI_Bcast", 21, 273.0, 0.001)))

    snapshot(says(profile)["no_payload"])
    snapshot(how(profile, "no_payload"))


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([("MPI_Allreduce", 9, 1e6, 0.1)], id="large ones"),
        pytest.param([("MPI_Allreduce", 90000, 4096.0, 0.1)], id="many at a rate"),
        pytest.param([("MPI_Barrier", 9, 0.0, 3.0)], id="no bytes at all"),
    ],
)
def test_where_there_is_payload_it_is_not_missed(rows: list[tuple[str, int, float, float]]) -> None:
    assert "no_payload" not in says(job(rank(0, *rows)))


def test_ranks_that_wait_for_one(snapshot: Snapshot) -> None:
    tasks = tuple(
        TaskTimes(rank=n, communication=time, elapsed=20.0)
        for n, time in enumerate((8.0, 2.0, 9.0, 8.5))
    )
    profile = job(rank(0, ("MPI_Waitall", 9, 0.0, 8.0), size=4, tasks=tasks))

    snapshot(says(profile)["imbalance"])
    snapshot(how(profile, "imbalance"))
    snapshot(says(profile)["waiting"])
    times = tuple(TaskTimes(rank=n, communication=8.0, elapsed=20.0) for n in range(4))
    assert "imbalance" not in says(job(rank(0, ("MPI_Waitall", 9, 0.0, 8.0), size=4, tasks=times)))


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("", "", []),
        ("100           8.0", "101           8.0", [("calls", "MPI_Allreduce")]),
        ("1024.0          0.250\n\n", "1034.0          0.250\n\n", [("bytes", "MPI_Isend")]),
        ("8.0          1.000", "8.0          1.100", [("time", "MPI_Allreduce")]),
        ("total elapsed time       = 4", "total elapsed time       = 1", [("inside", "")]),
        ("     1   vm      1 ", "# ", [("tasks", "")]),
        ("     0   vm      0       1.75", "     0   vm      0       1.55", [("task", "")]),
        ("communication time = 1.750 s", "communication time = 1.950 s", [("routines", "")]),
        ("total elapsed time       = 4.000 seconds.\n", "", [("totals", "")]),
    ],
)
def test_a_profile_is_checked_by_its_own_sums(
    old: str, new: str, wrong: list[tuple[str, str]]
) -> None:
    text = (LOGS / "mpitrace.current.txt").read_text()
    assert old in text
    details = [r.detail for r in read([text.replace(old, new).encode()]).results]
    profile = job(*(detail for detail in details if isinstance(detail, Profile)))
    bad = [(check.sum, check.routine) for check in profile.checks if not check.agrees]

    assert len(profile.checks) > len(bad)
    assert bad[:1] == wrong


@pytest.mark.parametrize("name", ["contexts", "current", "older", "oldest"])
def test_damaged_profiles_are_put_together_all_the_same(name: str) -> None:
    """Cut after any line, lines lost, doubled and shuffled, bytes changed."""
    chance = random.Random(name)
    lines = (LOGS / f"mpitrace.{name}.txt").read_bytes().splitlines(keepends=True)
    read_ = 0
    for text in damaged(lines, chance, b"\x00\xff\x1b\r9-.e, \t"):
        try:
            details = [result.detail for result in read([text], "mpitrace").results]
        except ParseError:
            continue
        for profile in job_profiles(
            Source(job="x", profile=d) for d in details if isinstance(d, Profile)
        ):
            read_ += 1
            assert profile.share >= 0
            assert all(total.calls >= 0 for total in profile.routines)
    assert read_ > 50


def test_a_summary_counts_more_than_a_table_that_was_cut(snapshot: Snapshot) -> None:
    """The three lines of mpitrace name ranks that a pasted part of the table does not have."""
    text = (LOGS / "mpitrace.current.txt").read_text()
    cut = tuple(TaskTimes(rank=n, communication=2.0, elapsed=10.0) for n in (0, 1))
    ends = (("minimum", 5, 1.0), ("median", 3, 4.0), ("maximum", 6, 9.0))
    summary = tuple(RoleTime(role=role, rank=n, time=time) for role, n, time in ends)
    whole = msgspec.structs.replace(
        rank(0, ("MPI_Waitall", 9, 0.0, 2.0), size=8, tasks=cut), extremes=summary
    )
    uneven = (TaskTimes(rank=0, communication=2.0, elapsed=10.0), cut[1])
    table = (uneven[0], msgspec.structs.replace(cut[1], communication=8.0))

    snapshot(how(job(whole), "imbalance"))
    profile = job(rank(0, ("MPI_Waitall", 9, 0.0, 2.0), size=8, tasks=table))
    assert "median" not in how(profile, "imbalance")
    snapshot(how(profile, "imbalance"))
    details = [r.detail for r in read([text.encode()]).results]
    (extremes,) = {detail.extremes for detail in details if isinstance(detail, Profile)}
    assert [extreme.role for extreme in extremes] == ["minimum", "median", "maximum"]
