"""mpitrace's three generations and its variants: what each holds, and what may be absent."""

import re

import pytest

from cluster.analysis.verdict.profiles import Source, job_profiles
from cluster.core.model.logs import Profile
from cluster.core.model.results.records import Note
from cluster.logs.reader import read
from cluster.reports.words.profiles import profile_words
from tests.logs.samples import LOGS


def profiles(name: str, *, old: str = "", new: str = "") -> list[Profile]:
    text = (LOGS / f"mpitrace.{name}.txt").read_text().replace(old, new)
    details = [result.detail for result in read([text.encode()]).results]
    assert all(isinstance(profile, Profile) for profile in details)
    return [profile for profile in details if isinstance(profile, Profile)]


def test_operations_on_files_are_no_communication() -> None:
    """mpitrace sums them apart, and so do we: such a profile agrees with itself."""
    text = (LOGS / "mpitrace.files.txt").read_bytes()
    (result,) = read([text]).results
    (profile,) = profiles("files")
    (job,) = job_profiles([Source(job="x", profile=profile)])

    assert (profile.communication, profile.files) == (1.75, 1.0)
    assert result.notes == ()
    assert [check for check in job.checks if not check.agrees] == []
    assert [f.share for f in job.findings if f.name == "files"] == [0.25]
    wrong = text.replace(b"MPI-IO time = 1.000", b"MPI-IO time = 3.000")
    (lying,) = (r.detail for r in read([wrong]).results)
    assert isinstance(lying, Profile)
    (job,) = job_profiles([Source(job="x", profile=lying)])
    assert {check.sum for check in job.checks if not check.agrees} == {"files", "inside"}


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
    (job,) = job_profiles([Source(job="x", profile=profile)])

    assert [(extreme.role, extreme.rank, extreme.time) for extreme in profile.extremes] == [
        ("minimum", 52, 0.105),
        ("median", 940, 0.592),
        ("maximum", 25, 0.804),
    ]
    (imbalance,) = (finding for finding in job.findings if finding.name == "imbalance")
    says, how = profile_words(imbalance)
    assert re.findall(r"rank (\d+)", says)[:2] == ["25", "52"]
    assert re.findall(r"rank (\d+)", how) == ["52", "25"]
