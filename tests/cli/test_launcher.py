"""The founding program: its flags, its lines, its session."""

import json
import re
import sys
from typing import Any

import pytest

from cluster.cli.command_line import canonical_arguments
from tests.conftest import ROOT, command, launcher, run, runs_folder, sessions, until
from tests.snapshots import Snapshot

LINE = re.compile(r"Process ([01]) transferred (\d+) MB in (\d+\.\d) ms \((\d+\.\d) MB/sec\)")


@pytest.mark.quick  # one local run, from start to end
@pytest.mark.usefixtures("tools")
def test_run_local_from_start_to_end() -> None:
    """One command makes the session, shows the block and the lines, and ends with a summary."""
    result = launcher("--run-local", "--data-mb=1", "--iters=20")

    block = (
        "Job ready for connection, to connect to most recent task, run the following:\n"
        "cluster connect mpi_test\n"
        "Alternatively run\n"
        "tmux a -t mpi_test\n"
        "Task internal IPs\n"
        "127.0.0.1\n"
        "127.0.0.1\n"
    )
    assert block in result.stdout
    assert re.search(r"oneway_time +1 MB, rank 0 +20 ", result.stdout)
    assert re.search(r"oneway_time +1 MB, rank 1 +20 ", result.stdout)
    assert LINE.search(result.stdout)
    assert sessions() == ["mpi_test"]
    output = run("tmux", "capture-pane", "-p", "-J", "-S", "-200", "-t", "mpi_test").stdout
    assert {match[1] for match in LINE.finditer(output)} == {"0", "1"}
    command("down", "mpi_test")
    assert sessions() == []


@pytest.mark.usefixtures("tools")
def test_every_rank_prints_every_line_with_the_rate_of_the_unrounded_time() -> None:
    launcher("--run-local", "--data-mb=2", "--iters=7")

    [folder] = runs_folder().glob("mpi_test/*-p2p")
    lines = (folder / "raw" / "stdout").read_text().splitlines()
    series = map(json.loads, (folder / "measurements.jsonl").read_text().splitlines())
    measured = [m for m in series if m["metric"] == "oneway_time"]
    assert sorted(m["rank"] for m in measured) == [0, 1]
    for m in measured:
        expected = [
            f"Process {m['rank']} transferred 2 MB in {t * 1e3:.1f} ms ({2 / t:.1f} MB/sec)"
            for t in m["values"]
        ]
        assert [
            line for line in lines if line.startswith(f"Process {m['rank']} transf")
        ] == expected


@pytest.mark.usefixtures("tools")
def test_older_spellings_take_effect() -> None:
    """Each alias does what its flag does, and --json prints nothing but JSON."""

    def measured() -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        result = launcher(
            *("--run-locally", "--size-mb=3", "--num-iters=6", "--num-machines=2", "--json"),
            *("--placement=0", "--name=old"),
        )
        answer = json.loads(result.stdout)
        times = [s for s in answer["summaries"] if s["metric"] == "oneway_time"]
        return (answer, times) if all(0 < s["share"] < 1 for s in times) else None

    answer, times = until(measured, "nobody else slows the copy in memory, which is the limit")
    assert [s["params"] for s in times] == [
        {"size": 3_000_000, "rank": 0},
        {"size": 3_000_000, "rank": 1},
    ]
    assert {s["n"] for s in answer["summaries"]} == {6}
    assert answer["verdict"] == "plausible"
    assert answer["status"] == "done"


@pytest.mark.parametrize(
    ("argv", "spelled"),
    [
        (["--placement"], ["--placement=1"]),
        (["--placement", "--name=x"], ["--placement=1", "--name=x"]),
        (["--placement=0"], ["--placement=0"]),
        (["--placement", "0"], ["--placement", "0"]),
        (["--instance-type=c5.large"], ["--instance=c5.large"]),
        (["--data-size-mb", "7"], ["--data-mb", "7"]),
        (["--world-size=4", "--num-machines", "2"], ["--hosts=4", "--hosts", "2"]),
    ],
)
def test_spellings(argv: list[str], spelled: list[str]) -> None:
    assert canonical_arguments(argv) == spelled


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--name", "x;reboot"], "cannot be the name of a cluster"),
        (["--name", "a.b"], "cannot be the name of a cluster"),
        (["--name", "a\n"], "cannot be the name of a cluster"),
        (["--placement=2"], "'2' is not 0 or 1"),
        (["--placement"], "--placement has no effect with the provider 'local'"),
        (["--zone", "us-west-2b"], "--zone has no effect"),
        (["--instance", "c5.18xlarge"], "--instance has no effect"),
        (["--data-mb", "0"], "The size 0 is not between"),
        (["--data-mb", "-5"], "The size -5000000 is not between"),
        (["--data-mb", "x"], "--data-mb"),
        (["--iters", "0"], "--iterations is 0"),
        (["--iters", "-1"], "--iterations is -1"),
        (["--num-machines", "1"], "Two ranks are needed"),
        (["--num-machines", "0"], "--hosts is 0"),
        (["--timeout", "0"], "--timeout is 0"),
        (["--timeout", "nan"], "--timeout is nan"),
        (["--option", "rate=1gbit"], "no option 'rate' of the provider 'local'"),
        (["--option", "rate"], "is not KEY=VALUE"),
        (["--provider", "nowhere"], "--run-local means --provider local"),
        (["--backend", "tcp"], "--backend"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(flags: list[str], message: str) -> None:
    result = launcher("--run-local", *flags, status=2)

    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not runs_folder().exists()
    assert command("ls", "--json").stdout.strip() == "[]"


def test_an_unknown_provider_lists_what_exists(snapshot: Snapshot) -> None:
    result = launcher("--provider", "nowhere", status=2)

    snapshot(result.stderr)


def test_help_fits_a_screen_and_shows_an_example() -> None:
    result = run(sys.executable, str(ROOT / "launchers" / "launch_mpi_test.py"), "--help")

    assert len(result.stdout.splitlines()) <= 40
    assert "Example: python launch_mpi_test.py --run-local" in result.stdout
