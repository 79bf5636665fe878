"""Commands and files of the awkward kind, on real hosts, as the `cluster` command takes them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.orchestration.cluster import Cluster
from tests.conftest import COMMAND, LONG, command, run
from tests.lab.conftest import must

ODD = "a 'b' \"c\" $(d)\n;e\\ *"
BOTH = ("0.mpi.shared", "1.mpi.shared")


@pytest.fixture
def place(lab: Cluster) -> Iterator[str]:
    lab.run(["mkdir", "/files"])
    yield "/files"
    lab.run(["rm", "-r", "/files"])


@pytest.mark.parametrize("name", [ODD, "-rf", "\t", ".hidden", "ö", "x" * 255])
def test_a_file_of_any_name_goes_there_and_comes_home(place: str, home: Path, name: str) -> None:
    """Below a folder with an odd name, too; content and mode are as they were."""
    source = home / "odd" / ODD
    source.mkdir(parents=True)
    (source / name).write_bytes(b"content\x00")
    (source / name).chmod(0o751)
    command("put", "shared", str(source / name), f"{place}/{ODD}/{name}")
    command("put", "shared", str(source), f"{place}/folder/")
    command("get", "shared", f"{place}/{ODD}/{name}", "file")
    command("get", "shared", place, "all")

    for host in BOTH:
        for copy in (
            home / "file" / host / name,
            home / "all" / host / ODD / name,
            home / "all" / host / "folder" / ODD / name,
        ):
            assert copy.read_bytes() == b"content\x00"
            assert copy.stat().st_mode & 0o777 == 0o751


def test_words_of_a_command_reach_the_hosts_as_they_are(lab: Cluster) -> None:
    result = command("run", lab.name, "--json", "--", "printf", "%s|", ODD, "", "-n", "--json")
    rows = json.loads(result.stdout)

    assert [row["stdout"] for row in rows] == [f"{ODD}||-n|--json|"] * 2


# What a child holds at most counts from its fork: from this small process, not from the tests' own.
WEIGH = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""
COUNT = """
import sys
print(sum(line[14:] == "x" * 99 + chr(10) for line in sys.stdin))
"""


def test_a_flood_of_output_passes_through_little_memory(lab: Cluster) -> None:
    """50 MB on each host; every line comes whole. The most that we ever held is measured."""
    lines = 1_000_000 if LONG else 500_000
    script = f"yes {'x' * 99} | head -n {lines}"
    weighed = [sys.executable, "-c", WEIGH, COMMAND, "run", lab.name, "--", "sh", "-c", script]
    with subprocess.Popen(
        weighed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        counted = run(sys.executable, "-c", COUNT, stdin=process.stdout)
        _, memory = process.communicate()

    assert process.returncode == 0
    assert int(counted.stdout) == 2 * lines
    assert int(memory) < 150_000  # KiB, most of which is Python with its libraries


def test_a_command_that_reads_gets_nothing(lab: Cluster) -> None:
    """Whatever our own standard input holds; nothing waits for it."""
    with subprocess.Popen(
        [COMMAND, "run", lab.name, "--", "sh", "-c", "wc -c; cat; echo end"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = sorted(process.stdout)
        assert process.wait(60) == 0

    assert lines == [f"{host}: {word}\n" for host in BOTH for word in ("0", "end")]


def test_a_command_that_exits_3(lab: Cluster) -> None:
    result = command("run", lab.name, "--", "sh", "-c", "echo $(hostname); exit 3", status=3)

    assert sorted(result.stderr.splitlines()) == [f"{host}: exit status 3" for host in BOTH]
    assert len(result.stdout.splitlines()) == 2


def test_a_command_that_a_signal_ends(lab: Cluster) -> None:
    result = command("run", lab.name, "--", "sh", "-c", "kill -9 $$", status=137)

    assert "0.mpi.shared: " in result.stderr


def test_a_command_that_is_not_there(lab: Cluster) -> None:
    result = command("run", lab.name, "--", "no-such-program", status=127)

    assert "0.mpi.shared: " in result.stderr
    assert "no-such-program" in result.stderr


def test_what_is_not_there_is_named_with_its_host(lab: Cluster, place: str, home: Path) -> None:
    """One host has it, the other does not: what there is comes home."""
    must(lab, 0, f"mkdir {place}/one && echo here > {place}/one/file")
    result = command("get", lab.name, f"{place}/one", "back", status=1)

    assert f"1.mpi.shared: {place}/one" in result.stderr
    assert (home / "back" / "0.mpi.shared" / "file").read_text() == "here\n"
    refusal = command("put", lab.name, str(home / "nothing"), "/x", status=2)
    assert str(home / "nothing") in refusal.stderr
