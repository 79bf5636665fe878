"""`cluster more profile`: files, folders, runs and pasted text; what is no profile is said."""

import json
import re
import sys
from pathlib import Path

from tests.conftest import COMMAND, answer, command, run, runs_folder
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot

OLDER = (LOGS / "mpitrace.older.txt").read_text()


def folder_of(home: Path, ranks: int) -> Path:
    folder = home / "profiles"
    folder.mkdir()
    for rank in range(ranks):
        text = OLDER.replace("rank 3 of 8", f"rank {rank} of {ranks}")
        (folder / f"mpi_profile.77.0102030405.{rank}").write_text(text)
    return folder


def test_a_folder_is_one_job(home: Path) -> None:
    folder = folder_of(home, 40)
    (job,) = answer("more", "profile", str(folder))["jobs"]

    assert (job["job"], job["size"], len(job["ranks"])) == ("77", 40, 40)
    assert job["calls"] == 40 * 8064
    assert all(check["agrees"] for check in job["checks"])
    output = command("more", "profile", str(folder)).stdout
    assert "job 77: 40 of 40 rank(s) wrote a profile" in output
    assert re.findall(r"8-byte Allreduce, (\d+)%.* (\d+)%", output) == [("100", "100")]
    assert "\x1b" not in output
    assert (
        command("more", "profile", str(folder), "--format=markdown").stdout.count("| routine |")
        == 2
    )


def test_pasted_text_and_files(home: Path) -> None:
    """Quoted, with the carriage returns and colours of a terminal."""
    text = "".join(f"> \x1b[32m{line}\x1b[0m\r\n" for line in OLDER.splitlines())
    result = run(COMMAND, "more", "profile", "-", "--json", input=text)
    (job,) = json.loads(result.stdout)["jobs"]

    assert job["ranks"] == [3]
    assert job["findings"][0]["name"] == "share"


def test_what_is_no_profile_is_left_out_or_refused(snapshot: Snapshot, home: Path) -> None:
    folder = folder_of(home, 2)
    (folder / "mpi_profile.77.2").write_text("")
    (folder / "mpi_profile.77.3").write_bytes(bytes(range(256)) * 40)
    result = command("more", "profile", str(folder))

    assert "2 of 2 rank(s)" in result.stdout
    assert {*re.findall(r"mpi_profile\.77\.\d", result.stderr)} == {
        "mpi_profile.77.2",
        "mpi_profile.77.3",
    }
    (home / "other").write_text("to be\nor not to be\n")
    refused = command("more", "profile", "other", status=1).stderr
    snapshot(refused)
    (home / "empty").mkdir()
    refused = command("more", "profile", "empty", status=2).stderr


def test_a_run_without_profiles_says_how_to_take_some(snapshot: Snapshot) -> None:
    command("import", str(LOGS / "osu.latency.txt"))
    refused = command("more", "profile", "latest", status=2).stderr

    assert str(runs_folder()) in refused
    snapshot(refused)


def test_profiles_that_were_imported_are_found_by_their_run(home: Path) -> None:
    folder = folder_of(home, 2)
    command("import", *map(str, sorted(folder.iterdir())))

    assert answer("more", "profile", "latest")["jobs"][0]["ranks"] == [0, 1]


def test_flags_behind_two_dashes_are_somebody_elses() -> None:
    from cluster.cli.command_line import canonical_arguments  # noqa: PLC0415

    rest = ["--", "prog", "--profile", "--iters=3", "--placement"]
    assert canonical_arguments(["run", "a", "--profile", *rest]) == [
        "run",
        "a",
        "--profile=own",
        *rest,
    ]
    assert canonical_arguments(["--profile", "/x.so"]) == ["--profile", "/x.so"]
    assert canonical_arguments(["--profile", "p2p"]) == ["--profile=own", "p2p"]
    assert canonical_arguments(["--profile=/x.so"]) == ["--profile=/x.so"]
    assert canonical_arguments(["--placement", "0"]) == ["--placement", "0"]
    assert sys.argv
