"""mpitrace's three generations and its variants: what each holds, and what may be absent."""

import re

import pytest

from cluster.analysis.verdict.profiles import job_profiles
from cluster.analysis.verdict.profiles.values import Source
from cluster.core.model.logs import Profile
from cluster.core.model.notes import Note
from cluster.logs.reader import read
from cluster.reports.words.profiles import profile_words
from tests.logs.samples import LOGS


def profiles(name: str, *, old: str = "", new: str = "") -> list[Profile]:
    text = (LOGS / f"mpitrace.{name}.txt").read_text().replace(old, new)
    found = [result.detail for result in read([text.encode()]).results]
    assert all(isinstance(profile, Profile) for profile in found)
    return [profile for profile in found if isinstance(profile, Profile)]


def test_the_current_generation() -> None:
    (profile,) = profiles("current")

    assert (profile.rank, profile.size, profile.roles) == (0, 2, ("maximum",))
    assert (profile.communication, profile.elapsed) == (1.75, 4.0)
    assert profile.memory == 11.5 * 2**20
    assert [(r.name, r.calls, r.bytes, r.time) for r in profile.routines][1:] == [
        ("MPI_Isend", 12, 1024.0, 0.25),
        ("MPI_Allreduce", 120, 1372.0, 1.5),
    ]
    assert [(r.name, r.calls, r.bytes) for r in profile.distributions] == [
        ("MPI_Isend", 12, 1024.0),
        ("MPI_Allreduce", 100, 8.0),
        ("MPI_Allreduce", 20, 8192.0),
    ]
    assert [(t.rank, t.host, t.communication, t.memory) for t in profile.tasks] == [
        (0, "vm", 1.75, 11.5 * 2**20),
        (1, "vm", 0.5, 11.05 * 2**20),
    ]


def test_operations_on_files_are_no_communication() -> None:
    """mpitrace sums them apart, and so do we: such a profile agrees with itself."""
    text = (LOGS / "mpitrace.files.txt").read_bytes()
    (result,) = read([text]).results
    (profile,) = profiles("files")
    (made,) = job_profiles([Source(job="x", profile=profile)])

    assert (profile.communication, profile.files) == (1.75, 1.0)
    assert result.notes == ()
    assert [check for check in made.checks if not check.agrees] == []
    assert [f.share for f in made.findings if f.name == "files"] == [0.25]
    wrong = text.replace(b"MPI-IO time = 1.000", b"MPI-IO time = 3.000")
    (lying,) = (r.detail for r in read([wrong]).results)
    assert isinstance(lying, Profile)
    (made,) = job_profiles([Source(job="x", profile=lying)])
    assert {check.sum for check in made.checks if not check.agrees} == {"files", "inside"}


def test_an_older_file_of_a_rank_without_a_role_and_without_the_table_of_all() -> None:
    (profile,) = profiles("older")

    assert (profile.rank, profile.roles, profile.tasks) == (3, (), ())
    assert profile.memory == 4025.5 * 2**20
    assert profile.complete


def test_the_oldest_generation() -> None:
    (profile,) = profiles("oldest")

    assert profile.region == "summary_start() to summary_stop()"
    assert profile.memory == 20480 * 1024
    assert [(s.kind, s.name, s.time) for s in profile.sections] == [
        ("on-node", "Summary for on-node communication", 0.75),
        ("parent", "exchange_halo", 2.0),
    ]
    assert [r.name for r in profile.routines] == ["MPI_Irecv", "MPI_Waitall"]
    assert next((t.rank, t.host, t.memory) for t in profile.tasks) == (5, "", 20480 * 1024)


def test_contexts_are_profiles_of_their_own() -> None:
    setup, solve = profiles("contexts")

    assert (setup.context, setup.communication) == ("setup", 0.125)
    assert (solve.context, solve.communication, solve.rank) == ("solve", 0.5, 1)
    assert [(s.kind, s.name) for s in solve.sections] == [("call site", "0x00401a2b")]


def test_a_host_column_that_touches_the_one_before() -> None:
    (profile,) = profiles("current", old="taskid host ", new="taskidhost ")

    assert [task.host for task in profile.tasks] == ["vm", "vm"]


CALLS, SUM = Note("other_calls", ("MPI_Allreduce", 120, 121)), Note("other_sum", (1.75, 1.9))


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (
            "100           8.0",
            "101           8.0",
            Note("other_calls", ("MPI_Allreduce", 120, 121)),
        ),
        (
            "total communication time = 1.750",
            "total communication time = 1.900",
            Note("other_sum", (1.75, 1.9)),
        ),
        ("total communication time = 1.750 seconds.\n", "", Note("no_profile_totals")),
    ],
)
def test_sums_that_do_not_agree_are_said(old: str, new: str, note: Note) -> None:
    text = (LOGS / "mpitrace.older.txt").read_text() if not new else ""
    text = text or (LOGS / "mpitrace.current.txt").read_text()
    if not new:
        old = "total communication time = 6.500 seconds.\n"
    (result,) = read([text.replace(old, new).encode()]).results

    assert note in result.notes


def test_the_summary_alone_names_the_ranks() -> None:
    """Whoever pastes only the three lines gets the ranks and their times, and no share."""
    text = (
        "Communication summary for all tasks:\n\n"
        "  minimum communication time = 0.105 sec for task 52\n"
        "  median  communication time = 0.592 sec for task 940\n"
        "  maximum communication time = 0.804 sec for task 25\n"
    )
    (profile,) = (result.detail for result in read([text.encode()]).results)
    assert isinstance(profile, Profile)
    (made,) = job_profiles([Source(job="x", profile=profile)])

    assert [(one.role, one.rank, one.time) for one in profile.extremes] == [
        ("minimum", 52, 0.105),
        ("median", 940, 0.592),
        ("maximum", 25, 0.804),
    ]
    (uneven,) = (found for found in made.findings if found.name == "imbalance")
    says, how = profile_words(uneven)
    assert re.findall(r"rank (\d+)", says)[:2] == ["25", "52"]
    assert re.findall(r"rank (\d+)", how) == ["52", "25"]
